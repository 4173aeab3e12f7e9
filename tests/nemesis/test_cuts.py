"""Patterns of cut links, up to relabelling all but the leader."""

from __future__ import annotations

from itertools import permutations

import pytest

from kraftwreck.nemesis.cuts import (
    directed_pattern,
    pattern_of,
    undirected_pattern,
    undirected_patterns,
)
from kraftwreck.nemesis.families.partitions import partition


@pytest.mark.parametrize(("nodes", "patterns"), [(3, 5), (4, 19), (5, 89)])
def test_there_are_as_many_as_rooted_graphs_but_the_empty_one(nodes: int, patterns: int) -> None:
    assert len(undirected_patterns(nodes)) == patterns


def test_only_the_leader_has_a_name() -> None:
    assert undirected_pattern(5, frozenset({(1, 2)})) == undirected_pattern(5, frozenset({(3, 4)}))
    assert undirected_pattern(5, frozenset({(1, 2)})) != undirected_pattern(5, frozenset({(0, 2)}))


def test_directions_count_in_directed_patterns() -> None:
    cuts = [frozenset({pair}) for pair in permutations(range(4), 2)]
    # From the leader, to the leader, among the others.
    assert len({directed_pattern(4, cut) for cut in cuts}) == 3


def test_a_draw_chooses_any_pattern() -> None:
    chosen = {undirected_pattern(5, pattern_of(draw, 5)) for draw in range(1500)}
    assert chosen == set(undirected_patterns(5))


def test_the_shape_of_links_marks_the_leader() -> None:
    nodes = ("n1", "n2", "n3", "n4", "n5")
    for draw in range(30):
        targets, grudge = partition("links", nodes, draw, "n4")
        pairs = {frozenset(targets[i : i + 2]) for i in range(0, len(targets), 2)}
        assert len(pairs) == len(pattern_of(draw, 5))
        touching_leader = sum("n4" in pair for pair in pairs)
        assert touching_leader == sum(0 in link for link in pattern_of(draw, 5))
        assert sum(len(held) for held in grudge.values()) == 2 * len(pairs)

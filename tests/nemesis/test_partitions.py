"""Every partition shape, by the links that remain."""

from __future__ import annotations

from itertools import combinations

import pytest

from kraftwreck.harness.capabilities import Grudge
from kraftwreck.nemesis.families.partitions import PARTITIONS, partition, union

NODES = ("n1", "n2", "n3", "n4", "n5")
DRAWS = range(60)


def matrix(grudge: Grudge, nodes: tuple[str, ...] = NODES) -> list[str]:
    """Row = sender, column = receiver; ``x`` where the packet is dropped."""
    return [
        "".join("x" if sender in grudge[receiver] else "." for receiver in nodes)
        for sender in nodes
    ]


def grudge_of(shape: str, *targets: str) -> Grudge:
    return PARTITIONS[shape].grudge(NODES, targets)


@pytest.mark.parametrize(
    ("shape", "targets", "expected"),
    [
        ("one", ("n2",), [".x...", "x.xxx", ".x...", ".x...", ".x..."]),
        ("leader", ("n1",), [".xxxx", "x....", "x....", "x....", "x...."]),
        ("halves", ("n1", "n2"), ["..xxx", "..xxx", "xx...", "xx...", "xx..."]),
        ("minority-third", ("n5",), ["....x", "....x", "....x", "....x", "xxxx."]),
        ("bridge", ("n3", "n1", "n2"), ["...xx", "...xx", ".....", "xx...", "xx..."]),
        (
            "ring",
            ("n1", "n2", "n3", "n4", "n5"),
            ["..xx.", "...xx", "x...x", "xx...", ".xx.."],
        ),
        ("link", ("n1", "n4"), ["...x.", ".....", ".....", "x....", "....."]),
        ("one-way", ("n1", "n4"), ["...x.", ".....", ".....", ".....", "....."]),
        ("links", ("n1", "n4", "n4", "n5"), ["...x.", ".....", ".....", "x...x", "...x."]),
        ("one-ways", ("n1", "n4", "n4", "n5"), ["...x.", ".....", ".....", "....x", "....."]),
        ("from-leader", ("n2",), [".....", "x.xxx", ".....", ".....", "....."]),
        ("to-leader", ("n2",), [".x...", ".....", ".x...", ".x...", ".x..."]),
    ],
)
def test_reachability(shape: str, targets: tuple[str, ...], expected: list[str]) -> None:
    assert matrix(grudge_of(shape, *targets)) == expected


@pytest.mark.parametrize(
    ("shape", "count"),
    [(name, count) for name, shape in PARTITIONS.items() for count in range(shape.least, 8)],
)
def test_nobody_drops_itself_and_something_is_cut(shape: str, count: int) -> None:
    nodes = tuple(f"n{i}" for i in range(1, count + 1))
    for draw in DRAWS:
        targets, grudge = partition(shape, nodes, draw, "n1")
        assert set(targets) <= set(nodes)
        assert set(grudge) == set(nodes)
        assert all(node not in held for node, held in grudge.items())
        assert any(grudge.values())


@pytest.mark.parametrize("shape", ["leader", "from-leader", "to-leader", "link"])
def test_shapes_aimed_at_the_leader_hit_it(shape: str) -> None:
    assert all(partition(shape, NODES, draw, "n4")[0][0] == "n4" for draw in DRAWS)


@pytest.mark.parametrize("shape", ["leader", "from-leader", "to-leader", "link"])
def test_without_a_known_leader_any_node_is_hit(shape: str) -> None:
    assert {partition(shape, NODES, draw, None)[0][0] for draw in DRAWS} == set(NODES)


@pytest.mark.parametrize("shape", PARTITIONS)
def test_the_same_draw_chooses_the_same(shape: str) -> None:
    assert partition(shape, NODES, 5, "n1") == partition(shape, NODES, 5, "n1")


@pytest.mark.parametrize("count", [4, 5, 6, 7])
def test_a_ring_gives_every_node_a_majority_and_no_two_the_same(count: int) -> None:
    nodes = tuple(f"n{i}" for i in range(1, count + 1))
    _, grudge = partition("ring", nodes, 3, None)
    seen = {node: frozenset(nodes) - held for node, held in grudge.items()}
    assert all(len(view) == count // 2 + 1 and node in view for node, view in seen.items())
    assert all(seen[a] != seen[b] for a, b in combinations(nodes, 2))


def test_halves_leave_a_majority_on_one_side_only() -> None:
    for draw in DRAWS:
        targets, _ = partition("halves", NODES, draw, "n1")
        assert len(targets) == 2


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6, 8])
def test_a_leader_and_its_side_are_no_majority(count: int) -> None:
    nodes = tuple(f"n{i}" for i in range(1, count + 1))
    sizes = set()
    for draw in DRAWS:
        targets, _ = partition("leader-side", nodes, draw, "n2")
        assert targets[0] == "n2"
        sizes.add(len(targets))
    assert sizes == set(range(2, count // 2 + 1)) if count > 3 else sizes == {1}


def test_partitions_that_are_active_together_add_up() -> None:
    both = union([grudge_of("one", "n1"), grudge_of("one-way", "n2", "n3")], NODES)
    assert matrix(both) == [".xxxx", "x.x..", "x....", "x....", "x...."]

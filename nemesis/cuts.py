"""Patterns of cut links between few nodes, up to relabelling of all nodes but the leader.

Node 0 is the leader. There are 2^10 ways to cut links between five nodes; 90 of them differ when
the other four may be permuted, including the one that cuts nothing. Of the 2^20 ways to cut single
directions, 45,960 differ.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations, permutations

from kraftwreck.nodes.draw import draw_below

Links = frozenset[tuple[int, int]]
"""Pairs of nodes: (sender, receiver) if directions count, otherwise the smaller one first."""


@lru_cache(maxsize=1 << 16)
def undirected_pattern(nodes: int, cut: Links) -> int:
    """Return the number that identifies the pattern of the links ``cut`` (a < b)."""
    return min(sum(1 << bits[a, b] for a, b in cut) for bits in _relabelled(nodes, directed=False))


@lru_cache(maxsize=1 << 16)
def directed_pattern(nodes: int, cut: Links) -> int:
    """Return the number that identifies the pattern of the directions ``cut``."""
    return min(sum(1 << bits[a, b] for a, b in cut) for bits in _relabelled(nodes, directed=True))


@lru_cache
def undirected_patterns(nodes: int) -> dict[int, Links]:
    """Return every non-empty pattern of links between ``nodes`` nodes, with one example."""
    links = list(combinations(range(nodes), 2))
    found: dict[int, Links] = {}
    for mask in range(1, 1 << len(links)):
        cut = frozenset(link for place, link in enumerate(links) if mask >> place & 1)
        found.setdefault(undirected_pattern(nodes, cut), cut)
    return found


def pattern_of(draw: int, nodes: int) -> Links:
    """Return the pattern that ``draw`` chooses; all are equally likely."""
    patterns = undirected_patterns(nodes)
    numbers = sorted(patterns)
    return patterns[numbers[draw_below(len(numbers), draw, "pattern")]]


@lru_cache
def _relabelled(nodes: int, *, directed: bool) -> list[dict[tuple[int, int], int]]:
    """Return the bit of each link, for each permutation of the nodes other than 0."""
    pairs = list(permutations(range(nodes), 2)) if directed else []
    pairs = pairs or list(combinations(range(nodes), 2))
    bit = {pair: place for place, pair in enumerate(pairs)}
    tables = []
    for rest in permutations(range(1, nodes)):
        to = (0, *rest)
        table = {}
        for a, b in pairs:
            left, right = to[a], to[b]
            if not directed and left > right:
                left, right = right, left
            table[a, b] = bit[left, right]
        tables.append(table)
    return tables

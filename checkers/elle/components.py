"""Strong components of a graph of arrays.

Small graphs are walked in plain Python; large ones by the same algorithm compiled (Numba),
which needs some seconds the first time it runs on a machine. Which library: decision 13.

Source: Tarjan (SIAM J. Comput. 1972), with an explicit stack; Pearce (2016) for one array of
low links.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from kraftwreck.checkers.elle.transactions import Ints, starts_of

_ROOM = 1 << 20
_ROUNDS = 24
COMPILE_FROM = 30_000
"""From this many vertices and edges on the compiled kernel is used."""


def strong_components(size: int, source: Ints, target: Ints) -> Ints:
    """Return, for each vertex from 0 to ``size``, the number of its component."""
    order = np.argsort(source, kind="stable")
    starts = starts_of(np.bincount(source, minlength=size))
    targets = target[order]
    if size + len(source) < COMPILE_FROM:
        return np.array(_tarjan(size, starts.tolist(), targets.tolist()), dtype=np.int64)
    found: Ints = _compiled()(size, starts, targets.astype(np.int32))
    return found


def tangled(source: Ints, target: Ints, begin: Ints, end: Ints) -> Ints:
    """Return the edges that may lie on a cycle: all that do, and possibly others.

    Every vertex gets a place, at first where it ``begin``s. Places of targets are moved behind
    their sources', but not past their ``end``. Every cycle has an edge that leads back, and such
    edges cover all the places that the cycle visits. So there is no cycle where no edge leads
    back, and in a history that keeps real time few edges do.
    """
    place = begin * _ROOM
    limit = end * _ROOM + _ROOM - 1
    edges = np.arange(len(source))
    for _ in range(_ROUNDS):
        back = edges[place[source[edges]] >= place[target[edges]]]
        moved = target[back]
        further = np.minimum(place[source[back]] + 1, limit[moved])
        ahead = further > place[moved]
        moved, further = moved[ahead], further[ahead]
        if len(moved) == 0:
            break
        np.maximum.at(place, moved, further)
        touched = np.zeros(len(place), dtype=bool)
        touched[moved] = True
        edges = np.flatnonzero(touched[source])
    back = np.flatnonzero(place[source] >= place[target])
    if len(back) == 0:
        return back
    low, high = place[target[back]], place[source[back]]
    order = np.argsort(low)
    low, reach = low[order], np.maximum.accumulate(high[order])
    first = np.ones(len(low), dtype=bool)
    first[1:] = low[1:] > reach[:-1]
    starts = low[first]
    ends = reach[np.append(np.flatnonzero(first)[1:] - 1, len(low) - 1)]
    at = np.searchsorted(starts, place[source], side="right") - 1
    inside = (at >= 0) & (place[source] <= ends[at])
    other = np.searchsorted(starts, place[target], side="right") - 1
    return np.flatnonzero(inside & (at == other) & (place[target] <= ends[at]))


@cache
def _compiled() -> Any:
    from kraftwreck.checkers.elle.kernels import tarjan

    return tarjan


def _tarjan(size: int, starts: list[int], targets: list[int]) -> list[int]:
    number, low, label = [0] * size, [0] * size, [-1] * size
    next_edge = starts[:size]
    stack: list[int] = []
    clock = components = 0
    for root in range(size):
        if number[root]:
            continue
        path = [root]
        while path:
            vertex = path[-1]
            if not number[vertex]:
                clock += 1
                number[vertex] = low[vertex] = clock
                stack.append(vertex)
            edge = next_edge[vertex]
            if edge < starts[vertex + 1]:
                next_edge[vertex] = edge + 1
                other = targets[edge]
                if not number[other]:
                    path.append(other)
                elif label[other] < 0 and number[other] < low[vertex]:
                    low[vertex] = number[other]
                continue
            path.pop()
            if path and low[vertex] < low[path[-1]]:
                low[path[-1]] = low[vertex]
            if low[vertex] == number[vertex]:
                while True:
                    other = stack.pop()
                    label[other] = components
                    if other == vertex:
                        break
                components += 1
    return label

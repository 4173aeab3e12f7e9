"""Strong components of a graph of arrays.

Small graphs are walked in plain Python; large ones by the same algorithm compiled (Numba),
which needs some seconds the first time it runs on a machine. Which library: decision 12.

Source: Tarjan (SIAM J. Comput. 1972), with an explicit stack; Pearce (2016) for one array of
low links.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from checkers.elle.transactions import Ints, starts_of

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


@cache
def _compiled() -> Any:
    from checkers.elle.kernels import tarjan

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

"""Compiled loops (decision 11): strong components of graphs with millions of vertices."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


def _tarjan(size: int, starts: Any, targets: Any) -> Any:
    number = np.zeros(size, np.int32)
    low = np.zeros(size, np.int32)
    label = np.full(size, -1, np.int64)
    next_edge = starts[:size].copy()
    stack = np.empty(size, np.int32)
    path = np.empty(size, np.int32)
    top = 0
    clock = 0
    components = 0
    for root in range(size):
        if number[root] != 0:
            continue
        path[0] = root
        depth = 1
        while depth > 0:
            vertex = path[depth - 1]
            if number[vertex] == 0:
                clock += 1
                number[vertex] = clock
                low[vertex] = clock
                stack[top] = vertex
                top += 1
            edge = next_edge[vertex]
            if edge < starts[vertex + 1]:
                next_edge[vertex] = edge + 1
                other = targets[edge]
                if number[other] == 0:
                    path[depth] = other
                    depth += 1
                elif label[other] < 0 and number[other] < low[vertex]:
                    low[vertex] = number[other]
                continue
            depth -= 1
            if depth > 0 and low[vertex] < low[path[depth - 1]]:
                low[path[depth - 1]] = low[vertex]
            if low[vertex] == number[vertex]:
                while True:
                    top -= 1
                    other = stack[top]
                    label[other] = components
                    if other == vertex:
                        break
                components += 1
    return label


tarjan = njit(cache=True)(_tarjan)

"""The dependency graph of transactions as arrays of edges, and its strong components.

Vertices are positions of events. Vertices from ``transactions`` on are moments of the time
chain (:func:`realtime_edges`), which carry real-time order in a number of edges that does not
grow with concurrency. ``kind`` is one bit of WW, WR, RW, PROCESS, REALTIME, or of RWP and WRP for
dependencies of predicate reads.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kraftwreck.checkers.elle.components import strong_components, tangled
from kraftwreck.checkers.elle.transactions import OK, Ints, Transactions

WW, WR, RW, PROCESS, REALTIME, RWP, WRP = 1, 2, 4, 8, 16, 32, 64
NAMES = {
    WW: "ww",
    WR: "wr",
    RW: "rw",
    PROCESS: "process",
    REALTIME: "realtime",
    RWP: "rwp",
    WRP: "wrp",
}


@dataclass(frozen=True, slots=True)
class Graph:
    """``source[i] -> target[i]`` is an edge of kind ``kind[i]``.

    ``transactions`` is the number of vertices that are events; ``size`` counts all. ``begin``
    and ``end`` are the positions in the history between which a vertex may take its place.
    """

    transactions: int
    size: int
    source: Ints
    target: Ints
    kind: NDArray[np.int8]
    begin: Ints
    end: Ints

    @property
    def empty(self) -> bool:
        """Whether no transaction is ordered after another.

        The edge from a commit to its own moment orders nothing.
        """
        return not bool((self.target < self.transactions).any())

    def components(self) -> list[Ints]:
        """Return the edges (their positions) of every strong component that has a cycle."""
        some = tangled(self.source, self.target, self.begin, self.end)
        if len(some) == 0:
            return []
        _, number = np.unique(
            np.concatenate([self.source[some], self.target[some]]), return_inverse=True
        )
        source, target = number[: len(some)], number[len(some) :]
        components = strong_components(int(number.max()) + 1, source, target)
        inner = some[components[source] == components[target]]
        if len(inner) == 0:
            return []
        label = np.zeros(self.size, dtype=np.int64)
        label[self.source[some]] = components[source]
        owner = label[self.source[inner]]
        order = np.argsort(owner, kind="stable")
        cuts = np.flatnonzero(np.diff(owner[order])) + 1
        parts: list[Ints] = np.split(inner[order], cuts)
        return sorted(parts, key=lambda part: int(self.source[part].min()))


def joined(transactions: Transactions, parts: list[tuple[Ints, Ints, int]], moments: Ints) -> Graph:
    """Return the graph of all ``parts`` (sources, targets, kind), without loops.

    ``moments`` are the positions of the moments of the time chain, if there is one.
    """
    total = len(transactions.events)
    size = total + len(moments)
    position = np.concatenate([np.arange(total), moments])
    begin = position.copy()
    known = np.flatnonzero(transactions.invoked >= 0)
    begin[known] = transactions.invoked[known]
    end = position.copy()
    end[:total][transactions.events.kind != OK] = total
    none: Ints = np.zeros(0, dtype=np.int64)
    source = np.concatenate([none, *(part[0] for part in parts)])
    target = np.concatenate([none, *(part[1] for part in parts)])
    kinds = [np.full(len(part[0]), part[2], dtype=np.int8) for part in parts]
    kind = np.concatenate([np.zeros(0, dtype=np.int8), *kinds])
    keep = source != target
    return Graph(total, size, source[keep], target[keep], kind[keep], begin, end)


def process_edges(transactions: Transactions) -> tuple[Ints, Ints, int]:
    """Return edges between consecutive committed transactions of each process."""
    ok = np.flatnonzero(transactions.events.kind == OK)
    process = transactions.events.process[ok]
    order = np.argsort(process, kind="stable")
    same = process[order][1:] == process[order][:-1]
    return ok[order[:-1][same]], ok[order[1:][same]], PROCESS


def realtime_edges(
    transactions: Transactions,
) -> tuple[list[tuple[Ints, Ints, int]], Ints]:
    """Return edges of real time through a chain of moments, and the moments' positions.

    Moment i is the i-th commit. Its transaction leads to it, and it leads to moment i + 1 and to
    every transaction invoked after it and before the next moment. So a transaction reaches exactly
    those invoked after its end. As in Elle, failed transactions are reached too, but no edge
    leaves them.
    """
    total = len(transactions.events)
    ok = np.flatnonzero(transactions.events.kind == OK)
    moment = total + np.arange(len(ok))
    parts = [(ok, moment, REALTIME), (moment[:-1], moment[1:], REALTIME)]
    started = np.flatnonzero((transactions.invoked >= 0) | transactions.open)
    at = np.where(transactions.open[started], started, transactions.invoked[started])
    last = np.searchsorted(ok, at) - 1
    some = last >= 0
    parts.append((total + last[some], started[some], REALTIME))
    return parts, ok

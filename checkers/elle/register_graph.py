"""Dependencies between register transactions, as far as their versions can be ordered.

A register's value does not show the value it replaced. Others can see only a transaction's external
reads and writes: its first read and its last write of a key. The writer of a value comes before its
readers (wr). The initial state (null) comes before every value. Further orders of versions follow
from the caller's assumptions about keys: writes follow reads within a transaction, versions follow
each process, versions follow real time. An order of versions gives ww edges between writers and rw
edges from readers to writers. An order that makes the versions of a key cyclic is reported and not
used.

Source: Kingsbury, Alvaro (VLDB 2020), section 5.2; elle.rw-register. As there, only committed
transactions are indexed: the reads of indeterminate ones are unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kraftwreck.checkers.elle.graph import RW, WR, WW
from kraftwreck.checkers.elle.register_anomalies import RegisterAnomalies
from kraftwreck.checkers.elle.register_versions import VersionOrders
from kraftwreck.checkers.elle.registers import Registers
from kraftwreck.checkers.elle.transactions import (
    NULL,
    Ints,
    TransactionError,
    Transactions,
    runs,
    starts_of,
)

Parts = list[tuple[Ints, Ints, int]]


class RegisterGraph:
    """Edges of data, and explanations of the edges between two transactions."""

    def __init__(self, registers: Registers, before: Ints, after: Ints) -> None:
        """``before[i]`` and ``after[i]`` are versions of one key, known to be in that order."""
        self._registers = registers
        self._before, self._after = before, after
        self._later: dict[int, set[int]] = {}

    def edges(self) -> Parts:
        """Return the ww, wr and rw edges."""
        own = self._registers
        event, version = own.mops.event, own.version
        self._refuse_two_writers()
        writer = np.full(own.versions, -1, dtype=np.int64)
        writer[version[own.writes]] = own.writes
        read_from = writer[version[own.reads]]
        read_from[version[own.reads] < len(own.keys)] = -1
        have = read_from >= 0
        parts: Parts = [(event[read_from[have]], event[own.reads[have]], WR)]
        for users, kind in ((own.writes, WW), (own.reads, RW)):
            first, second = self._meet(users)
            parts.append((event[first], event[second], kind))
        return parts

    def _refuse_two_writers(self) -> None:
        own = self._registers
        times = np.bincount(own.version[own.writes], minlength=own.versions)
        bad = own.reads[(times[own.version[own.reads]] > 1) & (own.mops.kind[own.reads] != NULL)]
        if len(bad):
            version = int(own.version[bad[0]])
            two = own.writes[own.version[own.writes] == version][:2]
            ops = [str(own.transactions.events.index[own.mops.event[at]]) for at in two]
            raise TransactionError(
                f"operations {' and '.join(ops)} both wrote {own.name(version)!r} to key "
                f"{own.key_of(version)!r}: values of a key must be unique"
            )

    def _meet(self, users: Ints) -> tuple[Ints, Ints]:
        """Return each user of a version with each writer of a version right after it."""
        own = self._registers
        version = own.version
        mine, my_starts = _index(version[users], own.versions)
        theirs, their_starts = _index(version[own.writes], own.versions)
        size_a = np.diff(my_starts)[self._before]
        size_b = np.diff(their_starts)[self._after]
        live = np.flatnonzero((size_a > 0) & (size_b > 0))
        before, after = self._before[live], self._after[live]
        size_a, size_b = size_a[live], size_b[live]
        first = users[mine[runs(my_starts[:-1][before], size_a)]]
        # Every user of the pair is connected with every writer of it.
        begin = np.repeat(their_starts[:-1][after], size_a)
        size = np.repeat(size_b, size_a)
        return np.repeat(first, size), own.writes[theirs[runs(begin, size)]]

    def _index_later(self) -> None:
        if not self._later:
            for a, b in zip(self._before.tolist(), self._after.tolist(), strict=True):
                self._later.setdefault(a, set()).add(b)

    def explain(self, source: int, target: int, kind: int) -> dict[str, Any] | None:
        """Return Elle's step of the given kind between two events, or None."""
        own = self._registers
        self._index_later()
        firsts = own.reads if kind == RW else own.writes
        seconds = own.reads if kind == WR else own.writes
        names = own.transactions
        for a in _within(firsts, names.mops_of(source)):
            for b in _within(seconds, names.mops_of(target)):
                before, after = int(own.version[a]), int(own.version[b])
                if kind == WR:
                    if before != after:
                        continue
                elif after not in self._later.get(before, ()):
                    continue
                step = {
                    "type": {WW: "ww", WR: "wr", RW: "rw"}[kind],
                    "key": names.name_key(int(own.mops.key[a])),
                    "value": own.name(before),
                    "a-mop-index": a - names.mops_of(source).start,
                    "b-mop-index": b - names.mops_of(target).start,
                }
                return step if kind == WR else {**step, "value'": own.name(after)}
        return None


def _index(values: Ints, size: int) -> tuple[Ints, Ints]:
    """Return positions sorted by value, and where each value's begin."""
    return np.argsort(values, kind="stable"), starts_of(np.bincount(values, minlength=size))


def _within(positions: Ints, span: range) -> list[int]:
    low, high = np.searchsorted(positions, [span.start, span.stop])
    found: list[int] = positions[low:high].tolist()
    return found


def register_graph(
    transactions: Transactions,
    *,
    order: Mapping[Any, float] | None,
    wfr: bool,
    sequential: bool,
    linearizable: bool,
) -> tuple[RegisterGraph, Parts, dict[str, list[dict[str, Any]]]]:
    """Return the explainer of edges, the edges of data, and the anomalies that are no cycles."""
    registers = Registers(transactions)
    orders = VersionOrders(registers)
    sources: list[tuple[str, bool, Callable[[], tuple[Ints, Ints]]]] = [
        ("initial-state", True, orders.initial),
        ("transaction-order-keys", bool(order), lambda: orders.by_transactions(order or {})),
        ("wfr-keys", wfr, orders.writes_follow_reads),
        ("sequential-keys", sequential, orders.by_process),
        ("linearizable-keys", linearizable, orders.by_time),
    ]
    for name, asked, source in sources:
        if asked:
            orders.add(name, *source())
    graph = RegisterGraph(registers, orders.before, orders.after)
    found = RegisterAnomalies(registers).all()
    if orders.cyclic:
        found["cyclic-versions"] = orders.cyclic
    return graph, graph.edges(), found

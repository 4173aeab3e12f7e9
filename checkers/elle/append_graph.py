"""Dependencies between list-append transactions, as the versions of the lists show them.

Each append comes after the previous element in the order. An append that no read shows comes after
the last element that reads do show. So each append has one previous version: its writer gives a ww
edge, its readers give rw edges. The writer of the last element of a read gives a wr edge. Edges
from a transaction to itself are left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftwreck.checkers.elle.graph import RW, WR, WW
from kraftwreck.checkers.elle.orders import Orders
from kraftwreck.checkers.elle.transactions import WRITE, Ints, Transactions, runs, starts_of

Parts = list[tuple[Ints, Ints, int]]
INIT = "init"


class AppendGraph:
    """Edges of data, and why there is an edge between two transactions."""

    def __init__(self, transactions: Transactions, orders: Orders) -> None:
        self._transactions = transactions
        self._orders = orders
        self._mops = transactions.mops
        mops = self._mops
        versions = len(orders.element)
        # Version numbers: elements of the orders, then the empty state of each key.
        self._nothing = versions + orders.key
        self._appends = np.flatnonzero((mops.f == WRITE) & orders.possible)
        self._before = self._previous(self._appends)
        self._reads = np.flatnonzero(orders.read)
        self._shown, self._shown_writer = self._states(self._reads)
        self._writer = np.full(versions + len(orders.keys), -1, dtype=np.int64)
        known = np.flatnonzero(orders.writer >= 0)
        known = known[orders.possible[orders.writer[known]]]
        self._writer[known] = orders.writer[known]

    def _previous(self, appends: Ints) -> Ints:
        orders = self._orders
        key, place = orders.key[appends], orders.place[appends]
        last = np.where(place >= 0, place, orders.size[key]) - 1
        return np.where(last >= 0, orders.start[key] + last, self._nothing[appends])

    def _states(self, reads: Ints) -> tuple[Ints, Ints]:
        """Return the version each read shows (or -1), and the append of its last element."""
        orders, count = self._orders, self._mops.count[reads]
        last = orders.start[orders.key[reads]] + count - 1
        shown = np.where(count > 0, last, self._nothing[reads])
        strange = np.flatnonzero(~orders.clean[reads] & (count > 0))
        shown[strange] = -1
        full = np.flatnonzero((count > 0) & orders.clean[reads])
        writer = np.full(len(reads), -1, dtype=np.int64)
        writer[full] = orders.writer[last[full]]
        for at in strange.tolist():
            read = int(reads[at])
            append = orders.append_of(int(orders.key[read]), self._mops.list_of(read)[-1])
            writer[at] = append
            if append >= 0 and orders.place[append] >= 0:
                shown[at] = orders.start[orders.key[append]] + orders.place[append]
        writer[writer >= 0] = np.where(
            orders.possible[writer[writer >= 0]], writer[writer >= 0], -1
        )
        return shown, writer

    def edges(self) -> Parts:
        """Return the ww, wr and rw edges."""
        event = self._mops.event
        writer = self._writer[self._before]
        have = writer >= 0
        parts: Parts = [(event[writer[have]], event[self._appends[have]], WW)]
        have = self._shown_writer >= 0
        parts.append((event[self._shown_writer[have]], event[self._reads[have]], WR))
        readers, appends = self._meet()
        parts.append((event[readers], event[appends], RW))
        return parts

    def _meet(self) -> tuple[Ints, Ints]:
        """Return each read of a version with each append that comes right after it."""
        versions = len(self._writer)
        seen = np.flatnonzero(self._shown >= 0)
        order = seen[np.argsort(self._shown[seen], kind="stable")]
        sizes = np.bincount(self._shown[seen], minlength=versions)
        starts = starts_of(sizes)[:-1]
        mine = sizes[self._before]
        readers = self._reads[order[runs(starts[self._before], mine)]]
        return readers, np.repeat(self._appends, mine)

    def explain(self, source: int, target: int, kind: int) -> dict[str, Any] | None:
        """Return Elle's step of the given kind between two events, or None."""
        if kind == WR:
            return self._explain_wr(source, target)
        mops, names = self._mops, self._transactions
        own, theirs = names.mops_of(source), names.mops_of(target)
        for slot in _slots(self._appends, theirs):
            at = int(self._appends[slot])
            version = int(self._before[slot])
            if kind == WW:
                first = int(self._writer[version])
                if first < 0 or mops.event[first] != source:
                    continue
            else:
                shown = [s for s in _slots(self._reads, own) if self._shown[s] == version]
                if not shown:
                    continue
                first = int(self._reads[shown[0]])
            return {
                "type": "ww" if kind == WW else "rw",
                "key": names.name_key(int(mops.key[at])),
                "value": self._name(version),
                "value'": names.name_value(mops.list_of(at)[0]),
                "a-mop-index": first - own.start,
                "b-mop-index": at - theirs.start,
            }
        return None

    def _explain_wr(self, source: int, target: int) -> dict[str, Any] | None:
        mops, names = self._mops, self._transactions
        theirs = names.mops_of(target)
        for slot in _slots(self._reads, theirs):
            at = int(self._reads[slot])
            writer = int(self._shown_writer[slot])
            if writer >= 0 and mops.event[writer] == source:
                return {
                    "type": "wr",
                    "key": names.name_key(int(mops.key[at])),
                    "value": names.name_value(mops.list_of(at)[-1]),
                    "a-mop-index": writer - names.mops_of(source).start,
                    "b-mop-index": at - theirs.start,
                }
        return None

    def _name(self, version: int) -> Any:
        if version >= len(self._orders.element):
            return INIT
        return self._transactions.name_value(int(self._orders.element[version]))


def _slots(positions: Ints, span: range) -> range:
    """Return where the micro-operations of ``span`` are in ``positions``, which are sorted."""
    low, high = np.searchsorted(positions, [span.start, span.stop])
    return range(int(low), int(high))

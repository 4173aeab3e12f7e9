"""Orders of the versions of registers, inferred from the assumptions about each key.

An order that puts versions before themselves is reported and left out as a whole. Later orders
are still tried.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kraftwreck.checkers.elle.components import strong_components
from kraftwreck.checkers.elle.registers import Registers
from kraftwreck.checkers.elle.transactions import INFO, OK, Ints


class VersionOrders:
    """``before[i]`` comes before ``after[i]``; ``cyclic`` are Elle's cyclic-versions maps."""

    def __init__(self, registers: Registers) -> None:
        self._registers = registers
        none = np.zeros(0, dtype=np.int64)
        self.before, self.after = none, none
        self._names: list[str] = []
        self.cyclic: list[dict[str, Any]] = []

    def add(self, name: str, before: Ints, after: Ints) -> None:
        """Add another order of versions, unless the union has a cycle."""
        own = self._registers
        keep = (before != after) & ~own.emptied[before] & ~own.emptied[after]
        before = np.concatenate([self.before, before[keep]])
        after = np.concatenate([self.after, after[keep]])
        label = strong_components(own.versions, before, after)
        times = np.bincount(label, minlength=1)
        tangled = np.flatnonzero(times[label] > 1)
        if len(tangled) == 0:
            self.before, self.after = before, after
            self._names.append(name)
            return
        groups: dict[int, list[int]] = {}
        for version in tangled.tolist():
            groups.setdefault(int(label[version]), []).append(version)
        for versions in groups.values():
            self.cyclic.append(
                {
                    "key": own.key_of(versions[-1]),
                    "scc": [own.name(version) for version in versions],
                    "sources": [*self._names, name],
                }
            )

    def initial(self) -> tuple[Ints, Ints]:
        """Return the order that puts the initial state before every other version."""
        own = self._registers
        used = np.concatenate([own.all_writes, own.reads])
        after, first = np.unique(own.version[used], return_index=True)
        return own.key[used[first]], after

    def by_transactions(self, order: Mapping[Any, float]) -> tuple[Ints, Ints]:
        """Order versions by the caller's order of transactions.

        ``order`` maps the index of a completion to a number; missing ones come first.
        """
        own = self._registers
        known = {int(index): float(number) for index, number in order.items()}
        writes = own.all_writes
        index = own.transactions.events.index[own.mops.event[writes]]
        place = np.array([known.get(number, -np.inf) for number in index.tolist()])
        at = np.lexsort((writes, place, own.key[writes]))
        writes = writes[at]
        same = own.key[writes[1:]] == own.key[writes[:-1]]
        return own.version[writes[:-1][same]], own.version[writes[1:][same]]

    def writes_follow_reads(self) -> tuple[Ints, Ints]:
        """Order the version that a transaction read before the one it wrote of the same key."""
        own = self._registers
        written = np.full(len(own.groups), -1, dtype=np.int64)
        written[own.groups.group[own.writes]] = own.version[own.writes]
        after = written[own.groups.group[own.reads]]
        before = own.version[own.reads]
        some = (after >= 0) & (before >= len(own.keys))
        return before[some], after[some]

    def _touches(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Return, for each transaction and key it touched, the event, the key's number, and its
        first and last version."""
        own = self._registers
        used = np.concatenate([own.all_writes, own.reads])
        group = np.unique(own.groups.group[used])
        first = np.full(len(own.groups), -1, dtype=np.int64)
        last = np.full(len(own.groups), -1, dtype=np.int64)
        at = own.groups.group
        first[at[own.all_writes]] = last[at[own.all_writes]] = own.version[own.all_writes]
        # A transaction's read of the initial state adds nothing if it also wrote.
        telling = own.reads[(own.version[own.reads] >= len(own.keys)) | (last[at[own.reads]] < 0)]
        first[at[telling]] = own.version[telling]
        alone = own.reads[last[at[own.reads]] < 0]
        last[at[alone]] = own.version[alone]
        some = own.groups.firsts()[group]
        return own.mops.event[some], own.key[some], first[group], last[group]

    def by_process(self) -> tuple[Ints, Ints]:
        """Order versions as each process met them."""
        event, key, first, last = self._touches()
        events = self._registers.transactions.events
        ended = self._registers.transactions.events.kind[event] != INFO
        ended &= ~self._registers.transactions.open[event]
        event, key, first, last = event[ended], key[ended], first[ended], last[ended]
        order = np.lexsort((event, events.process[event], key))
        process, key = events.process[event][order], key[order]
        same = (process[1:] == process[:-1]) & (key[1:] == key[:-1])
        return last[order[:-1][same]], first[order[1:][same]]

    def by_time(self) -> tuple[Ints, Ints]:
        """Order versions by real time: the last of an ended, the first of a later transaction.

        Per key, each transaction is ordered after those that ended before it began, unless
        another one lies between.
        """
        event, key, first, last = self._touches()
        transactions = self._registers.transactions
        order = np.lexsort((event, key))
        cuts = np.flatnonzero(np.diff(key[order])) + 1
        before: list[int] = []
        after: list[int] = []
        for part in np.split(order, cuts):
            _reduce_time(
                event[part].tolist(),
                [
                    int(transactions.invoked[e]) if not transactions.open[e] else int(e)
                    for e in event[part]
                ],
                (transactions.events.kind[event[part]] == OK).tolist(),
                first[part].tolist(),
                last[part].tolist(),
                before,
                after,
            )
        return np.array(before, dtype=np.int64), np.array(after, dtype=np.int64)


def _reduce_time(
    ends: list[int],
    begins: list[int],
    ok: list[bool],
    first: list[int],
    last: list[int],
    before: list[int],
    after: list[int],
) -> None:
    """Add the pairs of versions that real time orders among the users of one key."""
    moments = [(end, 1, at) for at, end in enumerate(ends) if ok[at]]
    moments += [(begin, 0, at) for at, begin in enumerate(begins) if begin >= 0]
    recent: list[int] = []
    for _, ended, at in sorted(moments):
        if ended:
            begin = begins[at]
            recent = [other for other in recent if ends[other] > begin]
            recent.append(at)
            continue
        for other in recent:
            before.append(last[other])
            after.append(first[at])

"""Anomalies of register histories that are not cycles.

Source: definitions as in :mod:`checkers.elle.append_anomalies`; elle.rw-register.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from kraftwreck.checkers.elle.registers import Registers
from kraftwreck.checkers.elle.transactions import FAIL, NULL, READ, WRITE, Ints

Found = dict[str, list[dict[str, Any]]]


class RegisterAnomalies:
    """Looks for each anomaly in turn; :meth:`all` returns those that exist."""

    LOOKS = ("G1a", "G1b", "garbage-read", "future-read", "internal", "lost-update")

    def __init__(self, registers: Registers) -> None:
        self._own = registers
        self._mops = registers.mops
        self._transactions = registers.transactions
        self._ok_reads = np.flatnonzero((self._mops.f == READ) & registers.ok)

    def all(self) -> Found:
        """Return the maps of every anomaly found, by its name."""
        kind = self._transactions.events.kind[self._mops.event]
        failed = np.flatnonzero((self._mops.f == WRITE) & (kind == FAIL))
        passing = np.flatnonzero(self._own.groups.followed(self._mops.f == WRITE))
        looks = (
            self._reads_of(failed),
            self._reads_of(passing),
            self._garbage(),
            self._future_reads(),
            self._internal(),
            self._lost_updates(),
        )
        found = {name: list(maps) for name, maps in zip(self.LOOKS, looks, strict=True)}
        return {name: maps for name, maps in found.items() if maps}

    def _reads_of(self, writes: Ints) -> Iterable[dict[str, Any]]:
        """Return committed reads of values that ``writes`` wrote in other transactions."""
        own = self._own
        writer = np.full(own.versions, -1, dtype=np.int64)
        writer[own.version[writes]] = writes
        reads = self._ok_reads[self._mops.kind[self._ok_reads] != NULL]
        wrote = writer[own.version[reads]]
        bad = (wrote >= 0) & (self._mops.event[wrote] != self._mops.event[reads])
        for read, write in zip(reads[bad].tolist(), wrote[bad].tolist(), strict=True):
            yield {
                "op": self._transactions.op(int(self._mops.event[read])),
                "mop": self._transactions.mop(read),
                "writer": self._transactions.op(int(self._mops.event[write])),
            }

    def _garbage(self) -> Iterable[dict[str, Any]]:
        """A committed transaction read a value that no transaction tried to write."""
        own, mops = self._own, self._mops
        written = np.zeros(own.versions, dtype=bool)
        written[own.version[mops.f == WRITE]] = True
        reads = self._ok_reads[mops.kind[self._ok_reads] != NULL]
        for read in reads[~written[own.version[reads]]].tolist():
            yield self._showing(read)

    def _future_reads(self) -> Iterable[dict[str, Any]]:
        """A committed transaction read a value that only it wrote, and only afterwards."""
        own, mops = self._own, self._mops
        writes = np.flatnonzero((mops.f == WRITE) & own.possible)
        version = own.version[writes]
        # The place of the first write of each version, and the last transaction that wrote it.
        first = np.full(own.versions, len(mops), dtype=np.int64)
        last_event = np.full(own.versions, -1, dtype=np.int64)
        np.minimum.at(first, version, writes)
        np.maximum.at(last_event, version, mops.event[writes])
        reads = self._ok_reads[mops.kind[self._ok_reads] != NULL]
        seen = own.version[reads]
        later = (first[seen] > reads) & (first[seen] < len(mops))
        reads, seen = reads[later], seen[later]
        alone = (mops.event[first[seen]] == mops.event[reads]) & (
            last_event[seen] == mops.event[reads]
        )
        for read in reads[alone].tolist():
            yield self._showing(read)

    def _showing(self, read: int) -> dict[str, Any]:
        return {
            "op": self._transactions.op(int(self._mops.event[read])),
            "mop": self._transactions.mop(read),
            "element": self._own.name(int(self._own.version[read])),
        }

    def _internal(self) -> Iterable[dict[str, Any]]:
        """A transaction read another value of a key than its own last read or write."""
        own = self._own
        order = own.groups.order
        order = order[own.ok[order]]
        group, version = own.groups.group[order], own.version[order]
        bad = (group[1:] == group[:-1]) & (version[1:] != version[:-1])
        bad &= self._mops.f[order[1:]] == READ
        told: set[int] = set()
        pairs = zip(order[1:][bad].tolist(), order[:-1][bad].tolist(), strict=True)
        for read, before in sorted(pairs):
            event = int(self._mops.event[read])
            if event not in told:
                told.add(event)
                yield {
                    "op": self._transactions.op(event),
                    "mop": self._transactions.mop(read),
                    "expected": own.name(int(own.version[before])),
                }

    def _lost_updates(self) -> Iterable[dict[str, Any]]:
        """Several committed transactions read one version of a key and then wrote it."""
        own, mops = self._own, self._mops
        reads = own.groups.read_then_written(mops.f == READ, mops.f == WRITE, own.ok)
        reads = reads[~own.emptied[own.version[reads]]]
        together: dict[int, list[int]] = {}
        _, number, times = np.unique(own.version[reads], return_inverse=True, return_counts=True)
        for read in sorted(reads[times[number] > 1].tolist()):
            together.setdefault(int(own.version[read]), []).append(read)
        for version, group in together.items():
            yield {
                "key": own.transactions.name_key(int(mops.key[group[0]])),
                "value": own.name(version),
                "txns": [own.transactions.op(int(mops.event[read])) for read in group],
            }

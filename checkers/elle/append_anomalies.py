"""Anomalies of list-append histories that are not cycles.

Array operations select the few transactions that may be wrong. Each of these is then judged
exactly.

Source: the anomalies' definitions are Adya's (G1a, G1b), Cerone, Bernardi and Gotsman's
(internal) and elle.list-append's (the others).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from kraftwreck.checkers.elle.grouping import Groups
from kraftwreck.checkers.elle.orders import Orders, orders_of
from kraftwreck.checkers.elle.transactions import FAIL, INFO, OK, READ, WRITE, Bools, Transactions

Found = dict[str, list[dict[str, Any]]]
UNKNOWN_PREFIX = "..."


class AppendAnomalies:
    """Looks for each anomaly in turn; :meth:`all` returns those that exist."""

    LOOKS = (
        "G1a",
        "G1b",
        "internal",
        "future-read",
        "duplicate-elements",
        "garbage-read",
        "incompatible-order",
        "dirty-update",
        "lost-update",
    )

    def __init__(self, transactions: Transactions, orders: Orders) -> None:
        self._transactions = transactions
        self._mops = transactions.mops
        self._orders = orders
        self._kind = transactions.events.kind[transactions.mops.event]
        self._unclean = np.flatnonzero(orders.read & ~orders.clean)
        self._groups = Groups(self._mops.event, orders.key)

    def all(self) -> Found:
        """Return the maps of every anomaly found, by its name."""
        looks: tuple[Callable[[], Iterable[dict[str, Any]]], ...] = (
            self.aborted_reads,
            self.intermediate_reads,
            self.internal,
            self.future_reads,
            self.duplicates,
            self.garbage,
            self.incompatible_orders,
            self.dirty_updates,
            self.lost_updates,
        )
        found = {name: list(look()) for name, look in zip(self.LOOKS, looks, strict=True)}
        return {name: maps for name, maps in found.items() if maps}

    def _op(self, mop: int) -> dict[str, Any]:
        return self._transactions.op(int(self._mops.event[mop]))

    def _value(self, number: int) -> Any:
        return self._transactions.name_value(number)

    def _key(self, number: int) -> Any:
        return self._transactions.name_key(int(self._orders.keys[number]))

    def _ok_reads_showing(self, place: Any) -> list[int]:
        """Return the ok reads that hold the element at a place of their key's order, or that
        are no prefix of it; ``place`` is given by key."""
        held = self._orders.clean & (self._mops.count > place[self._orders.key])
        reads = self._orders.read & (self._kind == OK) & (held | ~self._orders.clean)
        return [int(at) for at in np.flatnonzero(reads)]

    def aborted_reads(self) -> Iterable[dict[str, Any]]:
        """G1a: a committed transaction read what a failed one appended."""
        orders = self._orders
        failed = np.flatnonzero((self._kind == FAIL) & (self._mops.f == WRITE))
        if not len(failed):
            return
        first = np.full(len(orders.keys), np.iinfo(np.int64).max)
        seen = failed[orders.place[failed] >= 0]
        np.minimum.at(first, orders.key[seen], orders.place[seen])
        writers = {(int(orders.key[at]), self._mops.list_of(int(at))[0]): int(at) for at in failed}
        for read in self._ok_reads_showing(first):
            for value in self._mops.list_of(read):
                writer = writers.get((int(orders.key[read]), value))
                if writer is not None:
                    yield {
                        "op": self._op(read),
                        "mop": self._transactions.mop(read),
                        "writer": self._op(writer),
                        "element": self._value(value),
                    }

    def intermediate_reads(self) -> Iterable[dict[str, Any]]:
        """G1b: a read saw a state that the writing transaction changed later."""
        orders, mops = self._orders, self._mops
        passing = self._groups.followed(mops.f == WRITE)
        reads = orders.read & (self._kind == OK) & (mops.count > 0)
        clean = np.flatnonzero(reads & orders.clean)
        writer = orders.writer[orders.start[orders.key[clean]] + mops.count[clean] - 1]
        bad = clean[(writer >= 0) & passing[writer]]
        for read in sorted([*bad.tolist(), *np.flatnonzero(reads & ~orders.clean).tolist()]):
            last = mops.list_of(read)[-1]
            writer_mop = orders.append_of(int(orders.key[read]), last)
            if writer_mop < 0 or not passing[writer_mop]:
                continue
            if mops.event[writer_mop] == mops.event[read]:
                continue
            yield {
                "op": self._op(read),
                "mop": self._transactions.mop(read),
                "writer": self._op(writer_mop),
                "element": self._value(last),
            }

    def internal(self) -> Iterable[dict[str, Any]]:
        """A transaction's read contradicts its own earlier reads and appends."""
        for event in self._groups.contradicting(self._orders, self._mops, self._kind == OK):
            case = self._internal_case(event)
            if case is not None:
                yield case

    def _internal_case(self, event: int) -> dict[str, Any] | None:
        state: dict[int, tuple[bool, list[int]]] = {}
        for at in self._transactions.mops_of(event):
            key = int(self._orders.key[at])
            values = list(self._mops.list_of(at))
            if self._mops.f[at] == WRITE:
                whole, known = state.get(key, (False, []))
                state[key] = (whole, known + values)
                continue
            if key in state:
                whole, known = state[key]
                tail = values if whole else values[max(0, len(values) - len(known)) :]
                if tail != known:
                    expected = [self._value(value) for value in known]
                    return {
                        "op": self._transactions.op(event),
                        "mop": self._transactions.mop(at),
                        "expected": expected if whole else [UNKNOWN_PREFIX, *expected],
                    }
            state[key] = (True, values)
        return None

    def future_reads(self) -> Iterable[dict[str, Any]]:
        """A transaction read an element that it appended only later."""
        for event in self._groups.foreseeing(self._orders, self._mops, self._kind == OK):
            seen: dict[tuple[int, int], int] = {}
            for at in self._transactions.mops_of(event):
                key, values = int(self._orders.key[at]), self._mops.list_of(at)
                if self._mops.f[at] == READ:
                    for value in values:
                        seen.setdefault((key, value), at)
                elif (key, values[0]) in seen:
                    yield {
                        "op": self._transactions.op(event),
                        "mop": self._transactions.mop(seen[key, values[0]]),
                        "element": self._value(values[0]),
                    }
                    break

    def duplicates(self) -> Iterable[dict[str, Any]]:
        """A read held an element twice, though each is appended once."""
        for read in self._unclean.tolist():
            times = Counter(self._mops.list_of(read))
            twice = {value: n for value, n in times.items() if n > 1}
            if twice:
                yield {
                    "op": self._op(read),
                    "mop": self._transactions.mop(read),
                    "duplicates": {_name(self._value(v)): n for v, n in sorted(twice.items())},
                }

    def garbage(self) -> Iterable[dict[str, Any]]:
        """A read held an element that no transaction tried to append."""
        orders, mops = self._orders, self._mops
        first = np.full(len(orders.keys), np.iinfo(np.int64).max)
        unknown = np.flatnonzero(orders.writer < 0)
        if len(unknown):
            owner = np.repeat(np.arange(len(orders.keys)), orders.size)[unknown]
            np.minimum.at(first, owner, unknown - orders.start[owner])
        elif not len(self._unclean):
            return
        held = orders.clean & (mops.count > first[orders.key])
        for read in np.flatnonzero(orders.read & (held | ~orders.clean)).tolist():
            key = int(orders.key[read])
            for value in mops.list_of(read):
                if orders.append_of(key, value) < 0:
                    yield {
                        "op": self._op(read),
                        "mop": self._transactions.mop(read),
                        "element": self._value(value),
                    }
                    break

    def incompatible_orders(self) -> Iterable[dict[str, Any]]:
        """Two reads of a key, neither a prefix of the other."""
        orders, mops = self._orders, self._mops
        for key in sorted(set(orders.key[self._unclean].tolist())):
            at = np.flatnonzero(orders.read & (orders.key == key) & (mops.count > 0))
            reads = sorted({mops.list_of(int(read)) for read in at}, key=len)
            for shorter, longer in itertools.pairwise(reads):
                if longer[: len(shorter)] != shorter:
                    values = [[self._value(v) for v in read] for read in (shorter, longer)]
                    yield {"key": self._key(key), "values": values}
                    break

    def dirty_updates(self) -> Iterable[dict[str, Any]]:
        """A failed transaction's append came before a committed one's in the same list."""
        orders = self._orders
        written = orders.writer[orders.writer >= 0]
        aborted = written[self._kind[written] == FAIL]
        for key in sorted(set(orders.key[aborted].tolist())):
            begin = int(orders.start[key])
            dirty, values = -1, list[int]()
            for at in range(begin, begin + int(orders.size[key])):
                writer = int(orders.writer[at])
                kind = int(self._kind[writer]) if writer >= 0 else INFO
                values.append(int(orders.element[at]))
                if kind == OK:
                    if dirty >= 0:
                        yield {
                            "key": self._key(key),
                            "values": [self._value(value) for value in values],
                            "txns": [self._op(dirty), "...", self._op(writer)],
                        }
                    dirty, values = -1, [values[-1]]
                elif kind == FAIL and dirty < 0:
                    dirty, values = writer, [values[-1]]

    def lost_updates(self) -> Iterable[dict[str, Any]]:
        """Several committed transactions read one state of a key and then appended to it."""
        orders, mops = self._orders, self._mops
        reads = self._groups.read_then_written(mops.f == READ, mops.f == WRITE, self._kind == OK)
        clean = reads[orders.clean[reads]]
        code = orders.key[clean] * (int(mops.count.max(initial=0)) + 1) + mops.count[clean]
        _, number, times = np.unique(code, return_inverse=True, return_counts=True)
        states: dict[tuple[int, tuple[int, ...]], list[int]] = {}
        suspects = [*clean[times[number] > 1].tolist(), *reads[~orders.clean[reads]].tolist()]
        for read in sorted(suspects):
            states.setdefault((int(orders.key[read]), mops.list_of(read)), []).append(read)
        for (key, state), together in states.items():
            if len(together) > 1:
                yield {
                    "key": self._key(key),
                    "value": [self._value(value) for value in state] or None,
                    "txns": [self._op(read) for read in together],
                }


def _name(value: Any) -> Any:
    return value if isinstance(value, str | int) else str(value)


def append_anomalies(transactions: Transactions, ignored: Bools) -> tuple[Orders, Found]:
    """Return the orders of all keys and the anomalies that are no cycles.

    ``ignored`` marks, by event, the transactions whose reads do not count.
    """
    orders = orders_of(transactions, ignored)
    return orders, AppendAnomalies(transactions, orders).all()

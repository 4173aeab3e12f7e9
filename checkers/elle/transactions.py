"""A history of transactions as columns: events, their micro-operations, read lists.

Everything that costs time is an array. An operation becomes a map again only to be shown. Keys and
values are numbered: in a history of whole numbers they stand for themselves, otherwise each
distinct value has its own number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

INVOKE, OK, FAIL, INFO = 0, 1, 2, 3
KINDS = ("invoke", "ok", "fail", "info")
READ, WRITE = 0, 1
NULL, SCALAR, LIST = 0, 1, 2


class TransactionError(ValueError):
    """A history is not one of transactions of the model; the message says where and why."""


class RepeatedAppendError(TransactionError):
    """A value was appended to a key twice, so reads do not show an order of versions."""


@dataclass(frozen=True, slots=True)
class Events:
    """The events of clients, in the order of the history.

    ``index`` is the number the history gives, ``time`` nanoseconds or -1, ``kind`` one of
    INVOKE, OK, FAIL, INFO. ``show`` returns an event's ``f`` and ``value`` by its position.
    """

    index: Ints
    process: Ints
    time: Ints
    kind: Ints
    show: Callable[[int], tuple[Any, Any]]

    def __len__(self) -> int:
        return len(self.index)


@dataclass(frozen=True, slots=True)
class MicroOps:
    """Micro-operations of all events, event after event.

    ``event`` is the position of the event, ``f`` READ or WRITE, ``key`` a number, ``kind``
    NULL, SCALAR or LIST; the value's numbers are ``elements[start : start + count]``.
    """

    event: Ints
    f: Ints
    key: Ints
    kind: Ints
    start: Ints
    count: Ints
    elements: Ints

    def __len__(self) -> int:
        return len(self.event)

    def only(self, keep: Bools) -> MicroOps:
        """Return some of them; ``elements`` is shared."""
        return MicroOps(
            event=self.event[keep],
            f=self.f[keep],
            key=self.key[keep],
            kind=self.kind[keep],
            start=self.start[keep],
            count=self.count[keep],
            elements=self.elements,
        )

    def list_of(self, position: int) -> tuple[int, ...]:
        """Return the numbers of one micro-operation's value."""
        start = int(self.start[position])
        return tuple(self.elements[start : start + int(self.count[position])].tolist())


@dataclass(frozen=True, slots=True)
class Transactions:
    """Events paired with each other, and the micro-operations of those that ended.

    A transaction is identified by the position of its completion, or of its invocation if it
    never ended; ``invoked`` is the position of the invocation, or -1. ``open`` marks
    invocations without an end: they may have happened, as after an ``info``. ``name_key``
    and ``name_value`` turn numbers into the history's keys and values.
    """

    events: Events
    mops: MicroOps
    invoked: Ints
    open: Bools
    first: Ints
    name_key: Callable[[int], Any]
    name_value: Callable[[int], Any]
    shown: dict[int, dict[str, Any]] = field(default_factory=dict)

    @property
    def possible(self) -> Bools:
        """Mark, by event, the transactions that happened or may have."""
        kind = self.events.kind
        marked: Bools = (kind == OK) | (kind == INFO) | self.open
        return marked

    def mops_of(self, event: int) -> range:
        """Return the positions, in ``mops``, of a transaction's micro-operations."""
        return range(int(self.first[event]), int(self.first[event + 1]))

    def op(self, event: int) -> dict[str, Any]:
        """Return an event as the map Jepsen writes for it."""
        op = self.shown.get(event)
        if op is None:
            f, value = self.events.show(event)
            op = {
                "index": int(self.events.index[event]),
                "time": int(self.events.time[event]),
                "type": KINDS[int(self.events.kind[event])],
                "process": int(self.events.process[event]),
                "f": f,
                "value": value,
            }
            self.shown[event] = op
        return op

    def mop(self, position: int) -> Any:
        """Return one micro-operation as the history has it."""
        event = int(self.mops.event[position])
        value = self.op(event)["value"]
        return value[position - int(self.first[event])]


def pair(events: Events, mops: MicroOps, names: Sequence[Callable[[int], Any]]) -> Transactions:
    """Return the transactions of a history: each completion with its invocation.

    An invocation without a completion stays open, and one whose ``info`` completion does not
    repeat the micro-operations.
    """
    order = np.argsort(events.process, kind="stable")
    kind, process = events.kind[order], events.process[order]
    same = np.zeros(len(order), dtype=bool)
    same[1:] = process[1:] == process[:-1]
    follows = np.zeros(len(order), dtype=bool)
    follows[1:] = same[1:] & (kind[:-1] == INVOKE)
    invoked = np.full(len(order), -1, dtype=np.int64)
    ends = np.flatnonzero(follows & (kind != INVOKE))
    invoked[order[ends]] = order[ends - 1]
    is_open = events.kind == INVOKE
    full = np.zeros(len(events), dtype=bool)
    full[mops.event] = True
    is_open[order[ends - 1]] = (kind[ends] == INFO) & ~full[order[ends]] & full[order[ends - 1]]
    kept = mops.only((events.kind != INVOKE)[mops.event] | is_open[mops.event])
    first = np.searchsorted(kept.event, np.arange(len(events) + 1))
    return Transactions(
        events=events,
        mops=kept,
        invoked=invoked,
        open=is_open,
        first=first,
        name_key=names[0],
        name_value=names[1],
    )


def starts_of(sizes: Ints) -> Ints:
    """Return where runs of ``sizes`` begin when laid end to end, and the end of the last."""
    starts = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=starts[1:])
    return starts


def runs(starts: Ints, sizes: Ints) -> Ints:
    """Return the positions ``starts[i] … starts[i] + sizes[i] - 1`` of every run, in order."""
    total = int(sizes.sum())
    if total == 0:
        return np.zeros(0, dtype=np.int64)
    shift = np.repeat(starts - starts_of(sizes)[:-1], sizes)
    return shift + np.arange(total)

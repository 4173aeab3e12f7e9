"""Operations as checkers see them: an invocation joined with its completion.

Real-time order is the order of events in the history: call A precedes call B when A's
completion comes before B's invocation. An invocation without completion, or one that
ended ``info``, stays open for ever.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from kraftwreck.histories.operation import FAIL, INFO, INVOKE, OK, Op

OPEN = 1 << 62
"""``end`` of a call without a certain end."""


class HistoryShapeError(ValueError):
    """The events do not form a history; the message names the operation's index."""


class Call(msgspec.Struct, kw_only=True, gc=False):
    """One operation of one process.

    ``start`` and ``end`` are event indices (``end`` is :data:`OPEN` unless the call ended
    ``ok`` or ``fail``). ``argument`` is the value of the invocation, ``value`` that of the
    completion. ``invoked`` and ``completed`` are nanoseconds since the start of the test;
    ``completed`` is None when no completion was recorded. ``completion`` is the index of
    the completion event, -1 for none.
    """

    f: str
    key: Any
    process: int
    type: str
    argument: Any
    value: Any
    start: int
    end: int
    completion: int
    invoked: int
    completed: int | None
    node: str | None
    error: str | None
    final: bool

    @property
    def indices(self) -> list[int]:
        """The history indices of this call's events."""
        return [self.start] if self.completion < 0 else [self.start, self.completion]


def pair(ops: Iterable[Op]) -> list[Call]:
    """Join invocations with completions; the result is ordered by invocation.

    Raises :class:`HistoryShapeError` when a process invokes twice, or completes what it
    did not invoke.
    """
    pending: dict[int, Call] = {}
    calls: list[Call] = []
    last = -1
    for op in ops:
        if op.index <= last:
            raise HistoryShapeError(f"operation {op.index} comes after operation {last}")
        last = op.index
        if op.type == INVOKE:
            if op.process in pending:
                raise HistoryShapeError(
                    f"operation {op.index}: process {op.process} invokes {op.f} "
                    f"while its operation {pending[op.process].start} is open"
                )
            call = Call(
                f=op.f,
                key=op.key,
                process=op.process,
                type=INFO,
                argument=op.value,
                value=None,
                start=op.index,
                end=OPEN,
                completion=-1,
                invoked=op.time,
                completed=None,
                node=op.node,
                error=None,
                final=op.final,
            )
            pending[op.process] = call
            calls.append(call)
            continue
        call_or_none = pending.pop(op.process, None)
        if call_or_none is None or call_or_none.f != op.f:
            raise HistoryShapeError(
                f"operation {op.index}: process {op.process} completes a {op.f} "
                "that it did not invoke"
            )
        call = call_or_none
        call.type = op.type
        call.value = op.value
        call.completion = op.index
        call.completed = op.time
        call.error = op.error
        call.node = op.node or call.node
        call.final = call.final or op.final
        if op.type in (OK, FAIL):
            call.end = op.index
    return calls


def by_key(calls: Iterable[Call]) -> dict[str, list[Call]]:
    """Group calls by their key, as JSON text (keys may be any JSON value)."""
    groups: dict[str, list[Call]] = {}
    texts: dict[Any, str] = {}
    encode = msgspec.json.Encoder(order="deterministic").encode
    for call in calls:
        key = call.key
        if isinstance(key, str):
            text = texts.get(key)
            if text is None:
                text = texts[key] = encode(key).decode()
        else:
            text = encode(key).decode()
        groups.setdefault(text, []).append(call)
    return groups


def known(call: Call, last: int) -> Call:
    """Return the call as it was known just after event ``last``."""
    if call.completion <= last:
        return call
    return msgspec.structs.replace(
        call, type=INFO, end=OPEN, value=None, completion=-1, completed=None
    )

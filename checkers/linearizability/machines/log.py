"""A log by its steps, for the search: used if values do not distinguish appends."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from kraftwreck.checkers.calls import Call
from kraftwreck.checkers.linearizability.machines.models import Operation
from kraftwreck.checkers.linearizability.models import ModelError, freeze
from kraftwreck.histories.operation import OK


class Log:
    """An append-only list of (offset, value).

    ``append`` v (answered with nothing, its offset or ``[offset, v]``), ``read`` of the whole
    list, ``fetch`` of ``[[offset, v], …]`` (null: nothing there yet), ``size`` (the next offset).
    Offsets have gaps, unless a call in ``calls`` read the whole list. States are (the least
    offset that may come next, entries).
    """

    name = "log"
    initial: Hashable = (0, ())

    def __init__(self, calls: Sequence[Call] = ()) -> None:
        seen = [call for call in calls if call.type == OK]
        self._gaps = all(call.f != "read" for call in seen)
        told: set[int] = set()
        for call in seen:
            operation = self.operation(call)
            answer: Any = operation.answer if operation else None
            if call.f == "append" and answer is not ...:
                told |= {answer}
            elif call.f == "fetch":
                told |= {offset for offset, _ in answer}
            elif call.f == "size":
                told |= {answer}
        # Of offsets that no call names, only the first of a gap need be tried.
        self._told = sorted(told)

    def operation(self, call: Call) -> Operation | None:
        """Return the operation of a call, None if it constrains nothing."""
        if call.f == "append":
            offset: Any = ...
            value = call.value
            if call.type == OK and value != call.argument and value is not None:
                offset = value[0] if isinstance(value, list) else value
            return Operation("append", freeze(call.argument), offset)
        if call.f not in ("read", "fetch", "size"):
            raise ModelError(f"operation {call.start}: model log has no operation {call.f!r}")
        if call.type != OK:
            return None
        if call.f == "read":
            return Operation("read", None, tuple(map(freeze, call.value)), True)
        if call.f == "size":
            return Operation("size", None, call.value)
        points = tuple((offset, None if v is None else freeze(v)) for offset, v in call.value)
        return Operation("fetch", None, points, True)

    def step(self, state: Any, operation: Operation) -> Hashable | None:
        """Return one state that may follow."""
        return next(iter(self.choices(state, operation)), None)

    def choices(self, state: Any, operation: Operation) -> Sequence[Hashable]:
        """Return every state that may follow: an append's answer may lack its offset."""
        least, held = state
        answer: Any = operation.answer
        if operation.f == "append":
            offsets = self._free(least) if answer is ... else [answer]
            return [
                (offset + 1, (*held, (offset, operation.argument)))
                for offset in offsets
                if (offset >= least if self._gaps else offset == least)
            ]
        if operation.f == "size":
            fits = answer >= least if self._gaps else answer == least
            return [(answer, held)] if fits else []
        if operation.f == "read":
            fits = tuple(value for _, value in held) == answer
        else:
            fits = all(
                least <= offset if value is None else (offset, value) in held
                for offset, value in answer
            )
        return (state,) if fits else ()

    def _free(self, least: int) -> list[int]:
        if not self._gaps:
            return [least]
        known = [offset for offset in self._told if offset >= least]
        after = {offset + 1 for offset in known} | {least}
        return sorted({*known, *after})

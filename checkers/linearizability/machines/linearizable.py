"""Machines judged key by key, and element by element where elements are independent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from time import thread_time
from typing import Any

from kraftwreck.checkers.calls import Call, by_key, known
from kraftwreck.checkers.linearizability.decide import Outcome
from kraftwreck.checkers.linearizability.keyed import KeyVerdict, describe
from kraftwreck.checkers.linearizability.level_walk import time_left
from kraftwreck.checkers.linearizability.machines import fifo
from kraftwreck.checkers.linearizability.machines.elements import interleaved, split
from kraftwreck.checkers.linearizability.machines.models import MACHINES, Machine
from kraftwreck.checkers.linearizability.machines.narrowing import narrowed
from kraftwreck.checkers.linearizability.machines.search import check, verify
from kraftwreck.histories.operation import INFO

_LOOKED_S = 10.0
"""How long to search for the first impossible moment, in seconds."""


def check_calls(
    name: str, options: dict[str, Any], calls: Iterable[Call], time_limit_s: float
) -> list[KeyVerdict]:
    """Return the verdict of every key.

    Raises :class:`~checkers.linearizability.models.ModelError`.
    """
    machine = MACHINES[name](options)
    deadline = thread_time() + time_limit_s
    verdicts = []
    for key, group in by_key(calls).items():
        outcome = _together(machine, group, deadline)
        verdicts.append(KeyVerdict(key=key, count=len(group), outcome=outcome))
    return verdicts


def _together(machine: Machine, calls: Sequence[Call], deadline: float) -> Outcome:
    if machine.name == "fifo-queue":
        sorted_out = _passed_through(machine, calls, deadline)
        if sorted_out is not None:
            return sorted_out
    if machine.name == "key-value":
        found = _strings(machine, calls)
        if found is not None:
            return found
    parts = split(machine.name, calls)
    order: list[int] = []
    steps = 0
    for part in parts:
        outcome = check(machine, part, time_limit_s=time_left(deadline))
        steps += outcome.steps
        if outcome.valid is not True:
            return narrowed(machine, part, outcome)
        order += outcome.order
    if len(parts) > 1:
        order = interleaved(calls, parts, order)
    return Outcome(valid=True, order=order, steps=steps)


def _strings(machine: Machine, calls: Sequence[Call]) -> Outcome | None:
    """Judge a key of strings without a search; None if that does not decide it."""
    from kraftwreck.checkers.linearizability.zones import key_values

    for call in calls:
        machine.operation(call)
    found = key_values.decide(calls)
    if found is not None and found.valid is True:
        doubt = verify(machine, calls, found.order)
        if doubt is not None:
            raise AssertionError(f"the order of a key's strings proves nothing: {doubt}")
    return found


def _passed_through(machine: Machine, calls: Sequence[Call], deadline: float) -> Outcome | None:
    """Judge a queue of distinct values without a search; None if that does not decide it."""
    found = fifo.decide(calls)
    if found is None:
        return None
    order = [call.start for call in found.order]
    if found.valid:
        doubt = fifo.unproven(calls, found.order)
        if doubt is not None:
            raise AssertionError(f"the order of a queue proves nothing: {doubt}")
        return Outcome(valid=True, order=order)
    # The first completion without an order, and an order of the calls before it.
    ends = sorted(call.completion for call in calls if call.type != INFO)
    legal, illegal = 0, len(ends)
    longest: Sequence[Call] = []
    deadline = min(deadline, thread_time() + _LOOKED_S)
    while illegal - legal > 1 and thread_time() < deadline:
        middle = (legal + illegal) // 2
        moment = ends[middle - 1]
        before = fifo.decide([known(call, moment) for call in calls if call.start <= moment])
        if before is None or before.valid:
            legal = middle
            longest = before.order if before else longest
        else:
            # An unknown value may have been enqueued later: the whole history decides.
            illegal, found = middle, found if before.phantom else before
    # In the order of their ends, with those that were open at that moment.
    ended = {call.start: call for call in calls}
    window = [ended[call.start] for call in found.window]
    return Outcome(
        valid=False,
        order=[call.start for call in longest],
        placed=len(longest),
        stuck=max(found.window, key=lambda call: call.completion),
        window=window,
        why=f"{found.why}: {', '.join(map(describe, window))}.",
    )

"""Verify a claimed linearization, independently of the search that found it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kraftwreck.checkers.calls import Call
from kraftwreck.checkers.linearizability.models import ANY, PRESENT, SAME, Model
from kraftwreck.histories.operation import FAIL, OK


def misplaced(
    calls: Sequence[Call], order: Sequence[int], constrains: Callable[[Call], bool]
) -> str | None:
    """Return why ``order`` (calls named by ``start``) is no order of the history in real time.

    It must hold every call that ended ``ok`` and constrains the state, no failed call, and no
    call twice. No call in it may have ended before an earlier one in it began.
    """
    known = {call.start: call for call in calls}
    if len(set(order)) != len(order) or not set(order) <= set(known):
        return "a call is named twice or is not in the history"
    missing = {c.start for c in calls if c.type == OK and constrains(c)} - set(order)
    if missing:
        return f"calls {sorted(missing)} are missing"
    latest = -1
    for start in order:
        call = known[start]
        if call.type == FAIL:
            return f"call {start} failed, so it did not happen"
        latest = max(latest, call.start)
        if call.end < latest:
            return f"call {start} ended before call {latest} began, yet comes later"
    return None


def verify(model: Model, calls: Sequence[Call], order: Sequence[int]) -> str | None:
    """Return why ``order`` (calls named by ``start``) proves nothing, or None if it does.

    It must be in real time (:func:`misplaced`), and obey ``model``.
    """
    wrong = misplaced(calls, order, lambda call: model.action(call) is not None)
    if wrong is not None:
        return wrong
    known = {call.start: call for call in calls}
    state = model.initial
    for start in order:
        action = model.action(known[start])
        if action is not None:
            need = action.need
            if not (need is ANY or (need is PRESENT and state is not None) or need == state):
                return f"call {start} is not allowed in state {state!r}"
            state = state if action.result is SAME else action.result
    return None

"""The model of a verdict as a step function, for the pictures of orders."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kraftwreck.checkers.calls import Call
from kraftwreck.checkers.linearizability.machines.log import Log
from kraftwreck.checkers.linearizability.machines.models import MACHINES
from kraftwreck.checkers.linearizability.models import (
    ANY,
    MODELS,
    PRESENT,
    SAME,
    Model,
    ModelError,
    Register,
    actions,
    after,
    allowed,
)
from kraftwreck.histories.operation import OK

IMPOSSIBLE = object()
"""Instead of a state: a call cannot take effect, or the state is unknown."""

Step = Callable[[Any, Call], Any]
"""Returns the state after a call, or :data:`IMPOSSIBLE`."""


@dataclass
class Specification:
    """Steps from ``initial``; ``needed`` are the calls that an order must or may contain.

    ``left_by`` returns the state after a call if it is the same after every state, otherwise
    :data:`IMPOSSIBLE`.
    """

    step: Step
    initial: Any
    needed: list[Call]
    left_by: Callable[[Call], Any]

    def before(self, calls: Sequence[Call], whole: bool) -> Any:
        """Return the state after ``calls``: a legal order or, unless ``whole``, its end."""
        if not whole:
            return self.left_by(calls[-1]) if calls else IMPOSSIBLE
        state = self.initial
        for call in calls:
            state = self.step(state, call)
            if state is IMPOSSIBLE:
                return state
        return state


def specification(stats: Mapping[str, Any], group: Sequence[Call]) -> Specification | None:
    """Return the model that a verdict's ``stats`` name, for the calls of one key.

    Return None for an unknown model, or one that does not accept these calls.
    """
    name, options = str(stats.get("model")), stats.get("options") or {}
    try:
        if name in MODELS:
            return _of_model(MODELS[name], options, group)
        machine = Log(group) if name == "log" else MACHINES[name](options)
        return _of_machine(machine, group)
    except (ModelError, KeyError, TypeError, ValueError):
        return None


def _of_model(model: Model, options: Mapping[str, Any], group: Sequence[Call]) -> Specification:
    if "initial" in options:
        cas = model.name != "register"
        model = Register(model.name, cas=cas, initial=options["initial"])

    def step(state: Any, call: Call) -> Any:
        action = model.action(call)
        if action is None:
            return state
        return after(state, action) if allowed(state, action) else IMPOSSIBLE

    def left_by(call: Call) -> Any:
        action = model.action(call)
        if action is None or action.result is not SAME:
            return IMPOSSIBLE if action is None else action.result
        return IMPOSSIBLE if action.need in (ANY, PRESENT) else action.need

    return Specification(step, model.initial, [call for call, _ in actions(model, group)], left_by)


def _of_machine(machine: Any, group: Sequence[Call]) -> Specification:
    for call in group:
        machine.operation(call)

    def step(state: Any, call: Call) -> Any:
        operation = machine.operation(call)
        if operation is None:
            return state
        following = machine.choices(state, operation)
        return following[0] if following else IMPOSSIBLE

    needed = [call for call in group if call.type == OK]
    return Specification(step, machine.initial, needed, lambda call: IMPOSSIBLE)

"""Linearizability of a workload whose keys are independent (P-compositionality).

Source: Herlihy and Wing, 1990; Horn and Kroening, 2015 (a history is linearizable iff the
history of each key is); jepsen.independent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import thread_time
from typing import Any

import msgspec

from kraftwreck.checkers.calls import Call, by_key
from kraftwreck.checkers.linearizability.decide import Outcome
from kraftwreck.checkers.linearizability.decide import check as search
from kraftwreck.checkers.linearizability.level_walk import time_left
from kraftwreck.checkers.linearizability.models import MODELS, Model, thaw
from kraftwreck.checkers.linearizability.witness import verify
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.histories.operation import OK
from kraftwreck.histories.verdict import Anomaly, CheckerResult, merge_valid

TIME_LIMIT_S = 120.0
"""For all keys of a run together."""

_MODEL_OF_WORKLOAD = {"register": "topic-register"}
_FS = frozenset({"read", "write", "cas", "delete"})
_SHOWN = 12
_LOOKS = frozenset({"read", "get", "dequeue", "fetch", "size"})
_LONG = 200
"""An explanation shortens values from this many characters on."""


class KeyVerdict(msgspec.Struct, kw_only=True):
    """The verdict of one key: JSON text of the key, number of calls, and the outcome."""

    key: str
    count: int
    outcome: Outcome


def check(run: RunData) -> CheckerResult:
    """Check the run's keys against the model of its workload."""
    return merge(model_of(run.test), verdicts_of(run))


def verdicts_of(run: RunData) -> list[KeyVerdict]:
    """Return the verdict of every key of ``run``, computed once.

    Raises as :func:`check_keys` does.
    """
    return run.derived("keys", lambda run: check_keys(model_of(run.test), operations_of(run.calls)))


def model_of(test: dict[str, Any]) -> Model:
    """Return the model of a run: ``model`` of ``test.json``, else its workload's."""
    named = test.get("model") or _MODEL_OF_WORKLOAD.get(str(test.get("workload")))
    return MODELS[str(named or "cas-register")]


def operations_of(calls: Iterable[Call]) -> list[Call]:
    """Return the operations on registers, without the workload's other operations."""
    return [call for call in calls if call.f in _FS]


def check_calls(
    model: Model, calls: Iterable[Call], time_limit_s: float = TIME_LIMIT_S
) -> CheckerResult:
    """Check every key of ``calls``; one anomaly per key that is not linearizable."""
    return merge(model, list(check_keys(model, calls, time_limit_s)))


def check_keys(
    model: Model,
    calls: Iterable[Call],
    time_limit_s: float = TIME_LIMIT_S,
    stop: Callable[[], bool] | None = None,
) -> list[KeyVerdict]:
    """Check every key by itself; a legal order is verified before it counts.

    Raises :class:`~checkers.linearizability.models.ModelError` for operations that the model
    does not know.
    """
    deadline = thread_time() + time_limit_s
    verdicts = []
    for key, group in by_key(calls).items():
        left = time_left(deadline)
        outcome = search(model, group, time_limit_s=left, stop=stop)
        if outcome.valid is True:
            doubt = verify(model, group, outcome.order)
            if doubt is not None:
                raise AssertionError(f"key {key}: the order found proves nothing: {doubt}")
        verdicts.append(KeyVerdict(key=key, count=len(group), outcome=outcome))
    return verdicts


def merge(
    model: Model | str,
    verdicts: list[KeyVerdict],
    *,
    keys: int | None = None,
    operations: int | None = None,
) -> CheckerResult:
    """Merge the verdicts of all keys into one result.

    ``keys`` and ``operations`` are the numbers of all, where ``verdicts`` leaves out keys
    that are clearly valid.
    """
    anomalies = [
        Anomaly(
            type="nonlinearizable",
            explanation=explain(verdict.key, verdict.outcome),
            operations=sorted({i for call in _proof(verdict.outcome) for i in call.indices}),
        )
        for verdict in verdicts
        if verdict.outcome.valid is False
    ]
    undecided = [v for v in verdicts if v.outcome.valid == "unknown"]
    error = None
    keys = len(verdicts) if keys is None else keys
    if not keys:
        error = "the history has no operation that could be checked"
    elif undecided:
        first = undecided[0]
        error = (
            f"{len(undecided)} of {keys} keys undecided; key {first.key}: "
            f"{first.outcome.reason}, a legal order of {len(first.outcome.order)} calls was found"
        )
    stats: dict[str, Any] = {
        "model": model if isinstance(model, str) else model.name,
        "keys": keys,
        "operations": sum(v.count for v in verdicts) if operations is None else operations,
        "configurations": sum(v.outcome.steps for v in verdicts),
        "invalid_keys": [v.key for v in verdicts if v.outcome.valid is False],
        "longest_legal_prefix": {
            v.key: v.outcome.order for v in verdicts if v.outcome.valid is not True
        },
        "windows": {
            v.key: window for v in verdicts if (window := window_of(v.outcome)) is not None
        },
    }
    valid = merge_valid([*(v.outcome.valid for v in verdicts), "unknown" if error else True])
    return CheckerResult(valid=valid, anomalies=anomalies, stats=stats, error=error)


def window_of(outcome: Outcome) -> dict[str, Any] | None:
    """Return the calls that cannot be ordered, to be drawn; None if they are unknown."""
    if outcome.valid is not False or outcome.stuck is None:
        return None
    placed = len(outcome.order) if outcome.placed is None else outcome.placed
    calls = sorted(_proof(outcome), key=lambda call: call.start)
    return {
        "placed": placed,
        "stuck": outcome.stuck.start,
        "states": [_thawed(state) for state in outcome.states],
        "operations": [
            {
                "index": call.start,
                "completion": call.completion if call.completion >= 0 else None,
                "process": call.process,
                "type": call.type,
                "f": call.f,
                "value": call.value if call.f in ("read", "get") else call.argument,
            }
            for call in {call.start: call for call in calls}.values()
        ],
    }


def _thawed(state: Any) -> Any:
    """Return a state for output; states of machines are tuples and sets."""
    if isinstance(state, tuple) and (not state or state[0] not in ("bool", "list", "map")):
        return [_thawed(item) for item in state]
    if isinstance(state, frozenset):
        return [_thawed(item) for item in sorted(state, key=repr)]
    return thaw(state)


def _proof(outcome: Outcome) -> list[Call]:
    """Return the calls to show: the smallest part without an order, else the window."""
    stuck = [] if outcome.stuck is None else [outcome.stuck]
    if outcome.core:
        return [*outcome.core, *outcome.helpers, *stuck]
    return [*outcome.window, *stuck]


def explain(key: str, outcome: Outcome) -> str:
    """Explain in words why no order explains the history of ``key``."""
    stuck = outcome.stuck
    where = "" if key == "null" else f"Key {key}: "
    if outcome.why is not None:
        return f"{where}{outcome.why}"
    if stuck is None:
        return f"{where}no order explains its history."
    what = f"{describe(stuck)} cannot be explained"
    if not outcome.states:
        return f"{where}{what}: no call ever wrote the value it needs."
    others = [call for call in outcome.window if call.start != stuck.start]
    states = ", ".join(
        msgspec.json.encode(_thawed(s), enc_hook=list).decode() for s in outcome.states[:_SHOWN]
    )
    more = ", …" if len(outcome.states) > _SHOWN else ""
    text = (
        f"{where}{what}: in every legal order of the {len(outcome.order)} calls placed before it "
        f"the value may only be {states}{more}"
    )
    if others:
        names = "; ".join(describe(call) for call in others[:_SHOWN])
        text = f"{text}, and no order of the calls open at that moment ({names}) explains it."
    else:
        text = f"{text}, and no other call was open at that moment."
    return f"{text} {_stretch(outcome)}".rstrip()


def _stretch(outcome: Outcome) -> str:
    """Name the smallest set of calls without an order."""
    if not outcome.core:
        return ""
    before = "From the initial value" if outcome.whole else "Whatever the value was before"
    names = "; ".join(describe(call) for call in outcome.core[:_SHOWN])
    more = "; …" if len(outcome.core) > _SHOWN else ""
    helpers = "; ".join(describe(call) for call in outcome.helpers[:_SHOWN])
    others = ""
    if helpers:
        rest = "; …" if len(outcome.helpers) > _SHOWN else ""
        others = f", with or without {helpers}{rest}"
    elif outcome.others:
        others = f", whichever of the {outcome.others} other calls before them happened"
    return f"{before}, no order holds these: {names}{more}{others}."


def describe(call: Call) -> str:
    """Name a call so that a reader finds it in the history."""
    if call.f in _LOOKS and call.argument is None:
        body = f"{call.f} → {brief(call.value)}" if call.type == OK else call.f
    else:
        body = f"{call.f} {brief(call.argument)}"
    return f"{body} (process {call.process}, operation {'–'.join(map(str, call.indices))})"


def brief(value: Any) -> str:
    """Return a value as JSON text, shortened in the middle if it is long."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _LONG else f"{text[: _LONG // 2]} … {text[-_LONG // 4 :]}"

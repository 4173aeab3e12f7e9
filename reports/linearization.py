"""The longest legal orders of a history that is not linearizable, and why each ends.

The picture follows Porcupine's: for every operation near the contradiction, the longest legal
order that contains it. A checker reports one such order, and the operations that were open where
it got stuck. This module finds the others: it keeps the order up to its last operations and tries
all continuations from there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kraftwreck.checkers.calls import Call, HistoryShapeError, by_key, pair
from kraftwreck.checkers.linearizability.models import thaw
from kraftwreck.histories.operation import FAIL, OK, Op
from kraftwreck.histories.verdict import Anomaly, CheckerResult
from kraftwreck.reports.specification import IMPOSSIBLE, Specification, Step, specification

TAIL = 6
"""The number of operations at the end of the known order that are drawn and reordered."""
MAX_CALLS, MAX_DRAWN = 18, 24
MAX_ORDERS = 8
MAX_WINDOWS = 20
"""At most this many keys of a checker get a picture."""
MAX_STEPS = 20_000


@dataclass
class LegalOrder:
    """One longest legal order: ``calls`` by their ``start``, the state after each (as text, empty
    if unknown), and why none of the remaining calls can come next."""

    calls: list[int]
    states: list[str]
    blocked: list[tuple[int, str]] = field(default_factory=list)


@dataclass
class Window:
    """The calls around a contradiction, by invocation. ``stuck`` is the ``start`` of the call that
    fits nowhere. ``placed`` counts the calls before every order; ``earlier`` are those of them
    that are drawn."""

    key: str
    calls: list[Call]
    orders: list[LegalOrder]
    stuck: int
    placed: int
    before: str
    earlier: frozenset[int] = frozenset()
    origin: str = ""
    """The write of the value that the stuck read returned, as text."""


def windows_of(
    result: CheckerResult, ops: Sequence[Op] | Callable[[], Sequence[Op]]
) -> dict[int, Window]:
    """Return the window of each anomaly of ``result`` that has one, by the anomaly's position.

    ``ops`` is the run's history, or a function that reads it. There are no windows if another
    checker made the result, or if its operations are not in the history.
    """
    told = result.stats.get("windows")
    if not isinstance(told, dict) or not told:
        return {}
    try:
        calls = by_key(pair(ops() if callable(ops) else ops))
    except HistoryShapeError:
        return {}
    prefixes = result.stats.get("longest_legal_prefix")
    prefixes = prefixes if isinstance(prefixes, dict) else {}
    found: dict[int, Window] = {}
    for key, window in list(told.items())[:MAX_WINDOWS]:
        group = calls.get(key) or [c for g in calls.values() for c in g]
        try:
            position = _anomaly_of(result.anomalies, window)
            if position is None or position in found:
                continue
            spec = specification(result.stats, group)
            made = _window(spec, key, group, window, prefixes.get(key) or [])
        except (AttributeError, KeyError, TypeError, ValueError):
            continue  # statistics of another checker
        if made is not None:
            found[position] = made
    return found


def _anomaly_of(anomalies: Sequence[Anomaly], window: Mapping[str, Any]) -> int | None:
    indices = {operation["index"] for operation in window.get("operations", ())}
    for position, anomaly in enumerate(anomalies):
        if indices and indices <= set(anomaly.operations):
            return position
    return None


def _window(
    spec: Specification | None,
    key: str,
    group: Sequence[Call],
    told: Mapping[str, Any],
    prefix: Sequence[int],
) -> Window | None:
    known = {call.start: call for call in group}
    named = [o["index"] for o in told["operations"] if o["index"] in known]
    order = [start for start in prefix if start in known]
    stuck = told.get("stuck")
    if stuck not in known or len(order) != len(prefix):
        return None
    cut = max(len(order) - TAIL, 0)
    whole = told.get("placed", len(order)) == len(order)
    state = IMPOSSIBLE if spec is None else spec.before([known[s] for s in order[:cut]], whole)
    step = None if spec is None or state is IMPOSSIBLE else spec.step
    tail, end = order[cut:], known[stuck].end
    fixed = set(order[:cut])
    if not whole:  # only the end of the order is known
        fixed = {c.start for c in group if c.type == OK and c.end < end and c.start not in tail}
    shown = dict.fromkeys([*tail, stuck, *named])
    if len(shown) > MAX_DRAWN:  # too many to try all orders, or to show
        step, shown = None, dict.fromkeys(list(shown)[:MAX_DRAWN])
    if spec is not None and step is not None:
        for call in reversed(spec.needed):
            if len(shown) < MAX_CALLS and call.start not in fixed and call.start < end:
                shown.setdefault(call.start)
    calls = sorted((known[start] for start in shown), key=lambda call: call.start)
    if step is None:
        orders = [LegalOrder(tail, [""] * len(tail))] if order else []
        before = ""
    else:
        orders = _orders(step, state, [c for c in calls if c.start not in fixed], tail)
        if any(not order.blocked for order in orders):
            orders = []  # the contradicting call is not drawn
        before = _text(state)
    return Window(
        key=key,
        calls=calls,
        orders=orders,
        stuck=int(stuck),
        placed=int(told.get("placed", len(order))) - len(tail),
        before=before,
        earlier=frozenset(fixed & shown.keys()),
        origin=_origin(known[stuck], group, [known[start] for start in order]),
    )


def _origin(stuck: Call, group: Sequence[Call], order: Sequence[Call]) -> str:
    """Describe the write of the value that the ``stuck`` read returned, and the next write."""
    if stuck.f != "read" or stuck.type != OK or stuck.value is None:
        return ""

    def written(call: Call) -> Any:
        if call.type == FAIL or call.f not in ("write", "cas"):
            return IMPOSSIBLE
        pair_of = call.argument if isinstance(call.argument, list) else [call.argument]
        return pair_of[-1] if pair_of else IMPOSSIBLE

    value = _short(stuck.value)
    writers = [call for call in group if written(call) == stuck.value]
    if not writers:
        return f"No client wrote {value}."
    writer = writers[-1]
    text = f"{value} was written by operation {writer.start}"
    later = order[order.index(writer) + 1 :] if writer in order else []
    for call in later:
        if call.f in ("write", "cas", "delete"):
            return f"{text} and overwritten by {name(call)}."
    return f"{text}."


def _orders(
    step: Step, initial: Any, calls: Sequence[Call], told: Sequence[int]
) -> list[LegalOrder]:
    """Return legal orders, the longest first.

    For each call near the contradiction there is a longest order that contains it, at most
    :data:`MAX_ORDERS` in all. Of equally long orders the checker's own, ``told``, comes first.
    """
    possible = [call for call in calls if call.type != FAIL]
    best: dict[int, tuple[int, ...]] = {}
    seen: set[tuple[int, Any]] = set()
    todo: list[tuple[int, Any, tuple[int, ...]]] = [(0, initial, ())]
    while todo and len(seen) < MAX_STEPS:
        mask, state, order = todo.pop()
        if (mask, state) in seen:
            continue
        seen.add((mask, state))
        for start in order:
            if len(order) > len(best.get(start, ())):
                best[start] = order
        for i, call in enumerate(possible):
            if not mask >> i & 1 and _may_be_next(call, mask, possible):
                result = step(state, call)
                if result is not IMPOSSIBLE:
                    todo.append((mask | 1 << i, result, (*order, call.start)))
    own = tuple(told)
    by_calls: dict[frozenset[int], tuple[int, ...]] = {}
    for order in sorted({own, *best.values()} - {()}, key=lambda o: (-len(o), o != own, o)):
        by_calls.setdefault(frozenset(order), order)
    chosen = list(by_calls.values())[:MAX_ORDERS]
    return [_explained(step, initial, possible, order) for order in chosen]


def _may_be_next(call: Call, mask: int, calls: Sequence[Call]) -> bool:
    """Return whether the order already contains every call that ended before ``call`` began."""
    return all(mask >> i & 1 or other.end > call.start for i, other in enumerate(calls))


def _explained(step: Step, initial: Any, calls: Sequence[Call], order: Sequence[int]) -> LegalOrder:
    known = {call.start: call for call in calls}
    state, states, mask = initial, [], 0
    for start in order:
        state = step(state, known[start])
        states.append("" if state is IMPOSSIBLE else _text(state))
    for i, call in enumerate(calls):
        mask |= (call.start in order) << i
    blocked = []
    for i, call in enumerate(calls):
        if mask >> i & 1 or call.type != OK:
            continue
        first = [o for j, o in enumerate(calls) if not mask >> j & 1 and o.end < call.start]
        if first:
            why = f"began after {name(first[0])} had ended, which is not in this order yet"
        elif step(state, call) is IMPOSSIBLE:
            why = f"does not fit: the value is {_text(state)} here"
        else:
            continue
        blocked.append((call.start, why))
    return LegalOrder(list(order), states, blocked)


def _text(state: Any) -> str:
    """Return a state as readable text."""

    def plain(value: Any) -> Any:
        if isinstance(value, tuple) and (not value or value[0] not in ("bool", "list", "map")):
            return [plain(item) for item in value]
        if isinstance(value, frozenset):
            return [plain(item) for item in sorted(value, key=repr)]
        return thaw(value)

    text = msgspec.json.encode(plain(state), enc_hook=repr).decode()
    return text if len(text) <= 60 else text[:59] + "…"


def name(call: Call) -> str:
    """Name a call as the picture does: its text and its index."""
    return f"{label(call)} (operation {call.start})"


def label(call: Call) -> str:
    """Describe the function, argument and result of a call."""
    argument = "" if call.argument is None else f" {_short(call.argument)}"
    if call.type == OK and call.value is not None and call.value != call.argument:
        return f"{call.f}{argument} → {_short(call.value)}"
    if call.type == OK and call.value is None and call.argument is None:
        return f"{call.f} → null" if call.f == "read" else call.f
    return f"{call.f}{argument}"


def _short(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 40 else text[:39] + "…"

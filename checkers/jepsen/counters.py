"""jepsen.checker ``counter``: every read lies between what must and what may have been added.

Source: jepsen.checker (``counter``). Failed adds did not happen; an ``info`` add may count or
not, for ever. Unlike in Jepsen, adds may be negative: certain ones lower the upper bound,
possible ones the lower bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kraftwreck.checkers.jepsen.judgement import Judgement, Options, pairs
from kraftwreck.histories.events import Event
from kraftwreck.histories.verdict import Anomaly


def check(events: Iterable[Event], options: Options) -> Judgement:
    """Bound every completed read."""
    history = list(events)
    partner = pairs(history)
    sure_up = sure_down = may_up = may_down = 0
    begun: dict[int, tuple[int, int]] = {}
    reads: list[list[Any]] = []
    errors: list[list[Any]] = []
    anomalies = []
    for position, event in enumerate(history):
        if event.f == "add" and event.type in ("invoke", "ok"):
            amount = _number(event)
            if event.type == "ok":
                sure_up += max(amount, 0)
                sure_down += min(amount, 0)
                if position not in partner:
                    may_up += max(amount, 0)
                    may_down += min(amount, 0)
                continue
            completion = partner.get(position)
            if completion is None or completion.type != "fail":
                may_up += max(amount, 0)
                may_down += min(amount, 0)
        elif event.f == "read":
            if event.type == "invoke":
                completion = partner.get(position)
                if completion is not None:
                    begun[id(completion)] = (sure_up, sure_down)
            elif event.type == "ok":
                up, down = begun.pop(id(event), (sure_up, sure_down))
                low, value, high = up + may_down, _number(event), may_up + down
                reads.append([low, value, high])
                if not low <= value <= high:
                    errors.append([low, value, high])
                    text = (
                        f"A read returned {value}, but by then the counter was "
                        f"at least {low} and at most {high}."
                    )
                    anomalies.append(
                        Anomaly(type="out-of-bounds", explanation=text, operations=[event.index])
                    )
    result = {"valid?": not errors, "reads": reads, "errors": errors}
    return Judgement(result=result, anomalies=anomalies)


def _number(event: Event) -> int:
    if not isinstance(event.value, int) or isinstance(event.value, bool):
        raise event.refuse("must be a whole number")
    return event.value

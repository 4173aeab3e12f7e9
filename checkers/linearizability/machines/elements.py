"""Histories by element, where the elements of a machine are independent.

An unordered queue that was never seen empty, and a set that was never read as a whole, are
linearizable iff the history of every element is (Horn and Kroening, 2015).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kraftwreck.checkers.calls import Call
from kraftwreck.checkers.linearizability.models import freeze
from kraftwreck.histories.operation import FAIL, OK


def split(name: str, calls: Sequence[Call]) -> list[list[Call]]:
    """Split a history by element, or leave it whole."""
    possible = [call for call in calls if call.type != FAIL]
    whole = [possible]
    groups: dict[Any, list[Call]] = {}
    for call in possible:
        if name == "unordered-queue":
            if call.f == "dequeue" and call.type != OK:
                continue
            element = call.argument if call.f == "enqueue" else call.value
            if call.f == "dequeue" and element is None:
                return whole
        elif name == "linearizable-set":
            if call.f not in ("add", "remove", "contains"):
                return whole
            element = call.value[0] if isinstance(call.value, list) else call.argument
        else:
            return whole
        groups.setdefault(freeze(element), []).append(call)
    return list(groups.values())


def interleaved(calls: Sequence[Call], parts: list[list[Call]], order: list[int]) -> list[int]:
    """Merge legal orders of independent elements into one.

    Every operation gets the earliest moment that its own order allows: not before it began, nor
    before those that come first. That moment lies before its end.
    """
    started = {call.start for call in calls}
    moments = []
    at = 0
    for part in parts:
        mine = {call.start for call in part}
        latest = -1
        place = 0
        while at < len(order) and order[at] in mine:
            latest = max(latest, order[at])
            moments.append((latest, place, order[at]))
            at += 1
            place += 1
    assert {start for *_, start in moments} <= started
    return [start for *_, start in sorted(moments)]

"""The result type of the checkers in this package, and helpers to describe elements."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from kraftwreck.checkers.linearizability.models import freeze, thaw
from kraftwreck.histories.events import Event
from kraftwreck.histories.verdict import Anomaly, Validity

Options = Mapping[str, Any]
SHOWN = 16
"""How many elements an explanation names."""


class Judgement(msgspec.Struct, kw_only=True):
    """``result`` is Jepsen's result map, ``valid?`` among its names."""

    result: dict[str, Any]
    anomalies: list[Anomaly] = []
    error: str | None = None

    @property
    def valid(self) -> Validity:
        """The verdict in the map."""
        verdict: Validity = self.result["valid?"]
        return verdict


def unknown(error: str, **result: Any) -> Judgement:
    """Return an unknown verdict with its reason."""
    return Judgement(result={"valid?": "unknown", **result, "error": error}, error=error)


def members(event: Event) -> list[Hashable]:
    """Return the elements of a read, frozen. Raises HistoryError when it is not a list."""
    if not isinstance(event.value, list | tuple):
        raise event.refuse("must be a list of elements")
    return [freeze(item) for item in event.value]


def name(element: Hashable) -> str:
    """Return an element as JSON text."""
    return msgspec.json.encode(thaw(element), enc_hook=str).decode()


def some(elements: Iterable[Hashable]) -> str:
    """Name the first elements of a collection for an explanation."""
    listed = in_order(elements)
    more = f", … ({len(listed)} in all)" if len(listed) > SHOWN else ""
    return ", ".join(map(name, listed[:SHOWN])) + more


def in_order(elements: Iterable[Hashable]) -> list[Any]:
    """Sort elements of any kinds: numbers first, then by their text."""

    def rank(element: Any) -> tuple[int, Any, str]:
        if isinstance(element, int | float) and not isinstance(element, bool):
            return (0, element, "")
        return (1, 0, element if isinstance(element, str) else name(element))

    return sorted(elements, key=rank)


def plain_list(elements: Iterable[Hashable]) -> list[Any]:
    """Return elements sorted and as the history wrote them."""
    return [thaw(element) for element in in_order(elements)]


def interval_text(elements: Iterable[Hashable]) -> str:
    """Return a set as Jepsen prints it: whole numbers as runs, ``#{1..3 7}``."""
    ordered = in_order(elements)
    if not all(isinstance(e, int) and not isinstance(e, bool) for e in ordered):
        return "#{" + " ".join(map(name, ordered)) + "}"
    runs: list[list[int]] = []
    for element in ordered:
        if runs and element == runs[-1][1] + 1:
            runs[-1][1] = element
        else:
            runs.append([element, element])
    parts = (str(low) if low == high else f"{low}..{high}" for low, high in runs)
    return "#{" + " ".join(parts) + "}"


def counted(counts: Mapping[Hashable, int]) -> dict[str, int]:
    """Return a multiset as a JSON map of element texts to multiplicities."""
    return {
        element if isinstance(element, str) else name(element): counts[element]
        for element in in_order(counts)
    }


def quantiles(values: Sequence[int]) -> dict[str, int]:
    """Return Jepsen's points of a distribution: 0, 0.5, 0.95, 0.99 and 1."""
    ordered = sorted(values)
    last = len(ordered) - 1
    return {
        label: ordered[min(last, math.floor(len(ordered) * point))]
        for label, point in (("0", 0.0), ("0.5", 0.5), ("0.95", 0.95), ("0.99", 0.99), ("1", 1.0))
    }


def pairs(events: Iterable[Event]) -> dict[int, Event]:
    """Return the partner of each paired event by position: completion or invocation.

    An invocation belongs to the next completion of its process. An event without a partner is
    absent: a history may consist of completions alone.
    """
    partner: dict[int, Event] = {}
    open_events: dict[int | None, list[tuple[int, Event]]] = {}
    for position, event in enumerate(events):
        if event.type == "invoke":
            open_events.setdefault(event.process, []).append((position, event))
            continue
        waiting = open_events.get(event.process)
        if not waiting:
            continue
        # With one client per process there is one; without processes the oldest fits.
        at = next((i for i, (_, other) in enumerate(waiting) if other.f == event.f), None)
        if at is not None:
            start, invocation = waiting.pop(at)
            partner[position] = invocation
            partner[start] = event
    return partner

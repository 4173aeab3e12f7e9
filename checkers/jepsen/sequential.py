"""jepsen.tests.cockroach ``sequential``: the writes of one client are seen in their order.

A client writes the parts of a key one after another. A read asks for them in reverse order, so
once it has seen one it must see all that were written before. A read is ``[k, [part, …]]`` with
null for a missing part. Option ``key-count``: how many parts each key has, named
``<k>_<number>``, to count the complete reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kraftwreck.checkers.jepsen.judgement import Judgement, Options
from kraftwreck.histories.events import Event
from kraftwreck.histories.verdict import Anomaly


def check(events: Iterable[Event], options: Options) -> Judgement:
    """Look for a missing part after one that was seen."""
    count = options.get("key-count")
    complete = partial = none = 0
    bad: list[Any] = []
    anomalies = []
    for event in events:
        if event.f != "read" or event.type != "ok":
            continue
        key, parts = _parts(event)
        partial += any(part is None for part in parts)
        none += all(part is None for part in parts)
        if count is None:
            complete += all(part is not None for part in parts)
        else:
            complete += parts[::-1] == [f"{key}_{number}" for number in range(count)]
        seen = [number for number, part in enumerate(parts) if part is not None]
        if seen and any(part is None for part in parts[seen[0] :]):
            bad.append([key, parts])
            text = f"The read {event.index} of {key!r} sees a part, but not all written before it."
            anomalies.append(
                Anomaly(type="out-of-order", explanation=text, operations=[event.index])
            )
    result = {
        "valid?": not bad,
        "all-count": complete,
        "some-count": partial,
        "none-count": none,
        "bad-count": len(bad),
        "bad": bad,
    }
    return Judgement(result=result, anomalies=anomalies)


def _parts(event: Event) -> tuple[Any, list[Any]]:
    value = event.value
    if event.key is not None and isinstance(value, list):
        return event.key, value
    if isinstance(value, list) and len(value) == 2 and isinstance(value[1], list):
        return value[0], value[1]
    raise event.refuse("must be [key, [part, …]]")

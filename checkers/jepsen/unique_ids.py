"""jepsen.checker ``unique-ids``: no id is generated twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Any

from kraftwreck.checkers.jepsen.judgement import Judgement, Options, counted, in_order, some
from kraftwreck.checkers.linearizability.models import freeze, thaw
from kraftwreck.histories.events import Event
from kraftwreck.histories.verdict import Anomaly

_LISTED = 48


def check(events: Iterable[Event], options: Options) -> Judgement:
    """Count the ids that ``generate`` returned."""
    attempted = 0
    ids: Counter[Hashable] = Counter()
    for event in events:
        if event.f == "generate":
            attempted += event.type == "invoke"
            if event.type == "ok":
                ids[freeze(event.value)] += 1
    duplicated = {element: count for element, count in ids.items() if count > 1}
    most = sorted(in_order(duplicated), key=lambda e: duplicated[e], reverse=True)[:_LISTED]
    ordered = in_order(ids)
    result: dict[str, Any] = {
        "valid?": not duplicated,
        "attempted-count": attempted,
        "acknowledged-count": ids.total(),
        "duplicated-count": len(duplicated),
        "duplicated": counted({element: duplicated[element] for element in most}),
        "range": [thaw(ordered[0]), thaw(ordered[-1])] if ordered else [None, None],
    }
    anomalies = []
    if duplicated:
        text = f"Generated more than once: {some(duplicated)}."
        anomalies.append(Anomaly(type="duplicated", explanation=text))
    return Judgement(result=result, anomalies=anomalies)

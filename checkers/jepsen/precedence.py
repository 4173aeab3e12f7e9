"""jepsen.tests.causal-reverse: a read that sees a write also sees all earlier ones.

Earlier writes are those that ended before that write began. Also known as ``comments``. Every value
is written once; a read returns the values it saw.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from kraftwreck.checkers.jepsen.judgement import Judgement, Options, members, plain_list, some
from kraftwreck.checkers.linearizability.models import freeze
from kraftwreck.histories.events import Event
from kraftwreck.histories.verdict import Anomaly


def check(events: Iterable[Event], options: Options) -> Judgement:
    """Compare every completed read with the writes that ended before those it saw began.

    The writes known before another began are a prefix of the completed ones. So the longest
    prefix among the seen ones is enough.
    """
    history = list(events)
    completed: list[Hashable] = []
    done: set[Hashable] = set()
    before: dict[Hashable, int] = {}
    for event in history:
        if event.f == "write":
            value = freeze(event.value)
            if event.type == "invoke":
                before[value] = len(completed)
            elif event.type == "ok" and value not in done:
                done.add(value)
                completed.append(value)
    errors: list[dict[str, Any]] = []
    anomalies = []
    for event in history:
        if event.f != "read" or event.type != "ok":
            continue
        seen = set(members(event))
        expected = max((before.get(value, 0) for value in seen), default=0)
        if len(seen) >= expected and seen.issuperset(completed[:expected]):
            continue
        missing = [value for value in completed[:expected] if value not in seen]
        errors.append(
            {
                "op-index": event.index,
                "missing": plain_list(missing),
                "expected-count": expected,
            }
        )
        text = (
            f"The read {event.index} lacks {some(missing)}, "
            "which ended before a write that it sees began."
        )
        anomalies.append(Anomaly(type="missing", explanation=text, operations=[event.index]))
    return Judgement(result={"valid?": not errors, "errors": errors}, anomalies=anomalies)

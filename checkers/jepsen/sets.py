"""jepsen.checker ``set``: all added elements must be in the last read.

Source: jepsen.checker (``set``). Adds that ended ``info`` may be in it. Failed adds are counted as
attempts, as in Jepsen, so they may be in it too.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from kraftwreck.checkers.jepsen.judgement import (
    Judgement,
    Options,
    interval_text,
    members,
    some,
    unknown,
)
from kraftwreck.checkers.linearizability.models import freeze
from kraftwreck.histories.events import Event
from kraftwreck.histories.verdict import Anomaly


def check(events: Iterable[Event], options: Options) -> Judgement:
    """Compare the last completed read with the adds."""
    attempts: set[Hashable] = set()
    adds: set[Hashable] = set()
    last: Event | None = None
    for event in events:
        if event.f == "add":
            if event.type == "invoke":
                attempts.add(freeze(event.value))
            elif event.type == "ok":
                adds.add(freeze(event.value))
        elif event.f == "read" and event.type == "ok":
            last = event
    if last is None or last.value is None:
        return unknown("Set was never read")
    final = set(members(last))
    ok = final & attempts
    unexpected = final - attempts
    lost = adds - final
    recovered = ok - adds
    result: dict[str, Any] = {
        "valid?": not lost and not unexpected,
        "attempt-count": len(attempts),
        "acknowledged-count": len(adds),
        "ok-count": len(ok),
        "lost-count": len(lost),
        "recovered-count": len(recovered),
        "unexpected-count": len(unexpected),
        "ok": interval_text(ok),
        "lost": interval_text(lost),
        "unexpected": interval_text(unexpected),
        "recovered": interval_text(recovered),
    }
    anomalies = []
    if lost:
        anomalies.append(
            Anomaly(
                type="lost",
                explanation=f"Certainly added, but not in the last read: {some(lost)}.",
                operations=[last.index],
            )
        )
    if unexpected:
        anomalies.append(
            Anomaly(
                type="unexpected",
                explanation=f"In the last read, but never added: {some(unexpected)}.",
                operations=[last.index],
            )
        )
    return Judgement(result=result, anomalies=anomalies)

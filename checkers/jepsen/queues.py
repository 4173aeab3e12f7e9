"""jepsen.checker ``queue`` and ``total-queue``.

Source: jepsen.checker. ``queue``: every dequeued element was enqueued before; every enqueue
may have succeeded. ``total-queue``: in a history that drains the queue, every certainly
enqueued element is dequeued.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Iterable
from typing import Any

from kraftwreck.checkers.jepsen.judgement import Judgement, Options, counted, members, name, some
from kraftwreck.checkers.linearizability.models import freeze, thaw
from kraftwreck.histories.events import Event
from kraftwreck.histories.verdict import Anomaly, Validity


def check_queue(events: Iterable[Event], options: Options) -> Judgement:
    """Step an unordered queue (or with ``order: fifo`` an ordered one) through the history.

    A ``drain`` dequeues its elements, one after another.
    """
    fifo = options.get("order") == "fifo"
    pending: Counter[Hashable] = Counter()
    line: deque[Hashable] = deque()
    for event in events:
        if event.f == "enqueue" and event.type == "invoke":
            if fifo:
                line.append(freeze(event.value))
            else:
                pending[freeze(event.value)] += 1
        if event.type != "ok" or event.f not in ("dequeue", "drain"):
            continue
        for element in [freeze(event.value)] if event.f == "dequeue" else members(event):
            if fifo:
                if line and line[0] == element:
                    line.popleft()
                    continue
            elif pending[element] > 0:
                pending[element] -= 1
                continue
            error = f"can't dequeue {name(element)}"
            why = "it is not at the head" if fifo and line else "it is not in the queue"
            return Judgement(
                result={"valid?": False, "error": error},
                anomalies=[
                    Anomaly(
                        type="unexpected",
                        explanation=f"Element {name(element)} was dequeued, but {why}.",
                        operations=[event.index],
                    )
                ],
            )
    left: Any = [thaw(e) for e in line] if fifo else counted(+pending)
    return Judgement(result={"valid?": True, "final-queue": {"pending": left}})


def check_total_queue(events: Iterable[Event], options: Options) -> Judgement:
    """Compare the multisets of enqueues and dequeues; a ``drain`` dequeues its elements."""
    attempts: Counter[Hashable] = Counter()
    enqueues: Counter[Hashable] = Counter()
    dequeues: Counter[Hashable] = Counter()
    crashed: Event | None = None
    for event in events:
        if event.f == "enqueue":
            if event.type == "invoke":
                attempts[freeze(event.value)] += 1
            elif event.type == "ok":
                enqueues[freeze(event.value)] += 1
        elif event.f == "dequeue" and event.type == "ok":
            dequeues[freeze(event.value)] += 1
        elif event.f == "drain":
            if event.type == "ok":
                dequeues.update(members(event))
            elif event.type == "info":
                crashed = event
    ok = dequeues & attempts
    unexpected = Counter({e: n for e, n in dequeues.items() if e not in attempts})
    duplicated = dequeues - attempts - unexpected
    lost = enqueues - dequeues
    recovered = ok - enqueues
    error = None
    valid: Validity = not lost and not unexpected
    if lost and crashed is not None and not unexpected:
        # A drain without result may have taken them all.
        valid = "unknown"
        error = f"a drain ended info (operation {crashed.index}): it may have taken what is lost"
    result: dict[str, Any] = {
        "valid?": valid,
        "attempt-count": attempts.total(),
        "acknowledged-count": enqueues.total(),
        "ok-count": ok.total(),
        "unexpected-count": unexpected.total(),
        "duplicated-count": duplicated.total(),
        "lost-count": lost.total(),
        "recovered-count": recovered.total(),
        "lost": counted(lost),
        "unexpected": counted(unexpected),
        "duplicated": counted(duplicated),
        "recovered": counted(recovered),
    }
    anomalies = []
    if lost and valid is False:
        text = f"Certainly enqueued, but never dequeued: {some(lost)}."
        anomalies.append(Anomaly(type="lost", explanation=text))
    if unexpected:
        text = f"Dequeued, but no operation tried to enqueue it: {some(unexpected)}."
        anomalies.append(Anomaly(type="unexpected", explanation=text))
    return Judgement(result=result, anomalies=anomalies, error=error)

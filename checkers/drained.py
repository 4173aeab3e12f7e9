"""Every acknowledged element leaves a drained queue. Source: jepsen.checker ``total-queue``.

An indeterminate dequeue may have taken one element that no answer shows. So missing elements are
proof of a loss only if there are more of them than indeterminate dequeues. Without a complete drain
at the end the verdict is unknown.
"""

from __future__ import annotations

from kraftwreck.checkers.calls import Call
from kraftwreck.checkers.linearizability.models import freeze
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.histories.operation import FAIL, OK
from kraftwreck.histories.verdict import Anomaly, CheckerResult

_SHOWN = 12


def check(run: RunData) -> CheckerResult:
    """Compare what was enqueued with what came out."""
    drains = [call for call in run.calls if call.f == "drain"]
    sure = [call for call in run.calls if call.f == "enqueue" and call.type == OK]
    last = max((call.end for call in sure), default=-1)
    if not any(call.type == OK and call.start > last for call in drains):
        return CheckerResult(valid="unknown", error="no drain succeeded after the last enqueue")
    out = {freeze(element) for call in run.calls for element in _taken(call)}
    lost = [call for call in sure if freeze(call.value) not in out]
    unsure = sum(call.f == "dequeue" and call.type not in (OK, FAIL) for call in run.calls)
    stats = {"missing": len(lost), "indeterminate_dequeues": unsure}
    if any(call.type not in (OK, FAIL) for call in drains):
        error = "a drain is indeterminate, and may have taken the missing elements"
        return CheckerResult(valid="unknown" if lost else True, stats=stats, error=error)
    if len(lost) <= unsure:
        return CheckerResult(valid=True, stats=stats)
    named = ", ".join(str(call.value) for call in lost[:_SHOWN])
    more = f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
    text = (
        f"{len(lost)} acknowledged elements never left the queue: {named}{more}. Indeterminate"
        f" dequeues may have taken at most {unsure} of them."
    )
    indices = [index for call in lost[:_SHOWN] for index in call.indices]
    anomaly = Anomaly(type="lost", explanation=text, operations=indices)
    return CheckerResult(valid=False, anomalies=[anomaly], stats=stats)


def _taken(call: Call) -> list[object]:
    if call.type != OK:
        return []
    if call.f == "dequeue":
        return [call.value]
    return list(call.value) if call.f == "drain" else []

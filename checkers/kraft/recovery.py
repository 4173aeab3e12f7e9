"""After the last fault the system recovers: a leader, and operations that succeed.

Source: KRAFT section 7.2, liveness L1 and L2; etcd's robustness tests and TigerBeetle's
VOPR end a run in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence

from kraftwreck.checkers.calls import Call
from kraftwreck.checkers.findings import Findings
from kraftwreck.checkers.kraft.limits import RECOVERED, RECOVERED_NS
from kraftwreck.checkers.kraft.recorded.trace import quorum_model
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.checkers.registry import compares_nodes
from kraftwreck.histories.fault import FaultEvent
from kraftwreck.histories.operation import OK
from kraftwreck.histories.verdict import CheckerResult


@compares_nodes()
def check(run: RunData) -> CheckerResult:
    """Judge whether an operation succeeded within :data:`RECOVERED_NS` after the last fault, and
    whether the harness saw the healed cluster ready.

    Time without attempts does not count: final operations may wait until all nodes have
    caught up, which slow disks delay while the cluster serves. Unknown if a fault never
    ended, or if operations were not tried for that long after the last one.
    """
    findings = Findings(run.test)
    if unrecovered := run.test.get("unrecovered"):
        findings.add(
            "no-recovery", f"The healed cluster was not ready: {unrecovered}.", limit=RECOVERED
        )
    healed, open_faults = last_heal(run.faults)
    if open_faults:
        named = ", ".join(f"{f.kind} {f.shape} ({f.id})" for f in open_faults)
        return findings.judged(f"never ended: {named}", {})
    tried = [call for call in run.calls if call.invoked >= healed]
    if not tried:
        return findings.judged("no operation was tried after the last fault ended", {})
    begun = min(call.invoked for call in tried)
    succeeded = [call for call in tried if _proves_service(call)]
    first = min((c.completed for c in succeeded if c.completed is not None), default=None)
    stats = {
        "last_fault_ended_s": round(healed / 1e9, 3),
        "operations_after": len(tried),
        "succeeded_after": len(succeeded),
        "first_success_after_s": None if first is None else round((first - healed) / 1e9, 3),
    }
    if first is not None and first - begun <= RECOVERED_NS:
        return findings.judged(None, stats)
    until = max(max(c.invoked, c.completed or 0) for c in tried)
    watched = (until - begun) / 1e9
    if until - begun < RECOVERED_NS:
        return findings.judged(
            f"nothing succeeded after the last fault, but only {watched:.1f} s were watched", stats
        )
    leaders = [t.name for t in quorum_model(run).tracks.values() if t.state == "leader"]
    who = f"{', '.join(leaders)} led at the end" if leaders else "there was no leader at the end"
    late = "" if first is None else f"; the first success came after {(first - begun) / 1e9:.1f} s"
    findings.add(
        "no-recovery",
        f"For {RECOVERED_NS / 1e9:.0f} s, none of the operations tried after the last fault ended "
        f"succeeded ({who}{late}).",
        operations=[call.start for call in tried[:10]],
        limit=RECOVERED,
    )
    return findings.judged(None, stats)


def last_heal(faults: Sequence[FaultEvent]) -> tuple[int, list[FaultEvent]]:
    """Return when (ns) the last fault had ended, 0 for none, and the faults that did not."""
    begun: dict[int, FaultEvent] = {}
    healed = 0
    for fault in faults:
        if fault.phase == "start":
            begun[fault.id] = fault
        else:
            begun.pop(fault.id, None)
            healed = max(healed, fault.done)
    return healed, list(begun.values())


def _proves_service(call: Call) -> bool:
    """Whether only a leader with a majority can give this answer."""
    if call.type != OK:
        return False
    return call.f != "leader" or call.value is not None

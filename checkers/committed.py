"""Committed metadata is never lost.

Client view: whatever was acknowledged is in every later complete read and in the final
reads of every node. Node view: no offset below any high watermark ever held two values,
in the traces and on the disks (I8, I9, I10, I11, I14). Either view missing makes the
result ``unknown``: what nobody looked at is not proved.
"""

from __future__ import annotations

from typing import Any

from checkers import topics
from checkers.disk_log import StoredLog, disk_logs
from checkers.epochs import missing_traces
from checkers.findings import Findings
from checkers.run_data import FINAL, RunData
from checkers.trace_pass import TracePass, trace_pass
from histories.verdict import CheckerResult

_KINDS = frozenset({"I8", "I9", "I10", "I11", "I14"})


def check(run: RunData) -> CheckerResult:
    """Judge both views; see the module."""
    facts = trace_pass(run)
    logs = disk_logs(run)
    disk = _check_disks(run, facts, logs)
    client, doubts, numbers = topics.check(run.calls, run.nodes)
    anomalies = client.anomalies + facts.findings.of(_KINDS) + disk.anomalies
    doubts += _missing(run, facts, logs)
    stats: dict[str, Any] = {
        **numbers,
        "committed_batches": len(facts.chain.committed),
        "high_watermark": max((hw for hw, _ in facts.chain.high_watermarks.values()), default=-1),
        "disk_images": len(logs),
        "broken": {
            **{k: n for k, n in facts.findings.counts.items() if k in _KINDS},
            **disk.counts,
            **client.counts,
        },
    }
    return CheckerResult(
        valid=False if anomalies else "unknown" if doubts else True,
        anomalies=anomalies,
        stats=stats,
        error="; ".join(doubts) or None,
    )


def _missing(run: RunData, facts: TracePass, logs: list[StoredLog]) -> list[str]:
    """Say what of the node view is missing."""
    doubts = []
    imaged = {log.image.node for log in logs if log.image.label == FINAL}
    without = [name for name in run.nodes if name not in imaged]
    if without:
        doubts.append(f"no final disk image of {', '.join(without)}")
    doubts += [
        f"the {log.image.label} image of {log.image.node} is damaged ({log.damage})"
        for log in logs
        if log.damage is not None and log.image.label == FINAL
    ]
    traces = missing_traces(run, facts)
    if traces is not None:
        doubts.append(traces)
    elif not facts.chain.committed:
        doubts.append("no high watermark was ever seen")
    return doubts


def _check_disks(run: RunData, facts: TracePass, logs: list[StoredLog]) -> Findings:
    """Compare every disk image with what the traces and the other images say."""
    findings = Findings()
    facts.chain.report_to(findings)
    finals: dict[str, dict[int, int]] = {}
    for log in logs:
        _check_log(log, facts, findings)
        if log.image.label == FINAL:
            finals[log.image.node] = {batch.base: batch.epoch for batch in log.batches}
            _check_quorum_state(log, facts, findings)
    if all(name in finals for name in run.nodes):
        needed = len(finals) // 2 + 1
        for base, entry in facts.chain.committed.items():
            holders = sum(held.get(base) == entry.id[1] for held in finals.values())
            if holders < needed:
                findings.add(
                    "I11",
                    f"The batch at offset {base} of epoch {entry.id[1]} was committed on "
                    f"{entry.where}, but only {holders} of {len(finals)} disks hold it in the end.",
                    [entry.event] if entry.event else [],
                )
    return findings


def _check_log(log: StoredLog, facts: TracePass, findings: Findings) -> None:
    node = log.image.node
    where = f"{node}'s disk ({log.image.label})"
    track = facts.tracks.get(node)
    final_hw = track.max_hw if track is not None and log.image.label == FINAL else -1
    before: tuple[int, int] | None = (-1, -1)
    last_epoch, end = -1, 0
    for batch in log.batches:
        base, epoch = batch.base, batch.epoch
        if base != end and before != (-1, -1):
            findings.add("I8", f"{where}: offset {base} follows offset {end - 1} in the log.")
            before = None
        elif base != end:
            before = None  # A log that does not begin at 0.
        if epoch < last_epoch:
            findings.add("I7", f"{where}: epoch {epoch} follows epoch {last_epoch} in the log.")
        facts.chain.hold(where, 0, base, epoch, batch.last, batch.crc, before)
        known = facts.chain.committed.get(base)
        # Another epoch, even a newer one, may be a tail that nobody committed: its leader may
        # have fallen before anybody fetched it, and the older batch been committed since. But a
        # leader newer than the commit had the committed batch.
        if (
            known is not None
            and known.id[1] != epoch
            and (base < final_hw or epoch > known.at_epoch)
        ):
            findings.add(
                "I10",
                f"{where} holds a batch of epoch {epoch} at offset {base}, where a batch of "
                f"epoch {known.id[1]} was committed on {known.where}.",
                [known.event] if known.event else [],
            )
        before, last_epoch, end = (base, epoch), epoch, batch.last + 1
    if end < final_hw:
        findings.add("I14", f"{where} ends at offset {end}, below its high watermark {final_hw}.")


def _check_quorum_state(log: StoredLog, facts: TracePass, findings: Findings) -> None:
    """I6 and I3: what a node told is not newer than what it wrote down."""
    state, track = log.image.quorum_state, facts.tracks.get(log.image.node)
    if state is None or track is None:
        return
    epoch = state.get("leaderEpoch", state.get("epoch", -1))
    leader = state.get("leaderId", state.get("leader_id", -1))
    voted = state.get("votedId", state.get("voted_id", -1))
    if epoch < track.epoch:
        findings.add(
            "I6",
            f"{track.name} was in epoch {track.epoch}, but its quorum-state holds epoch {epoch}.",
        )
    vote = track.votes.get(epoch)
    if vote is not None and voted != vote[0] and leader < 0:
        findings.add(
            "I3",
            f"{track.name} voted for {vote[0]} in epoch {epoch}, but its quorum-state holds the "
            f"vote {voted}.",
            [vote[1]],
        )

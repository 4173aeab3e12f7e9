"""Retention of snapshots: L11 SnapshotsKeptAsNeeded (KIP-630).

With a tiny retention only the newest snapshot stays, one or two cleanings after it was made. But a
snapshot that a follower is fetching stays until that fetch is done or given up. Otherwise a slow
follower would start over with each new snapshot and never catch up.
"""

from __future__ import annotations

from kraftwreck.checkers.kraft.invariants.evidence import NO_MESSAGES, Evidence
from kraftwreck.checkers.kraft.invariants.report import Report
from kraftwreck.checkers.kraft.limits import (
    CLEAN_INTERVAL_MS,
    FETCH_TIMEOUT_MS,
    MS,
    RETENTION,
    RETENTION_NS,
    SERVED,
)
from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.checkers.recorded.clocks import slowest
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.protocol import errors

TINY = 1
"""A retention in bytes that every log exceeds."""


@rule(
    "L11",
    "SnapshotsKeptAsNeeded",
    "Old snapshots are deleted by the retention rules, and never while a node fetches them.",
    "T1 T4",
    nothing="no snapshot was fetched, and none had to be deleted",
)
def check(evidence: Evidence, report: Report) -> None:
    """Judge L11."""
    if evidence.setting("retention_bytes", 0) == TINY:
        _old(evidence, report)
    if not evidence.captured:
        report.unseen("L11", NO_MESSAGES)
    elif not any(fault.kind == "disk" for fault in evidence.run.faults):
        _fetched(evidence, report)  # A damaged file cannot be served, although it exists.


def _old(evidence: Evidence, report: Report) -> None:
    """Judge whether two snapshots of one process stay for too long."""
    bound = evidence.setting("clean_interval_ms", CLEAN_INTERVAL_MS) + _patience_ms(evidence)
    span = int(bound * MS * slowest(evidence.run.test)) + RETENTION_NS
    made: dict[str, list[TraceEvent]] = {}
    told: set[str] = set()
    fetched = _fetches(evidence)
    for event in evidence.run.events:
        if event.kind in ("start", "clean", "install"):
            made[event.node] = []
            continue
        known = made.get(event.node)
        if known is None or event.node in told or evidence.pauses.get(event.node):
            continue
        if event.kind == "snapshot":
            known.append(event)
            report.held("L11")
        if len(known) < 2:
            continue
        since, now = evidence.moment(known[1]), evidence.moment(event)
        if since is None or now is None or now - since <= span:
            continue
        if not any(now - span <= at <= now for at in fetched.get(event.node, ())):
            told.add(event.node)
            report.broken(
                "L11",
                f"{event.node} keeps the snapshots up to {known[0].detail['end']} and "
                f"{known[1].detail['end']} for {(now - since) / 1e9:.1f} s, although its "
                f"retention is {TINY} byte.",
                [known[0], known[1], event],
                limit=RETENTION,
            )


def _fetches(evidence: Evidence) -> dict[str, list[int]]:
    """Return when (ns) each node served a piece of a snapshot: during a fetch the snapshot and all
    newer ones stay."""
    found: dict[str, list[int]] = {}
    for message in evidence.of("FetchSnapshot") if evidence.captured else ():
        found.setdefault(evidence.name(message.replier), []).append(message.time)
    return found


def _patience_ms(evidence: Evidence, node: int = 0) -> int:
    """Return how long ``node`` may keep a snapshot after the last fetch of it."""
    return evidence.setting("fetch_timeout_ms", FETCH_TIMEOUT_MS, node)


def _fetched(evidence: Evidence, report: Report) -> None:
    """A snapshot that was served a moment ago in the same epoch still exists."""
    served: dict[tuple[int, int, int, int], int] = {}
    for message in evidence.of("FetchSnapshot"):
        request, answer = message.request, message.response
        if not message.is_exchange or answer.error:
            continue
        key = (
            message.replier,
            answer.leader_epoch,
            request.snapshot_end,
            request.snapshot_epoch,
        )
        if answer.partition_error == errors.NONE:
            served[key] = message.sent
            report.held("L11")
        elif answer.partition_error == errors.SNAPSHOT_NOT_FOUND:
            before, span = served.get(key), _patience_ms(evidence, message.replier) * MS // 4
            if before is not None and message.time - before < span:
                report.broken(
                    "L11",
                    f"{evidence.name(message.replier)} has no snapshot ({key[2]}, {key[3]}) for "
                    f"{evidence.name(message.asker)}, although it served it "
                    f"{(message.time - before) / 1e6:.0f} ms before.",
                    limit=SERVED,
                )

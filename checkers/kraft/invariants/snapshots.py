"""Snapshots: I19 SnapshotConsistency, I20 SnapshotValidId, I21 SnapshotAtLogStart, I22
LeaderNeverLoadsSnapshot; also the epochs of C5 and the transactions of C12 in snapshots."""

from __future__ import annotations

from typing import Any

from kraftwreck.checkers.kraft.controller_model.replay import Replay
from kraftwreck.checkers.kraft.invariants.controller import Controller
from kraftwreck.checkers.kraft.invariants.evidence import Evidence
from kraftwreck.checkers.kraft.invariants.report import Report
from kraftwreck.checkers.kraft.recorded.committed_log import Snapshot, voter_set
from kraftwreck.checkers.kraft.recorded.disk_log import disk_logs
from kraftwreck.checkers.kraft.rule import judges, rule
from kraftwreck.nodes.log.batch import BatchError
from kraftwreck.nodes.log.snapshots import (
    SnapshotCorruptError,
    SnapshotHeader,
    parse_snapshot_name,
    read_header,
)
from kraftwreck.nodes.protocol.codec import ProtocolError


@rule(
    "I21",
    "SnapshotAtLogStart",
    "A log that does not begin at 0 has a snapshot that reaches its first offset.",
    "T2",
    live=True,
    nothing="every log begins at offset 0",
)
@judges("I19", "I20", "I22")
def check(evidence: Evidence, report: Report) -> None:
    """Judge the names and the contents of snapshot files."""
    snapshots = [s for s in evidence.log.snapshots if s.id[0] > 0]
    replayed = Controller.of(evidence).replay
    _contents(evidence, report, replayed, snapshots)
    _names(evidence, report, replayed, snapshots)
    _headers(evidence, report, replayed)
    _starts(evidence, report)
    _fetched(evidence, report)


def _contents(
    evidence: Evidence, report: Report, replayed: Replay, snapshots: list[Snapshot]
) -> None:
    """I19: the state of a snapshot is that of the log before its end, on every node."""
    report.held("I19", replayed.compared)
    if snapshots and evidence.log.segments:
        report.unseen("I19", "no log reaches a snapshot")
    for snapshot, section, key, expected, found in replayed.differences:
        what = f"{section} {_plain(key)}"
        report.broken(
            "I19",
            f"{snapshot.where}: snapshot {snapshot.id} says {_plain(found)} of {what}; the log "
            f"before its end gives {_plain(expected)}.",
        )
    for snapshot, why in replayed.unreadable:
        report.broken("I19", f"{snapshot.where}: snapshot {snapshot.id} cannot be read: {why}.")


def _plain(value: Any) -> str:
    return f"{value!r:.200}" if value is not None else "nothing"


def _names(evidence: Evidence, report: Report, replayed: Replay, snapshots: list[Snapshot]) -> None:
    """I20: the name is the end of a committed batch and its epoch; the file is whole; its
    voters are those in force there."""
    ends: dict[int, int] = {0: 0}
    for segment in evidence.log.segments:
        for batch in segment.batches:
            ends[batch.last + 1] = batch.epoch
    reach = [(s.start, s.end) for s in evidence.log.segments if s.batches]
    high_watermark = evidence.high_watermark
    for snapshot in snapshots:
        end, epoch = snapshot.id
        report.held("I20")
        if snapshot.damage is not None:
            report.broken("I20", f"{snapshot.where}: {snapshot.damage}.")
            continue
        if high_watermark >= 0 and end > high_watermark and not evidence.trace.gaps:
            report.broken(
                "I20",
                f"{snapshot.where}: snapshot {snapshot.id} ends above every high watermark, the "
                f"highest being {high_watermark}.",
            )
        if any(start < end <= stop for start, stop in reach) and ends.get(end) != epoch:
            held = f"a batch of epoch {ends[end]} ends there" if end in ends else "no batch ends"
            report.broken(
                "I20",
                f"{snapshot.where}: snapshot {snapshot.id} names offset {end}, where {held} in the "
                "committed log.",
            )
        if snapshot.header is not None and evidence.log.whole:
            _voters(report, replayed, snapshot.id, snapshot.header, snapshot.where)


def _headers(evidence: Evidence, report: Report, replayed: Replay) -> None:
    """I20: the voters in the headers of snapshots that may be deleted by now."""
    capture = evidence.run.capture
    if capture is None or not evidence.log.whole:
        return
    for (end, epoch, first), node in capture.headers.items():
        try:
            header = read_header(first)
        except (SnapshotCorruptError, BatchError, ProtocolError):
            continue  # It was damaged in transfer, so no node installs it.
        if end > 0:
            report.held("I20")
            _voters(report, replayed, (end, epoch), header, f"{evidence.name(node)}'s disk")


def _voters(
    report: Report, replayed: Replay, name: tuple[int, int], header: SnapshotHeader, where: str
) -> None:
    """The header names the voters in force at the end, and kraft.version (KIP-853)."""
    voters = [found for offset, found in replayed.voters if offset < name[0]]
    levels = [level for offset, level in replayed.levels if offset < name[0]]
    if header.kraft_version and not levels and replayed.levels:
        report.broken(
            "I20",
            f"{where}: snapshot {name} has kraft.version {header.kraft_version}, but no record "
            "before its end has it.",
        )
    if not voters or not levels or not levels[-1]:
        return
    wanted, found = voters[-1], voter_set(header.voters)
    if wanted != found:
        report.broken(
            "I20",
            f"{where}: snapshot {name} names the voters {sorted(dict(found))}; in force were "
            f"{sorted(dict(wanted))}.",
        )


def _starts(evidence: Evidence, report: Report) -> None:
    """I21: a snapshot covers the offsets that its log no longer holds."""
    for log in disk_logs(evidence.run):
        if log.start == 0:
            continue
        report.held("I21")
        ids = [parse_snapshot_name(name) for name, _ in log.image.snapshots]
        latest = max((each[0] for each in ids if each is not None), default=-1)
        if latest < log.start:
            report.broken(
                "I21",
                f"{log.image.node}'s disk ({log.image.label}): the log begins at offset "
                f"{log.start}, but no snapshot reaches it (the last ends at {latest}).",
            )


def _fetched(evidence: Evidence, report: Report) -> None:
    """I22: a leader has all committed records, so it never needs a snapshot."""
    for message in evidence.of("FetchSnapshot"):
        if message.request is None:
            continue
        report.held("I22")
        epoch = message.request.current_leader_epoch
        leader = evidence.trace.leaders.get(epoch)
        if leader is not None and leader[0] == message.asker:
            report.broken(
                "I22",
                f"{evidence.name(message.asker)}, leader of epoch {epoch}, fetches snapshot "
                f"({message.request.snapshot_end}, {message.request.snapshot_epoch}).",
                [leader[1]],
            )

"""Voter sets compared with logs (KIP-853): I26 VoterChangeOneAtATime, I31 VotersOfOwnLog, I32
AddedOnceCaughtUp and C17 VoterChangeCommitted.

On each node a voter set is in force from the append of its record until a newer one is appended or
the record is truncated. An operator gets the acknowledgement once the record is committed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from kraftwreck.checkers.kraft.controller_model.exchanges import Commits
from kraftwreck.checkers.kraft.invariants.controller import Controller
from kraftwreck.checkers.kraft.invariants.evidence import Evidence
from kraftwreck.checkers.kraft.invariants.report import Report
from kraftwreck.checkers.kraft.limits import STEP_NS
from kraftwreck.checkers.kraft.quorum_model.fetching import is_plain, is_served
from kraftwreck.checkers.kraft.quorum_model.quorum import VoterSet, voters_in
from kraftwreck.checkers.kraft.quorum_model.replica import NO_DIRECTORY
from kraftwreck.checkers.kraft.recorded.committed_log import DECODING, control_records, voter_set
from kraftwreck.checkers.kraft.recorded.disk_log import disk_logs, read_batches
from kraftwreck.checkers.kraft.rule import judges, rule
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.log.batch import BatchError
from kraftwreck.nodes.protocol import errors
from kraftwreck.nodes.protocol.codec import ProtocolError
from kraftwreck.nodes.protocol.records import KRAFT_VERSION, KRAFT_VOTERS

Records = dict[tuple[int, int], tuple[int, VoterSet]]
"""(offset, voters) by base offset and epoch of the batch."""
Levels = dict[tuple[int, int], tuple[int, int] | None]
"""(offset, kraft.version) by base offset and epoch of the batch; None for a known batch without
such a record. A batch without a key was never read."""


NO_CHANGE = "no change of the voters in this run"


class _Due(NamedTuple):
    """A report of voters that must follow ``cause``: of the ``voters`` appended at ``offset``, or,
    if these are None, of any below ``offset``, to which the log was truncated."""

    cause: TraceEvent
    offset: int
    voters: VoterSet | None


@dataclass(slots=True)
class _Node:
    """A node's last report of voters, None without one, and the report that is due."""

    incarnation: int | None = None
    levels: list[tuple[int, int | None]] = field(default_factory=list)
    """(offset, kraft.version) of the log's level records above ``base``, the level before them;
    None from the first batch without evidence of its content."""
    base: int | None = None
    end: int = 0
    tip: int | None = None
    """The epoch of the log's last record, None if unknown."""
    untold: bool = False
    """Whether it may hold records that no trace reports: a node may write and die before it."""
    offset: int | None = None
    due: _Due | None = None


@rule(
    "I31",
    "VotersOfOwnLog",
    "A node uses the voters of the last voters record in its own log, also after appends and "
    "truncations.",
    "T2 T4",
    nothing=NO_CHANGE,
)
@rule(
    "I32",
    "AddedOnceCaughtUp",
    "A node is added as a voter only after it has fetched from the current leader.",
    "T1 T4",
    nothing=NO_CHANGE,
)
@rule(
    "C17",
    "VoterChangeCommitted",
    "A change of voters is acknowledged only once its record is committed.",
    "T1 T6",
    nothing=NO_CHANGE,
)
def check(evidence: Evidence, report: Report) -> None:
    """Judge I31, I32 and C17."""
    records, levels = _records(evidence)
    if records:
        _own_logs(evidence, report, records, levels)
        _caught_up(evidence, report)
        _acknowledged(evidence, report)


@judges("I26")
def check_records(evidence: Evidence, report: Report) -> None:
    """Judge I26 by the VotersRecords of the committed log; the trace has shown their timing."""
    sets = Controller.of(evidence).replay.voters if evidence.log.whole else []
    for (_, before), (offset, now) in pairwise(sets):
        changed = before ^ now
        if changed:
            report.held("I26")
        if len(changed) > 1:
            report.broken(
                "I26",
                f"The VotersRecord at offset {offset} changes more than one voter: from "
                f"{sorted(dict(before))} to {sorted(dict(now))}.",
            )


def _records(evidence: Evidence) -> tuple[Records, Levels]:
    """Return the voter sets and levels in all batches that a disk image or the capture holds."""
    capture = evidence.run.capture
    batches = {batch.key: batch for log in disk_logs(evidence.run) for batch in log.fresh}
    if capture is not None:
        batches |= {batch.key: batch for batch in read_batches(capture.batches)}
    found: Records = {}
    levels: Levels = {}
    for batch in batches.values():
        key = batch.base, batch.epoch
        levels.setdefault(key, None)
        if not batch.control:
            continue
        try:
            for offset, kind, fields in control_records(batch):
                if kind == KRAFT_VOTERS:
                    found[key] = (offset, voter_set(fields["voters"]))
                elif kind == KRAFT_VERSION:
                    levels[key] = (offset, fields["kraft_version"])
        except (*DECODING, BatchError, ProtocolError):
            continue
    return found, levels


def _own_logs(evidence: Evidence, report: Report, records: Records, levels: Levels) -> None:
    """I31: after an append or a truncation of a set a node reports the voters of its log."""
    nodes: dict[str, _Node] = {}
    for event in evidence.run.events:
        node = nodes.get(event.node)
        if node is None:
            node = nodes[event.node] = _Node()
        if event.incarnation != node.incarnation:
            node.incarnation, node.due = event.incarnation, None
        kind = event.kind
        _leveled(report, node, event, levels)
        if kind == "voters":
            _known(report, event)
            _told(report, node, event)
        elif node.due is not None:
            _silent(report, node, node.due, event)
        if kind == "append":
            entry = records.get((event.detail["base"], event.detail["epoch"]))
            if entry is not None and node.offset is not None:
                node.due = _Due(event, *entry)
        elif kind == "truncate" and (node.offset or 0) >= event.detail["to"]:
            node.due = _Due(event, event.detail["to"], None)


def _known(report: Report, event: TraceEvent) -> None:
    """I27: with kraft.version 1 every voter's disk is known; a set without one matches any."""
    strangers = [i for i, directory in voters_in(event).items() if directory == NO_DIRECTORY]
    if strangers and event.detail["kraft_version"]:
        report.broken(
            "I27",
            f"{event.node} uses kraft.version {event.detail['kraft_version']}, but knows no "
            f"disk of voters {strangers}.",
            [event],
        )


def _leveled(report: Report, node: _Node, event: TraceEvent, levels: Levels) -> None:
    """I31: kraft.version too is that of the node's own log, and is truncated with it."""
    kind = event.kind
    if kind == "append":
        node.tip = event.detail["epoch"]
        key = event.detail["base"], event.detail["epoch"]
        entry = levels.get(key)
        if entry is not None:
            node.levels.append(entry)
        elif key not in levels:
            # Only a leader that was cut off held it: it may have changed the level.
            node.levels.append((event.detail["base"], None))
    elif kind in ("truncate", "start"):
        while node.levels and node.levels[-1][0] >= event.leo:
            node.levels.pop()
        if kind == "start":
            last_epoch = event.detail.get("last_epoch", node.tip)
            node.untold |= event.leo > node.end or (node.tip or last_epoch) != last_epoch
        if node.untold or event.leo == 0:  # That may be another disk.
            node.levels.clear()
            node.base = None
        node.tip = event.detail.get("last_epoch")
    elif kind == "install":
        node.tip = event.detail["epoch"]
        node.levels.clear()
        node.base, node.untold = None, False
    elif kind == "voters":
        told = event.detail["kraft_version"]
        if not node.levels and node.base is None:
            node.base, node.end = told, event.leo
            return
        level = node.levels[-1][1] if node.levels else node.base
        if level is None:
            report.unseen("I31", "batches are missing from the evidence")
        elif told != level:
            report.broken(
                "I31",
                f"{event.node} uses kraft.version {told}; its log of {event.leo} records has "
                f"{level}.",
                [event],
            )
    node.end = event.leo


def _told(report: Report, node: _Node, event: TraceEvent) -> None:
    offset, told = event.detail["offset"], frozenset(voters_in(event).items())
    due, node.due, node.offset = node.due, None, offset
    if due is None:
        return
    report.held("I31")
    wrong = None
    if due.voters is None and offset >= due.offset:
        wrong = (
            f"still uses the voters of offset {offset}, which it has just truncated (to "
            f"{due.offset})"
        )
    elif due.voters is not None and (offset, told) != due[1:]:
        wrong = (
            f"has appended voters {sorted(due.voters)} at offset {due.offset}, but uses "
            f"{sorted(told)} of offset {offset}"
        )
    if wrong is not None:
        report.broken("I31", f"{event.node} {wrong}.", [due.cause, event])


def _silent(report: Report, node: _Node, due: _Due, event: TraceEvent) -> None:
    node.due = None
    report.held("I31")
    what = (
        f"has truncated its log to {due.offset} but keeps the voters of offset {node.offset}"
        if due.voters is None
        else f"has appended voters at offset {due.offset} but keeps those of offset {node.offset}"
    )
    report.broken("I31", f"{event.node} {what}.", [due.cause, event])


def _caught_up(evidence: Evidence, report: Report) -> None:
    """I32: a node is added as a voter only after it has fetched from the current leader."""
    if not evidence.captured:
        return
    before: dict[str, tuple[int, dict[int, str]]] = {}
    fetched: dict[tuple[int, int, int, str], int] = {}
    for message in evidence.of("Fetch"):
        asked, answer = message.request, message.response
        if asked is None:
            continue
        # Hosts record requests without their answers, so the request must do.
        if answer is None or (is_served(answer) and is_plain(answer)):
            asker = asked.replica_id, asked.directory.hex()
            key = (message.replier, asked.current_leader_epoch, *asker)
            # It may be parked at the leader, which counts it on arrival, and answered later.
            fetched[key] = min(message.begun, fetched.get(key, message.begun))
    for event in evidence.run.events:
        if event.kind != "voters":
            continue
        now = voters_in(event)
        offset, level = event.detail["offset"], event.detail["kraft_version"]
        last = before.get(event.node)
        before[event.node] = (offset, now)
        if last is None or event.state != "leader" or offset <= last[0] or not level:
            continue
        moment = evidence.moment(event)
        for voter, directory in now.items():
            if last[1].get(voter) == directory or moment is None or voter in last[1]:
                continue
            report.held("I32")
            first = fetched.get((evidence.ids.get(event.node, -1), event.epoch, voter, directory))
            if first is None or first > moment + STEP_NS:
                report.broken(
                    "I32",
                    f"{event.node} makes node {voter} (directory {directory}) a voter, which has "
                    f"fetched nothing from it in epoch {event.epoch}.",
                    [event],
                )


def _acknowledged(evidence: Evidence, report: Report) -> None:
    """C17: a change that an operator got acknowledged is committed."""
    sets = Controller.of(evidence).replay.voters
    if not Controller.of(evidence).is_whole(report, "C17"):
        return
    commits = Commits.of(evidence)
    for api, adds in (("AddRaftVoter", True), ("RemoveRaftVoter", False)):
        for message in evidence.of(api):
            if not isinstance(message.request, dict):
                continue  # A controller that joins by itself does not wait for the commit.
            exchange = commits.exchange(message)
            if exchange is None or exchange.answer["error_code"] != errors.NONE:
                continue
            if adds and not exchange.request.get("ack_when_committed", True):
                continue
            report.held("C17")
            [voter] = voter_set([exchange.request])
            latest = [voters for offset, voters in sets if offset < exchange.low][-1:]
            within = [v for offset, v in sets if exchange.low <= offset < exchange.high]
            if not any((voter in voters) == adds for voters in latest + within):
                report.broken(
                    "C17",
                    f"{exchange.where} that node {voter[0]} is {'now' if adds else 'no longer'} a "
                    f"voter, but no such record is committed up to offset {exchange.high}.",
                )

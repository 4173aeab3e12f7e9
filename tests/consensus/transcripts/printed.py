"""How a transcript prints effects, messages, states and logs: one line each.

``3@2`` is the end of a log: its end offset is 3, and the record before it has epoch 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kraftwreck.nodes.consensus.effects import (
    AppendSnapshot,
    DropSnapshot,
    Effect,
    FlushLog,
    Trace,
    WriteQuorumState,
)
from kraftwreck.nodes.consensus.kraft import messages
from kraftwreck.nodes.consensus.kraft.leader import Leader
from kraftwreck.nodes.consensus.kraft.replica import Replica
from kraftwreck.nodes.log.batch import decode_batch, parse_header, split_batches
from kraftwreck.nodes.protocol import errors
from kraftwreck.nodes.protocol.records import decode_control

ERRORS = {
    value: name for name, value in vars(errors).items() if name.isupper() and type(value) is int
}
CONTROLS = {2: "LeaderChange", 5: "KRaftVersion", 6: "Voters"}


def known(number: int) -> str:
    """Return a node or an offset, "-" where it is not known."""
    return "-" if number < 0 else str(number)


def record_range(base: int, last: int) -> str:
    """Return the offsets of a batch."""
    return str(base) if base == last else f"{base}..{last}"


# --- effects ------------------------------------------------------------------------------------


def effect(i: int, done: Effect, *, is_static: bool) -> list[str]:
    """Return the lines for an effect other than a message; those that a trace repeats have none."""
    if isinstance(done, Trace):
        if done.kind == "commit" or (done.kind == "voters" and is_static):
            return []
        show = TRACES.get(done.kind)
        return [f"{i} {show(done) if show else f'{done.kind} {done.detail}'}"]
    if isinstance(done, WriteQuorumState):
        vote = f", vote {done.voted_id}" if done.voted_id >= 0 else ""
        return [f"{i} writes epoch {done.epoch}, leader {known(done.leader_id)}{vote}"]
    if isinstance(done, FlushLog):
        return [f"{i} flushes"]
    if isinstance(done, AppendSnapshot):
        return [f"{i} writes a piece of snapshot {done.end_offset}@{done.epoch}"]
    if isinstance(done, DropSnapshot):
        return [f"{i} drops the unfinished snapshot {done.end_offset}@{done.epoch}"]
    return []


def _state(trace: Trace) -> str:
    leads = trace.state == "leader" or trace.leader < 0
    named = trace.state if leads else f"{trace.state} of {trace.leader}"
    return f"{named}, epoch {trace.epoch}"


def _grant(trace: Trace) -> str:
    kind = "a pre-vote" if trace.detail["pre"] else "its vote"
    return f"grants {kind} to {trace.detail['candidate']} in epoch {trace.detail['epoch']}"


def _append(trace: Trace) -> str:
    detail = trace.detail
    return f"appends {record_range(detail['base'], detail['last'])} of epoch {detail['epoch']}"


def _voters(trace: Trace) -> str:
    ids = " ".join(str(i) for i, _ in trace.detail["voters"])
    return f"counts voters {ids}, set by record {known(trace.detail['offset'])}"


def _snapshot(word: str) -> Callable[[Trace], str]:
    return lambda trace: f"{word} snapshot {trace.detail['end']}@{trace.detail['epoch']}"


TRACES: dict[str, Callable[[Trace], str]] = {
    "start": lambda t: f"starts as {_state(t)}, log {t.leo}@{t.detail['last_epoch']}",
    "state": lambda t: f"{t.detail['from']} => {_state(t)}",
    "elected": lambda t: f"is elected by {' '.join(map(str, t.detail['granting']))}",
    "append": _append,
    "hw": lambda t: f"has high watermark {t.hw}",
    "grant": _grant,
    "resign": lambda t: f"resigns: {t.detail['reason']}",
    "truncate": lambda t: f"truncates {t.detail['from']} to {t.detail['to']}",
    "voters": _voters,
    "download": _snapshot("begins to fetch"),
    "install": _snapshot("installs"),
    "snapshot": _snapshot("has made"),
    "clean": lambda t: f"removes what is below {t.detail['start']}",
    "contradiction": lambda t: f"REFUSES: {t.detail['reason']}",
    "stop": lambda t: "stops",
}


# --- messages -----------------------------------------------------------------------------------


def message(sent: Any) -> str:
    """Return a request or an answer in one line."""
    name = type(sent).__name__
    if name.endswith("Request"):
        return REQUESTS[name](sent)
    short = name.removesuffix("Response")
    error = getattr(sent, "partition_error", 0) or sent.error
    if isinstance(sent, messages.VoterChangeResponse):
        return f"VoterChange: {ERRORS[sent.error]}"
    if isinstance(sent, messages.ApiVersionsResponse):
        return f"ApiVersions: kraft.version {sent.min_kraft_version}..{sent.max_kraft_version}"
    place = f"leader {known(sent.leader_id)}, epoch {sent.leader_epoch}"
    if error:
        return f"{short}: {ERRORS[error]}, {place}"
    if isinstance(sent, messages.VoteResponse):
        return f"{short}: {'granted' if sent.vote_granted else 'refused'}, {place}"
    if isinstance(sent, messages.FetchResponse):
        return f"{short}: {_fetched(sent)}, hw {known(sent.high_watermark)}"
    if isinstance(sent, messages.FetchSnapshotResponse):
        to = sent.position + len(sent.data)
        end = ", the end" if to == sent.size else ""
        return f"{short}: bytes {sent.position}..{to - 1} of {_id(sent)}{end}"
    return f"{short}: {place}"


def _fetched(sent: messages.FetchResponse) -> str:
    if sent.diverging_epoch >= 0:
        return f"diverges after {sent.diverging_end}@{sent.diverging_epoch}"
    if sent.snapshot_end >= 0:
        return f"take snapshot {sent.snapshot_end}@{sent.snapshot_epoch}"
    headers = [parse_header(batch) for batch in split_batches(sent.records)]
    if not headers:
        return "nothing new"
    return f"records {record_range(headers[0].base_offset, headers[-1].last_offset)}"


def _id(sent: Any) -> str:
    return f"{sent.snapshot_end}@{sent.snapshot_epoch}"


def _vote(sent: messages.VoteRequest) -> str:
    name = "PreVote" if sent.pre_vote else "Vote"
    return f"{name} epoch {sent.epoch}, log {sent.last_offset}@{sent.last_epoch}"


def _end(sent: messages.EndQuorumEpochRequest) -> str:
    successors = " ".join(str(i) for i, _ in sent.successors) or "-"
    return f"EndQuorumEpoch epoch {sent.leader_epoch}, successors {successors}"


REQUESTS: dict[str, Callable[[Any], str]] = {
    "VoteRequest": _vote,
    "BeginQuorumEpochRequest": lambda m: f"BeginQuorumEpoch epoch {m.leader_epoch}",
    "EndQuorumEpochRequest": _end,
    "FetchRequest": lambda m: (
        f"Fetch epoch {m.current_leader_epoch}, log {m.fetch_offset}@{m.last_fetched_epoch},"
        f" hw {known(m.high_watermark)}"
    ),
    "FetchSnapshotRequest": lambda m: (
        f"FetchSnapshot epoch {m.current_leader_epoch}, {_id(m)} from byte {m.position}"
    ),
    "AddRaftVoterRequest": lambda m: f"AddRaftVoter {m.voter_id}",
    "RemoveRaftVoterRequest": lambda m: f"RemoveRaftVoter {m.voter_id}",
    "UpdateRaftVoterRequest": lambda m: (
        f"UpdateRaftVoter {m.voter_id} epoch {m.current_leader_epoch}"
    ),
    "ApiVersionsRequest": lambda m: "ApiVersions",
}


# --- states -------------------------------------------------------------------------------------


def state(replica: Replica) -> str:
    """Return state, log and voters of a node in one line."""
    now = replica.state
    leads = isinstance(now, Leader) or now.leader_id < 0
    parts = [
        f"{replica.node_id} {now.name if leads else f'{now.name} of {now.leader_id}'}",
        f"epoch {replica.epoch}",
        *([f"vote {now.voted_id}"] if now.voted_id >= 0 else []),
        f"log {replica.log.end_offset}@{replica.log.last_epoch}",
        f"hw {known(replica.high_watermark)}",
    ]
    if replica.kraft_version > 0:
        parts.append(f"voters {' '.join(map(str, replica.voters))}")
    return ", ".join(parts)


def log(replica: Replica) -> list[str]:
    """Return one line for each batch of a node's log."""
    start = f"log of {replica.node_id}: {replica.log.start_offset}..{replica.log.end_offset}"
    lines = [f"{start}, hw {known(replica.high_watermark)}"]
    for batch, header in replica.log.batches_between(replica.log.start_offset, 1 << 62):
        records: Sequence[tuple[int, bytes | None, bytes | None]] = decode_batch(batch)[1]
        if header.is_control:
            kinds = [decode_control(key, value)[0] for _, key, value in records]
            shown = " ".join(CONTROLS[kind] for kind in kinds)
        else:
            shown = " ".join((value or b"").decode() for _, _, value in records)
        place = record_range(header.base_offset, header.last_offset)
        lines.append(f"  {place} epoch {header.epoch}: {shown}")
    return lines

"""Rules over logs, snapshots and states, of the same kind as those over elections."""

from __future__ import annotations

from kraftwreck.checkers.kraft.quorum_model.quorum import Found, Quorum
from kraftwreck.checkers.kraft.quorum_model.replica import Replica
from kraftwreck.checkers.kraft.quorum_model.transitions import LEADER
from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.histories.trace import TraceEvent

INJECTED = "a defect that was put in"
"""Text in the error of an operation that the simulator let fail."""


# --- logs ------------------------------------------------------------------------------------


@rule(
    "I7",
    "EpochInLog",
    "Epochs never decrease along a log, and each begins with its leader's LeaderChange record.",
    "T2 T4",
    on=("append",),
)
def epochs_go_up_along_a_log(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    base, epoch, by = event.detail["base"], event.detail["epoch"], event.detail["by"]
    led = by == LEADER
    if epoch > event.epoch or (led and epoch != event.epoch):
        return f"{replica.name} appends a batch of epoch {epoch} as {by} in epoch {event.epoch}."
    if not replica.epochs:
        return None
    before = replica.epochs[-1]
    if epoch < before:
        return f"{replica.name} appends a batch of epoch {epoch} after one of epoch {before}."
    if led and replica.epoch_start_of == epoch > before and base != replica.epoch_start:
        return (
            f"{replica.name}: the first batch of epoch {epoch} is at offset {base}, not at the "
            f"epoch's start {replica.epoch_start}."
        )
    return None


@rule(
    "I8",
    "LogMatching",
    "Two logs with the same batch (offset, epoch) are identical up to that batch.",
    "T2 T4",
    on=("append",),
)
def log_has_no_holes(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    base = event.detail["base"]
    if replica.end is None or base == replica.end:
        return None
    return f"{replica.name} appends at offset {base} although its log ends at {replica.end}."


@rule(
    "I9",
    "LeaderCompleteness",
    "A leader's log holds every batch that was committed in older epochs.",
    "T4",
    on=("election",),
    nothing="no leader was elected after a commit",
)
def leader_has_all_commits(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    assert quorum.election is not None
    return quorum.chain.lacking(quorum.election)


@rule(
    "I10",
    "CommittedStable",
    "A committed batch stays at its offset and is the same on every node.",
    "T2 T4",
    on=("truncate",),
)
def committed_batch_is_not_cut(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    """A follower of an older leader may cut what a newer epoch committed without it."""
    first, committed = replica.first_at(event.leo), quorum.chain.committed
    for place in range(len(replica.bases) if first is None else first, len(replica.bases)):
        known = committed.get(replica.bases[place])
        if (
            known is not None
            and known.id[1] == replica.epochs[place]
            and known.crc == replica.crcs[place]
            and known.at_epoch <= event.epoch
        ):
            return (
                f"{replica.name} truncates its log to {event.leo}, and with it the batch at offset "
                f"{known.id[0]}, which {known.where} had committed in epoch {known.at_epoch}.",
                [each for each in (known.event, event) if each is not None],
            )
    return None


@rule(
    "I11",
    "CommittedOnMajority",
    "A majority of the voters in force holds every record below a high watermark.",
    "T2 T4",
    on=("first-commit",),
    nothing="events of different nodes have no order, and final disks are missing",
)
def commit_is_on_a_majority(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    total, count = len(replica.voters) or quorum.voters, quorum.holders(replica.voters)
    if 2 * count > total:
        return None
    return (
        f"{event.node}: the high watermark {event.hw} passes offset {quorum.committing[0]}, which "
        f"only {count} of {total} voters hold."
    )


@rule(
    "I12",
    "CurrentEpochCommit",
    "A leader exposes no high watermark before the first record of its epoch is committed.",
    "T1 T4",
    on=("leader-hw", "elected"),
)
def leader_commits_its_epoch_first(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    start = event.detail["epoch_start"] if event.kind == "elected" else replica.epoch_start
    if not 0 <= event.hw <= start:
        return None
    return (
        f"{replica.name}, leader of epoch {event.epoch} since offset {start}, sets the high "
        f"watermark to {event.hw} before its own first record is committed."
    )


@rule(
    "I13", "MonotonicHW", "The high watermark of a process never goes back.", "T4", on=("new-hw",)
)
def high_watermark_goes_up(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    if event.hw >= replica.max_hw:
        return None
    return f"{replica.name}: the high watermark went back from {replica.max_hw} to {event.hw}."


@rule(
    "I14",
    "NoTruncateBelowHW",
    "No log is truncated below its high watermark, and none ends below it.",
    "T2 T4",
    on=("new-end",),
)
def log_reaches_its_high_watermark(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    high = max(event.hw, replica.max_hw)
    if event.leo >= high:
        return None
    if event.kind == "truncate":
        return f"{replica.name} truncates its log to {event.leo}, below its high watermark {high}."
    if event.kind == "install":
        return (
            f"{replica.name} replaces its log by a snapshot up to {event.leo}, below its high "
            f"watermark {high}."
        )
    return f"{replica.name}: high watermark {high} is beyond its log end {event.leo}."


# --- snapshots and states --------------------------------------------------------------------


@rule(
    "I20",
    "SnapshotValidId",
    "A snapshot is complete, is named by the end and epoch of a committed batch, and contains the"
    " voters in force there.",
    "T2 T4",
    on=("snapshot",),
    nothing="no snapshots in this run",
)
def snapshot_is_below_the_high_watermark(
    quorum: Quorum, replica: Replica, event: TraceEvent
) -> Found:
    end = event.detail["end"]
    if end <= replica.max_hw or event.detail.get("by") == "fetched":
        return None
    return (
        f"{replica.name} made the snapshot ({end}, {event.detail['epoch']}) above its high "
        f"watermark {replica.max_hw}."
    )


@rule("I20", on=("named",))
def snapshot_is_named_by_a_commit(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    end, epoch = event.detail["end"], event.detail["epoch"]
    found = quorum.chain.epoch_before(end)
    if found is None and quorum.over and end > quorum.high_watermark >= 0 and not quorum.gaps:
        return (
            f"{replica.name} has the snapshot ({end}, {epoch}) ({event.kind}) above every high "
            f"watermark, the highest being {quorum.high_watermark}."
        )
    if found is None or found == epoch:
        return None
    held = f"a batch of epoch {found} ends" if found >= 0 else "no batch ends"
    return (
        f"{replica.name} has the snapshot ({end}, {epoch}) ({event.kind}), where {held} in the "
        "committed log."
    )


@rule(
    "I22",
    "LeaderNeverLoadsSnapshot",
    "No leader fetches or installs a snapshot.",
    "T1 T4",
    on=("install", "load"),
    nothing="no node fetched or installed a snapshot",
)
def leader_takes_no_snapshot(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    # The snapshot present at start may be loaded late: a single voter leads at once.
    if event.state != LEADER or (event.kind == "load" and not replica.loaded):
        return None
    what = "replaces its log by" if event.kind == "install" else "loads"
    return (
        f"{replica.name}, leader of epoch {event.epoch}, {what} the snapshot "
        f"({event.detail['end']}, {event.detail['epoch']})."
    )


def applied_to(event: TraceEvent) -> tuple[int, int]:
    """Return (end offset, epoch) of the records in the state that the event reports."""
    detail = event.detail
    return detail["end"] if "end" in detail else detail["offset"] + 1, detail["epoch"]


def _differs(quorum: Quorum, event: TraceEvent) -> Found:
    end, epoch = applied_to(event)
    first = quorum.digests[end, epoch]
    if first.detail["digest"] == event.detail["digest"]:
        return None
    return (
        f"{first.node} ({first.kind}) and {event.node} ({event.kind}) hold different states up to "
        f"offset {end}.",
        [first, event],
    )


@rule(
    "I19",
    "SnapshotConsistency",
    "A snapshot holds the state that the log before its end produces, on every node.",
    "T2 T4 T6",
    on=("snapshot-digest",),
    nothing="no snapshots in this run",
)
def snapshots_hold_one_state(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    return _differs(quorum, event)


@rule(
    "I23",
    "StateMachineAgreement",
    "The committed log can be replayed, and all nodes hold the same state at an offset.",
    "T4 T6",
    on=("image-digest",),
)
def images_hold_one_state(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    return _differs(quorum, event)


@rule(
    "I25",
    "ListenerOrder",
    "Committed batches are delivered once, in order, below the high watermark, from 0 or from the "
    "end of a snapshot. A controller becomes active only after the start of its epoch.",
    "T4",
    on=("commit",),
)
def delivers_in_order(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    base, last, due = event.detail["base"], event.detail["last"], replica.delivered
    if due is not None and due >= 0 and base != due:
        return f"{replica.name} delivers offset {base} to its state machine, but {due} is next."
    if last >= event.hw:
        return f"{replica.name} delivers up to offset {last}, beyond its high watermark {event.hw}."
    return None


@rule("I25", on=("claim",))
def claims_after_applying(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    start, applied = event.detail["epoch_start"], replica.delivered or 0
    if event.state != LEADER:
        return f"{replica.name} becomes active controller in state {event.state}."
    if not 0 <= applied <= start:
        return None
    return (
        f"{replica.name} becomes active controller of epoch {event.epoch} having applied up to "
        f"{applied}, not past the epoch's start {start}."
    )


# --- failures --------------------------------------------------------------------------------


@rule(
    "I29",
    "NoIllegalState",
    "No node ends because of an illegal state, or refuses a contradictory message.",
    "T4",
    on=("fatal", "contradiction", "defect"),
)
def no_illegal_state(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    reason = event.detail.get("reason", "no reason")
    if event.kind == "fatal":
        return f"{replica.name} stopped by an illegal state: {reason}."
    return f"{replica.name} refused {event.detail.get('in')} ({event.kind}): {reason}."


@rule(
    "C24",
    "FailedControllerYields",
    "A controller resigns when an operation fails for an unforeseen reason.",
    "T4",
    on=("failed-operation",),
)
def failed_controller_yields(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    failed_in = event.detail["epoch"]
    if event.state != LEADER or event.epoch != failed_in:
        return None
    return (
        f"{replica.name} could not carry out {event.detail.get('api')} "
        f"({event.detail.get('error')}), and still leads epoch {failed_in}."
    )


@rule("controller-error", on=("controller-error",))
def controllers_do_not_fail(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    error = event.detail.get("error")
    if INJECTED in str(error) and event.detail.get("epoch") is not None:
        return None  # The failure was injected: only its consequences are judged.
    return f"{replica.name} failed to carry out {event.detail.get('api')}: {error}."

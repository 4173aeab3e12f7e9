"""The disk images of a run compared with its traces and with each other.

I3 and I6 (promises are on disk), I7, I8, I10 and I14 (the logs agree), I11 (a majority holds every
committed batch), D7 (leader-epoch-checkpoint matches the log).
"""

from __future__ import annotations

from collections.abc import Iterable

from kraftwreck.checkers.kraft.invariants.evidence import Evidence
from kraftwreck.checkers.kraft.invariants.report import Report
from kraftwreck.checkers.kraft.quorum_model.election_rules import vote_is_kept
from kraftwreck.checkers.kraft.quorum_model.replica import NO_DIRECTORY
from kraftwreck.checkers.kraft.recorded.disk_log import StoredLog, disk_logs
from kraftwreck.checkers.kraft.rule import judges, rule
from kraftwreck.checkers.recorded.run_data import FINAL, RunData
from kraftwreck.nodes.log.uuids import from_text


@rule(
    "D7",
    "LeaderEpochCache",
    "leader-epoch-checkpoint lists the epochs of the batches in the log.",
    "T2",
    nothing="no leader-epoch-checkpoint",
)
@judges("I3", "I6", "I7", "I8", "I10", "I11", "I14")
def check(evidence: Evidence, report: Report) -> None:
    """Judge all images."""
    Disks(evidence, report).run(disk_logs(evidence.run))


def missing(run: RunData) -> list[str]:
    """Return what the final images of ``run`` lack."""
    finals = [log for log in disk_logs(run) if log.image.label == FINAL]
    imaged = {log.image.node for log in finals}
    without = [name for name in run.nodes if name not in imaged]
    lacks = [f"no final disk image of {', '.join(without)}"] if without else []
    return lacks + [
        f"the final image of {log.image.node} is damaged ({log.damage})"
        for log in finals
        if log.damage is not None
    ]


class Disks:
    """Compares the logs of a run's images with its traces, and with each other."""

    def __init__(self, evidence: Evidence, report: Report) -> None:
        self._report = report
        self._names = evidence.names
        self._trace = evidence.trace
        self._unsynced = _may_lack_writes(evidence.run)

    def run(self, logs: Iterable[StoredLog]) -> None:
        """Judge the logs of all images."""
        self._trace.chain.add = self._report.broken
        finals: dict[str, StoredLog] = {}
        for log in logs:
            self._check_log(log)
            self._check_checkpoint(log)
            if log.image.label == FINAL:
                finals[log.image.node] = log
                self._check_quorum_state(log)
        self._check_majority(finals)

    # --- one log ------------------------------------------------------------------------

    def _check_log(self, log: StoredLog) -> None:
        facts, add = self._trace, self._report.broken
        node = log.image.node
        where = f"{node}'s disk ({log.image.label})"
        track = facts.tracks.get(node)
        final_hw = track.max_hw if track is not None and log.image.label == FINAL else -1
        before: tuple[int, int] | None = (-1, -1)
        last_epoch, end = -1, 0
        batches = log.batches
        if log.shared and log.image.label != FINAL:
            # The batches of the previous image were judged there.
            known_to = batches[log.shared - 1]
            before = known_to.base, known_to.epoch
            last_epoch, end = known_to.epoch, known_to.last + 1
            batches = log.fresh
        for batch in batches:
            base, epoch = batch.base, batch.epoch
            if base != end and before != (-1, -1):
                add("I8", f"{where}: offset {base} follows offset {end - 1} in the log.")
                before = None
            elif base != end:
                before = None  # A log that does not begin at 0.
            if epoch < last_epoch:
                add("I7", f"{where}: epoch {epoch} follows epoch {last_epoch} in the log.")
            elif epoch > last_epoch and before is not None and batch.leader is None:
                add(
                    "I7",
                    f"{where}: the first batch of epoch {epoch}, at offset {base}, does not name "
                    "its leader.",
                )
            facts.chain.hold(where, 0, base, epoch, batch.last, batch.crc, before)
            known = facts.chain.committed.get(base)
            # Another epoch, even a newer one, may be a tail that was never committed: its leader
            # may have failed before any fetch, and the older batch been committed since. But a
            # leader newer than the commit had the committed batch.
            if (
                known is not None
                and known.id[1] != epoch
                and (base < final_hw or epoch > known.at_epoch)
            ):
                add(
                    "I10",
                    f"{where} holds a batch of epoch {epoch} at offset {base}, where a batch of "
                    f"epoch {known.id[1]} was committed on {known.where}.",
                    [known.event] if known.event else [],
                )
            before, last_epoch, end = (base, epoch), epoch, batch.last + 1
        for kind in ("I7", "I8", "I10"):
            self._report.held(kind, len(log.batches))
        if log.end < final_hw and node not in self._unsynced:
            add("I14", f"{where} ends at offset {log.end}, below its high watermark {final_hw}.")

    def _check_checkpoint(self, log: StoredLog) -> None:
        """D7: entries of leader-epoch-checkpoint are true of the batches in the log."""
        entries = log.image.epochs
        if entries is None:
            return
        epochs = {batch.base: batch.epoch for batch in log.batches}
        for epoch, start in entries:
            self._report.held("D7")
            stored = epochs.get(start)
            if stored is not None and stored != epoch:
                self._report.broken(
                    "D7",
                    f"{log.image.node}'s disk ({log.image.label}): leader-epoch-checkpoint starts "
                    f"epoch {epoch} at offset {start}, where the log holds epoch {stored}.",
                )

    def _check_quorum_state(self, log: StoredLog) -> None:
        """I6 and I3: a node's reports are not newer than its quorum-state."""
        state, track = log.image.quorum_state, self._trace.tracks.get(log.image.node)
        if state is None or track is None:
            return
        epoch = state.get("leaderEpoch", state.get("epoch", -1))
        leader = state.get("leaderId", state.get("leader_id", -1))
        voted = state.get("votedId", state.get("voted_id", -1))
        self._report.held("I6")
        if epoch < track.epoch:
            self._report.broken(
                "I6",
                f"{track.name} was in epoch {track.epoch}, but its quorum-state holds epoch "
                f"{epoch}.",
            )
        vote = track.votes.get(epoch)
        self._report.held("I3", vote is not None)
        if vote is not None and not vote_is_kept(track.id, vote[0], voted, leader):
            self._report.broken(
                "I3",
                f"{track.name} voted for {vote[0]} in epoch {epoch}, but its quorum-state holds "
                f"the vote {voted}.",
                [vote[1]],
            )

    # --- all logs -----------------------------------------------------------------------

    def _check_majority(self, finals: dict[str, StoredLog]) -> None:
        """I11: at the end a majority of the voters holds all committed batches."""
        voters = self._voters()
        names = self._names
        disks = [finals.get(names.get(voter, "")) for voter in voters]
        logs = [log for log in disks if log is not None]
        if not logs or len(logs) != len(voters):
            return
        logs = [log for log in logs if _is_disk_of(log, voters, names)]
        held = [({batch.base: batch.epoch for batch in log.batches}, log) for log in logs]
        needed = len(voters) // 2 + 1
        for base, entry in self._trace.chain.committed.items():
            holders = 0
            for epochs, log in held:
                # Batches before the log's start are in the snapshot it begins after.
                holders += epochs.get(base) == entry.id[1] or entry.last < log.start
            self._report.held("I11")
            if holders < needed:
                self._report.broken(
                    "I11",
                    f"The batch at offset {base} of epoch {entry.id[1]} was committed on "
                    f"{entry.where}, but only {holders} of {len(voters)} voters' disks hold it in "
                    "at the end.",
                    [entry.event] if entry.event else [],
                )

    def _voters(self) -> dict[int, str]:
        """Return the last voters known to be committed; all nodes if no voters are known."""
        best, found = -2, dict.fromkeys(self._names, NO_DIRECTORY)
        for track in self._trace.tracks.values():
            if track.voters and best < track.voters_offset < max(track.max_hw, 0):
                best, found = track.voters_offset, track.voters
        return found


def _may_lack_writes(run: RunData) -> frozenset[str]:
    """Return the nodes whose final images may end early without a fault.

    Nodes that are to lose power buffer unsynced writes, even when they stop. A broker, as an
    observer, need not fsync what it fetches.
    """
    losing = "power" in (run.test.get("faults") or ())
    return frozenset(run.test.get("brokers") or ()) if losing else frozenset()


def _is_disk_of(log: StoredLog, voters: dict[int, str], names: dict[int, str]) -> bool:
    """Whether the image is of the disk that the voter set names."""
    wanted = next(d for voter, d in voters.items() if names.get(voter) == log.image.node)
    if wanted == NO_DIRECTORY or log.image.directory is None:
        return True
    try:
        return from_text(log.image.directory).hex() == wanted
    except ValueError:
        return True

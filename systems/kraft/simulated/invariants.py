"""The rules that need the world itself, and the model of the quorum fed live.

The simulator sees more than a real harness: every message with the disk of its sender at that
moment. Rules over traces are those of :mod:`checkers.kraft.quorum_model`, which also judges
recorded runs; rules here need messages, disks or exact times. The ids are those of the KRaft
invariants (I1 election safety, I2 one vote, …, see docs/simulator.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from kraftwreck.checkers.kraft.limits import FETCH_TIMEOUT_MS, RESIGNED_US
from kraftwreck.checkers.kraft.quorum_model.election_rules import vote_is_saved
from kraftwreck.checkers.kraft.quorum_model.fetching import Answers, Majority
from kraftwreck.checkers.kraft.quorum_model.model import QuorumModel
from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.consensus.effects import ResponseReceived, Send
from kraftwreck.nodes.consensus.kraft.messages import (
    AddRaftVoterRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    RemoveRaftVoterRequest,
    Request,
    UpdateRaftVoterRequest,
    VoteRequest,
    VoteResponse,
)
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.network import Rpc
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.announcement_watch import AnnouncementWatch
from kraftwreck.systems.kraft.simulated.answer_evidence import AnswerEvidence
from kraftwreck.systems.kraft.simulated.answer_watch import AnswerWatch
from kraftwreck.systems.kraft.simulated.assignment_rehearsal import wrong_assignments
from kraftwreck.systems.kraft.simulated.assignment_watch import AssignmentWatch
from kraftwreck.systems.kraft.simulated.backoff_watch import BackoffWatch
from kraftwreck.systems.kraft.simulated.barrier_watch import BarrierWatch
from kraftwreck.systems.kraft.simulated.batch_rehearsal import BatchRehearsal
from kraftwreck.systems.kraft.simulated.binding import disk_of
from kraftwreck.systems.kraft.simulated.cadence_watch import CadenceWatch
from kraftwreck.systems.kraft.simulated.config_rehearsal import ConfigRehearsal
from kraftwreck.systems.kraft.simulated.crash_points import CrashPoints
from kraftwreck.systems.kraft.simulated.cut_rehearsal import CutRehearsal
from kraftwreck.systems.kraft.simulated.damage_rehearsal import DamageRehearsal
from kraftwreck.systems.kraft.simulated.deletion_watch import DeletionWatch
from kraftwreck.systems.kraft.simulated.divergence_rehearsal import DivergenceRehearsal
from kraftwreck.systems.kraft.simulated.divergence_watch import DivergenceWatch
from kraftwreck.systems.kraft.simulated.download_rehearsal import DownloadRehearsal
from kraftwreck.systems.kraft.simulated.due_watch import DueWatch
from kraftwreck.systems.kraft.simulated.durability_watch import DurabilityWatch
from kraftwreck.systems.kraft.simulated.durable_logs import DurableLogs
from kraftwreck.systems.kraft.simulated.election_watch import ElectionWatch
from kraftwreck.systems.kraft.simulated.endpoint_rehearsal import EndpointRehearsal
from kraftwreck.systems.kraft.simulated.fetch_backoff import FetchBackoff
from kraftwreck.systems.kraft.simulated.fetch_rehearsal import wrong_fetches
from kraftwreck.systems.kraft.simulated.fetch_sizes import FetchSizes
from kraftwreck.systems.kraft.simulated.flush_watch import FlushWatch
from kraftwreck.systems.kraft.simulated.format_rehearsal import FormatRehearsal
from kraftwreck.systems.kraft.simulated.forwarding_rehearsal import ForwardingRehearsal
from kraftwreck.systems.kraft.simulated.handover_rehearsal import HandoverRehearsal
from kraftwreck.systems.kraft.simulated.handover_watch import HandoverWatch
from kraftwreck.systems.kraft.simulated.heartbeat_watch import HeartbeatWatch
from kraftwreck.systems.kraft.simulated.history_watch import HistoryWatch
from kraftwreck.systems.kraft.simulated.invented_fetches import InventedFetches
from kraftwreck.systems.kraft.simulated.leader_counts import LeaderCounts
from kraftwreck.systems.kraft.simulated.leader_hints import LeaderHints
from kraftwreck.systems.kraft.simulated.leader_rehearsal import LeaderRehearsal
from kraftwreck.systems.kraft.simulated.leave_watch import LeaveWatch
from kraftwreck.systems.kraft.simulated.lifecycle_rehearsal import LifecycleRehearsal
from kraftwreck.systems.kraft.simulated.log_dirs_rehearsal import LogDirsRehearsal
from kraftwreck.systems.kraft.simulated.log_rehearsal import LogRehearsal
from kraftwreck.systems.kraft.simulated.lookup_rehearsal import LookupRehearsal
from kraftwreck.systems.kraft.simulated.mark_watch import MarkWatch
from kraftwreck.systems.kraft.simulated.metadata_crashes import MetadataCrashes
from kraftwreck.systems.kraft.simulated.opening_watch import OpeningWatch
from kraftwreck.systems.kraft.simulated.other_disk_rehearsal import OtherDiskRehearsal
from kraftwreck.systems.kraft.simulated.pace_watch import PaceWatch
from kraftwreck.systems.kraft.simulated.page_rehearsal import PageRehearsal
from kraftwreck.systems.kraft.simulated.partition_service import PartitionService
from kraftwreck.systems.kraft.simulated.probe_rehearsal import ProbeRehearsal
from kraftwreck.systems.kraft.simulated.producer_id_watch import ProducerIdWatch
from kraftwreck.systems.kraft.simulated.producer_memory import ProducerMemory
from kraftwreck.systems.kraft.simulated.progress_watch import ProgressWatch
from kraftwreck.systems.kraft.simulated.proposal_outcomes import ProposalOutcomes
from kraftwreck.systems.kraft.simulated.proposal_watch import ProposalWatch
from kraftwreck.systems.kraft.simulated.reaction_rehearsal import wrong_reactions
from kraftwreck.systems.kraft.simulated.record_answers import RecordAnswers
from kraftwreck.systems.kraft.simulated.record_lookups import RecordLookups
from kraftwreck.systems.kraft.simulated.record_refusals import RecordRefusals
from kraftwreck.systems.kraft.simulated.record_watch import RecordWatch
from kraftwreck.systems.kraft.simulated.registration_watch import RegistrationWatch
from kraftwreck.systems.kraft.simulated.replica_positions import ReplicaPositions
from kraftwreck.systems.kraft.simulated.replica_states import ReplicaStates
from kraftwreck.systems.kraft.simulated.replica_watch import ReplicaWatch
from kraftwreck.systems.kraft.simulated.request_watch import RequestWatch
from kraftwreck.systems.kraft.simulated.retention_watch import RetentionWatch
from kraftwreck.systems.kraft.simulated.segment_watch import SegmentWatch
from kraftwreck.systems.kraft.simulated.sequence_rehearsal import wrong_sequences
from kraftwreck.systems.kraft.simulated.service_watch import ServiceWatch
from kraftwreck.systems.kraft.simulated.session_rehearsal import SessionRehearsal
from kraftwreck.systems.kraft.simulated.session_watch import SessionWatch
from kraftwreck.systems.kraft.simulated.shell_rehearsal import ShellRehearsal
from kraftwreck.systems.kraft.simulated.silence_watch import SilenceWatch
from kraftwreck.systems.kraft.simulated.size_rehearsal import SizeRehearsal
from kraftwreck.systems.kraft.simulated.snapshot_watch import SnapshotWatch
from kraftwreck.systems.kraft.simulated.start_rehearsal import StartRehearsal
from kraftwreck.systems.kraft.simulated.step_logs import StepLogs
from kraftwreck.systems.kraft.simulated.stop_watch import StopWatch
from kraftwreck.systems.kraft.simulated.storm_watch import StormWatch
from kraftwreck.systems.kraft.simulated.tick_watch import TickWatch
from kraftwreck.systems.kraft.simulated.unfinished_watch import UnfinishedWatch
from kraftwreck.systems.kraft.simulated.version_rehearsal import VersionRehearsal
from kraftwreck.systems.kraft.simulated.vote_rehearsal import VoteRehearsal
from kraftwreck.systems.kraft.simulated.voter_rehearsal import VoterRehearsal
from kraftwreck.systems.kraft.simulated.voter_watch import VoterWatch
from kraftwreck.systems.kraft.simulated.wait_watch import WaitWatch

_JUDGES: Final[tuple[Callable[[World, Failures], object], ...]] = (
    BackoffWatch,
    BarrierWatch,
    CadenceWatch,
    DamageRehearsal,
    DivergenceRehearsal,
    DivergenceWatch,
    DownloadRehearsal,
    DueWatch,
    EndpointRehearsal,
    FlushWatch,
    FormatRehearsal,
    ForwardingRehearsal,
    HandoverRehearsal,
    HandoverWatch,
    HeartbeatWatch,
    HistoryWatch,
    InventedFetches,
    LeaveWatch,
    LifecycleRehearsal,
    MetadataCrashes,
    OtherDiskRehearsal,
    PageRehearsal,
    ProbeRehearsal,
    RegistrationWatch,
    SessionWatch,
    ShellRehearsal,
    SizeRehearsal,
    StartRehearsal,
    TickWatch,
    UnfinishedWatch,
    VoteRehearsal,
    VoterRehearsal,
)
"""Rules that need nothing but the world."""


class Invariants:
    """Watches a world. ``failures`` is empty as long as every invariant held.

    ``voters`` are the ids of the configured voters, None for all hosts.
    """

    def __init__(
        self,
        world: World,
        fetch_timeout_ms: int = FETCH_TIMEOUT_MS,
        voters: Iterable[int] | None = None,
    ) -> None:
        self.failures = Failures()
        configured = [host.id for host in world.hosts] if voters is None else list(voters)
        self.quorum = QuorumModel(
            [host.name for host in world.hosts],
            ordered=True,
            report=lambda kind, text, events: self.failures.add(
                kind, world.now, text, *events, traced=True
            ),
            durable=DurableLogs(world).holders,
        )
        self.quorum.voter_requests = self._asked_changes = set[tuple[str, int, str, bool]]()
        self.voters = VoterWatch(self.quorum, configured)
        self.snapshots = SnapshotWatch(world, self.failures)
        self.storms = StormWatch(world, self.failures)
        self.elections = ElectionWatch(world, self.failures, self.voters)
        self.requests = RequestWatch(world, self.failures, self.voters)
        self.announcements = AnnouncementWatch(world, self.failures, self.voters)
        self.counts = LeaderCounts(world, self.failures, self.voters)
        for judge in _JUDGES:
            judge(world, self.failures)
        self.answers = AnswerWatch(world, self.failures)
        self.service = ServiceWatch(world, self.failures)
        self.records = RecordWatch(world, self.failures)
        self.partitions: PartitionService | None = None
        if self.records.watches:
            self._watch_records(world)
        self._world = world
        self._check_quorum = fetch_timeout_ms * 1500
        self._granted: dict[tuple[int, bytes, int], tuple[int, bytes]] = {}
        self._answers: dict[int, Answers] = {}
        """The leader's answers to each follower, by its own clock."""
        self._asked: dict[int, int] = {}
        self._older: dict[int, int] = {}
        """The last request that each process has sent, and its last one of an earlier state."""
        self._quorums: dict[int, Majority] = {}
        world.on_trace.append(self._on_trace)
        world.on_request.append(self._on_request)
        world.on_response.append(self._on_response)
        world.on_recovery.append(self._on_recovery)
        world.wires.on_reply.append(self._on_reply)
        world.wires.on_send.append(self._on_send)

    def _watch_records(self, world: World) -> None:
        """Add the rules for brokers that have records."""
        steps, positions = StepLogs(world, self.records.logs), ReplicaPositions(world)
        RecordAnswers(world, self.failures, self.records, positions)
        evidence = AnswerEvidence(world, self.failures, self.records, steps, positions)
        RecordLookups(evidence)
        AssignmentWatch(world, self.failures)
        BatchRehearsal(world, self.failures)
        ConfigRehearsal(world, self.failures)
        CrashPoints(world, self.failures)
        CutRehearsal(world, self.failures, self.records.logs)
        DeletionWatch(world, self.failures, self.records)
        DurabilityWatch(world, self.failures)
        FetchBackoff(world, self.failures)
        FetchSizes(world, self.failures)
        LeaderHints(world, self.failures)
        questions = wrong_fetches, wrong_sequences, wrong_assignments, wrong_reactions
        LeaderRehearsal(world, self.failures, *questions)
        LogDirsRehearsal(world, self.failures)
        LogRehearsal(world, self.failures)
        LookupRehearsal(world, self.failures, self.records.logs)
        MarkWatch(world, self.failures)
        OpeningWatch(world, self.failures)
        ProducerIdWatch(world, self.failures)
        ProducerMemory(world, self.failures, self.records.logs)
        ProgressWatch(world, self.failures, self.records)
        ProposalWatch(world, self.failures)
        ProposalOutcomes(world, self.failures)
        RecordRefusals(evidence)
        ReplicaWatch(world, self.failures, self.records)
        ReplicaStates(world, self.failures, self.records)
        RetentionWatch(world, self.failures)
        SegmentWatch(world, self.failures, self.records.logs)
        SessionRehearsal(world, self.failures)
        SilenceWatch(world, self.failures, self.records.logs)
        StopWatch(world, self.failures)
        PaceWatch(world, self.failures)
        VersionRehearsal(world, self.failures)
        WaitWatch(world, self.failures, self.records.logs, positions)
        self.partitions = PartitionService(world, self.failures, self.records.logs)

    @rule(
        "F34",
        "ServesOverSockets",
        "Processes over sockets that break anywhere answer each request whole, in order and in "
        "time. They lose no acknowledged record, recover after the last fault, and stop in order. "
        "No socket, file, task or memory is left behind.",
        simulated=True,
    )
    def over_sockets(self, wrong: Iterable[str]) -> None:
        """Take in what was wrong in the run over sockets before this one."""
        for each in wrong:
            self._fail("F34", each)

    @rule(
        "F35",
        "UnderstandsItsPeers",
        "A process sends its requests in versions that the peer has named, and takes each answer "
        "as it was sent, or as none: an answer with errors, in an old version, damaged, cut or "
        "late. It waits no longer than the time of the request.",
        simulated=True,
    )
    def with_scripted_peers(self, wrong: Iterable[str]) -> None:
        """Take in what was wrong in requests to scripted peers before this run."""
        for each in wrong:
            self._fail("F35", each)

    def _fail(self, kind: str, explanation: str, *events: TraceEvent) -> None:
        self.failures.add(kind, self._world.now, explanation, *events)

    @rule(
        "F1",
        "RecoversWhatWasWritten",
        "A start reads everything written before a kill, at least everything flushed before"
        " a loss of power, and nothing else. So does the opening of a partition's log.",
        simulated=True,
    )
    def _on_recovery(self, host: Host, findings: list[str]) -> None:
        """F1: a start reads what was written, or at least what was flushed."""
        for text in findings:
            self._fail("F1", f"{host.name} started from a disk that lost or changed data: {text}")

    def finish(self) -> None:
        """Judge the rules that must wait until the run is over and the cluster has recovered."""
        self.quorum.finish()
        self.announcements.finish()
        self.answers.finish()
        self.elections.finish()
        self.requests.finish()
        self.records.finish()
        if self.partitions is not None:
            self.partitions.finish()

    # --- traces -----------------------------------------------------------------------

    def _on_trace(self, host: Host, event: TraceEvent) -> None:
        kind = event.kind
        self.quorum.take(event)
        if kind in ("state", "start"):
            self._answers[host.id] = Answers()
            if kind == "start":
                self._asked.pop(host.id, None)
                self.snapshots.restarted(host)
            self._older[host.id] = self._asked.get(host.id, -1)
        elif kind == "snapshot":
            self.snapshots.made(host, event)
        elif kind == "voters" and host.id in self._quorums:
            self._quorums[host.id].since = self._world.now
        if event.state == "leader":
            self._check_leader(host, event)

    def _check_leader(self, host: Host, event: TraceEvent) -> None:
        """I18: a leader that no majority fetches from resigns."""
        quorum = self._quorums.get(host.id)
        if quorum is None or quorum.epoch != event.epoch:
            quorum = self._quorums[host.id] = Majority(event.epoch, self._world.now)
        now, settled = self._world.now, quorum.since + RESIGNED_US
        if (
            now - settled > 0
            and host.clock.elapsed(settled, now) > self._check_quorum
            and self._world.now - host.resumed_at > RESIGNED_US
            and len(self.voters.of(event.node)) > 1
        ):
            self._fail("I18", quorum.is_lost(event.node, now, 1e6), event)

    # --- messages ---------------------------------------------------------------------

    def _on_request(self, host: Host, message: Request) -> None:
        kind = type(message)
        if kind is FetchSnapshotRequest:
            assert isinstance(message, FetchSnapshotRequest)
            self.snapshots.asked(host, message)
        elif kind is AddRaftVoterRequest or kind is RemoveRaftVoterRequest:
            assert isinstance(message, AddRaftVoterRequest | RemoveRaftVoterRequest)
            adds = kind is AddRaftVoterRequest
            self._asked_changes.add((host.name, message.voter_id, message.directory.hex(), adds))
        quorum = self._quorums.get(host.id)
        if quorum is None:
            return  # It never led.
        if kind is FetchRequest or kind is FetchSnapshotRequest:
            assert isinstance(message, FetchRequest | FetchSnapshotRequest)
            asking = message.replica_id
        elif kind is UpdateRaftVoterRequest:
            assert isinstance(message, UpdateRaftVoterRequest)
            asking = message.voter_id
        else:
            return
        if quorum.epoch == message.current_leader_epoch:
            if not self.voters.counts(host.name, asking, message.directory):
                return
            voters = self.voters.of(host.name)
            # Its own vote counts if it is a voter: it may be about to leave.
            needed = len(voters) // 2 + (host.id not in voters)
            quorum.fetched(asking, self._world.now, needed, self._expired(host))

    def _expired(self, host: Host) -> Callable[[int, int], bool]:
        """Return whether a leader's time-out of an earlier time has run out. A paused process does
        not notice how long ago that was, so pauses do not count."""
        elapsed, resumed = host.clock.elapsed, host.resumed_at
        limit = self._check_quorum + RESIGNED_US
        return lambda since, now: elapsed(max(since, resumed), now) > limit

    def _on_send(self, host: Host, effect: Send) -> None:
        self._asked[host.id] = effect.correlation

    def _on_response(self, host: Host, event: ResponseReceived) -> None:
        answer, last = event.message, host.last_trace
        if (
            type(answer) is FetchResponse
            and last is not None
            and answer.error == answer.partition_error == 0
            and last.state == "follower"
            and (last.epoch, last.leader) == (answer.leader_epoch, event.source)
            and event.correlation > self._older.get(host.id, -1)
            # The backlog of a paused process may be dropped as too late.
            and host.clock.elapsed(host.resumed_at, self._world.now) > RESIGNED_US
        ):
            heard = self._answers.setdefault(host.id, Answers())
            heard.took(host.clock.mono(self._world.now))

    def _check_pre_vote(self, host: Host, request: VoteRequest) -> None:
        """I17: a follower that has recently fetched from its leader grants no pre-vote.

        Answers to requests of an earlier state do not count.
        """
        last = host.last_trace
        if last is None or last.state != "follower":
            return
        settings = self._world.knobs.settings_of(host.id)
        limit = settings.get("fetch_timeout_ms", FETCH_TIMEOUT_MS) * 1000
        heard = self._answers[host.id]
        if heard.bind and host.clock.mono(self._world.now) - heard.last < limit:
            told = Answers.is_disloyal(host.name, last.leader, last.epoch, request.candidate_id)
            self._fail("I17", told, last)

    def _on_reply(self, host: Host, rpc: Rpc, effect: Any) -> None:
        request = rpc.message
        if not isinstance(request, VoteRequest):
            return
        answer = effect.message
        if not isinstance(answer, VoteResponse) or not answer.vote_granted:
            return
        if request.pre_vote:
            self._check_pre_vote(host, request)
            return
        self._check_vote(host, request)

    def _check_vote(self, host: Host, request: VoteRequest) -> None:
        """I2 and I3 by the granted vote: one for each epoch and disk, which is written by then."""
        epoch, candidate = request.epoch, (request.candidate_id, request.candidate_directory)
        self.quorum.ballots[host.id, epoch, candidate[0]] = candidate[1].hex()
        before = self._granted.setdefault((host.id, host.disk.directory, epoch), candidate)
        if before != candidate:
            self._fail(
                "I2",
                f"{host.name} granted its vote of epoch {epoch} to {before[0]} and {candidate[0]}",
            )
        if not vote_is_saved(host.id, epoch, candidate[0], disk_of(host).quorum_state):
            self._fail(
                "I3",
                f"{host.name} granted its vote of epoch {epoch} to {candidate[0]} but its disk does"
                " not have it",
            )

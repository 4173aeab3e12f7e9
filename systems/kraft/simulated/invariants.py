"""Quorum invariants that are watched while the world runs, one event at a time.

The simulator sees more than a real harness: every message with the disk of its sender at
that moment. So it checks the invariants that need both at the instant they break.
``checkers`` judges the finished run by the evidence that a real cluster leaves too. The ids are
those of the KRaft invariants (I1 election safety, I2 one vote, …, see docs/simulator.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.consensus.effects import ResponseReceived, Send
from kraftwreck.nodes.consensus.kraft.messages import (
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    Request,
    UpdateRaftVoterRequest,
    VoteRequest,
    VoteResponse,
)
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.network import Rpc
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.answer_watch import AnswerWatch
from kraftwreck.systems.kraft.simulated.binding import disk_of
from kraftwreck.systems.kraft.simulated.election_watch import ElectionWatch
from kraftwreck.systems.kraft.simulated.logs import LogWatch
from kraftwreck.systems.kraft.simulated.record_answers import RecordAnswers
from kraftwreck.systems.kraft.simulated.record_watch import RecordWatch
from kraftwreck.systems.kraft.simulated.request_watch import RequestWatch
from kraftwreck.systems.kraft.simulated.service_watch import ServiceWatch
from kraftwreck.systems.kraft.simulated.snapshot_watch import SnapshotWatch
from kraftwreck.systems.kraft.simulated.storm_watch import StormWatch
from kraftwreck.systems.kraft.simulated.voter_watch import VoterWatch

REFUSALS = ("contradiction", "defect")
"""Traces of messages that a node refused: nodes of one release never give cause for that."""
SLACK = 400_000
"""Traces of refused messages: nodes of one release never send such messages."""

"""Microseconds beyond its check-quorum time after which a deposed leader must have resigned."""


@dataclass(slots=True)
class _Quorum:
    """The last fetch of each voter from the leader of ``epoch``.

    ``since`` is the last time at which a majority had fetched within the time that a leader waits
    for them. The leader may count from another time: whether a fetch that diverges counts is not
    specified, and shifts its later counts.
    """

    epoch: int
    since: int
    heard: dict[int, int] = field(default_factory=dict)


class Invariants:
    """Watches a world. ``failures`` is empty as long as every invariant held.

    ``voters`` are the ids of the configured voters, None for all hosts.
    """

    def __init__(
        self, world: World, fetch_timeout_ms: int = 2000, voters: Iterable[int] | None = None
    ) -> None:
        self.failures = Failures()
        configured = [host.id for host in world.hosts] if voters is None else list(voters)
        self.voters = VoterWatch(world, self.failures, configured)
        self.logs = LogWatch(world, self.failures, self.voters)
        self.snapshots = SnapshotWatch(world, self.failures, self.logs)
        self.storms = StormWatch(world, self.failures)
        self.elections = ElectionWatch(world, self.failures, self.voters)
        self.requests = RequestWatch(world, self.failures, self.voters)
        self.answers = AnswerWatch(world, self.failures)
        self.service = ServiceWatch(world, self.failures)
        self.records = RecordWatch(world, self.failures)
        if self.records.watches:
            RecordAnswers(world, self.failures, self.records)
        self._world = world
        self._check_quorum = fetch_timeout_ms * 1500
        self._leaders: dict[int, TraceEvent] = {}
        self._votes: dict[tuple[str, bytes, int], TraceEvent] = {}
        self._granted: set[tuple[str, bytes, int, int]] = set()
        self._last: dict[str, TraceEvent] = {}
        self._high: dict[str, int] = {}
        self._starts: dict[tuple[str, int], int] = {}
        self._fetches: dict[int, int] = {}
        self._fetched: dict[int, int] = {}  # The last time, by the node's own clock.
        self._asked: dict[int, int] = {}
        self._older: dict[int, int] = {}
        """The last request that each process has sent, and its last one of an earlier state."""
        self._quorums: dict[int, _Quorum] = {}
        world.on_trace.append(self._on_trace)
        world.on_request.append(self._on_request)
        world.on_response.append(self._on_response)
        world.on_wipe.append(self._on_wipe)
        world.on_recovery.append(self._on_recovery)
        world.wires.on_reply.append(self._on_reply)
        world.wires.on_send.append(self._on_send)

    def _fail(self, kind: str, explanation: str, *events: TraceEvent) -> None:
        self.failures.add(kind, self._world.now, explanation, *events)

    def _on_recovery(self, host: Host, findings: list[str]) -> None:
        """F1: a start reads what was written, or at least what was flushed."""
        for text in findings:
            self._fail("F1", f"{host.name} started from a disk that lost or changed data: {text}")

    def _on_wipe(self, host: Host) -> None:
        """Treat a host with an empty disk as another replica: it has promised nothing."""
        self._last.pop(host.name, None)
        self._high.pop(host.name, None)
        self.voters.wiped(host)

    def finish(self) -> None:
        """Judge the rules that must wait until the run is over and the cluster has recovered."""
        self.logs.finish()
        self.snapshots.finish()
        self.answers.finish()
        self.elections.finish()
        self.requests.finish()
        self.records.finish()

    # --- traces -----------------------------------------------------------------------

    def _on_trace(self, host: Host, event: TraceEvent) -> None:
        last = self._last.get(event.node)
        self._last[event.node] = event
        kind = event.kind
        if kind == "fatal":
            self._fail("I29", f"{event.node} died: {event.detail.get('reason')}", event)
            return
        if kind in REFUSALS:
            reason = f"{event.node} refused {event.detail.get('in')}: {event.detail.get('reason')}"
            self._fail("I29", reason, event)
        if last is not None and event.epoch < last.epoch:
            self._fail(
                "I6",
                f"the epoch of {event.node} went back from {last.epoch} to {event.epoch}",
                last,
                event,
            )
        if kind in ("state", "start"):
            self._fetches[host.id] = 0
            if kind == "start":
                self._asked.pop(host.id, None)
            self._older[host.id] = self._asked.get(host.id, -1)
        if kind == "start":
            self._high[event.node] = -1
            self.logs.restarted(host)
            self.snapshots.restarted(host)
            if event.state == "leader":
                self._fail("I15", f"{event.node} started as leader of {event.epoch}", event)
        if event.voted >= 0:
            self._check_vote(host, event)
        if event.state == "leader":
            self._check_leader(host, event)
        elif event.state == "prospective" and last is not None and event.epoch != last.epoch:
            self._fail(
                "I16", f"{event.node} raised its epoch only to request pre-votes", last, event
            )
        if event.hw >= 0:
            self._check_high_watermark(event)
        if kind == "hw":
            self.logs.advanced(host, event)
        elif kind == "elected":
            self._check_elected(host, event)
        elif kind == "claim":
            self._check_claim(event)
        elif kind in ("snapshot", "install", "load", "image"):
            self.snapshots.told(host, event, self._high.get(event.node, -1))
        elif kind == "voters":
            self.voters.changed(event, self._starts.get((event.node, event.epoch)))
            if host.id in self._quorums:
                self._quorums[host.id].since = self._world.now
        elif kind == "commit" and event.detail.get("last", -1) >= event.hw:
            self._fail("I25", f"{event.node} applied records at or above its high watermark", event)

    def _check_vote(self, host: Host, event: TraceEvent) -> None:
        key = (event.node, host.disk.directory, event.epoch)
        before = self._votes.setdefault(key, event)
        if before.voted != event.voted:
            self._fail(
                "I2",
                f"{event.node} voted for {before.voted} and for {event.voted} in epoch"
                f" {event.epoch}",
                before,
                event,
            )

    def _check_leader(self, host: Host, event: TraceEvent) -> None:
        before = self._leaders.setdefault(event.epoch, event)
        if before.node != event.node:
            self._fail(
                "I1",
                f"{before.node} and {event.node} both led epoch {event.epoch}",
                before,
                event,
            )
        quorum = self._quorums.get(host.id)
        if quorum is None or quorum.epoch != event.epoch:
            quorum = self._quorums[host.id] = _Quorum(event.epoch, self._world.now)
        start = self._starts.get((event.node, event.epoch))
        if start is not None and 0 <= event.hw <= start:
            self._fail(
                "I12",
                f"{event.node} exposed high watermark {event.hw} in epoch {event.epoch}, which"
                f" started at offset {start}",
                event,
            )
        now, settled = self._world.now, quorum.since + SLACK
        if (
            now - settled > 0
            and host.clock.elapsed(settled, now) > self._check_quorum
            and self._world.now - host.resumed_at > SLACK
            and len(self.voters.of(event.node)) > 1
        ):
            self._fail(
                "I18",
                f"{event.node} still led epoch {event.epoch} although no majority had fetched"
                f" from it for {(now - quorum.since) / 1e6:.1f} s",
                event,
            )

    def _check_high_watermark(self, event: TraceEvent) -> None:
        if event.hw > event.leo:
            self._fail(
                "I14",
                f"{event.node} has high watermark {event.hw} beyond its log end {event.leo}",
                event,
            )
        high = self._high.get(event.node, -1)
        if event.hw > high:
            self._high[event.node] = event.hw
        elif event.hw < high:
            self._fail(
                "I13",
                f"the high watermark of {event.node} went back from {high} to {event.hw}",
                event,
            )

    def _check_elected(self, host: Host, event: TraceEvent) -> None:
        start = event.detail.get("epoch_start")
        if isinstance(start, int):
            self._starts[(event.node, event.epoch)] = start
        granting = event.detail.get("granting")
        if isinstance(granting, list):
            self.voters.elected(host, event, granting)
        self.logs.elected(host, event)

    def _check_claim(self, event: TraceEvent) -> None:
        """I25: a controller becomes active only once the start of the epoch is applied."""
        start = self._starts.get((event.node, event.epoch))
        if event.state != "leader":
            self._fail("I25", f"the controller of {event.node} claimed as {event.state}", event)
        elif start is None or event.hw <= start:
            self._fail(
                "I25",
                f"the controller of {event.node} claimed epoch {event.epoch}, which starts at"
                f" {start}, when only offsets below {event.hw} were committed",
                event,
            )

    # --- messages ---------------------------------------------------------------------

    def _on_request(self, host: Host, message: Request) -> None:
        kind = type(message)
        if kind is FetchSnapshotRequest:
            assert isinstance(message, FetchSnapshotRequest)
            self.snapshots.asked(host, message)
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
            now = self._world.now
            quorum.heard[asking] = now
            voters = self.voters.of(host.name)
            # Its own vote counts if it is a voter: it may be about to leave.
            needed = len(voters) // 2 + (host.id not in voters)
            if len(quorum.heard) >= needed and self._recent(host, quorum) >= needed:
                quorum.since = now

    def _recent(self, host: Host, quorum: _Quorum) -> int:
        """Return how many voters have fetched within the time a leader waits for a majority. A
        paused process does not notice how long ago that was, so pauses do not count."""
        now, elapsed = self._world.now, host.clock.elapsed
        if elapsed(host.resumed_at, now) <= self._check_quorum + SLACK:
            return len(quorum.heard)
        return sum(elapsed(at, now) <= self._check_quorum + SLACK for at in quorum.heard.values())

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
        ):
            self._fetches[host.id] = self._fetches.get(host.id, 0) + 1
            # The backlog of a paused process may be dropped as too late.
            if host.clock.elapsed(host.resumed_at, self._world.now) > SLACK:
                self._fetched[host.id] = host.clock.mono(self._world.now)

    def _check_pre_vote(self, host: Host, request: VoteRequest) -> None:
        """I17: a follower that has recently fetched from its leader grants no pre-vote.

        Answers to requests of an earlier state do not count. One answer may have been dropped as
        too late, two may not. An observer stays a follower after its fetch timeout, a voter does
        not.
        """
        last = host.last_trace
        if last is None or last.state != "follower" or self._fetches[host.id] < 2:
            return
        limit = self._world.knobs.settings_of(host.id).get("fetch_timeout_ms", 2000) * 1000
        since = self._fetched.get(host.id)
        if since is not None and host.clock.mono(self._world.now) - since < limit:
            self._fail(
                "I17",
                f"{host.name} follows {last.leader} in epoch {last.epoch}, has fetched from it, and"
                f" yet granted {request.candidate_id} a pre-vote",
                last,
            )

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
        epoch, candidate = request.epoch, request.candidate_id
        self.voters.granted(host, request)
        saved = disk_of(host).quorum_state
        if saved is None or (saved.epoch, saved.voted_id) != (epoch, candidate):
            newer = saved is not None and (
                saved.epoch > epoch or (saved.epoch == epoch and saved.leader_id >= 0)
            )
            if not newer:
                self._fail(
                    "I3",
                    f"{host.name} granted its vote of epoch {epoch} to {candidate} but its disk"
                    f" does not have it",
                )
        own = self.logs.end(host)
        vote = (host.name, host.disk.directory, epoch, candidate)
        if vote in self._granted:
            return  # A repeated request gets the same vote again.
        self._granted.add(vote)
        if (request.last_epoch, request.last_offset) < own:
            self._fail(
                "I4",
                f"{host.name}, whose log ends at (epoch, offset) {own}, voted for {candidate},"
                f" whose log ends at {(request.last_epoch, request.last_offset)}",
            )

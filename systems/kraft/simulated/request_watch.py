"""Checks followers' requests: fetching (F5), campaigns (F6), and voter changes (F7).

F5: a follower, voter or observer, sends its leader the next request after an answer or a failure,
at the latest when its back-off and a request to another node are over. If the leader does not
answer it also asks other nodes: leaders need not announce themselves to observers (KIP-595). A node
without a leader asks around, and a leader that resigns ends its epoch at all voters.

F6: a follower campaigns when its leader has not answered for a fetch timeout, and not before.
Answers may be records or pieces of a snapshot (KIP-630).

F7: a node that joins by itself adds only itself, with its present disk, and removes only a voter
with its id and another disk. A voter whose update of listener and features was refused sends it
again (KIP-853).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kraftwreck.checkers.kraft.limits import DRIFT_US, IN_VAIN_MS, STEPS_US
from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.consensus.effects import ResponseReceived, Send
from kraftwreck.nodes.consensus.kraft.messages import (
    AddRaftVoterRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RemoveRaftVoterRequest,
    Request,
    UpdateRaftVoterRequest,
    VoterChangeResponse,
)
from kraftwreck.nodes.protocol.errors import SNAPSHOT_NOT_FOUND
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.election_watch import quorum_settings
from kraftwreck.systems.kraft.simulated.knobs import Knobs
from kraftwreck.systems.kraft.simulated.voter_watch import VoterWatch

IN_VAIN = 4
"""Failed requests to a leader, one after the other, before another node must be asked."""

VoterChange = AddRaftVoterRequest | RemoveRaftVoterRequest | UpdateRaftVoterRequest
_VOTER_CHANGES = (AddRaftVoterRequest, RemoveRaftVoterRequest, UpdateRaftVoterRequest)


@dataclass(slots=True)
class _Asking:
    """A node's requests to its leader since it follows it. Times are virtual µs."""

    sent: dict[int, tuple[Send, int]] = field(default_factory=dict)
    """The open request and its time, by destination."""
    closed: int = -1
    """When the last request to the leader was answered or failed; -1 while one is open."""
    quiet: int = -1
    """Since when no request was sent, and none answered."""
    untold: set[int] = field(default_factory=set)
    """Voters to which it has not sent its resignation."""
    in_vain: int = 0
    vain_since: int = 0
    answered: int = -1
    ended: bool = False
    """Whether its leader has ended the epoch: what it sent before may still arrive."""
    refused: int = -1
    """When the leader refused the voter's update of itself."""
    gone: tuple[int, int] | None = None
    """The snapshot that the leader no longer has, until the next Fetch to the leader."""


class RequestWatch:
    """Follows the requests of each follower and their outcomes."""

    def __init__(self, world: World, failures: Failures, voters: VoterWatch) -> None:
        self._world = world
        self._failures = failures
        self._voters = voters
        self._asking = {host.id: _Asking() for host in world.hosts}
        self._settings = {host.id: quorum_settings(world, host) for host in world.hosts}
        world.wires.on_send.append(self._on_send)
        world.on_request.append(self._on_request)
        world.on_response.append(self._on_response)
        world.on_trace.append(self._on_trace)

    def finish(self) -> None:
        """Judge the nodes that are still silent after the run."""
        for host in self._world.hosts:
            if host.node is not None and not host.paused and not host.busy:
                self._judge_silence(host)
                self._judge_patience(host)
                if host.last_trace is not None:
                    self._judge_quiet(host, host.last_trace.state, host.last_trace)

    # --- events ---------------------------------------------------------------------------

    def _on_trace(self, host: Host, event: TraceEvent) -> None:
        if event.kind == "state":
            before = event.detail.get("from", "")
            if event.state == "prospective" and before == "follower":
                self._judge_haste(host, event)
            self._judge_patience(host)
            self._judge_quiet(host, before, event)
        if event.kind in ("state", "start"):
            self._asking[host.id] = _Asking(quiet=self._world.now)
        if event.kind == "resign" or (event.kind == "start" and event.state == "resigned"):
            self._asking[host.id].untold = set(self._voters.of(host.name)) - {host.id}

    def _on_send(self, host: Host, effect: Send) -> None:
        asking, last = self._asking[host.id], host.last_trace
        if last is not None:
            self._judge_quiet(host, last.state, last)
        asking.quiet = self._world.now
        if isinstance(effect.message, EndQuorumEpochRequest):
            asking.untold.discard(effect.destination)
        to_leader = last is not None and effect.destination == last.leader
        if to_leader:
            self._judge_silence(host)
            asking.closed = -1
            self._judge_memory(host, effect.message)
            if isinstance(effect.message, _VOTER_CHANGES):
                self._judge_wish(host, effect.message)
                if isinstance(effect.message, UpdateRaftVoterRequest):
                    asking.refused = -1
        else:
            asking.in_vain = 0
        asking.sent[effect.destination] = effect, host.stepped_at

    def _on_request(self, host: Host, message: Request) -> None:
        asking, last = self._asking[host.id], host.last_trace
        if (
            isinstance(message, EndQuorumEpochRequest)
            and last is not None
            and (message.leader_id, message.leader_epoch) == (last.leader, last.epoch)
        ):
            asking.answered, asking.ended = -1, True  # It may campaign at once.

    def _on_response(self, host: Host, event: ResponseReceived) -> None:
        asking, last, now = self._asking[host.id], host.last_trace, self._world.now
        effect, sent = asking.sent.get(event.source, (None, 0))
        if effect is None or effect.correlation != event.correlation:
            return  # It belongs to an earlier state.
        del asking.sent[event.source]
        asking.quiet = now
        if last is None or last.state != "follower" or event.source != last.leader:
            return
        asking.closed, answer = now, event.message
        if answer is None:
            if not asking.in_vain:
                asking.vain_since = now
            asking.in_vain += 1
            self._judge_loyalty(host)
            return
        asking.in_vain = 0
        if isinstance(answer, VoterChangeResponse):
            told = isinstance(effect.message, UpdateRaftVoterRequest)
            asking.refused = now if told and answer.error else -1
        limit = 1000 * self._settings[host.id]["request_timeout_ms"]
        if (
            isinstance(answer, FetchResponse | FetchSnapshotResponse)
            and answer.error == 0
            and answer.leader_epoch == last.epoch
            and host.clock.elapsed(sent, now) < limit
        ):
            asked = effect.message
            if answer.partition_error == 0 and not asking.ended:
                asking.answered = now
            if answer.partition_error == SNAPSHOT_NOT_FOUND:
                assert isinstance(asked, FetchSnapshotRequest)
                asking.gone = asked.snapshot_end, asked.snapshot_epoch

    # --- rules ----------------------------------------------------------------------------

    def _is_over(self, host: Host, since: int, most_ms: int) -> bool:
        return host.waited(since, self._world.now, STEPS_US) > 1000 * most_ms

    @rule(
        "F5",
        "FollowersFetch",
        "A node without a leader asks other nodes, and a node that resigns notifies all "
        "voters. A follower fetches from its leader again once timeout and back-off are "
        "over, and asks other nodes if the leader does not answer. It does not request a "
        "snapshot again after SNAPSHOT_NOT_FOUND.",
        simulated=True,
    )
    def _judge_silence(self, host: Host) -> None:
        asking, last, now = self._asking[host.id], host.last_trace, self._world.now
        if asking.closed < 0 or last is None or last.state != "follower" or host.stopping:
            return
        settings = self._settings[host.id]
        most = settings["request_timeout_ms"] + settings["reconnect_backoff_max_ms"]
        if self._is_over(host, asking.closed, most):
            self._failures.add(
                "F5",
                now,
                f"{host.name} follows {last.leader} in epoch {last.epoch}, but has sent it no"
                f" request for {(now - asking.closed) / 1e6:.1f} s",
                last,
            )

    def _judge_quiet(self, host: Host, state: str, event: TraceEvent) -> None:
        """Judge a silence; ``event`` is the last of the judged state, or the first after it."""
        asking, now = self._asking[host.id], self._world.now
        if asking.quiet < 0 or state not in ("unattached", "resigned"):
            return
        settings = self._settings[host.id]
        most = settings["reconnect_backoff_max_ms"]
        untold = asking.untold & set(self._voters.of(host.name))
        if state == "unattached":
            most += settings["request_timeout_ms"]
        elif not untold:
            return
        others = set(self._voters.of(host.name)) - {host.id}
        if others and self._is_over(host, asking.quiet, most):
            what = f"sent no resignation to {sorted(untold)}" if untold else "asked no node"
            self._failures.add(
                "F5",
                now,
                f"{host.name} was {state} in epoch {event.epoch}, and {what} for"
                f" {(now - asking.quiet) / 1e6:.1f} s",
                event,
            )

    def _judge_loyalty(self, host: Host) -> None:
        asking, last, now = self._asking[host.id], host.last_trace, self._world.now
        assert last is not None
        if asking.in_vain < IN_VAIN or not self._is_over(host, asking.vain_since, IN_VAIN_MS):
            return
        others = set(self._voters.of(host.name)) - {host.id, last.leader}
        if others:
            self._failures.add(
                "F5",
                now,
                f"{host.name} sends requests to {last.leader}, its leader in epoch {last.epoch},"
                f" without success ({asking.in_vain} times), and asks no other node",
                last,
            )

    def _judge_memory(self, host: Host, message: object) -> None:
        asking, last = self._asking[host.id], host.last_trace
        if isinstance(message, FetchRequest):
            asking.gone = None
        elif isinstance(message, FetchSnapshotRequest):
            wanted = message.snapshot_end, message.snapshot_epoch
            if wanted == asking.gone and last is not None:
                self._failures.add(
                    "F5",
                    self._world.now,
                    f"{host.name} asks {last.leader} again for snapshot {wanted}, which that no"
                    " longer has, without a Fetch in between",
                    last,
                )

    @rule(
        "F7",
        "JoinsAsItself",
        "With auto-join, a node requests to become a voter with its own disk, and requests "
        "the removal of the voter with its id and another disk. A voter whose "
        "UpdateRaftVoter request was refused sends it again.",
        simulated=True,
    )
    def _judge_wish(self, host: Host, message: VoterChange) -> None:
        """F7; the leader may still refuse a request that rests on an older set of voters."""
        known = self._voters.of(host.name).get(host.id)
        own = host.disk.directory.hex()
        knobs = self._world.knobs
        joins = isinstance(knobs, Knobs) and knobs.auto_join
        directory = message.directory.hex()
        if isinstance(message, AddRaftVoterRequest):
            right = joins and known is None and directory == own
        elif isinstance(message, RemoveRaftVoterRequest):
            right = joins and directory == known != own
        else:
            right = known is not None and directory == own
        if not right or message.voter_id != host.id:
            what = type(message).__name__.removesuffix("Request")
            self._failures.add(
                "F7",
                self._world.now,
                f"{host.name} requests {what} of {message.voter_id} with disk"
                f" {directory}; its own is {own}, that of the voter {known or 'none'}, and it is"
                f" {'' if joins else 'not '}set to join by itself",
            )

    def _judge_patience(self, host: Host) -> None:
        """F7: the leader of a static quorum gets each voter's update before kraft.version 1."""
        asking, now, settings = self._asking[host.id], self._world.now, self._settings[host.id]
        if asking.refused < 0 or host.stopping or self._voters.level(host.name):
            return
        most = 2 * settings["fetch_timeout_ms"] + settings["request_timeout_ms"]
        most += settings["reconnect_backoff_max_ms"]
        if self._is_over(host, asking.refused, most):
            self._failures.add(
                "F7",
                now,
                f"{host.name} was refused the update of its listeners and features, and has not"
                f" sent it again for {(now - asking.refused) / 1e6:.1f} s",
            )

    @rule(
        "F6",
        "NoHastyElection",
        "A follower whose leader answered within a fetch timeout, also with a piece of a "
        "snapshot, does not stand for election unless the leader resigns. Nor does a voter within "
        "an election timeout after its vote, or with pre-votes from before it.",
        simulated=True,
    )
    def _judge_haste(self, host: Host, event: TraceEvent) -> None:
        asking, now = self._asking[host.id], self._world.now
        if asking.answered < 0:
            return
        limit = 1000 * self._settings[host.id]["fetch_timeout_ms"]
        waited = host.clock.elapsed(asking.answered, now)
        if waited < limit - DRIFT_US:
            self._failures.add(
                "F6",
                now,
                f"{host.name} campaigns in epoch {event.epoch} although the leader it"
                f" followed answered it {waited / 1e6:.2f} s before; its timeout is"
                f" {limit / 1e6:.2f} s",
                event,
            )

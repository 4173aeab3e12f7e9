"""Watches for voters that do not start an election in time (F4).

Raft makes progress because no voter waits for long (Ongaro's thesis, section 3.4). A follower
without answers of its leader starts an election within a fetch timeout. One that its leader has
told of the end of its epoch does so within the longest delay of a successor (KIP-595): what else
that leader says was sent before. Any other voter that knows
no leader starts one within two election timeouts after its last attempt or vote, as timeouts are
drawn from [T, 2T). A newer epoch alone does not restart the timeout: a voter that learns of one
newer epoch after another would never start. The clock is the voter's own, without its pauses.

A follower without answers of its leader also grants pre-votes to candidates whose logs are new
enough: an observer may be a voter by a record that it has not fetched yet (KIP-853). A node
gives up its own pre-votes once a majority is out of reach or an election timeout is over
(KIP-996). If it did so earlier, a single refusal could prevent an election.

A vote gives its candidate the voter's election timeout (Raft, section 5.2): a voter that stood at
once would disturb the election that it has just supported. Pre-votes that it got before count no
longer (F6).

A leader that resigns orders its successors by what they have fetched, so that the voter with the
longest log stands first (KIP-595). Its own memory of the fetches is judged by I27.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from kraftwreck.checkers.kraft.limits import DRIFT_US, STEPS_US
from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.consensus.effects import ResponseReceived, Send
from kraftwreck.nodes.consensus.kraft.config import QuorumConfig
from kraftwreck.nodes.consensus.kraft.leader import Leader
from kraftwreck.nodes.consensus.kraft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    Request,
    VoteRequest,
    VoteResponse,
)
from kraftwreck.nodes.consensus.kraft.states import Prospective
from kraftwreck.nodes.node import Node
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.network import Rpc
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.voter_watch import VoterWatch

_DEFAULTS: dict[str, Any] = {field.name: field.default for field in fields(QuorumConfig)}

_KEEPS = frozenset(("unattached", "candidate", "resigned"))
"""States that keep their deadline when a newer epoch makes them unattached."""

_ANEW = frozenset(("start", "voters", "grant"))
"""Events after which a node's timeout begins again: start, a new voter set, a granted vote."""


@dataclass(slots=True)
class _PreVotes:
    """A request for pre-votes: the position of the node, the number of voters, and when (µs) its
    time began. ``refused`` are voters that did not grant it."""

    epoch: int
    leader: int
    voters: int
    since: int
    refused: set[int] = field(default_factory=set)

    @property
    def is_lost(self) -> bool:
        """Whether no majority of the voters is left."""
        return 2 * (self.voters - len(self.refused)) <= self.voters


@dataclass(slots=True)
class _Support:
    """The voters that granted a prospective node their pre-votes: since ``of_vote`` (a candidate),
    to which it gave its own vote, or since it became prospective (-1)."""

    of_vote: int = -1
    granted: set[int] = field(default_factory=set)


class ElectionWatch:
    """Knows since when each node without leadership has waited."""

    def __init__(self, world: World, failures: Failures, voters: VoterWatch) -> None:
        self._world = world
        self._failures = failures
        self._voters = voters
        self._since: dict[int, int] = {}
        self._ended: set[int] = set()
        """The followers whose leader has ended its epoch."""
        self._limits = {host.id: _limits(world, host) for host in world.hosts}
        self._pre_votes: dict[int, _PreVotes] = {}
        """By node: its request in progress, unless its voters have changed since."""
        self._support: dict[int, _Support] = {}
        """By prospective node, unless its voters have changed since."""
        self._voted: dict[int, tuple[int, int]] = {}
        """By unattached node: the candidate that it voted for last, and the time (µs)."""
        self._leading: dict[int, Leader] = {}
        """By node that leads or has just resigned: its memory of the other voters."""
        world.on_trace.append(self._on_trace)
        world.on_request.append(self._on_request)
        world.on_response.append(self._on_response)
        world.wires.on_reply.append(self._on_reply)
        world.wires.on_send.append(self._on_send)

    def finish(self) -> None:
        """Judge the nodes that still wait after the run."""
        for host in self._world.hosts:
            last = host.last_trace
            if last is not None and host.node is not None and not host.paused and not host.busy:
                self._judge(host, last.state, last)

    def _on_trace(self, host: Host, event: TraceEvent) -> None:
        kind, now = event.kind, self._world.now
        self._follow_pre_votes(host, event)
        self._follow_votes(host, event)
        if kind == "start" or (kind == "state" and event.state != "resigned"):
            self._follow_leader(host, event)
        if kind == "state":
            before = event.detail.get("from", "")
            self._judge(host, before, event)
            self._ended.discard(host.id)
            if event.state == "leader":
                self._since.pop(host.id, None)
            elif event.state != "unattached" or before not in _KEEPS:
                self._since[host.id] = now
        elif kind in _ANEW and not event.detail.get("pre"):
            self._since[host.id] = now
            self._ended.discard(host.id)

    def _on_request(self, host: Host, message: Request) -> None:
        if isinstance(message, BeginQuorumEpochRequest | EndQuorumEpochRequest):
            self._heard(host, message.leader_id)
        last = host.last_trace
        if (
            isinstance(message, EndQuorumEpochRequest)
            and last is not None
            and (last.leader, last.epoch) == (message.leader_id, message.leader_epoch)
            and self._is_voter(host)
        ):
            self._ended.add(host.id)

    def _on_response(self, host: Host, event: ResponseReceived) -> None:
        self._heard(host, event.source)
        answer = event.message
        if not isinstance(answer, VoteResponse):
            return
        asked, support = self._pre_votes.get(host.id), self._support.get(host.id)
        if answer.vote_granted:
            if support is not None:
                support.granted.add(event.source)
        elif asked is not None:
            asked.refused.add(event.source)

    def _follow_pre_votes(self, host: Host, event: TraceEvent) -> None:
        kind, at_once = event.kind, host.stepped_at == self._world.now
        if kind == "state":
            asked = self._pre_votes.pop(host.id, None)
            if asked is not None:
                self._judge_haste(host, asked, event)
            # A step that wrote to the disk has begun earlier.
            if event.state == "prospective" and at_once:
                voters = len(self._voters.of(host.name))
                now = self._world.now
                self._pre_votes[host.id] = _PreVotes(event.epoch, event.leader, voters, now)
        elif kind in _ANEW and not event.detail.get("pre"):
            self._pre_votes.pop(host.id, None)

    def _follow_votes(self, host: Host, event: TraceEvent) -> None:
        """F6: a vote gives its candidate an election timeout, and ends the voter's pre-votes."""
        kind, state = event.kind, event.state
        if kind == "state":
            voted, support = self._voted.pop(host.id, None), self._support.pop(host.id, None)
            if state == "prospective":
                self._support[host.id] = _Support()
                if voted is not None:
                    self._judge_patience(host, *voted, event)
            elif state == "candidate" and support is not None and support.of_vote >= 0:
                self._judge_support(host, support, event)
        elif kind == "grant" and not event.detail.get("pre"):
            candidate = event.detail["candidate"]
            if state == "unattached":
                # The timeout began with the step, which had to write the vote.
                self._voted[host.id] = candidate, host.stepped_at
            elif host.id in self._support:
                self._support[host.id] = _Support(candidate)
                self._judge_memory(host, candidate, event)
        elif kind in ("start", "voters"):
            self._voted.pop(host.id, None)
            self._support.pop(host.id, None)

    def _judge_patience(self, host: Host, candidate: int, since: int, event: TraceEvent) -> None:
        least = self._limits[host.id]["unattached"] // 2
        waited = host.clock.elapsed(since, self._world.now)
        if waited < least - DRIFT_US:
            self._failures.add(
                "F6",
                self._world.now,
                f"{host.name} stands for election {waited / 1e6:.2f} s after its vote for"
                f" {candidate} in epoch {event.epoch}; its timeout is at least"
                f" {least / 1e6:.2f} s",
                event,
            )

    def _judge_support(self, host: Host, support: _Support, event: TraceEvent) -> None:
        voters = self._voters.of(host.name)
        granted = {voter for voter in voters if voter == host.id or voter in support.granted}
        if 2 * len(granted) <= len(voters):
            self._failures.add(
                "F6",
                self._world.now,
                f"{host.name} becomes candidate of epoch {event.epoch}, but since its vote for"
                f" {support.of_vote} only {sorted(granted)} of {sorted(voters)} granted it"
                " pre-votes",
                event,
            )

    def _judge_memory(self, host: Host, candidate: int, event: TraceEvent) -> None:
        """F6: a node that has just voted counts no answers to its pre-votes."""
        node = host.node
        standing = node.replica.state if isinstance(node, Node) else None
        if not isinstance(standing, Prospective):
            return
        kept = (standing.granted | standing.rejected) - {host.id}
        if kept:
            self._failures.add(
                "F6",
                self._world.now,
                f"{host.name} still counts the pre-votes of {sorted(kept)} after its vote for"
                f" {candidate} in epoch {event.epoch}",
                event,
            )

    def _judge_haste(self, host: Host, asked: _PreVotes, event: TraceEvent) -> None:
        """F4: a node without news of a leader or an epoch gives up pre-votes in time only."""
        gives_up = event.state in ("follower", "unattached")
        if not gives_up or (event.epoch, event.leader) != (asked.epoch, asked.leader):
            return
        least = self._limits[host.id]["prospective"] // 2 - DRIFT_US
        if asked.is_lost or host.clock.elapsed(asked.since, self._world.now) >= least:
            return
        self._failures.add(
            "F4",
            self._world.now,
            f"{host.name} gave up its pre-votes of epoch {asked.epoch} although only"
            f" {sorted(asked.refused)} of {asked.voters} voters had refused",
            event,
        )

    def _on_reply(self, host: Host, rpc: Rpc, effect: Any) -> None:
        """F4: a follower that its leader has left grants pre-votes."""
        asked, last, node = rpc.message, host.last_trace, host.node
        if not isinstance(asked, VoteRequest) or not asked.pre_vote or last is None:
            return
        answer: VoteResponse = effect.message
        refuses = not (answer.vote_granted or answer.error or answer.partition_error)
        if not refuses or last.state != "follower" or asked.epoch != last.epoch:
            return
        since, now = self._since.get(host.id, self._world.now), self._world.now
        if host.waited(since, now, STEPS_US) <= self._limits[host.id]["follower"]:
            return
        log = node.replica.log if isinstance(node, Node) else None
        if log and (asked.last_epoch, asked.last_offset) >= (log.last_epoch, log.end_offset):
            self._failures.add(
                "F4",
                now,
                f"{host.name} has not heard from its leader {last.leader} for"
                f" {(now - since) / 1e6:.1f} s, and refuses {asked.candidate_id} a pre-vote of"
                f" epoch {last.epoch}",
                last,
            )

    def _follow_leader(self, host: Host, event: TraceEvent) -> None:
        node = host.node
        leader = node.replica.state if isinstance(node, Node) else None
        if event.state == "leader" and isinstance(leader, Leader):
            self._leading[host.id] = leader
        else:
            self._leading.pop(host.id, None)

    def _on_send(self, host: Host, effect: Send) -> None:
        """F4: the preferred successors of a leader are in the order of what they have fetched."""
        message, leader = effect.message, self._leading.get(host.id)
        if not isinstance(message, EndQuorumEpochRequest) or leader is None:
            return
        known = {(voter, seen.directory): seen.end_offset for voter, seen in leader.voters.items()}
        fetched = [known.get(voter) for voter in message.successors]
        ends = [end for end in fetched if end is not None]
        if len(ends) < len(fetched) or ends != sorted(ends, reverse=True):
            self._failures.add(
                "F4",
                self._world.now,
                f"{host.name} resigns in epoch {message.leader_epoch}; its successors"
                f" {[voter for voter, _ in message.successors]} have fetched up to {fetched}",
                *([] if host.last_trace is None else [host.last_trace]),
            )

    def _heard(self, host: Host, source: int) -> None:
        last = host.last_trace
        if last is None or host.id in self._ended:
            return
        if last.state == "follower" and last.leader == source:
            self._since[host.id] = self._world.now

    def _is_voter(self, host: Host) -> bool:
        return self._voters.counts(host.name, host.id, host.disk.directory)

    @rule(
        "F4",
        "ElectionsInTime",
        "A voter without a leader stands for election within two election timeouts, even if"
        " it learns of newer epochs meanwhile. So does a follower whose leader does not "
        "answer for a fetch timeout, or has ended its epoch; it grants pre-votes then. Pre-votes "
        "are given up only without a majority, or after an election timeout. A leader that resigns "
        "orders its successors by what they have fetched.",
        simulated=True,
    )
    def _judge(self, host: Host, state: str, event: TraceEvent) -> None:
        """Judge the time in ``state``; ``event`` is the first after it, or the last one in it."""
        told = "ended" if state == "follower" and host.id in self._ended else state
        limit, now = self._limits[host.id].get(told), self._world.now
        if limit is None or host.stopping:
            return  # A leader that shuts down waits for its successor, and starts no election.
        since = max(self._since.get(host.id, now), host.resumed_at)
        late = host.waited(since, now, STEPS_US) > limit
        if late and self._is_voter(host):
            self._failures.add(
                "F4",
                self._world.now,
                f"{host.name} was {state} in epoch {event.epoch} for"
                f" {(self._world.now - since) / 1e6:.1f} s without starting an election",
                event,
            )


def quorum_settings(world: World, host: Host) -> dict[str, Any]:
    """Return the settings of the node's core: those of the run, defaults for the rest."""
    return {**_DEFAULTS, **world.knobs.settings_of(host.id)}


def _limits(world: World, host: Host) -> dict[str, int]:
    """Return by state how long (µs) the node may wait in it."""
    config = quorum_settings(world, host)
    election = 2000 * config["election_timeout_ms"]
    fetch = 1000 * config["fetch_timeout_ms"]
    waiting = dict.fromkeys(("unattached", "prospective", "candidate", "resigned"), election)
    return {**waiting, "follower": fetch, "ended": 1000 * config["election_backoff_max_ms"]}

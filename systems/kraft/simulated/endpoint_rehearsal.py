"""Lets copies of quorum members move to another address, or hear that another one has (F24).

A controller that starts with other listeners reports them to the leader (KIP-853). Until then the
others have an old address of it, and a new leader names its own in what it sends. Controllers of a
run keep their addresses. So a copy of a voter gets another listener, a copy of the leader a report
of one, and a copy of a follower a leader of the next epoch at another address. Compiled nodes
cannot be copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Final

from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.consensus.effects import Send
from kraftwreck.nodes.consensus.kraft import poll
from kraftwreck.nodes.consensus.kraft.leader import Leader
from kraftwreck.nodes.consensus.kraft.messages import (
    BeginQuorumEpochRequest,
    UpdateRaftVoterRequest,
)
from kraftwreck.nodes.consensus.kraft.replica import Replica
from kraftwreck.nodes.consensus.kraft.requests import handle_request
from kraftwreck.nodes.consensus.kraft.states import NEVER, Follower
from kraftwreck.nodes.consensus.kraft.voters import LISTENER
from kraftwreck.nodes.local_quorum import LocalQuorum
from kraftwreck.nodes.node import Node
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.replica_copies import (
    INTERPRETED,
    MOVED,
    TOKEN,
    is_short,
)
from kraftwreck.systems.kraft.simulated.voter_rehearsal import reason

EACH: Final = 3
"""How many leaders of a run are judged, and how many followers."""


class EndpointRehearsal:
    """Judges leaders and followers of ``world`` when they learn of a commit."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._left: dict[type, int] = {Leader: EACH, Follower: EACH}
        if INTERPRETED:
            world.on_trace.append(self._on_trace)

    @rule(
        "F24",
        "AddressesFollow",
        "A voter with other listeners reports them to its leader. The leader sends to the address "
        "that a voter has reported, and names it to clients. A follower sends to the one that the "
        "leader of a new epoch has named.",
        simulated=True,
    )
    def _on_trace(self, host: Host, event: TraceEvent) -> None:
        node = host.node
        if event.kind != "hw" or not isinstance(node, Node):
            return
        replica = node.replica
        kind = type(replica.state)
        if not self._left.get(kind) or replica.shutting_down or not is_short(replica):
            return
        self._left[kind] -= 1
        for wrong in judge(replica):
            self._failures.add("F24", self._world.now, f"{host.name} {wrong}", event)


def judge(replica: Replica) -> Iterator[str]:
    """Yield what copies of a leader or a follower do with an old address."""
    if isinstance(replica.state, Leader):
        yield from _told_of_another(replica, replica.state)
    elif isinstance(replica.state, Follower):
        yield from _moves(replica)
        yield from _follows(replica, replica.state)


def _moves(replica: Replica) -> Iterator[str]:
    """Judge a voter that has another listener than its leader knows."""
    if not replica.is_voter or replica.config.listener is None:
        return
    copy = _idle(replica)
    copy.config = replace(copy.config, listener=MOVED)
    copy.join_at = copy.now
    state = copy.state
    assert isinstance(state, Follower)
    state.has_updated = False
    sent = _sent(copy)
    if sent is None:
        return
    message = sent.message
    told = message.endpoints if isinstance(message, UpdateRaftVoterRequest) else ()
    if (LISTENER, MOVED) not in told:
        yield f"listens at {MOVED}, and would not report that to its leader {state.leader_id}"


def _follows(replica: Replica, state: Follower) -> Iterator[str]:
    """Judge a follower to which the leader of the next epoch names its address."""
    copy, epoch = _idle(replica), replica.epoch + 1
    announced = BeginQuorumEpochRequest(
        None, replica.node_id, replica.config.directory_id, state.leader_id, epoch, MOVED
    )
    handle_request(copy, TOKEN, announced)
    if copy.epoch != epoch:
        return  # It does not believe in an epoch that comes so soon.
    sent = _sent(copy)
    if sent is not None and sent.endpoint != MOVED:
        yield (
            f"would send to {sent.endpoint} although the leader of epoch {epoch} has named {MOVED}"
        )


def _told_of_another(replica: Replica, leader: Leader) -> Iterator[str]:
    """Judge a leader to which a voter reports another address."""
    if replica.high_watermark <= leader.epoch_start or reason(replica, leader):
        return
    others = replica.other_voters[:1]
    for voter_id in others:
        copy, voter = deepcopy(replica), replica.voter_set.get(voter_id)
        assert voter is not None
        level = replica.kraft_version
        versions = min(voter.min_version, level), max(voter.max_version, level)
        report = UpdateRaftVoterRequest(
            None, replica.epoch, voter_id, voter.directory, ((LISTENER, MOVED),), *versions
        )
        shown = LocalQuorum(copy)
        assert shown.voters  # It may remember them.
        handle_request(copy, TOKEN, report)
        state = copy.state
        assert isinstance(state, Leader)
        known = copy.voter_set if level else state.known_voters
        at = None if known is None else known.endpoint(voter_id)
        if at != MOVED or (level and copy.endpoint_of(voter_id) != MOVED):
            yield f"would send to voter {voter_id} at {at} although that has reported {MOVED}"
        elif level and shown.voters.get(voter_id) != MOVED:
            at = shown.voters.get(voter_id)
            yield f"would name {at} to clients for voter {voter_id}, which has reported {MOVED}"


def _idle(replica: Replica) -> Replica:
    """Return a copy of a follower that has nothing to wait for."""
    copy = deepcopy(replica)
    copy.links.clear()
    copy.effects = []
    state = copy.state
    assert isinstance(state, Follower)
    state.deadline = NEVER
    return copy


def _sent(copy: Replica) -> Send | None:
    """Return the next request of ``copy`` to its leader, None if it sends none."""
    copy.links.forget(copy.leader_id)
    poll.poll(copy)
    sent = (each for each in copy.effects if isinstance(each, Send))
    return next((each for each in sent if each.destination == copy.leader_id), None)

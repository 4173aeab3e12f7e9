"""Asks leaders to change the voters while they must not (I26), and deposes them meanwhile (C17).

A change waits for the one before, for the commit of its record, and for a record of the leader's
own epoch. Each of these states is short, so a request hardly ever meets one. Here a copy of the
leader gets a request of each kind in such a state. It must append no record for any of them.
Another copy loses its leadership during a change, which must not be reported as done then.
Compiled leaders cannot be copied, so they are not asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final

from kraftwreck.nodes.consensus.effects import Reply
from kraftwreck.nodes.consensus.kraft.leader import Leader
from kraftwreck.nodes.consensus.kraft.messages import (
    AddRaftVoterRequest,
    BeginQuorumEpochRequest,
    RemoveRaftVoterRequest,
    Request,
    UpdateRaftVoterRequest,
)
from kraftwreck.nodes.consensus.kraft.replica import Replica
from kraftwreck.nodes.consensus.kraft.requests import handle_request
from kraftwreck.nodes.consensus.kraft.voters import LISTENER, MAX_KRAFT_VERSION, MIN_KRAFT_VERSION
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.protocol.errors import NONE
from kraftwreck.nodes.replication.events import is_from_shell
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.replica_copies import (
    INTERPRETED,
    MOVED,
    TOKEN,
    is_short,
)

EACH: Final = 2
"""How often leaders are asked in each of the states, in a run."""
NEW: Final = 9_999
"""The id of a node that does not exist."""
ENDPOINTS: Final = ((LISTENER, MOVED),)


class VoterRehearsal:
    """Judges the leaders of ``world`` with dynamic voters."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._asked: dict[str, int] = {}
        self._last: dict[int, tuple[str, int]] = {}
        """By host: the state and the epoch of its last step. Each state is judged at its begin."""
        if INTERPRETED:
            world.on_step.append(self._on_step)

    def _on_step(self, host: Host, event: Any) -> None:
        node = host.node
        if not isinstance(node, Node) or is_from_shell(event):
            return
        replica = getattr(node, "replica", None)
        if not isinstance(replica, Replica) or not isinstance(replica.state, Leader):
            return
        why = reason(replica, replica.state)
        before, self._last[host.id] = self._last.get(host.id), (why, replica.epoch)
        if not why or before == (why, replica.epoch) or self._asked.get(why, 0) == EACH:
            return
        if not is_short(replica):
            return
        self._asked[why] = self._asked.get(why, 0) + 1
        for wrong in appended(replica):
            text = f"{host.name} {why}, and would append {wrong}"
            self._failures.add("I26", self._world.now, text)
        for wrong in abandoned(replica):
            self._failures.add("C17", self._world.now, f"{host.name} {why}, and {wrong}")


def reason(replica: Replica, leader: Leader) -> str:
    """Return why the voters may not change now, empty if they may or are static."""
    if replica.kraft_version < 1:
        return ""
    if replica.high_watermark <= leader.epoch_start:
        return "has committed no record of its epoch"
    if replica.history.offset >= replica.high_watermark:
        return "has voters that are not committed"
    if leader.change is not None:
        return f"has begun to {leader.change.kind} a voter"
    return ""


def requests(replica: Replica) -> Iterator[Request]:
    """Yield a request of each kind that a leader would otherwise carry out."""
    yield AddRaftVoterRequest(None, 1000, NEW, b"new".ljust(16), ENDPOINTS)
    others = [each for each in replica.voter_set.ids if each != replica.node_id]
    for voter_id in others[:1]:
        voter = replica.voter_set.get(voter_id)
        assert voter is not None
        yield RemoveRaftVoterRequest(None, voter_id, voter.directory)
        yield UpdateRaftVoterRequest(
            None,
            replica.epoch,
            voter_id,
            voter.directory,
            ENDPOINTS,
            MIN_KRAFT_VERSION,
            MAX_KRAFT_VERSION,
        )


def appended(replica: Replica) -> Iterator[str]:
    """Yield what a copy of the leader appends, now or later, for a request."""
    for message in requests(replica):
        copy = deepcopy(replica)
        leader = copy.state
        assert isinstance(leader, Leader)
        end = leader.next_offset
        handle_request(copy, TOKEN, message)
        change = leader.change
        begins = change is not None and change.voter.voter_id == NEW
        if begins or leader.next_offset > end or copy.log.end_offset > replica.log.end_offset:
            yield f"voters for a {type(message).__name__}"


def abandoned(replica: Replica) -> Iterator[str]:
    """Yield how a copy of the leader would answer the request for the change under way, once
    another voter leads or the controller has resigned, if it would not refuse it."""
    others = [each for each in replica.voter_set.ids if each != replica.node_id]
    for resigns in (False, True):
        copy = deepcopy(replica)
        leader = copy.state
        assert isinstance(leader, Leader)
        if leader.change is None or not others:
            return
        leader.change.token = TOKEN
        copy.effects = []
        if resigns:
            copy.resign("controller")
        else:
            announced = BeginQuorumEpochRequest(
                None, copy.node_id, copy.config.directory_id, others[0], copy.epoch + 1, MOVED
            )
            handle_request(copy, TOKEN + 1, announced)
        if copy.state is leader:
            continue
        answers = [e for e in copy.effects if isinstance(e, Reply) and e.token == TOKEN]
        codes = [getattr(each.message, "error", None) for each in answers]
        if len(codes) != 1 or codes[0] in (None, NONE):
            how = "it has resigned" if resigns else f"node {others[0]} leads"
            yield f"would answer the request for that with the errors {codes} once {how}"

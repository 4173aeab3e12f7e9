"""Gives voters another disk (F6, F7, I27, KIP-853).

A replica is a voter by its id and its disk. One that has lost its disk does not count before it is
added again. It does not stand for election, and lets its former self be removed first. But few runs
replace the disk of a voter whose fetch or vote decides anything. So the fetch of a voter comes to a
copy of its leader once more, with another directory id, and a copy of a follower gets one. Compiled
members cannot be copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any, Final, get_args

from kraftwreck.nodes.consensus.effects import RequestReceived, ResponseReceived, Send
from kraftwreck.nodes.consensus.kraft.leader import Leader
from kraftwreck.nodes.consensus.kraft.messages import (
    FetchRequest,
    RemoveRaftVoterRequest,
    VoteRequest,
)
from kraftwreck.nodes.consensus.kraft.poll import deadline, poll
from kraftwreck.nodes.consensus.kraft.replica import Replica
from kraftwreck.nodes.consensus.kraft.requests import handle_request
from kraftwreck.nodes.consensus.kraft.states import Follower
from kraftwreck.nodes.log.uuids import draw_uuid
from kraftwreck.nodes.node import Node
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.leader_counts import tally
from kraftwreck.systems.kraft.simulated.replica_copies import INTERPRETED, TOKEN, is_short
from kraftwreck.systems.kraft.simulated.request_watch import VoterChange

MOST: Final = 2
"""How many fetches of a run come once more, and how many followers get another disk."""
STEPS: Final = 40
"""Of a copy, in which it may ask to join."""
DIRECTORY: Final = draw_uuid(0, "another disk")


class OtherDiskRehearsal:
    """Judges the leaders of ``world``."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._left = MOST
        self._left_followers = MOST
        if INTERPRETED:
            world.on_step.append(self._on_step)

    def _on_step(self, host: Host, event: Any) -> None:
        if type(event) is ResponseReceived and self._left_followers:
            self._judge_follower(host)
        if not self._left or type(event) is not RequestReceived:
            return
        request, node = event.message, host.node
        if type(request) is not FetchRequest or not isinstance(node, Node):
            return
        replica = getattr(node, "replica", None)
        if not isinstance(replica, Replica) or not may_be_judged(replica, request):
            return
        self._left -= 1
        if counts_another_disk(replica, request):
            self._failures.add(
                "I27",
                self._world.now,
                f"{host.name} would count a fetch of node {request.replica_id} with another disk"
                f" than {request.directory.hex()}",
            )

    def _judge_follower(self, host: Host) -> None:
        replica = getattr(host.node, "replica", None)
        if not isinstance(replica, Replica) or not may_get_another_disk(replica):
            return
        self._left_followers -= 1
        for kind, wrong in with_another_disk(replica):
            self._failures.add(kind, self._world.now, f"{host.name}, with another disk, {wrong}")
            return


def may_get_another_disk(replica: Replica) -> bool:
    """Whether ``replica`` is a voter that would join again with another disk."""
    return (
        isinstance(replica.state, Follower)
        and replica.is_voter
        and replica.kraft_version >= 1
        and replica.config.listener is not None
        and not replica.shutting_down
        and is_short(replica)
    )


def with_another_disk(replica: Replica) -> Iterator[tuple[str, str]]:
    """Yield the rules that a copy with another disk would break until it asks to join again."""
    copy = deepcopy(replica)
    copy.config = replace(copy.config, directory_id=DIRECTORY, auto_join=True)
    copy.voters_changed()
    voter = replica.voter_set.get(replica.node_id)
    assert voter is not None
    for _ in range(STEPS):
        copy.effects.clear()
        copy.now = max(copy.now + 1, deadline(copy))
        poll(copy)
        for message in [each.message for each in copy.effects if isinstance(each, Send)]:
            if isinstance(message, VoteRequest):
                yield "F6", "would stand for election"
                return
            if isinstance(message, get_args(VoterChange)):
                asked = type(message), message.voter_id, message.directory
                if asked != (RemoveRaftVoterRequest, replica.node_id, voter.directory):
                    yield "F7", f"would send {message} before its former disk is removed"
                return


def may_be_judged(replica: Replica, request: FetchRequest) -> bool:
    """Whether a leader counts ``request``, of a voter whose disk it knows."""
    voter = replica.voter_set.get(request.replica_id)
    return (
        isinstance(replica.state, Leader)
        and not replica.shutting_down
        and request.current_leader_epoch == replica.epoch
        and voter is not None
        and voter.directory == request.directory
        and any(voter.directory)
        and is_short(replica)
    )


def counts_another_disk(replica: Replica, request: FetchRequest) -> bool:
    """Whether a copy of a leader counts the fetch although it comes from another disk."""
    copy = deepcopy(replica)
    leader = copy.state
    assert isinstance(leader, Leader)
    leader.fetched.discard(request.replica_id)
    leader.check_quorum_deadline -= 1  # A fetch that makes up a majority moves it.
    before = tally(leader, request.replica_id)
    other = replace(
        request,
        directory=DIRECTORY,
        fetch_offset=copy.log.end_offset,
        last_fetched_epoch=copy.log.last_epoch,
    )
    handle_request(copy, TOKEN, other)
    return copy.state is leader and tally(leader, request.replica_id) != before

"""Lets voters that have another disk fetch from copies of leaders (I27, KIP-853).

A replica is a voter by its id and its disk. One that has lost its disk does not count before it is
added again, but few runs replace the disk of a voter whose fetch decides anything. So the fetch of
a voter comes to a copy of its leader once more, with another directory id. Compiled leaders cannot
be copied.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any, Final

from kraftwreck.nodes.consensus.effects import RequestReceived
from kraftwreck.nodes.consensus.kraft.leader import Leader
from kraftwreck.nodes.consensus.kraft.messages import FetchRequest
from kraftwreck.nodes.consensus.kraft.replica import Replica
from kraftwreck.nodes.consensus.kraft.requests import handle_request
from kraftwreck.nodes.log.uuids import draw_uuid
from kraftwreck.nodes.node import Node
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.leader_counts import tally
from kraftwreck.systems.kraft.simulated.replica_copies import INTERPRETED, TOKEN, is_short

MOST: Final = 2
"""How many fetches of a run come once more."""
DIRECTORY: Final = draw_uuid(0, "another disk")


class OtherDiskRehearsal:
    """Judges the leaders of ``world``."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._left = MOST
        if INTERPRETED:
            world.on_step.append(self._on_step)

    def _on_step(self, host: Host, event: Any) -> None:
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

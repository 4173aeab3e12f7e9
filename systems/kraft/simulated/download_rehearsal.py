"""Lets copies of leaders clean up while a snapshot is fetched from them (L11).

A follower fetches a snapshot piece by piece. As long as it does, the leader keeps the snapshot, and
the log after it, for a fetch timeout after each piece (KIP-630). Whether it does shows only if it
removes the snapshot between two pieces that are nearly so far apart. So a copy of a leader that has
just sent a piece gets a newer snapshot and no room for an older one, and cleans up right before
that time is over. Compiled leaders cannot be copied.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any, Final

from kraftwreck.nodes.consensus.effects import RequestReceived
from kraftwreck.nodes.consensus.kraft import snapshots
from kraftwreck.nodes.consensus.kraft.leader import Leader
from kraftwreck.nodes.consensus.kraft.messages import FetchSnapshotRequest
from kraftwreck.nodes.consensus.kraft.replica import Replica
from kraftwreck.nodes.consensus.recovered import SnapshotFile
from kraftwreck.nodes.node import Node
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.replica_copies import INTERPRETED, is_short

EACH: Final = 2
"""How many first pieces of a run are followed by a clean-up, and how many later ones."""


class DownloadRehearsal:
    """Judges the leaders of ``world`` that send pieces of snapshots."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._left = {True: EACH, False: EACH}
        """How often a clean-up is still tried: after first pieces, and after later ones."""
        if INTERPRETED:
            world.on_step.append(self._on_step)

    def _on_step(self, host: Host, event: Any) -> None:
        if type(event) is not RequestReceived or type(event.message) is not FetchSnapshotRequest:
            return
        request, node = event.message, host.node
        first = request.position == 0
        if not self._left[first] or not isinstance(node, Node):
            return
        replica = getattr(node, "replica", None)
        if not isinstance(replica, Replica):
            return
        copy = copy_of(replica, request)
        if copy is None:
            return
        self._left[first] -= 1
        if not keeps(copy, request):
            name = request.snapshot_end, request.snapshot_epoch
            self._failures.add(
                "L11",
                self._world.now,
                f"{host.name} has sent byte {request.position} of snapshot {name}, and would"
                f" remove it within a fetch timeout",
            )


def copy_of(replica: Replica, request: FetchSnapshotRequest) -> Replica | None:
    """Return a copy of a leader that has sent the piece, with a newer snapshot and hardly any room;
    None if it has not sent it, or if nothing newer is committed."""
    name = request.snapshot_end, request.snapshot_epoch
    held = next((each for each in replica.snapshots if each.id == name), None)
    if not isinstance(replica.state, Leader) or request.current_leader_epoch != replica.epoch:
        return None
    if held is None or replica.shutting_down or not 0 <= request.position < held.size:
        return None
    if request.cluster_id not in (None, replica.config.cluster_id):
        return None
    end = replica.high_watermark
    header = replica.log.header_at(end - 1)
    if header is None or end <= replica.snapshots[-1].end_offset or not is_short(replica):
        return None
    copy = deepcopy(replica)
    copy.config = replace(copy.config, retention_bytes=0)
    copy.snapshots.append(SnapshotFile(end, header.epoch, held.size, held.timestamp))
    return copy


def keeps(copy: Replica, request: FetchSnapshotRequest) -> bool:
    """Whether a leader that cleans up shortly before the end of the fetch timeout keeps the
    snapshot, and the log from its end on."""
    end, epoch = request.snapshot_end, request.snapshot_epoch
    copy.now += 1000 * copy.config.fetch_timeout_ms - 1
    snapshots.clean(copy)
    kept = any(each.id == (end, epoch) for each in copy.snapshots)
    return kept and copy.log.start_offset <= end

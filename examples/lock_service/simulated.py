"""The lock service in the simulator: the same members on simulated hosts, disks and links.

Clients send a request as a dict by :meth:`simulation.world.World.call` and get the answer as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kraftwreck.examples.lock_service.service import LockService
from kraftwreck.harness.simulated.embedded import EmbeddedBinding, EmbeddedMember
from kraftwreck.nodes.consensus.embedded import Core
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.kraft.config import QuorumConfig
from kraftwreck.nodes.consensus.kraft.core import KraftCore
from kraftwreck.nodes.consensus.raft.config import RaftConfig
from kraftwreck.nodes.consensus.raft.core import RaftCore
from kraftwreck.nodes.consensus.recovered import Recovered
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.knobs import WorldKnobs
from kraftwreck.simulation.world import World

CLUSTER_ID: Final = "lock-service"


def lock_world(
    kind: str,
    names: Sequence[str],
    seed: int,
    knobs: WorldKnobs | None = None,
    snapshot_bytes: int = 4096,
) -> World:
    """Return a world of lock services on the core ``kind`` (``kraft`` or ``raft``)."""
    knobs = knobs or WorldKnobs()
    members = {i: Endpoint(name, 1) for i, name in enumerate(names, 1)}

    def member(host: Host, recovered: Recovered, now: int, wall_ms: int) -> EmbeddedMember:
        settings: dict[str, Any] = {"seed": seed, "incarnation": host.incarnation}
        settings |= knobs.settings_of(host.id)
        core: Core
        if kind == "raft":
            raft = RaftConfig(host.id, CLUSTER_ID, members, **settings)
            core = RaftCore(raft, recovered, now, wall_ms)
        else:
            directory = bytes([host.id] * 16)
            kraft = QuorumConfig(host.id, CLUSTER_ID, directory, members, **settings)
            core = KraftCore(kraft, recovered, now, wall_ms)
        return EmbeddedMember(LockService(core, snapshot_bytes=snapshot_bytes))

    return World(names, member, seed, knobs, EmbeddedBinding())

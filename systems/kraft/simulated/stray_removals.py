"""Requests in virtual time to remove voters that do not exist (KIP-853).

A voter is an id and a disk. An operator who has an old list, or reads the wrong line of it, names a
voter's id with the disk of another node, or with a disk that is gone. The leader must refuse that,
also while it could make a change. Changes of voters are rare in most runs, so these requests come
at drawn times in every run of a dynamic quorum.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from kraftwreck.harness.client import Answer, Call
from kraftwreck.harness.simulated.calls import virtual_call
from kraftwreck.nodes.draw import draw_below
from kraftwreck.nodes.protocol.request import KafkaRequest
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.cluster import CLUSTER_ID, SimulatedCluster

STRAY: Final = 3_000_000
"""The number of the connections of these requests, distinct from those of other clients."""
TIMES: Final = 4
TIMEOUT_MS: Final = 3_000
GONE: Final = bytes([0x77] * 16)
"""A disk that no node has."""


class StrayRemovals:
    """Asks all controllers of ``cluster``, as it is not known which one leads, before ``limit``."""

    def __init__(self, world: World, cluster: SimulatedCluster, seed: int, limit: int) -> None:
        self._world = world
        self._cluster = cluster
        self._seed = seed
        if cluster.knobs.dynamic:
            for number in range(TIMES):
                at = draw_below(limit, seed, "stray", number)
                world.at(at, partial(self._ask, number), f"stray removal {number}")

    def _ask(self, number: int) -> None:
        names = self._cluster.controllers
        key = self._seed, "stray", number
        voter = 1 + draw_below(len(names), *key, "voter")
        other = 1 + draw_below(len(names), *key, "other")
        disk = GONE if other == voter else self._cluster.directory(other)
        body: dict[str, Any] = {
            "cluster_id": CLUSTER_ID,
            "voter_id": voter,
            "voter_directory_id": disk,
        }
        for name in names:
            call = Call(name, KafkaRequest("RemoveRaftVoter", 0, body), TIMEOUT_MS)
            virtual_call(self._world, STRAY, call, _ignored)


def _ignored(answer: Answer) -> None:
    """The rules on changes of voters judge the answer (C22, I26)."""

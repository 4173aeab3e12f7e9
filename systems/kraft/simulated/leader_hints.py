"""Watches the leaders that answers about records name (D10, KIP-951).

A client that asks the wrong broker goes to the leader that the answer names. Metadata has one
leader for each leader epoch, and an answer names no epoch that is newer than the broker knows.
"""

from __future__ import annotations

from typing import Any

from kraftwreck.nodes.replication.headers import PartitionKey
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.binding import record_traffic
from kraftwreck.systems.kraft.simulated.data_requests import RecordMessage
from kraftwreck.systems.kraft.simulated.record_logs import name_of, replicas_on


class LeaderHints:
    """Judges the leaders in the answers of all brokers of ``world`` to Produce and Fetch."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        record_traffic(world).on_answer.append(self._on_answer)

    def _on_answer(self, host: Host, _: RecordMessage, effect: Any, body: dict[str, Any]) -> None:
        for topic in body.get("responses", ()):
            topic_id = topic.get("topic_id")
            if not topic_id:
                continue
            for part in topic.get("partitions") or topic.get("partition_responses", ()):
                hint = part.get("current_leader")
                if hint is not None and hint["leader_id"] >= 0:
                    number = part["partition_index" if "partition_index" in part else "index"]
                    self._judge(host, (topic_id, number), hint["leader_id"], hint["leader_epoch"])

    def _judge(self, host: Host, key: PartitionKey, leader: int, epoch: int) -> None:
        known = _known(host, key)
        if known and (known.get(epoch, leader) != leader or epoch > max(known)):
            leaders = " and ".join(f"{each} in epoch {at}" for at, each in sorted(known.items()))
            self._failures.add(
                "D10",
                self._world.now,
                f"{host.name} names {leader} as the leader of {name_of(key)} in epoch {epoch}; it"
                f" knows {leaders}",
            )


def _known(host: Host, key: PartitionKey) -> dict[int, int]:
    """Return the leaders that a broker has now, by leader epoch: in its replica and metadata."""
    known: dict[int, int] = {}
    partition = replicas_on(host).get(key)
    if partition is not None:
        known[partition.assignment.leader_epoch] = partition.assignment.leader
    node: Any = host.node
    given = node.image.stable.partitions.get(key)
    if given is not None:
        known[given.leader_epoch] = given.leader
    return known

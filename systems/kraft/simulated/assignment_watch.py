"""Watches whether the data plane of a broker does what its metadata says (D17).

Within a second it has the replicas that the broker's image gives it, and no others: with their
roles, ISRs and settings, and with the registered brokers. A leader may be ahead by the ISRs that
the controller has told it.
"""

from __future__ import annotations

from typing import Final

from kraftwreck.checkers.kraft.limits import STEPS_US
from kraftwreck.nodes.metadata.image_values import TOPIC, ImageView, PartitionKey
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.replication.partition import Partition
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.record_logs import name_of

SETTINGS: Final = {
    "min.insync.replicas": "min_insync",
    "retention.ms": "retention_ms",
    "retention.bytes": "retention_bytes",
    "max.message.bytes": "max_batch_bytes",
    "flush.messages": "flush_messages",
    "flush.ms": "flush_ms",
}
"""Configs of topics, and where a replica has them."""


class AssignmentWatch:
    """Compares the replicas of all brokers of ``world`` with their images."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._judged: dict[int, tuple[int, int]] = {}
        """By host: its life, and the offset of the image that was right."""
        self._since: dict[int, tuple[int, int]] = {}
        """By host: its life, and since when it has not been right."""
        world.on_emit.append(self._on_emit)

    def _on_emit(self, host: Host) -> None:
        node = host.node
        if not isinstance(node, Node) or node.broker is None or node.broker.data is None:
            return
        image, data = node.image.stable, node.broker.data
        place = host.life, image.last_offset
        if self._judged.get(host.id) == place or data.replicas is None:
            return
        wrong = _difference(host.id, image, data.core.partitions)
        if not wrong:
            self._judged[host.id] = place
            self._since.pop(host.id, None)
            return
        known = self._since.get(host.id)
        if known is None or known[0] != host.life:
            self._since[host.id] = host.life, self._world.now
        elif host.waited(known[1], self._world.now, STEPS_US) > 0:
            self._judged[host.id] = place
            self._failures.add("D17", self._world.now, f"{host.name} {wrong}")


def _difference(own: int, image: ImageView, replicas: dict[PartitionKey, Partition]) -> str:
    """Return how the replicas of the broker ``own`` differ from its image, "" if they do not."""
    mine = {key: each for key, each in image.partitions.items() if own in each.replicas}
    for key in sorted(mine.keys() ^ replicas.keys()):
        has = "has no" if key in mine else "still has a"
        return f"{has} replica of {name_of(key)}"
    peers = {
        broker: (each.epoch, not (each.fenced or each.in_controlled_shutdown))
        for broker, each in image.brokers.items()
    }
    for key, partition in replicas.items():
        given, at = mine[key], partition.assignment
        told = (given.leader_epoch, given.leader, given.replicas, given.isr)
        acts = (at.leader_epoch, at.leader, at.replicas, at.isr)
        newer = at.partition_epoch > given.partition_epoch and at.leader_epoch >= told[0]
        if not newer and acts != told:
            return (
                f"acts on leader epoch, leader, replicas and ISR {acts} of {name_of(key)}, its"
                f" metadata has {told}"
            )
        known = {
            broker: (peer.epoch, peer.eligible) for broker, peer in partition.with_.peers.items()
        }
        if known != peers:
            return f"acts on the brokers {known}, its metadata has {peers}"
        configs = image.configs.get((TOPIC, image.names[key[0]]), {})
        for config, field in SETTINGS.items():
            value = getattr(partition.settings, field)
            if config in configs and int(configs[config]) != value:
                return f"acts on {config}={value} for {name_of(key)}, not {configs[config]}"
    return ""

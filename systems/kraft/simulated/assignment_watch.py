"""Watches whether the data plane of a broker does what its metadata says (D17).

Within a second it has the replicas that the broker's image gives it, and no others: with their
roles, ISRs and settings. At once it has the brokers that are registered, with their epochs, and
which of them may be in ISRs: those that are neither fenced nor stopping. A config of a topic
precedes that of the broker, which precedes that of all brokers. The configs of segments must have
reached the log since it was opened. A leader may be ahead by the ISRs that the controller has told
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kraftwreck.checkers.kraft.limits import STEPS_US
from kraftwreck.nodes.metadata.image_values import BROKER, TOPIC, ImageView, PartitionKey
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.replication.effects import ShapeLog
from kraftwreck.nodes.replication.events import LogOpened, Peer
from kraftwreck.nodes.replication.partition import Partition
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.record_logs import name_of

Shape = tuple[int | None, int | None, int | None]
"""The configs of a log's files that its process has got from the core, None for its own ones."""

Configured = tuple[list[tuple[str, int]], Shape]
"""The settings of replicas that are configured, and the shape of their logs."""

SETTINGS: Final = {
    "min.insync.replicas": ("min_insync", "min.insync.replicas"),
    "retention.ms": ("retention_ms", "log.retention.ms"),
    "retention.bytes": ("retention_bytes", "log.retention.bytes"),
    "max.message.bytes": ("max_batch_bytes", "message.max.bytes"),
    "flush.messages": ("flush_messages", "log.flush.interval.messages"),
    "flush.ms": ("flush_ms", "log.flush.interval.ms"),
}
"""Configs of topics: where a replica has them, and the config of brokers that is the default."""
SHAPE: Final = {
    "segment.bytes": "log.segment.bytes",
    "segment.ms": "log.roll.ms",
    "index.interval.bytes": "log.index.interval.bytes",
}
"""Configs of topics for the files of a log, in the order of ShapeLog, likewise."""
NO_SHAPE: Final[Shape] = (None, None, None)
"""The shape of a log that was just opened: the settings of its process."""


class AssignmentWatch:
    """Compares the replicas of all brokers of ``world`` with their images."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._judged: dict[int, tuple[int, int]] = {}
        """By host: its life, and the offset of the image that was right."""
        self._since: dict[int, tuple[int, int]] = {}
        """By host: its life, and since when it has not been right."""
        self._shapes: dict[tuple[int, PartitionKey], Shape] = {}
        """By host and partition: the shape of a log since it was opened."""
        world.on_caused.append(self._on_caused)
        world.on_disk.append(self._on_disk)
        world.on_emit.append(self._on_emit)

    def _on_caused(self, host: Host, event: Any) -> None:
        if type(event) is LogOpened:
            self._shapes[host.id, event.key] = NO_SHAPE
            self._judged.pop(host.id, None)

    def _on_disk(self, host: Host, effect: Any) -> None:
        if type(effect) is ShapeLog:
            shape = effect.segment_bytes, effect.segment_ms, effect.index_interval_bytes
            self._shapes[host.id, effect.key] = shape

    def _on_emit(self, host: Host) -> None:
        node = host.node
        if not isinstance(node, Node) or node.broker is None or node.broker.data is None:
            return
        image, data = node.image.stable, node.broker.data
        place = host.life, image.last_offset
        if self._judged.get(host.id) == place or data.replicas is None:
            return
        replicas = data.core.partitions
        shapes = {
            key: self._shapes.get((host.id, key), NO_SHAPE)
            for key, each in replicas.items()
            if each.log is not None
        }
        wrong = _other_brokers(image, replicas)
        if wrong and not node.broker.stopped:
            self._judged[host.id] = place
            self._failures.add("D17", self._world.now, f"{host.name} {wrong}")
            return
        wrong = _difference(host.id, image, replicas, shapes)
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


def _other_brokers(image: ImageView, replicas: Mapping[PartitionKey, Partition]) -> str:
    """Return how the brokers that ``replicas`` know differ from those of the image, with their
    epochs and whether they may be in ISRs; "" if they do not.

    A process takes them in with the step that changes its image.
    """
    right: Mapping[int, Peer] | None = None
    for partition in replicas.values():
        peers = partition.with_.peers
        if peers is right:
            continue
        known = {broker: (peer.epoch, peer.eligible) for broker, peer in peers.items()}
        given = {
            broker: (each.epoch, not (each.fenced or each.in_controlled_shutdown))
            for broker, each in image.brokers.items()
        }
        if known != given:
            return f"acts on the brokers {known}, its metadata has {given}"
        right = peers
    return ""


def _difference(
    own: int,
    image: ImageView,
    replicas: dict[PartitionKey, Partition],
    shapes: Mapping[PartitionKey, Shape],
) -> str:
    """Return how the replicas of the broker ``own`` differ from its image, "" if they do not.

    ``shapes`` are those of the logs that are open.
    """
    mine = {key: each for key, each in image.partitions.items() if own in each.replicas}
    for key in sorted(mine.keys() ^ replicas.keys()):
        has = "has no" if key in mine else "still has a"
        return f"{has} replica of {name_of(key)}"
    configs = image.configs
    brokers = {**configs.get((BROKER, ""), {}), **configs.get((BROKER, str(own)), {})}
    by_topic: dict[bytes, Configured] = {}
    by_configs: dict[tuple[tuple[str, str], ...], Configured] = {}
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
        if partition.leading and partition.recovering != at.recovering:
            state = "recovering" if partition.recovering else "recovered"
            return f"acts on {name_of(key)} as {state}, which its metadata contradicts"
        if key[0] not in by_topic:
            own_configs = configs.get((TOPIC, image.names[key[0]]), {})
            same = tuple(own_configs.items())
            if same not in by_configs:
                by_configs[same] = _configured(own_configs, brokers)
            by_topic[key[0]] = by_configs[same]
        values, shape = by_topic[key[0]]
        for config, right in values:
            value = getattr(partition.settings, SETTINGS[config][0])
            if right != value:
                return f"acts on {config}={value} for {name_of(key)}, not {right}"
        if key in shapes and shapes[key] != shape:
            names = ", ".join(SHAPE)
            return f"acts on {shapes[key]} as {names} for {name_of(key)}, not {shape}"
    return ""


def _configured(configs: Mapping[str, str], brokers: Mapping[str, str]) -> Configured:
    """Return the settings that are configured: by a topic's ``configs``, else by ``brokers``."""

    def value(config: str, of_brokers: str) -> int | None:
        found = configs.get(config, brokers.get(of_brokers))
        return None if found is None else int(found)

    given = ((config, value(config, names[1])) for config, names in SETTINGS.items())
    size, age, interval = (value(config, name) for config, name in SHAPE.items())
    return [(config, each) for config, each in given if each is not None], (size, age, interval)

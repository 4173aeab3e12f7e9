"""The metadata image: what a prefix of the metadata log means.

Every node builds the same image from the same records. Two images live on the active
controller: the committed one and the speculative one, which also holds what was appended
but is not committed yet.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from nodes.consensus.effects import FatalError

TOPIC: Final = 2
BROKER: Final = 4
"""Resource types of ConfigRecord and of the config APIs."""

UNCHANGED_LEADER: Final = -2
UNCHANGED_RECOVERY: Final = -1

Fields = dict[str, Any]


@dataclass(slots=True, frozen=True)
class Partition:
    """One partition's assignment and leadership."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    removing: tuple[int, ...]
    adding: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    recovery_state: int
    directories: tuple[bytes, ...]


@dataclass(slots=True)
class Topic:
    """A topic with its partitions by id."""

    name: str
    topic_id: bytes
    partitions: dict[int, Partition] = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class Broker:
    """A registered broker; ``endpoints`` are (listener name, host, port)."""

    broker_id: int
    incarnation: bytes
    epoch: int
    endpoints: tuple[tuple[str, str, int], ...]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool


class MetadataImage:
    """Cluster metadata after a prefix of the log.

    ``last_offset`` and ``last_epoch`` say which prefix; they are -1 and 0 at first and do
    not take part in equality or :meth:`digest`, so that two nodes whose logs differ only in
    NoOp records compare equal.
    """

    def __init__(self) -> None:
        self.topics: dict[str, Topic] = {}
        self.names: dict[bytes, str] = {}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.features: dict[str, int] = {}
        self.brokers: dict[int, Broker] = {}
        self.controllers: dict[int, Fields] = {}
        self.next_producer_id = 0
        self.last_offset = -1
        self.last_epoch = 0

    def copy(self) -> MetadataImage:
        """Return an image that shares nothing mutable with this one."""
        other = MetadataImage()
        for name, topic in self.topics.items():
            other.topics[name] = Topic(name, topic.topic_id, dict(topic.partitions))
        other.names = dict(self.names)
        other.configs = {resource: dict(values) for resource, values in self.configs.items()}
        other.features = dict(self.features)
        other.brokers = dict(self.brokers)
        other.controllers = dict(self.controllers)
        other.next_producer_id = self.next_producer_id
        other.last_offset = self.last_offset
        other.last_epoch = self.last_epoch
        return other

    def advance(self, offset: int, epoch: int) -> None:
        """Remember that everything up to and including ``offset`` is applied."""
        if offset <= self.last_offset or epoch < self.last_epoch:
            raise FatalError(
                f"metadata went back from offset {self.last_offset} epoch {self.last_epoch} "
                f"to offset {offset} epoch {epoch}"
            )
        self.last_offset = offset
        self.last_epoch = epoch

    def apply(self, name: str, fields: Fields) -> None:
        """Apply one record; ``name`` is its schema name, such as ``"TopicRecord"``.

        Raises :class:`FatalError` for a record this image cannot represent or that
        contradicts it: a node that guesses here would silently diverge from the others.
        """
        handler = _HANDLERS.get(name)
        if handler is None:
            raise FatalError(f"metadata record {name} is not supported by this node")
        handler(self, fields)

    def state(self) -> dict[str, Any]:
        """Return the content in canonical, JSON-representable form."""
        return {
            "topics": {
                name: {
                    "id": topic.topic_id.hex(),
                    "partitions": {
                        str(number): [
                            list(p.replicas),
                            list(p.isr),
                            list(p.removing),
                            list(p.adding),
                            p.leader,
                            p.leader_epoch,
                            p.partition_epoch,
                            p.recovery_state,
                            [d.hex() for d in p.directories],
                        ]
                        for number, p in sorted(topic.partitions.items())
                    },
                }
                for name, topic in sorted(self.topics.items())
            },
            "configs": [
                [kind, resource, dict(sorted(values.items()))]
                for (kind, resource), values in sorted(self.configs.items())
            ],
            "features": dict(sorted(self.features.items())),
            "brokers": [
                [
                    b.broker_id,
                    b.incarnation.hex(),
                    b.epoch,
                    [list(e) for e in b.endpoints],
                    b.rack,
                    b.fenced,
                    b.in_controlled_shutdown,
                ]
                for _, b in sorted(self.brokers.items())
            ],
            "controllers": [_plain(c) for _, c in sorted(self.controllers.items())],
            "next_producer_id": self.next_producer_id,
        }

    def digest(self) -> str:
        """Return 16 hex digits that are equal for equal images on every interpreter."""
        text = json.dumps(self.state(), sort_keys=True, separators=(",", ":"))
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MetadataImage):
            return NotImplemented
        return self.state() == other.state()

    def topic(self, topic_id: bytes) -> Topic:
        """Return the topic with this id; raises :class:`FatalError` if there is none."""
        if topic_id not in self.names:
            raise FatalError(f"metadata record names unknown topic id {topic_id.hex()}")
        return self.topics[self.names[topic_id]]


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value


def _refuse_elr(fields: Fields) -> None:
    if fields.get("eligible_leader_replicas") or fields.get("last_known_elr"):
        raise FatalError("eligible leader replicas are not supported by this node")


def _no_op(image: MetadataImage, fields: Fields) -> None:
    pass


def _feature_level(image: MetadataImage, fields: Fields) -> None:
    if fields["feature_level"] == 0:
        image.features.pop(fields["name"], None)
    else:
        image.features[fields["name"]] = fields["feature_level"]


def _topic(image: MetadataImage, fields: Fields) -> None:
    name, topic_id = fields["name"], bytes(fields["topic_id"])
    if name in image.topics or topic_id in image.names:
        raise FatalError(f"topic {name} with id {topic_id.hex()} exists already")
    image.topics[name] = Topic(name, topic_id)
    image.names[topic_id] = name


def _partition(image: MetadataImage, fields: Fields) -> None:
    _refuse_elr(fields)
    topic = image.topic(bytes(fields["topic_id"]))
    topic.partitions[fields["partition_id"]] = Partition(
        replicas=tuple(fields["replicas"]),
        isr=tuple(fields["isr"]),
        removing=tuple(fields["removing_replicas"]),
        adding=tuple(fields["adding_replicas"]),
        leader=fields["leader"],
        leader_epoch=fields["leader_epoch"],
        partition_epoch=fields["partition_epoch"],
        recovery_state=fields["leader_recovery_state"],
        directories=tuple(map(bytes, fields.get("directories") or ())),
    )


def _partition_change(image: MetadataImage, fields: Fields) -> None:
    _refuse_elr(fields)
    topic = image.topic(bytes(fields["topic_id"]))
    number = fields["partition_id"]
    old = topic.partitions.get(number)
    if old is None:
        raise FatalError(f"change of unknown partition {topic.name}-{number}")

    def changed(field_name: str, current: tuple[Any, ...]) -> tuple[Any, ...]:
        value = fields.get(field_name)
        return current if value is None else tuple(value)

    leads = fields["leader"] != UNCHANGED_LEADER
    recovery = fields["leader_recovery_state"]
    topic.partitions[number] = replace(
        old,
        replicas=changed("replicas", old.replicas),
        isr=changed("isr", old.isr),
        removing=changed("removing_replicas", old.removing),
        adding=changed("adding_replicas", old.adding),
        directories=changed("directories", old.directories),
        leader=fields["leader"] if leads else old.leader,
        # The epoch moves with every record that names a leader, the same one included.
        leader_epoch=old.leader_epoch + leads,
        partition_epoch=old.partition_epoch + 1,
        recovery_state=old.recovery_state if recovery == UNCHANGED_RECOVERY else recovery,
    )


def _remove_topic(image: MetadataImage, fields: Fields) -> None:
    topic = image.topic(bytes(fields["topic_id"]))
    del image.topics[topic.name]
    del image.names[topic.topic_id]
    image.configs.pop((TOPIC, topic.name), None)


def _config(image: MetadataImage, fields: Fields) -> None:
    resource = (fields["resource_type"], fields["resource_name"])
    if fields["value"] is not None:
        image.configs.setdefault(resource, {})[fields["name"]] = fields["value"]
        return
    values = image.configs.get(resource)
    if values is not None:
        values.pop(fields["name"], None)
        if not values:
            del image.configs[resource]


def _register_broker(image: MetadataImage, fields: Fields) -> None:
    image.brokers[fields["broker_id"]] = Broker(
        broker_id=fields["broker_id"],
        incarnation=bytes(fields["incarnation_id"]),
        epoch=fields["broker_epoch"],
        endpoints=tuple((e["name"], e["host"], e["port"]) for e in fields["end_points"]),
        rack=fields["rack"],
        fenced=fields["fenced"],
        in_controlled_shutdown=fields.get("in_controlled_shutdown", False),
    )


def _broker(image: MetadataImage, broker_id: int, epoch: int) -> Broker:
    broker = image.brokers.get(broker_id)
    if broker is None or broker.epoch != epoch:
        raise FatalError(f"metadata record names unknown broker {broker_id} epoch {epoch}")
    return broker


def _unregister_broker(image: MetadataImage, fields: Fields) -> None:
    _broker(image, fields["broker_id"], fields["broker_epoch"])
    del image.brokers[fields["broker_id"]]


def _fence(image: MetadataImage, fields: Fields) -> None:
    broker = _broker(image, fields["id"], fields["epoch"])
    image.brokers[broker.broker_id] = replace(broker, fenced=True)


def _unfence(image: MetadataImage, fields: Fields) -> None:
    broker = _broker(image, fields["id"], fields["epoch"])
    image.brokers[broker.broker_id] = replace(broker, fenced=False)


def _broker_change(image: MetadataImage, fields: Fields) -> None:
    broker = _broker(image, fields["broker_id"], fields["broker_epoch"])
    fenced = {-1: False, 0: broker.fenced, 1: True}[fields["fenced"]]
    stopping = fields.get("in_controlled_shutdown", 0) == 1 or broker.in_controlled_shutdown
    image.brokers[broker.broker_id] = replace(
        broker, fenced=fenced, in_controlled_shutdown=stopping
    )


def _register_controller(image: MetadataImage, fields: Fields) -> None:
    image.controllers[fields["controller_id"]] = fields


def _unregister_controller(image: MetadataImage, fields: Fields) -> None:
    image.controllers.pop(fields["controller_id"], None)


def _producer_ids(image: MetadataImage, fields: Fields) -> None:
    if fields["next_producer_id"] <= image.next_producer_id:
        raise FatalError(f"producer ids went back to {fields['next_producer_id']}")
    image.next_producer_id = fields["next_producer_id"]


_HANDLERS: Final[dict[str, Callable[[MetadataImage, Fields], None]]] = {
    "NoOpRecord": _no_op,
    "FeatureLevelRecord": _feature_level,
    "TopicRecord": _topic,
    "PartitionRecord": _partition,
    "PartitionChangeRecord": _partition_change,
    "RemoveTopicRecord": _remove_topic,
    "ConfigRecord": _config,
    "RegisterBrokerRecord": _register_broker,
    "UnregisterBrokerRecord": _unregister_broker,
    "FenceBrokerRecord": _fence,
    "UnfenceBrokerRecord": _unfence,
    "BrokerRegistrationChangeRecord": _broker_change,
    "RegisterControllerRecord": _register_controller,
    "UnregisterControllerRecord": _unregister_controller,
    "ProducerIdsRecord": _producer_ids,
}
"""Records this image represents. Access control, SCRAM, tokens, quotas and metadata
transactions are refused: no part of this project writes them yet."""

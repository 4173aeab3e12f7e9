"""A second model of the metadata records, independent of the nodes.

The checkers replay the committed log and read snapshots with this model alone: the nodes' own image
would hide its own mistakes. State is plain: sections of dicts with tuples in them, so that two
states are compared by ``==``. Sources: Kafka's metadata record schemas; KIP-631, KIP-866
(controllers), KIP-858 (directories), KIP-966 (ELR).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Final, NamedTuple

Fields = dict[str, Any]
PartitionKey = tuple[bytes, int]

ELR_FEATURE: Final = "eligible.leader.replicas.version"
NO_LEADER: Final = -1
SAME_LEADER: Final = -2
TOPIC: Final = 2
BROKER: Final = 4
"""The kinds of resources that have configs."""


class ModelError(Exception):
    """A record that contradicts the state before it."""


class Partition(NamedTuple):
    """One partition. ``directories`` is empty if no record has any."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    removing: tuple[int, ...]
    adding: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    recovery: int
    directories: tuple[bytes, ...]
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]


class Broker(NamedTuple):
    """One registered broker."""

    incarnation: bytes
    epoch: int
    endpoints: tuple[tuple[str, str, int, int], ...]
    rack: str | None
    fenced: bool
    stopping: bool
    features: tuple[tuple[str, int, int], ...]
    directories: tuple[bytes, ...]
    cordoned: tuple[bytes, ...] | None

    @property
    def active(self) -> bool:
        """Whether it may lead partitions and join an ISR."""
        return not self.fenced and not self.stopping


class Change(NamedTuple):
    """The change of a record: ``old`` is None for a new item, ``new`` for a removed one."""

    section: str
    key: Any
    old: Any
    new: Any


class MetadataModel:
    """The state after some records. ``sections`` holds all of it, by kind of object."""

    def __init__(self) -> None:
        self.topics: dict[str, bytes] = {}
        self.names: dict[bytes, str] = {}
        self.partitions: dict[PartitionKey, Partition] = {}
        self.configs: dict[tuple[int, str, str], str] = {}
        self.features: dict[str, int] = {}
        self.brokers: dict[int, Broker] = {}
        self.sections: dict[str, dict[Any, Any]] = {
            "topic": self.topics,
            "partition": self.partitions,
            "config": self.configs,
            "feature": self.features,
            "broker": self.brokers,
            "controller": {},
            "producer ids": {},
            "migration": {},
            "quota": {},
            "access control entry": {},
            "scram credential": {},
            "delegation token": {},
        }

    def apply(self, name: str, fields: Fields) -> Change | None:
        """Apply one record; return the change, None if there is none.

        Raises :class:`ModelError` for a record that is unknown or contradicts the state.
        """
        handler = _HANDLERS.get(name)
        if handler is None:
            raise ModelError(f"{name} is not a record of the metadata log")
        return handler(self, fields)

    def copy(self) -> MetadataModel:
        """Return a copy of this state."""
        other = MetadataModel()
        other.names.update(self.names)
        for section, values in self.sections.items():
            other.sections[section].update(values)
        return other

    def difference(self, other: MetadataModel) -> tuple[str, Any, Any, Any] | None:
        """Return (section, key, own value, other's value) of one difference; None for none."""
        for section, mine in self.sections.items():
            theirs = other.sections[section]
            if mine != theirs:
                for key in [*mine, *theirs]:
                    if mine.get(key) != theirs.get(key):
                        return section, key, mine.get(key), theirs.get(key)
        return None

    def digest(self) -> str:
        """Return 16 hex digits that equal states share."""
        state = hashlib.blake2b(digest_size=8)
        for section, values in self.sections.items():
            state.update(section.encode())
            for line in sorted(repr(item) for item in values.items()):
                state.update(line.encode())
        return state.hexdigest()

    def elr_enabled(self) -> bool:
        """Whether eligible leader replicas are enabled (KIP-966)."""
        return self.features.get(ELR_FEATURE, 0) >= 1

    def config(self, topic_id: bytes, name: str) -> str | None:
        """Return a topic's setting: its own, else the brokers' default; None if neither is set."""
        topic = self.names.get(topic_id, "")
        own = self.configs.get((TOPIC, topic, name))
        return own if own is not None else self.configs.get((4, "", name))

    def label(self, key: PartitionKey) -> str:
        """Return the topic's name and the partition's number in words."""
        return f"{self.names.get(key[0])}-{key[1]}"

    def out_of_service(self, broker_id: int) -> str | None:
        """Return why a broker may neither lead nor join an ISR, None if it may."""
        broker = self.brokers.get(broker_id)
        if broker is None:
            return "not registered"
        return None if broker.active else "fenced or shutting down"

    def put(self, section: str, key: Any, value: Any) -> Change | None:
        """Set or, with None, remove one value."""
        values = self.sections[section]
        old = values.get(key)
        if value is None:
            values.pop(key, None)
        else:
            values[key] = value
        return None if old == value else Change(section, key, old, value)


def _ints(value: Any) -> tuple[int, ...]:
    return tuple(value or ())


def _uuids(value: Any) -> tuple[bytes, ...]:
    return tuple(bytes(each) for each in value or ())


def _told(directories: tuple[bytes, ...]) -> tuple[bytes, ...]:
    return directories if any(any(each) for each in directories) else ()


# --- topics and partitions ----------------------------------------------------------------


def _topic(model: MetadataModel, fields: Fields) -> Change:
    name, topic_id = fields["name"], bytes(fields["topic_id"])
    if name in model.topics:
        raise ModelError(f"topic {name} is created although it exists")
    if topic_id in model.names:
        raise ModelError(f"topic {name} has the id of topic {model.names[topic_id]}")
    model.topics[name] = topic_id
    model.names[topic_id] = name
    return Change("topic", name, None, topic_id)


def _remove_topic(model: MetadataModel, fields: Fields) -> Change:
    topic_id = bytes(fields["topic_id"])
    name = model.names.pop(topic_id, None)
    if name is None:
        raise ModelError(f"a topic is removed whose id {topic_id.hex()} does not exist")
    del model.topics[name]
    number = 0
    while model.partitions.pop((topic_id, number), None) is not None:
        number += 1
    for key in [key for key in model.configs if key[:2] == (TOPIC, name)]:
        del model.configs[key]
    return Change("topic", name, topic_id, None)


def _partition(model: MetadataModel, fields: Fields) -> Change:
    key = (bytes(fields["topic_id"]), fields["partition_id"])
    if key[0] not in model.names:
        raise ModelError(f"a partition of a topic whose id {key[0].hex()} does not exist")
    old = model.partitions.get(key)
    new = model.partitions[key] = Partition(
        _ints(fields["replicas"]),
        _ints(fields["isr"]),
        _ints(fields.get("removing_replicas")),
        _ints(fields.get("adding_replicas")),
        fields["leader"],
        fields["leader_epoch"],
        fields["partition_epoch"],
        fields.get("leader_recovery_state", 0),
        _told(_uuids(fields.get("directories"))),
        _ints(fields.get("eligible_leader_replicas")),
        _ints(fields.get("last_known_elr")),
    )
    return Change("partition", key, old, new)


def _change(model: MetadataModel, fields: Fields) -> Change:
    key = (bytes(fields["topic_id"]), fields["partition_id"])
    old = model.partitions.get(key)
    if old is None:
        raise ModelError(f"partition {key[1]} of topic id {key[0].hex()} changes without existing")

    def after(name: str, before: tuple[int, ...]) -> tuple[int, ...]:
        value = fields.get(name)
        return before if value is None else tuple(value)

    leader = fields.get("leader", SAME_LEADER)
    recovery = fields.get("leader_recovery_state", -1)
    directories = fields.get("directories")
    new = model.partitions[key] = Partition(
        after("replicas", old.replicas),
        after("isr", old.isr),
        after("removing_replicas", old.removing),
        after("adding_replicas", old.adding),
        old.leader if leader == SAME_LEADER else leader,
        old.leader_epoch + (leader != SAME_LEADER),
        old.partition_epoch + 1,
        old.recovery if recovery == -1 else recovery,
        old.directories if directories is None else _told(_uuids(directories)),
        after("eligible_leader_replicas", old.elr),
        after("last_known_elr", old.last_known_elr),
    )
    return Change("partition", key, old, new)


def _clear_elr(model: MetadataModel, fields: Fields) -> None:
    name = fields["topic_name"]
    wanted = model.topics.get(name)
    for key, old in list(model.partitions.items()):
        if (not name or key[0] == wanted) and (old.elr or old.last_known_elr):
            model.partitions[key] = old._replace(
                elr=(), last_known_elr=(), partition_epoch=old.partition_epoch + 1
            )


def _config(model: MetadataModel, fields: Fields) -> Change | None:
    key = (fields["resource_type"], fields["resource_name"], fields["name"])
    return model.put("config", key, fields["value"])


def _feature(model: MetadataModel, fields: Fields) -> Change | None:
    return model.put("feature", fields["name"], fields["feature_level"] or None)


# --- brokers and controllers --------------------------------------------------------------


def _endpoints(fields: Fields) -> tuple[tuple[str, str, int, int], ...]:
    return tuple(
        sorted(
            (e["name"], e["host"], e["port"], e.get("security_protocol", 0))
            for e in fields.get("end_points") or ()
        )
    )


def _features(fields: Fields) -> tuple[tuple[str, int, int], ...]:
    return tuple(
        sorted(
            (f["name"], f["min_supported_version"], f["max_supported_version"])
            for f in fields.get("features") or ()
        )
    )


def _register(model: MetadataModel, fields: Fields) -> Change | None:
    cordoned = fields.get("cordoned_log_dirs")
    broker = Broker(
        bytes(fields["incarnation_id"]),
        fields["broker_epoch"],
        _endpoints(fields),
        fields["rack"],
        fields["fenced"],
        fields.get("in_controlled_shutdown", False),
        _features(fields),
        tuple(sorted(_uuids(fields.get("log_dirs")))),
        None if cordoned is None else tuple(sorted(_uuids(cordoned))),
    )
    old = model.brokers.get(fields["broker_id"])
    model.brokers[fields["broker_id"]] = broker
    return Change("broker", fields["broker_id"], old, broker)


def registered(model: MetadataModel, broker_id: int, epoch: int) -> Broker:
    """Return the registration a record names; raises :class:`ModelError` for a stale one."""
    broker = model.brokers.get(broker_id)
    if broker is None or broker.epoch != epoch:
        now = "is not registered" if broker is None else f"has epoch {broker.epoch}"
        raise ModelError(f"a record names broker {broker_id} epoch {epoch}, which {now}")
    return broker


def _unregister(model: MetadataModel, fields: Fields) -> Change | None:
    registered(model, fields["broker_id"], fields["broker_epoch"])
    return model.put("broker", fields["broker_id"], None)


def _set_fenced(fenced: bool) -> Callable[[MetadataModel, Fields], Change | None]:
    def apply(model: MetadataModel, fields: Fields) -> Change | None:
        broker = registered(model, fields["id"], fields["epoch"])
        return model.put("broker", fields["id"], broker._replace(fenced=fenced))

    return apply


def _change_broker(model: MetadataModel, fields: Fields) -> Change | None:
    broker = registered(model, fields["broker_id"], fields["broker_epoch"])
    fenced = {1: True, -1: False}.get(fields.get("fenced", 0), broker.fenced)
    stopping = broker.stopping or fields.get("in_controlled_shutdown", 0) == 1
    new = broker._replace(fenced=fenced, stopping=stopping)
    if fields.get("log_dirs"):
        new = new._replace(directories=tuple(sorted(_uuids(fields["log_dirs"]))))
    if fields.get("cordoned_log_dirs") is not None:
        new = new._replace(cordoned=tuple(sorted(_uuids(fields["cordoned_log_dirs"]))))
    return model.put("broker", fields["broker_id"], new)


def _register_controller(model: MetadataModel, fields: Fields) -> Change | None:
    value = (
        bytes(fields["incarnation_id"]),
        _endpoints(fields),
        _features(fields),
        fields.get("zk_migration_ready", False),
    )
    return model.put("controller", fields["controller_id"], value)


# --- the rest -----------------------------------------------------------------------------


def _producer_ids(model: MetadataModel, fields: Fields) -> Change:
    values = model.sections["producer ids"]
    old, values["next"] = values.get("next"), fields["next_producer_id"]
    return Change("producer ids", "next", old, values["next"])


def _quota(model: MetadataModel, fields: Fields) -> Change | None:
    entity = tuple(sorted((e["entity_type"], e["entity_name"] or "") for e in fields["entity"]))
    value = None if fields["remove"] else fields["value"]
    return model.put("quota", (entity, fields["key"]), value)


def _kept(
    section: str, *key: str, remove: bool = False
) -> Callable[[MetadataModel, Fields], Change | None]:
    """Return a handler that keeps, or removes, whole records under some of their fields."""

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return tuple(value)
        return bytes(value) if isinstance(value, bytearray | memoryview) else value

    def apply(model: MetadataModel, fields: Fields) -> Change | None:
        name = tuple(plain(fields[each]) for each in key)
        content = tuple((each, plain(value)) for each, value in sorted(fields.items()))
        return model.put(section, name, None if remove else content)

    return apply


def _nothing(model: MetadataModel, fields: Fields) -> None:
    pass


_HANDLERS: Final[dict[str, Callable[[MetadataModel, Fields], Change | None]]] = {
    "NoOpRecord": _nothing,
    "TopicRecord": _topic,
    "RemoveTopicRecord": _remove_topic,
    "PartitionRecord": _partition,
    "PartitionChangeRecord": _change,
    "ClearElrRecord": _clear_elr,
    "ConfigRecord": _config,
    "FeatureLevelRecord": _feature,
    "RegisterBrokerRecord": _register,
    "UnregisterBrokerRecord": _unregister,
    "FenceBrokerRecord": _set_fenced(True),
    "UnfenceBrokerRecord": _set_fenced(False),
    "BrokerRegistrationChangeRecord": _change_broker,
    "RegisterControllerRecord": _register_controller,
    "UnregisterControllerRecord": lambda m, f: m.put("controller", f["controller_id"], None),
    "ProducerIdsRecord": _producer_ids,
    "ZkMigrationStateRecord": lambda m, f: m.put("migration", "state", f["zk_migration_state"]),
    "ClientQuotaRecord": _quota,
    "AccessControlEntryRecord": _kept("access control entry", "id"),
    "RemoveAccessControlEntryRecord": _kept("access control entry", "id", remove=True),
    "UserScramCredentialRecord": _kept("scram credential", "name", "mechanism"),
    "RemoveUserScramCredentialRecord": _kept("scram credential", "name", "mechanism", remove=True),
    "DelegationTokenRecord": _kept("delegation token", "token_id"),
    "RemoveDelegationTokenRecord": _kept("delegation token", "token_id", remove=True),
}

"""The effect of each metadata record on the image.

A record that contradicts the image, or that is unknown, is fatal: a node that guesses would
silently diverge from the others (KAFKA-14275).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final

from kraftwreck.nodes.consensus.effects import FatalError
from kraftwreck.nodes.log.uuids import to_text
from kraftwreck.nodes.metadata.image_tables import ImageTables
from kraftwreck.nodes.metadata.image_values import (
    METADATA_VERSION,
    MIGRATING_DIRECTORY,
    NEXT_PRODUCER_ID,
    TOPIC,
    ZK_MIGRATION_STATE,
    Broker,
    ControllerRegistration,
    Fields,
    Listener,
    Partition,
    SupportedFeature,
    Topic,
)

UNCHANGED_LEADER: Final = -2
UNCHANGED_RECOVERY: Final = -1
METADATA_VERSIONS: Final = (7, 30)
"""The levels of metadata.version whose records are known here: 3.3-IV3 to 4.3-IV0."""
LED_VERSIONS: Final = (7, 27)
"""Those whose records the controllers here write: 3.3-IV3 to 4.1-IV1."""

ACL_FIELDS: Final = (
    "resource_type",
    "resource_name",
    "pattern_type",
    "principal",
    "host",
    "operation",
    "permission_type",
)
SCRAM_FIELDS: Final = ("salt", "stored_key", "server_key", "iterations")
TOKEN_FIELDS: Final = (
    "owner",
    "requester",
    "renewers",
    "issue_timestamp",
    "max_timestamp",
    "expiration_timestamp",
)

_CACHE_LIMIT: Final = 1 << 16
_tuples: dict[tuple[Any, ...], tuple[Any, ...]] = {}


def _shared(values: Iterable[Any]) -> tuple[Any, ...]:
    """Return the values as a tuple, the same one for equal values as far as possible.

    A million partitions have few distinct replica lists; sharing them halves their memory.
    """
    made = tuple(values)
    if not made:
        return ()
    found = _tuples.get(made)
    if found is None:
        if len(_tuples) >= _CACHE_LIMIT:
            _tuples.clear()
        found = _tuples[made] = made
    return found


def _no_op(image: ImageTables, fields: Fields) -> None:
    pass


def _feature_level(image: ImageTables, fields: Fields) -> None:
    name, level = fields["name"], fields["feature_level"]
    is_controller = image.index is not None
    low, high = LED_VERSIONS if is_controller else METADATA_VERSIONS
    if name == METADATA_VERSION and not low <= level <= high:
        raise FatalError(
            f"metadata.version {level} is not supported by this node, which knows {low} to {high}"
        )
    if level == 0:
        image.features.pop(name, None)
    else:
        image.features[name] = level


# --- topics -----------------------------------------------------------------------------


def _topic(image: ImageTables, fields: Fields) -> None:
    name, topic_id = fields["name"], bytes(fields["topic_id"])
    if name in image.topics or topic_id in image.names:
        raise FatalError(f"topic {name} with id {topic_id.hex()} exists already")
    image.topics[name] = Topic(name, topic_id)
    image.names[topic_id] = name


def _directories(
    topic_id: bytes, number: int, told: Iterable[bytes], replicas: tuple[int, ...]
) -> tuple[bytes, ...]:
    directories = _shared(map(bytes, told)) or _shared((MIGRATING_DIRECTORY,) * len(replicas))
    if len(directories) != len(replicas):
        raise FatalError(
            f"partition {to_text(topic_id)}-{number} has {len(replicas)} replicas "
            f"in {len(directories)} directories"
        )
    return directories


def _partition(image: ImageTables, fields: Fields) -> None:
    topic = image.topic(bytes(fields["topic_id"]))
    _grown(image, topic, _put_partition(image, topic, fields))


def _grown(image: ImageTables, topic: Topic, added: int) -> None:
    """Count the new partitions of a topic."""
    if added:
        partitions = topic.partitions + added
        image.topics[topic.name] = Topic(topic.name, topic.topic_id, partitions)


def _put_partition(image: ImageTables, topic: Topic, fields: Fields) -> bool:
    """Set a partition of ``topic``; return whether it is new, which the caller counts."""
    number = fields["partition_id"]
    if number < 0:
        raise FatalError(f"partition {topic.name}-{number} cannot exist")
    replicas = _shared(fields["replicas"])
    removing, adding = fields.get("removing_replicas"), fields.get("adding_replicas")
    told = fields.get("directories") or ()
    elr, last_known = fields.get("eligible_leader_replicas"), fields.get("last_known_elr")
    key = (topic.topic_id, number)  # one bytes object for all keys of a topic
    is_new = key not in image.partitions
    image.partitions[key] = Partition(
        replicas,
        replicas if fields["isr"] == fields["replicas"] else _shared(fields["isr"]),
        _shared(removing) if removing else (),
        _shared(adding) if adding else (),
        fields["leader"],
        fields["leader_epoch"],
        fields["partition_epoch"],
        fields.get("leader_recovery_state", 0),
        _directories(topic.topic_id, number, told, replicas),
        _shared(elr) if elr else (),
        _shared(last_known) if last_known else (),
    )
    return is_new


def _partition_change(image: ImageTables, fields: Fields) -> None:
    topic = image.topic(bytes(fields["topic_id"]))
    number = fields["partition_id"]
    old = image.partitions.get((topic.topic_id, number))
    if old is None:
        raise FatalError(f"change of unknown partition {topic.name}-{number}")
    image.partitions[topic.topic_id, number] = merged(old, fields)


def merged(old: Partition, fields: Fields) -> Partition:
    """Return a partition after a PartitionChangeRecord. Raises FatalError."""
    leader = fields.get("leader", UNCHANGED_LEADER)
    leads = leader != UNCHANGED_LEADER
    recovery = fields.get("leader_recovery_state", UNCHANGED_RECOVERY)
    replicas = _changed(fields.get("replicas"), old.replicas)
    told = fields.get("directories")
    if told is None:
        untold = all(directory == MIGRATING_DIRECTORY for directory in old.directories)
        told = () if untold else old.directories
    return Partition(
        replicas=replicas,
        isr=_changed(fields.get("isr"), old.isr),
        removing=_changed(fields.get("removing_replicas"), old.removing),
        adding=_changed(fields.get("adding_replicas"), old.adding),
        leader=leader if leads else old.leader,
        # The epoch moves with every record that names a leader, the same one included.
        leader_epoch=old.leader_epoch + leads,
        partition_epoch=old.partition_epoch + 1,
        recovery_state=old.recovery_state if recovery == UNCHANGED_RECOVERY else recovery,
        directories=_directories(fields["topic_id"], fields["partition_id"], told, replicas),
        elr=_changed(fields.get("eligible_leader_replicas"), old.elr),
        last_known_elr=_changed(fields.get("last_known_elr"), old.last_known_elr),
    )


def _changed(told: Iterable[Any] | None, current: tuple[Any, ...]) -> tuple[Any, ...]:
    return current if told is None else _shared(told)


def _clear_elr(image: ImageTables, fields: Fields) -> None:
    name = fields["topic_name"]
    if name and name not in image.topics:
        raise FatalError(f"eligible leader replicas of unknown topic {name} to be cleared")
    for key in list(image.with_elr()):
        if not name or key[0] == image.topics[name].topic_id:
            old = image.partitions[key]
            epoch = old.partition_epoch + 1
            image.partitions[key] = replace(old, elr=(), last_known_elr=(), partition_epoch=epoch)


def _remove_topic(image: ImageTables, fields: Fields) -> None:
    topic = image.topic(bytes(fields["topic_id"]))
    for number in image.partition_ids(topic):
        del image.partitions[topic.topic_id, number]
    del image.topics[topic.name]
    del image.names[topic.topic_id]
    image.configs.pop((TOPIC, topic.name), None)


def _config(image: ImageTables, fields: Fields) -> None:
    resource = (fields["resource_type"], fields["resource_name"])
    name, value = fields["name"], fields["value"]
    values = dict(image.configs.get(resource, {}))
    if value is not None:
        values[name] = value
    elif values.pop(name, None) is None:
        return
    if values:
        image.configs[resource] = values
    else:
        del image.configs[resource]


# --- brokers and controllers ------------------------------------------------------------


def _listeners(fields: Fields) -> tuple[Listener, ...]:
    return tuple(
        Listener(e["name"], e["host"], e["port"], e.get("security_protocol", 0))
        for e in fields.get("end_points") or ()
    )


def _supported(fields: Fields) -> tuple[SupportedFeature, ...]:
    return tuple(
        sorted(
            SupportedFeature(f["name"], f["min_supported_version"], f["max_supported_version"])
            for f in fields.get("features") or ()
        )
    )


def _register_broker(image: ImageTables, fields: Fields) -> None:
    cordoned = fields.get("cordoned_log_dirs")
    image.brokers[fields["broker_id"]] = Broker(
        broker_id=fields["broker_id"],
        incarnation=bytes(fields["incarnation_id"]),
        epoch=fields["broker_epoch"],
        endpoints=_listeners(fields),
        rack=fields["rack"],
        fenced=fields["fenced"],
        in_controlled_shutdown=fields.get("in_controlled_shutdown", False),
        features=_supported(fields),
        log_dirs=tuple(map(bytes, fields.get("log_dirs") or ())),
        cordoned_log_dirs=None if cordoned is None else tuple(map(bytes, cordoned)),
        is_migrating=fields.get("is_migrating_zk_broker", False),
    )


def _broker(image: ImageTables, broker_id: int, epoch: int) -> Broker:
    broker = image.brokers.get(broker_id)
    if broker is None or broker.epoch != epoch:
        raise FatalError(f"metadata record names unknown broker {broker_id} epoch {epoch}")
    return broker


def _unregister_broker(image: ImageTables, fields: Fields) -> None:
    broker = _broker(image, fields["broker_id"], fields["broker_epoch"])
    del image.brokers[broker.broker_id]


def _fence(image: ImageTables, fields: Fields) -> None:
    broker = _broker(image, fields["id"], fields["epoch"])
    image.brokers[broker.broker_id] = replace(broker, fenced=True)


def _unfence(image: ImageTables, fields: Fields) -> None:
    broker = _broker(image, fields["id"], fields["epoch"])
    image.brokers[broker.broker_id] = replace(broker, fenced=False)


def _broker_change(image: ImageTables, fields: Fields) -> None:
    broker = _broker(image, fields["broker_id"], fields["broker_epoch"])
    fenced, stopping = fields.get("fenced", 0), fields.get("in_controlled_shutdown", 0)
    if fenced not in (-1, 0, 1) or stopping not in (0, 1):
        raise FatalError(
            f"change of broker {broker.broker_id} to fenced {fenced}, shutdown {stopping}"
        )
    log_dirs, cordoned = fields.get("log_dirs"), fields.get("cordoned_log_dirs")
    image.brokers[broker.broker_id] = replace(
        broker,
        fenced={-1: False, 0: broker.fenced, 1: True}[fenced],
        in_controlled_shutdown=stopping == 1 or broker.in_controlled_shutdown,
        log_dirs=tuple(map(bytes, log_dirs)) if log_dirs else broker.log_dirs,
        cordoned_log_dirs=(
            broker.cordoned_log_dirs if cordoned is None else tuple(map(bytes, cordoned))
        ),
    )


def _register_controller(image: ImageTables, fields: Fields) -> None:
    image.controllers[fields["controller_id"]] = ControllerRegistration(
        controller_id=fields["controller_id"],
        incarnation=bytes(fields["incarnation_id"]),
        endpoints=_listeners(fields),
        features=_supported(fields),
        zk_migration_ready=fields.get("zk_migration_ready", False),
    )


def _unregister_controller(image: ImageTables, fields: Fields) -> None:
    image.controllers.pop(fields["controller_id"], None)


# --- numbers, quotas and access ---------------------------------------------------------


def _producer_ids(image: ImageTables, fields: Fields) -> None:
    following = fields["next_producer_id"]
    if following < 0 or following <= image.numbers.get(NEXT_PRODUCER_ID, -1):
        raise FatalError(f"producer ids went back to {following}")
    image.numbers[NEXT_PRODUCER_ID] = following


def _zk_migration(image: ImageTables, fields: Fields) -> None:
    image.numbers[ZK_MIGRATION_STATE] = fields["zk_migration_state"]


def _quota(image: ImageTables, fields: Fields) -> None:
    names: dict[str, str | None] = {e["entity_type"]: e["entity_name"] for e in fields["entity"]}
    if len(names) != len(fields["entity"]):
        raise FatalError(f"a client quota names an entity type twice: {fields['entity']}")
    entity = tuple(sorted(names.items(), key=lambda item: item[0]))
    if fields["remove"]:
        image.quotas.pop((entity, fields["key"]), None)
    else:
        image.quotas[entity, fields["key"]] = fields["value"]


def _values(fields: Fields, names: tuple[str, ...]) -> tuple[Any, ...]:
    values = (fields[name] for name in names)
    return tuple(tuple(value) if isinstance(value, list) else value for value in values)


def _acl(image: ImageTables, fields: Fields) -> None:
    image.acls[bytes(fields["id"])] = _values(fields, ACL_FIELDS)


def _remove_acl(image: ImageTables, fields: Fields) -> None:
    if image.acls.pop(bytes(fields["id"]), None) is None:
        raise FatalError(f"access control entry {bytes(fields['id']).hex()} does not exist")


def _scram(image: ImageTables, fields: Fields) -> None:
    image.scram[fields["name"], fields["mechanism"]] = _values(fields, SCRAM_FIELDS)


def _remove_scram(image: ImageTables, fields: Fields) -> None:
    if image.scram.pop((fields["name"], fields["mechanism"]), None) is None:
        raise FatalError(f"user {fields['name']} has no credential to remove")


def _token(image: ImageTables, fields: Fields) -> None:
    image.tokens[fields["token_id"]] = _values(fields, TOKEN_FIELDS)


def _remove_token(image: ImageTables, fields: Fields) -> None:
    image.tokens.pop(fields["token_id"], None)


_HANDLERS: Final[dict[str, Callable[[ImageTables, Fields], None]]] = {
    "NoOpRecord": _no_op,
    "FeatureLevelRecord": _feature_level,
    "TopicRecord": _topic,
    "PartitionRecord": _partition,
    "PartitionChangeRecord": _partition_change,
    "ClearElrRecord": _clear_elr,
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
    "ZkMigrationStateRecord": _zk_migration,
    "ClientQuotaRecord": _quota,
    "AccessControlEntryRecord": _acl,
    "RemoveAccessControlEntryRecord": _remove_acl,
    "UserScramCredentialRecord": _scram,
    "RemoveUserScramCredentialRecord": _remove_scram,
    "DelegationTokenRecord": _token,
    "RemoveDelegationTokenRecord": _remove_token,
}
"""Every metadata record but those of metadata transactions, which the image itself handles."""


def apply_records(image: ImageTables, records: Iterable[tuple[str, Fields]]) -> None:
    """Apply records in order, all at the timeline's version; see :func:`apply_record`.

    New partitions come in runs of one topic, which is changed once for all of them.
    """
    topic: Topic | None = None
    added = 0
    for name, fields in records:
        if name == "PartitionRecord":
            if topic is None or topic.topic_id != fields["topic_id"]:
                if topic is not None:
                    _grown(image, topic, added)
                topic, added = image.topic(bytes(fields["topic_id"])), 0
            added += _put_partition(image, topic, fields)
            continue
        if topic is not None:
            _grown(image, topic, added)
            topic = None
        apply_record(image, name, fields)
    if topic is not None:
        _grown(image, topic, added)


def apply_record(image: ImageTables, name: str, fields: Fields) -> None:
    """Apply one record to the head of ``image`` at the timeline's version.

    Raises :class:`FatalError` for a record that is unknown or contradicts the image.
    """
    handler = _HANDLERS.get(name)
    if handler is None:
        raise FatalError(f"metadata record {name} is not supported by this node")
    handler(image, fields)

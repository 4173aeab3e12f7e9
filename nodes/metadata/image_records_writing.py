"""An image as records, which produce the same image when they are applied in order.

The order is Kafka's: features, brokers, controllers, topics with their partitions, configs, client
quotas, producer ids, access control entries, SCRAM credentials, delegation tokens. Anything omitted
here would be lost with the first snapshot (KAFKA-15860).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from kraftwreck.nodes.consensus.effects import FatalError
from kraftwreck.nodes.metadata.image_records import (
    ACL_FIELDS,
    METADATA_VERSIONS,
    SCRAM_FIELDS,
    TOKEN_FIELDS,
)
from kraftwreck.nodes.metadata.image_values import (
    ELR_VERSION,
    METADATA_VERSION,
    MIGRATING_DIRECTORY,
    NEXT_PRODUCER_ID,
    ZK_MIGRATION_STATE,
    Broker,
    ControllerRegistration,
    Entity,
    Fields,
    ImageView,
    Listener,
    Partition,
    PartitionKey,
    SupportedFeature,
)

Record = tuple[str, int, Fields]
"""Schema name, version, fields."""

_MIGRATION: Final = 8
_DIRECTORIES: Final = 17
_ELR: Final = 23
"""Levels of metadata.version whose records can hold it."""


class RecordVersions:
    """The versions of records at an image's ``metadata.version``.

    An image without one uses the highest known level, so that nothing is lost. A partition is
    written at a version that can hold all its data.
    """

    __slots__ = ("elr", "level")

    def __init__(self, image: ImageView) -> None:
        self.level = image.features.get(METADATA_VERSION, METADATA_VERSIONS[1])
        self.elr = self.level >= _ELR and image.features.get(ELR_VERSION, 0) > 0

    def partition(self, partition: Partition) -> int:
        """Return the version of a PartitionRecord."""
        if self.elr or partition.elr or partition.last_known_elr:
            return 2
        if self.level >= _DIRECTORIES or any(
            d != MIGRATING_DIRECTORY for d in partition.directories
        ):
            return 1
        return 0

    def broker(self, broker: Broker) -> int:
        """Return the version of a RegisterBrokerRecord."""
        if broker.cordoned_log_dirs is not None:
            return 4
        if self.level >= _DIRECTORIES or broker.log_dirs:
            return 3
        if self.level >= _MIGRATION or broker.is_migrating:
            return 2
        return 1


Write = Callable[[Any, Any, int], Fields]
"""Makes the fields of a record from its key, value and version."""

Entry = tuple[str, int, Any, Any, Write]
"""Schema name, version, key, value and the function that makes one record of them.

Records of one name have distinct keys. Values are immutable: the same key, value and version always
make the same record.
"""


def write_image(image: ImageView) -> Iterator[Record]:
    """Yield the records of the whole image. Unless frozen, it must not change meanwhile."""
    for name, version, key, value, fields in entries(image):
        yield name, version, fields(key, value, version)


def entries(image: ImageView) -> Iterator[Entry]:
    """Yield the entries of the whole image, in the order of its records."""
    versions = RecordVersions(image)
    yield from _features(image)
    for broker_id, broker in image.brokers.items():
        yield "RegisterBrokerRecord", versions.broker(broker), broker_id, broker, _broker
    for controller_id, controller in image.controllers.items():
        yield "RegisterControllerRecord", 0, controller_id, controller, _controller
    yield from _topics(image, versions)
    for (kind, resource), values in image.configs.items():
        for name, value in values.items():
            yield "ConfigRecord", 0, (kind, resource, name), value, _config
    for quota, amount in image.quotas.items():
        yield "ClientQuotaRecord", 0, quota, amount, _quota
    following = image.numbers.get(NEXT_PRODUCER_ID)
    if following is not None:
        yield "ProducerIdsRecord", 0, None, following, _producer_ids
    for acl_id, acl in image.acls.items():
        yield "AccessControlEntryRecord", 0, acl_id, acl, _acl
    for user, credential in image.scram.items():
        yield "UserScramCredentialRecord", 0, user, credential, _scram
    for token_id, token in image.tokens.items():
        yield "DelegationTokenRecord", 0, token_id, token, _token


def _features(image: ImageView) -> Iterator[Entry]:
    # metadata.version first: the other records depend on it.
    for name in sorted(image.features, key=lambda name: (name != METADATA_VERSION, name)):
        yield "FeatureLevelRecord", 0, name, image.features[name], _feature
    state = image.numbers.get(ZK_MIGRATION_STATE)
    if state is not None:
        yield "ZkMigrationStateRecord", 0, None, state, _zk_migration


def _topics(image: ImageView, versions: RecordVersions) -> Iterator[Entry]:
    find, version_of = image.partitions.get, versions.partition
    for name, topic in image.topics.items():
        topic_id = topic.topic_id
        yield "TopicRecord", 0, name, topic_id, _topic
        for number in range(topic.partitions):
            key = (topic_id, number)
            partition = find(key)
            if partition is None:
                raise FatalError(f"partition {name}-{number} is missing")
            yield "PartitionRecord", version_of(partition), key, partition, _partition


# --- fields, by key, value and version ----------------------------------------------------


def _feature(name: str, level: int, version: int) -> Fields:
    return {"name": name, "feature_level": level}


def _zk_migration(key: None, state: int, version: int) -> Fields:
    return {"zk_migration_state": state}


def _topic(name: str, topic_id: bytes, version: int) -> Fields:
    return {"name": name, "topic_id": topic_id}


def _partition(key: PartitionKey, partition: Partition, version: int) -> Fields:
    return partition_fields(*key, partition, version)


def _config(key: tuple[int, str, str], value: str, version: int) -> Fields:
    kind, resource, name = key
    return {"resource_type": kind, "resource_name": resource, "name": name, "value": value}


def _quota(key: tuple[Entity, str], amount: float, version: int) -> Fields:
    entity, name = key
    parts = [{"entity_type": kind, "entity_name": of} for kind, of in entity]
    return {"entity": parts, "key": name, "value": amount, "remove": False}


def _producer_ids(key: None, following: int, version: int) -> Fields:
    return {"broker_id": -1, "broker_epoch": -1, "next_producer_id": following}


def _acl(acl_id: bytes, acl: tuple[Any, ...], version: int) -> Fields:
    return {"id": acl_id, **_named(ACL_FIELDS, acl)}


def _scram(key: tuple[str, int], credential: tuple[Any, ...], version: int) -> Fields:
    user, mechanism = key
    return {"name": user, "mechanism": mechanism, **_named(SCRAM_FIELDS, credential)}


def _token(token_id: str, token: tuple[Any, ...], version: int) -> Fields:
    return {"token_id": token_id, **_named(TOKEN_FIELDS, token)}


def partition_fields(topic_id: bytes, number: int, partition: Partition, version: int) -> Fields:
    """Return the fields of a PartitionRecord of this version."""
    fields: Fields = {
        "partition_id": number,
        "topic_id": topic_id,
        "replicas": partition.replicas,
        "isr": partition.isr,
        "removing_replicas": partition.removing,
        "adding_replicas": partition.adding,
        "leader": partition.leader,
        "leader_recovery_state": partition.recovery_state,
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": partition.partition_epoch,
    }
    if version >= 1:
        fields["directories"] = partition.directories
    if version >= 2:
        fields["eligible_leader_replicas"] = partition.elr or None
        fields["last_known_elr"] = partition.last_known_elr or None
    return fields


def _end_points(listeners: Iterable[Listener]) -> list[Fields]:
    return [listener._asdict() for listener in listeners]


def _supported(features: Iterable[SupportedFeature]) -> list[Fields]:
    return [
        {"name": name, "min_supported_version": low, "max_supported_version": high}
        for name, low, high in features
    ]


def _broker(broker_id: int, broker: Broker, version: int) -> Fields:
    fields: Fields = {
        "broker_id": broker.broker_id,
        "incarnation_id": broker.incarnation,
        "broker_epoch": broker.epoch,
        "end_points": _end_points(broker.endpoints),
        "features": _supported(broker.features),
        "rack": broker.rack,
        "fenced": broker.fenced,
        "in_controlled_shutdown": broker.in_controlled_shutdown,
    }
    if version >= 2:
        fields["is_migrating_zk_broker"] = broker.is_migrating
    if version >= 3:
        fields["log_dirs"] = list(broker.log_dirs)
    if version >= 4 and broker.cordoned_log_dirs is not None:
        fields["cordoned_log_dirs"] = list(broker.cordoned_log_dirs)
    return fields


def _controller(controller_id: int, controller: ControllerRegistration, version: int) -> Fields:
    return {
        "controller_id": controller.controller_id,
        "incarnation_id": controller.incarnation,
        "zk_migration_ready": controller.zk_migration_ready,
        "end_points": _end_points(controller.endpoints),
        "features": _supported(controller.features),
    }


def _named(names: tuple[str, ...], values: tuple[Any, ...]) -> Fields:
    return dict(zip(names, values, strict=True))

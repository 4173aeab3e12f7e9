"""An image written as records and read again is the same image, for all contents."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftwreck.nodes.metadata.image import ImageView, MetadataImage
from kraftwreck.nodes.metadata.image_records import _HANDLERS
from kraftwreck.nodes.metadata.image_records_writing import write_image
from kraftwreck.nodes.protocol.records import RECORD_TYPES, decode_record, encode_record

TRANSACTIONS = {"BeginTransactionRecord", "EndTransactionRecord", "AbortTransactionRecord"}

NAMES = st.text("abz-._é", min_size=1, max_size=6)
IDS = st.binary(min_size=16, max_size=16)
NODES = st.integers(0, 2**31 - 1)
INT8, INT16 = st.integers(-128, 127), st.integers(0, 2**15 - 1)
INT64 = st.integers(0, 2**63 - 1)
FLAGS = st.booleans()
NODE_LISTS = st.lists(st.integers(0, 9), max_size=4)
END_POINTS = st.lists(
    st.fixed_dictionaries(
        {
            "name": NAMES,
            "host": NAMES,
            "port": st.integers(0, 65535),
            "security_protocol": INT16,
        }
    ),
    max_size=3,
)
FEATURES = st.lists(
    st.fixed_dictionaries(
        {"name": NAMES, "min_supported_version": INT16, "max_supported_version": INT16}
    ),
    max_size=3,
)


@st.composite
def partitions(draw: st.DrawFn, topic_id: bytes, number: int) -> dict[str, Any]:
    replicas = draw(NODE_LISTS)
    directories = draw(st.sampled_from([[bytes(16)], [bytes([7]) * 16, bytes([8]) * 16]]))
    return {
        "partition_id": number,
        "topic_id": topic_id,
        "replicas": replicas,
        "isr": draw(NODE_LISTS),
        "removing_replicas": draw(NODE_LISTS),
        "adding_replicas": draw(NODE_LISTS),
        "leader": draw(st.integers(-1, 9)),
        "leader_recovery_state": draw(st.integers(0, 1)),
        "leader_epoch": draw(NODES),
        "partition_epoch": draw(NODES),
        "directories": (directories * 4)[: len(replicas)],
        "eligible_leader_replicas": draw(st.none() | NODE_LISTS),
        "last_known_elr": draw(st.none() | NODE_LISTS),
    }


def keyed(key: str, keys: st.SearchStrategy[Any], **fields: st.SearchStrategy[Any]) -> Any:
    """Lists of field dicts, with distinct values of ``key``."""
    return st.lists(
        st.fixed_dictionaries({key: keys, **fields}), max_size=3, unique_by=lambda f: f[key]
    )


NODES_THAT_REGISTER = (
    ("RegisterBrokerRecord", 4, keyed(
        "broker_id", NODES, is_migrating_zk_broker=FLAGS, incarnation_id=IDS, broker_epoch=INT64,
        end_points=END_POINTS, features=FEATURES, rack=st.none() | NAMES, fenced=FLAGS,
        in_controlled_shutdown=FLAGS, log_dirs=st.lists(IDS, max_size=2),
        cordoned_log_dirs=st.none() | st.lists(IDS, max_size=2),
    )),
    ("RegisterControllerRecord", 0, keyed(
        "controller_id", NODES, incarnation_id=IDS, zk_migration_ready=FLAGS,
        end_points=END_POINTS, features=FEATURES,
    )),
)  # fmt: skip
ENTITY = st.fixed_dictionaries({"entity_type": NAMES, "entity_name": st.none() | NAMES})
SETTINGS_AND_ACCESS = (
    ("ConfigRecord", 0, keyed(
        "name", NAMES, resource_type=INT8, resource_name=NAMES, value=st.none() | NAMES,
    )),
    ("ClientQuotaRecord", 0, keyed(
        "key", NAMES, entity=st.lists(ENTITY, max_size=2, unique_by=lambda e: e["entity_type"]),
        value=st.floats(allow_nan=False), remove=FLAGS,
    )),
    ("ProducerIdsRecord", 0, st.lists(
        st.fixed_dictionaries({"next_producer_id": INT64}), max_size=1,
    )),
    ("AccessControlEntryRecord", 0, keyed(
        "id", IDS, resource_type=INT8, resource_name=NAMES, pattern_type=INT8, principal=NAMES,
        host=NAMES, operation=INT8, permission_type=INT8,
    )),
    ("UserScramCredentialRecord", 0, keyed(
        "name", NAMES, mechanism=INT8, salt=IDS, stored_key=IDS, server_key=IDS, iterations=NODES,
    )),
    ("DelegationTokenRecord", 0, keyed(
        "token_id", NAMES, owner=NAMES, requester=NAMES, renewers=st.lists(NAMES, max_size=2),
        issue_timestamp=INT64, max_timestamp=INT64, expiration_timestamp=INT64,
    )),
)  # fmt: skip


@st.composite
def contents(draw: st.DrawFn) -> list[tuple[str, int, dict[str, Any]]]:
    """Records of every kind that adds something, in an order in which they can be applied."""
    found: list[tuple[str, int, dict[str, Any]]] = []

    def add(name: str, version: int, many: Any) -> None:
        found.extend((name, version, fields) for fields in draw(many))

    if draw(FLAGS):
        level = {"name": "metadata.version", "feature_level": draw(st.integers(7, 27))}
        found.append(("FeatureLevelRecord", 0, level))
    elr = {"name": "eligible.leader.replicas.version", "feature_level": draw(st.integers(0, 1))}
    found.append(("FeatureLevelRecord", 0, elr))
    add("FeatureLevelRecord", 0, keyed("name", NAMES, feature_level=INT16))
    add("ZkMigrationStateRecord", 0, keyed("zk_migration_state", INT8))
    for kind in NODES_THAT_REGISTER:
        add(*kind)
    topics = draw(
        st.lists(st.tuples(NAMES, IDS), max_size=3, unique_by=(lambda t: t[0], lambda t: t[1]))
    )
    for name, topic_id in topics:
        found.append(("TopicRecord", 0, {"name": name, "topic_id": topic_id}))
        for number in range(draw(st.integers(0, 3))):
            found.append(("PartitionRecord", 2, draw(partitions(topic_id, number))))
    for kind in SETTINGS_AND_ACCESS:
        add(*kind)
    return found


def image_of(records: Any) -> MetadataImage:
    image = MetadataImage()
    decoded = [decode_record(encode_record(*record)) for record in records]
    if decoded:
        image.commit(len(decoded) - 1, 1, [(name, fields) for name, _, fields in decoded])
    return image


@settings(max_examples=100, deadline=None)
@given(contents())
def test_nothing_is_lost_whatever_the_metadata_version(
    records: list[tuple[str, int, dict[str, Any]]],
) -> None:
    image = image_of(records)
    again = image_of(write_image(image.stable))
    for name, of in image.maps.items():
        assert dict(of) == dict(again.maps[name]), name
    assert image == again
    assert image.digest() == again.digest()
    assert list(write_image(again)) == list(write_image(image_of(write_image(again))))


def one_of_everything() -> list[tuple[str, int, dict[str, Any]]]:
    broker = {"broker_id": 1, "incarnation_id": bytes(16), "broker_epoch": 1, "rack": "r"}
    entity = [{"entity_type": "user", "entity_name": None}]
    return [
        ("ConfigRecord", 0, {"resource_type": 2, "resource_name": "t", "name": "a", "value": "b"}),
        ("DelegationTokenRecord", 0, {"token_id": "x"}),
        ("UserScramCredentialRecord", 0, {"name": "eve", "mechanism": 1}),
        ("AccessControlEntryRecord", 0, {"id": bytes(16)}),
        ("ProducerIdsRecord", 0, {"next_producer_id": 1000}),
        ("ClientQuotaRecord", 0, {"entity": entity, "key": "rate", "value": 1.5}),
        ("TopicRecord", 0, {"name": "t", "topic_id": bytes(16)}),
        ("PartitionRecord", 1, {"partition_id": 0, "topic_id": bytes(16), "replicas": [1]}),
        ("RegisterControllerRecord", 0, {"controller_id": 1, "incarnation_id": bytes(16)}),
        ("RegisterBrokerRecord", 3, broker),
        ("FeatureLevelRecord", 0, {"name": "z", "feature_level": 1}),
        ("FeatureLevelRecord", 0, {"name": "metadata.version", "feature_level": 27}),
    ]


def test_every_part_of_the_image_is_written_in_kafkas_order() -> None:
    image = image_of(one_of_everything())
    assert all(len(of) for of in image.maps.values()), "a part of the image is not in this test"
    assert [record[0] for record in write_image(image)] == [
        "FeatureLevelRecord",
        "FeatureLevelRecord",
        "RegisterBrokerRecord",
        "RegisterControllerRecord",
        "TopicRecord",
        "PartitionRecord",
        "ConfigRecord",
        "ClientQuotaRecord",
        "ProducerIdsRecord",
        "AccessControlEntryRecord",
        "UserScramCredentialRecord",
        "DelegationTokenRecord",
    ]
    assert next(write_image(image))[2]["name"] == "metadata.version"


@pytest.mark.parametrize("part", sorted(MetadataImage().maps))
def test_a_forgotten_part_would_be_noticed(part: str) -> None:
    image, other = image_of(one_of_everything()), image_of(one_of_everything())
    other.maps[part].clear()
    assert image != other
    # The names of ids are those of the topics once more.
    assert (image.digest() != other.digest()) == (part != "names")


def test_every_metadata_record_there_is_means_something() -> None:
    assert set(_HANDLERS) | TRANSACTIONS == set(RECORD_TYPES)


def version_of(name: str, view: ImageView) -> int:
    return next(version for found, version, _ in write_image(view) if found == name)


@pytest.mark.parametrize(
    ("level", "partition", "broker"),
    [(7, 0, 1), (8, 0, 2), (16, 0, 2), (17, 1, 3), (27, 1, 3)],
)
def test_records_have_the_version_of_the_metadata_version(
    level: int, partition: int, broker: int
) -> None:
    feature = {"name": "metadata.version", "feature_level": level}
    image = image_of([*one_of_everything()[:-1], ("FeatureLevelRecord", 0, feature)])
    assert version_of("PartitionRecord", image) == partition
    assert version_of("RegisterBrokerRecord", image) == broker


def test_eligible_leader_replicas_take_the_version_that_has_them() -> None:
    feature = {"name": "eligible.leader.replicas.version", "feature_level": 1}
    image = image_of([*one_of_everything(), ("FeatureLevelRecord", 0, feature)])
    assert version_of("PartitionRecord", image) == 2

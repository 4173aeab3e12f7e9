"""The metadata image: the meaning of records, equality, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from nodes.consensus.effects import FatalError
from nodes.metadata.image import MetadataImage
from nodes.protocol.records import decode_record, encode_record

A, B = bytes(15) + b"\xaa", bytes(15) + b"\xbb"


def image_of(*records: tuple[str, int, dict[str, Any]]) -> MetadataImage:
    """Apply records after a trip through their encoding, as a follower does."""
    image = MetadataImage()
    for record in records:
        name, _, fields = decode_record(encode_record(*record))
        image.apply(name, fields)
    return image


def topic(name: str, topic_id: bytes) -> tuple[str, int, dict[str, Any]]:
    return "TopicRecord", 0, {"name": name, "topic_id": topic_id}


def partition(topic_id: bytes, number: int = 0) -> tuple[str, int, dict[str, Any]]:
    fields = {
        "partition_id": number,
        "topic_id": topic_id,
        "replicas": [1, 2, 3],
        "isr": [1, 2, 3],
        "leader": 1,
        "leader_epoch": 0,
        "partition_epoch": 0,
    }
    return "PartitionRecord", 1, fields


def config(name: str, value: str | None) -> tuple[str, int, dict[str, Any]]:
    fields = {"resource_type": 2, "resource_name": "t", "name": name, "value": value}
    return "ConfigRecord", 0, fields


def test_the_order_of_independent_records_does_not_matter() -> None:
    one = image_of(topic("a", A), topic("b", B), partition(A), partition(B))
    two = image_of(topic("b", B), partition(B), topic("a", A), partition(A))
    assert one == two
    assert one.digest() == two.digest()


def test_images_that_differ_in_one_value_differ() -> None:
    one, two = image_of(config("retention.ms", "1")), image_of(config("retention.ms", "2"))
    assert one != two
    assert one.digest() != two.digest()
    assert one != "something else"


def test_noop_records_and_the_position_are_not_part_of_the_state() -> None:
    one, two = image_of(topic("t", A)), image_of(topic("t", A), ("NoOpRecord", 0, {}))
    two.advance(17, 3)
    assert one == two
    assert one.digest() == two.digest()


def test_a_copy_shares_nothing_mutable() -> None:
    image = image_of(topic("t", A), partition(A), config("retention.ms", "1"))
    before, copy = image.digest(), image.copy()
    for record in (partition(A, 1), config("retention.ms", "2"), topic("u", B)):
        name, _, fields = decode_record(encode_record(*record))
        copy.apply(name, fields)
    assert copy != image
    assert image.digest() == before


def test_removing_a_topic_removes_its_configs() -> None:
    removal = ("RemoveTopicRecord", 0, {"topic_id": A})
    image = image_of(topic("t", A), partition(A), config("retention.ms", "1"), removal)
    assert image == MetadataImage()


def test_a_null_value_unsets_a_config() -> None:
    assert image_of(config("retention.ms", "1"), config("retention.ms", None)) == MetadataImage()


def test_a_partition_change_touches_only_what_it_carries() -> None:
    change = ("PartitionChangeRecord", 1, {"partition_id": 0, "topic_id": A, "isr": [2, 3]})
    after = image_of(topic("t", A), partition(A), change).topics["t"].partitions[0]
    assert after.isr == (2, 3)
    assert after.replicas == (1, 2, 3)
    assert (after.leader, after.leader_epoch, after.partition_epoch) == (1, 0, 1)


def test_naming_the_leader_again_still_bumps_the_leader_epoch() -> None:
    change = ("PartitionChangeRecord", 1, {"partition_id": 0, "topic_id": A, "leader": 1})
    after = image_of(topic("t", A), partition(A), change).topics["t"].partitions[0]
    assert (after.leader, after.leader_epoch, after.partition_epoch) == (1, 1, 1)


def test_broker_records_of_other_tools_are_understood() -> None:
    register = {"broker_id": 7, "broker_epoch": 5, "incarnation_id": A, "fenced": True}
    change = {"broker_id": 7, "broker_epoch": 5, "fenced": -1}
    image = image_of(
        ("RegisterBrokerRecord", 3, register),
        ("BrokerRegistrationChangeRecord", 1, change),
    )
    assert not image.brokers[7].fenced
    unregister = ("UnregisterBrokerRecord", 0, {"broker_id": 7, "broker_epoch": 5})
    image.apply(unregister[0], unregister[2])
    assert image == MetadataImage()


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (("BeginTransactionRecord", {"name": None}), "not supported"),
        (("AccessControlEntryRecord", {}), "not supported"),
        (("RemoveTopicRecord", {"topic_id": B}), "unknown topic id"),
        (("PartitionRecord", {"topic_id": B}), "unknown topic id"),
        (("TopicRecord", {"name": "t", "topic_id": B}), "exists already"),
        (("TopicRecord", {"name": "u", "topic_id": A}), "exists already"),
        (("FenceBrokerRecord", {"id": 9, "epoch": 1}), "unknown broker 9"),
        (("ProducerIdsRecord", {"next_producer_id": 0}), "went back"),
        (
            ("PartitionChangeRecord", {"topic_id": A, "partition_id": 4}),
            "unknown partition t-4",
        ),
        (
            ("PartitionRecord", {"topic_id": A, "eligible_leader_replicas": [1]}),
            "eligible leader replicas",
        ),
    ],
)
def test_what_the_image_cannot_represent_is_fatal(
    record: tuple[str, dict[str, Any]], reason: str
) -> None:
    image = image_of(topic("t", A))
    with pytest.raises(FatalError, match=reason):
        image.apply(*record)


def test_the_position_never_goes_back() -> None:
    image = MetadataImage()
    image.advance(4, 2)
    with pytest.raises(FatalError, match="went back"):
        image.advance(4, 2)
    with pytest.raises(FatalError, match="went back"):
        image.advance(5, 1)

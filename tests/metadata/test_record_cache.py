"""Records kept from one snapshot to the next never show what the image was before."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftwreck.nodes.metadata import record_cache
from kraftwreck.nodes.metadata.image import MetadataImage
from kraftwreck.nodes.metadata.image_records_writing import write_image
from kraftwreck.nodes.metadata.record_cache import RecordCache
from kraftwreck.nodes.protocol.records import encode_record

Record = tuple[str, dict[str, Any]]
ID = bytes(range(16))


def topic(name: str, topic_id: bytes, partitions: int) -> list[Record]:
    records: list[Record] = [("TopicRecord", {"name": name, "topic_id": topic_id})]
    for number in range(partitions):
        fields = {"partition_id": number, "topic_id": topic_id, "replicas": [1, 2], "isr": [1, 2]}
        fields |= {"leader": 1, "leader_epoch": 0, "partition_epoch": 0}
        records.append(("PartitionRecord", fields))
    return records


def config(topic_name: str, value: str | None) -> list[Record]:
    fields = {"resource_type": 2, "resource_name": topic_name, "name": "retention.ms"}
    return [("ConfigRecord", fields | {"value": value})]


def change(partition: int, **fields: Any) -> list[Record]:
    return [("PartitionChangeRecord", {"partition_id": partition, "topic_id": ID, **fields})]


def level(name: str, value: int) -> list[Record]:
    return [("FeatureLevelRecord", {"name": name, "feature_level": value})]


def producer_ids(following: int) -> list[Record]:
    return [("ProducerIdsRecord", {"next_producer_id": following})]


def commit(image: MetadataImage, records: list[Record]) -> None:
    image.commit(image.committed_offset + len(records), 1, records)


def encoded_anew(image: MetadataImage) -> list[bytes]:
    return [encode_record(*record) for record in write_image(image.stable)]


CHANGES = st.one_of(
    st.builds(change, st.sampled_from([0, 1]), leader=st.sampled_from([1, 2])),
    st.builds(change, st.sampled_from([0, 1]), isr=st.sampled_from([[1], [1, 2]])),
    st.builds(config, st.just("t"), st.sampled_from(["1", "2"])),
    st.builds(level, st.just("metadata.version"), st.sampled_from([7, 16, 25])),
)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(CHANGES, max_size=3), max_size=6), st.sampled_from([0, 1, 2, 1000]))
def test_a_snapshot_is_the_same_with_and_without_the_cache(
    rounds: list[list[list[Record]]], most: int
) -> None:
    image, cache = MetadataImage(), RecordCache(most)
    commit(image, topic("t", ID, 2))
    for changes in rounds:
        for records in changes:
            commit(image, records)
        frozen = image.freeze()
        assert list(cache.encode(frozen)) == encoded_anew(image)
        frozen.release()


def test_a_topic_that_comes_back_is_written_as_it_is_now() -> None:
    image, cache = MetadataImage(), RecordCache()
    commit(image, [*topic("t", ID, 2), *config("t", "5")])
    assert list(cache.encode(image.stable)) == encoded_anew(image)
    commit(image, [("RemoveTopicRecord", {"topic_id": ID})])
    commit(image, topic("t", bytes(15) + b"\1", 1))
    assert list(cache.encode(image.stable)) == encoded_anew(image)


def encodings(cache: RecordCache, image: MetadataImage, monkeypatch: pytest.MonkeyPatch) -> int:
    counted: list[str] = []

    def encode(name: str, version: int, fields: dict[str, Any]) -> bytes:
        counted.append(name)
        return encode_record(name, version, fields)

    monkeypatch.setattr(record_cache, "encode_record", encode)
    list(cache.encode(image.stable))
    return len(counted)


@pytest.mark.interpreted
def test_only_changed_records_are_encoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    image, cache = MetadataImage(), RecordCache()
    commit(image, topic("t", ID, 20))
    assert encodings(cache, image, monkeypatch) == 21
    assert encodings(cache, image, monkeypatch) == 0
    commit(image, change(7, leader=2))
    assert encodings(cache, image, monkeypatch) == 1
    # A number that counts on is one object after the other.
    commit(image, producer_ids(1_000_000))
    assert encodings(cache, image, monkeypatch) == 1
    commit(image, producer_ids(2_000_000))
    assert encodings(cache, image, monkeypatch) == 1
    cache.clear()
    assert encodings(cache, image, monkeypatch) == 22


@pytest.mark.interpreted
def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    image, cache = MetadataImage(), RecordCache(most=10)
    commit(image, topic("t", ID, 20))
    assert encodings(cache, image, monkeypatch) == 21
    assert encodings(cache, image, monkeypatch) == 11

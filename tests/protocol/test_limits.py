"""Requests that say they are large are refused before anything of their size is created."""

from __future__ import annotations

import struct
import tracemalloc
from typing import Any

import pytest

from kraftwreck.nodes.protocol.apis import API_KEYS, SUPPORTED, decode_request_header
from kraftwreck.nodes.protocol.codec import ProtocolError, decode, encode
from kraftwreck.nodes.protocol.limits import LARGEST, PARTITIONS, limit_of

CROWDS: list[tuple[str, int, dict[str, Any]]] = [
    ("Metadata", 9, {"topics": [{"name": ""}] * (1 << 19)}),
    ("DeleteTopics", 5, {"topic_names": [""] * (1 << 20)}),
    ("ElectLeaders", 2, {"topic_partitions": [{"topic": "t", "partitions": [0] * 60_000}]}),
    ("CreateTopics", 7, {"topics": [{"name": "t", "assignments": [{}] * 60_000}]}),
    ("EndQuorumEpoch", 1, {"leader_endpoints": [{}] * 2_000}),
]


@pytest.mark.parametrize(("api", "version", "body"), CROWDS, ids=[c[0] for c in CROWDS])
def test_too_many_items_are_refused_before_they_are_created(
    api: str, version: int, body: dict[str, Any]
) -> None:
    data = encode(f"{api}Request", version, body)
    decode(f"{api}Request", version, encode(f"{api}Request", version, {}))  # compiles the decoder
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match="too many items"):
            decode(f"{api}Request", version, data, 0, limit_of(api).items)
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()


def test_items_of_all_arrays_count_together() -> None:
    topics = [{"topic": "t", "partitions": [1, 2, 3]}] * 10
    data = encode("ElectLeadersRequest", 2, {"topic_partitions": topics})
    assert decode("ElectLeadersRequest", 2, data, 0, 40)
    with pytest.raises(ProtocolError, match="too many items"):
        decode("ElectLeadersRequest", 2, data, 0, 39)


def test_an_array_needs_room_for_the_least_of_its_items() -> None:
    # A resource has at least seven bytes, so 200 bytes cannot hold a hundred of them.
    data = struct.pack(">i", 100) + bytes(200)
    decode("DescribeConfigsRequest", 1, bytes(5))  # compiles the decoder
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match="outside of the message"):
            decode("DescribeConfigsRequest", 1, data)
        assert tracemalloc.get_traced_memory()[1] < 5_000
    finally:
        tracemalloc.stop()


def test_tags_count_as_items() -> None:
    data = encode("DescribeClusterRequest", 0, {})[:-1] + b"\xff\x0f" + b"\x63\x00" * 2047
    assert decode("DescribeClusterRequest", 0, data)
    with pytest.raises(ProtocolError, match="too many items"):
        decode("DescribeClusterRequest", 0, data, 0, 2000)


def test_a_string_is_at_most_as_long_as_in_apache_kafka() -> None:
    for length, good in ((32_767, True), (32_768, False)):
        data = encode("MetadataRequest", 9, {"topics": [{"name": "x" * length}]})
        if good:
            assert decode("MetadataRequest", 9, data)
        else:
            with pytest.raises(ProtocolError, match="a string has 32768 bytes"):
                decode("MetadataRequest", 9, data)


def test_a_header_has_few_tags() -> None:
    head = struct.pack(">hhih", API_KEYS["Metadata"], 9, 1, -1)
    with pytest.raises(ProtocolError, match="it has 101 tags"):
        decode_request_header(head + b"\x65" + b"\x01\x00" * 101)


def test_the_changes_of_a_batch_fit_a_request() -> None:
    assignments = [{"partition_index": i, "broker_ids": [1, 2, 3]} for i in range(10_000)]
    topic = {"name": "t", "num_partitions": -1, "replication_factor": -1}
    body = {"topics": [topic | {"assignments": assignments, "configs": []}]}
    data = encode("CreateTopicsRequest", 7, body)
    assert len(data) < PARTITIONS.size
    assert decode("CreateTopicsRequest", 7, data, 0, limit_of("CreateTopics").items)


def test_every_api_has_a_limit() -> None:
    assert {limit_of(api).size <= LARGEST for api in SUPPORTED} == {True}

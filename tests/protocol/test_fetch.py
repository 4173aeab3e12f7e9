"""Fetch by hand: what the schema encodes is read, and damage is refused."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftwreck.nodes.protocol.codec import ProtocolError, decode, encode
from kraftwreck.nodes.protocol.fetch import FIRST, LAST, follower_fetch, parse_fetch

INT = st.integers(-(2**31), 2**31 - 1)
LONG = st.integers(-(2**63), 2**63 - 1)
NAMED = {"topic": st.text(max_size=20), "topic_id": st.binary(min_size=16, max_size=16)}
PARTITION = {
    "partition": INT,
    "current_leader_epoch": INT,
    "fetch_offset": LONG,
    "last_fetched_epoch": INT,
    "log_start_offset": LONG,
    "partition_max_bytes": INT,
    "replica_directory_id": st.binary(min_size=16, max_size=16),
}
TOPIC = {**NAMED, "partitions": st.lists(st.fixed_dictionaries(PARTITION), max_size=3)}
FORGOTTEN = {**NAMED, "partitions": st.lists(INT, max_size=3)}
BODIES = st.fixed_dictionaries(
    {
        "cluster_id": st.none() | st.text(max_size=9),
        "replica_id": INT,
        "replica_state": st.fixed_dictionaries({"replica_id": INT, "replica_epoch": LONG}),
        "max_wait_ms": INT,
        "min_bytes": INT,
        "max_bytes": INT,
        "isolation_level": st.integers(0, 1),
        "session_id": INT,
        "session_epoch": INT,
        "topics": st.lists(st.fixed_dictionaries(TOPIC), max_size=3),
        "forgotten_topics_data": st.lists(st.fixed_dictionaries(FORGOTTEN), max_size=2),
        "rack_id": st.text(max_size=9),
    }
)
VERSIONS = st.integers(FIRST, LAST)


@settings(max_examples=300)
@given(VERSIONS, BODIES, st.binary(max_size=4))
def test_it_reads_what_the_schema_writes(
    version: int, body: dict[str, Any], surplus: bytes
) -> None:
    frame = b"abc" + encode("FetchRequest", version, body) + surplus
    read, _ = decode("FetchRequest", version, frame, 3)  # Fields that the version lacks: defaults.
    found = parse_fetch(memoryview(frame), 3, version, 100)
    name = "topic_id" if version >= 13 else "topic"
    state = read["replica_state"]
    assert (found.replica_id, found.replica_epoch) == (
        (state["replica_id"], state["replica_epoch"]) if version >= 15 else (body["replica_id"], -1)
    )
    for field in ("max_wait_ms", "min_bytes", "max_bytes", "isolation_level"):
        assert getattr(found, field) == read[field]
    assert (found.session_id, found.session_epoch) == (read["session_id"], read["session_epoch"])
    assert [
        (*p.key, p.offset, p.max_bytes, p.leader_epoch, p.last_fetched_epoch, p.log_start)
        for p in found.partitions
    ] == [
        (
            *(topic[name], p["partition"], p["fetch_offset"], p["partition_max_bytes"]),
            *(p["current_leader_epoch"], p["last_fetched_epoch"], p["log_start_offset"]),
        )
        for topic in read["topics"]
        for p in topic["partitions"]
    ]
    assert list(found.forgotten) == [
        (topic[name], number)
        for topic in read["forgotten_topics_data"]
        for number in topic["partitions"]
    ]


@settings(max_examples=500)
@given(VERSIONS, BODIES, st.data())
def test_damaged_bytes_are_read_or_refused(
    version: int, body: dict[str, Any], data: st.DataObject
) -> None:
    frame = bytearray(encode("FetchRequest", version, body))
    for _ in range(data.draw(st.integers(0, 3))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    del frame[data.draw(st.integers(0, len(frame))) :]
    with contextlib.suppress(ProtocolError):
        parse_fetch(bytes(frame), 0, version, 100)


def test_too_many_partitions_and_unknown_versions_are_refused() -> None:
    parts = [{"partition": n} for n in range(60)]
    body = {"topics": [{"topic": "t", "partitions": parts}] * 2}
    frame = encode("FetchRequest", 12, body)
    assert len(parse_fetch(frame, 0, 12, 122).partitions) == 120
    with pytest.raises(ProtocolError, match="more than"):
        parse_fetch(frame, 0, 12, 121)
    for version in (3, 19):
        with pytest.raises(ProtocolError, match="versions 4 to 18"):
            parse_fetch(frame, 0, version, 200)


WANTED = st.tuples(INT, INT, LONG, INT, LONG, INT)
FIELDS = (
    "partition",
    "current_leader_epoch",
    "fetch_offset",
    "last_fetched_epoch",
    "log_start_offset",
    "partition_max_bytes",
)


@settings(max_examples=300)
@given(st.integers(12, 17), st.integers(0, 2**31 - 1), LONG, INT, INT, st.data())
def test_followers_write_what_the_schema_writes(
    version: int, replica_id: int, epoch: int, wait: int, most: int, data: st.DataObject
) -> None:
    by_id = version >= 13
    topic = st.binary(min_size=16, max_size=16) if by_id else st.text(max_size=200)
    topics = data.draw(
        st.lists(st.tuples(topic, st.lists(WANTED, max_size=3) | _many()), max_size=3)
    )
    body = {
        "replica_id": replica_id,
        "replica_state": {"replica_id": replica_id, "replica_epoch": epoch},
        "max_wait_ms": wait,
        "min_bytes": 1,
        "max_bytes": most,
        "session_epoch": -1,
        "topics": [
            {
                "topic_id" if by_id else "topic": name,
                "partitions": [dict(zip(FIELDS, part, strict=True)) for part in parts],
            }
            for name, parts in topics
        ],
    }
    written = follower_fetch(version, (replica_id, epoch), wait, most, topics)
    assert written == encode("FetchRequest", version, body)


def _many() -> st.SearchStrategy[list[tuple[int, ...]]]:
    """So many partitions that their number has one byte, or two."""
    counts = st.integers(125, 130)
    return counts.map(lambda count: [(number, 1, 2, 3, 4, 5) for number in range(count)])

"""Produce by hand: what the schema encodes is read without a copy, and damage is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftwreck.nodes.protocol import errors
from kraftwreck.nodes.protocol.codec import ProtocolError, decode, encode
from kraftwreck.nodes.protocol.produce import FIRST, LAST, parse_produce
from kraftwreck.nodes.protocol.produced import RefusedError, check_records
from tests.protocol.produced_cases import CASES, GOOD, MOST_BYTES, TIME, changed

VERSIONS = st.integers(FIRST, LAST)
BODIES = st.fixed_dictionaries(
    {
        "transactional_id": st.none() | st.text(max_size=200),
        "acks": st.integers(-(2**15), 2**15 - 1),
        "timeout_ms": st.integers(-(2**31), 2**31 - 1),
        "topic_data": st.lists(
            st.fixed_dictionaries(
                {
                    "name": st.text(max_size=20),
                    "topic_id": st.binary(min_size=16, max_size=16),
                    "partition_data": st.lists(
                        st.fixed_dictionaries(
                            {
                                "index": st.integers(-(2**31), 2**31 - 1),
                                "records": st.none() | st.binary(max_size=300),
                            }
                        ),
                        max_size=3,
                    ),
                }
            ),
            max_size=3,
        ),
    }
)


def flat(body: dict[str, Any], by_id: bool) -> list[tuple[object, int, bytes | None]]:
    """Topic, partition and records of each partition."""
    return [
        (topic["topic_id" if by_id else "name"], part["index"], part["records"])
        for topic in body["topic_data"]
        for part in topic["partition_data"]
    ]


def read(frame: bytes, version: int) -> tuple[Any, list[tuple[object, int, bytes | None]]]:
    request = parse_produce(memoryview(frame), 3, version, 100)
    parts: list[tuple[object, int, bytes | None]] = [
        (p.topic, p.partition, None if p.start < 0 else frame[p.start : p.end])
        for p in request.parts
    ]
    return request, parts


@given(VERSIONS, BODIES, st.binary(max_size=5))
def test_it_reads_what_the_schema_writes(
    version: int, body: dict[str, Any], surplus: bytes
) -> None:
    frame = b"abc" + encode("ProduceRequest", version, body) + surplus
    request, parts = read(frame, version)
    assert parts == flat(body, version >= 13)
    assert (request.transactional_id, request.acks, request.timeout_ms) == (
        body["transactional_id"], body["acks"], body["timeout_ms"],
    )  # fmt: skip


@settings(max_examples=500)
@given(VERSIONS, BODIES, st.data())
def test_damaged_bytes_are_read_as_by_the_schema_or_refused(
    version: int, body: dict[str, Any], data: st.DataObject
) -> None:
    frame = bytearray(b"abc" + encode("ProduceRequest", version, body))
    for _ in range(data.draw(st.integers(1, 3))):
        frame[data.draw(st.integers(3, len(frame) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del frame[data.draw(st.integers(3, len(frame))) :]
    try:
        expected: Any = decode("ProduceRequest", version, bytes(frame), 3, 100)[0]
    except ProtocolError:
        expected = None
    try:
        found = read(bytes(frame), version)[1]
    except ProtocolError:
        assert expected is None
        return
    assert expected is not None and found == flat(expected, version >= 13)


def test_too_many_partitions_and_unknown_versions_are_refused() -> None:
    parts = [{"index": n, "records": b""} for n in range(60)]
    body = {"acks": 1, "timeout_ms": 1, "topic_data": [{"name": "t", "partition_data": parts}] * 2}
    frame = encode("ProduceRequest", 9, body)
    assert len(parse_produce(frame, 0, 9, 122).parts) == 120
    with pytest.raises(ProtocolError, match="more than"):
        parse_produce(frame, 0, 9, 121)
    for version in (2, 14):
        with pytest.raises(ProtocolError, match="versions 3 to 13"):
            parse_produce(frame, 0, version, 200)


CODES = {
    "sound": errors.NONE,
    "sound of version 3": errors.NONE,
    "empty": errors.INVALID_RECORD,
    "cut in the header": errors.INVALID_RECORD,
    "cut in the records": errors.INVALID_RECORD,
    "garbage of 10 bytes after it": errors.NONE,
    "the start of another after it": errors.NONE,
    "two": errors.INVALID_RECORD,
    "a wrong checksum": errors.CORRUPT_MESSAGE,
    "magic 0": errors.INVALID_RECORD,
    "magic 1": errors.INVALID_RECORD,
    "magic 3": errors.CORRUPT_MESSAGE,
    "magic 255": errors.CORRUPT_MESSAGE,
    "a base offset": errors.INVALID_RECORD,
    "a leader epoch": errors.NONE,
    "a count too large": errors.INVALID_RECORD,
    "count 0": errors.INVALID_RECORD,
    "count -1": errors.INVALID_RECORD,
    "a delta too large": errors.INVALID_RECORD,
    "control": errors.INVALID_RECORD,
    "a producer without a sequence": errors.INVALID_RECORD,
    "the time of the append": errors.NONE,
    "codec 5": errors.UNKNOWN_SERVER_ERROR,
    "codec 7": errors.UNKNOWN_SERVER_ERROR,
    "zstd of version 6": errors.UNSUPPORTED_COMPRESSION_TYPE,
    "too large": errors.MESSAGE_TOO_LARGE,
    "too large and a wrong checksum": errors.MESSAGE_TOO_LARGE,
    "length 13": errors.CORRUPT_MESSAGE,
    "length 20": errors.CORRUPT_MESSAGE,
    "length -1": errors.CORRUPT_MESSAGE,
    "a length beyond its end": errors.INVALID_RECORD,
}


def code_of(records: bytes, version: int, wall_ms: int = TIME) -> int:
    try:
        header, taken = check_records(memoryview(records), version, MOST_BYTES, wall_ms)
    except RefusedError as error:
        assert str(error)
        return error.code
    assert len(taken) == header.length <= len(records)
    return errors.NONE


def test_records_are_checked_with_kafka_s_codes() -> None:
    found = {name: code_of(records, version) for name, (version, records) in CASES.items()}
    assert found == CODES


def test_a_time_of_the_far_future_is_refused() -> None:
    late = changed(GOOD, "q", 35, TIME + 3_600_001)
    assert code_of(late, 9) == errors.INVALID_TIMESTAMP
    assert code_of(late, 9, TIME + 1) == errors.NONE


@settings(max_examples=500)
@given(st.data())
def test_any_bytes_are_taken_or_refused(data: st.DataObject) -> None:
    records = bytearray(GOOD * data.draw(st.integers(1, 2)))
    for _ in range(data.draw(st.integers(0, 6))):
        records[data.draw(st.integers(0, len(records) - 1))] = data.draw(st.integers(0, 255))
    code_of(bytes(records[: data.draw(st.integers(0, len(records)))]), 9)

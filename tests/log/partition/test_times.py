"""Records by time: the first one of a timestamp or later, inside of its batch."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftwreck.nodes.log.batch import BatchError, parse_header
from kraftwreck.nodes.log.crc import crc32c
from kraftwreck.nodes.log.media import PLAIN
from kraftwreck.nodes.log.partition.times import offset_at, record_at
from tests.log.partition.batches import TIME, open_log


def zigzag(value: int) -> bytes:
    value = value << 1 ^ value >> 63
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def timed_batch(base: int, times: list[int], codec: int = 0, attributes: int = 0) -> bytes:
    """A batch of records with these timestamps, as a client of Kafka writes it."""
    records = b""
    for delta, time_ms in enumerate(times):
        body = b"\0" + zigzag(time_ms - times[0]) + zigzag(delta) + b"\1" + zigzag(3) + b"abc\0"
        records += zigzag(len(body)) + body
    if codec == 1:
        records = gzip.compress(records)
    tail = struct.pack(
        ">hiqqqhii",
        *(codec | attributes, len(times) - 1, times[0], max(times), -1, -1, -1, len(times)),
    )
    tail += records
    return struct.pack(">qiibI", base, len(tail) + 9, 3, 2, crc32c(tail)) + tail


TIMES = st.lists(st.integers(TIME, TIME + 50), min_size=1, max_size=12)


@given(TIMES, st.integers(TIME - 1, TIME + 51), st.integers(95, 110), st.sampled_from([0, 1]))
def test_the_first_record_of_a_batch_is_a_scan_s(
    times: list[int], wanted: int, start: int, codec: int
) -> None:
    batch = timed_batch(100, times, codec)
    expected = next(
        ((100 + n, t) for n, t in enumerate(times) if t >= wanted and 100 + n >= start), None
    )
    assert record_at(batch, wanted, start) == expected


def test_other_codecs_and_the_time_of_the_append_give_the_first_record() -> None:
    times = [TIME, TIME + 5, TIME + 9]
    for codec in (2, 3, 4):
        assert record_at(timed_batch(7, times, codec), TIME + 6, 0) == (7, TIME)
    assert record_at(timed_batch(7, times, 0, 8), TIME + 6, 8) == (8, TIME + 9)


def test_records_that_cannot_be_read_are_refused() -> None:
    batch = bytearray(timed_batch(7, [TIME, TIME + 1]))
    batch[61] = 0x7F  # A record of -64 bytes.
    with pytest.raises(BatchError, match="-64 bytes"):
        record_at(bytes(batch), TIME + 1, 0)
    batch[61] = 0x7E  # Of 63 bytes.
    with pytest.raises(BatchError, match="ends outside"):
        record_at(bytes(batch), TIME + 1, 0)
    packed = bytearray(timed_batch(7, [TIME, TIME + 1], 1))
    packed[61:63] = b"no"
    with pytest.raises(BatchError, match="records at 7"):
        record_at(bytes(packed), TIME + 1, 0)


@given(st.lists(TIMES, min_size=1, max_size=30), st.data())
def test_a_log_finds_what_a_scan_of_all_records_finds(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[int]], data: st.DataObject
) -> None:
    log = open_log(tmp_path_factory.mktemp("times") / "t-0")
    records: list[tuple[int, int, int]] = []
    for number, times in enumerate(batches):
        batch = timed_batch(log.end_offset, times, number % 2)
        records += [(log.end_offset + n, t, 3) for n, t in enumerate(times)]
        log.append(batch, [parse_header(batch)])
    start = data.draw(st.integers(0, log.end_offset))
    end = data.draw(st.integers(start, log.end_offset))
    log.delete_below(data.draw(st.integers(0, start)))
    for wanted in (TIME, TIME + 20, TIME + 49, TIME + 51):
        expected = next((r for r in records if r[1] >= wanted and start <= r[0] < end), None)
        assert offset_at(log, PLAIN, wanted, start, end) == expected
    log.close()


def test_an_empty_log_has_no_record(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    assert offset_at(log, PLAIN, TIME, 0, 0) is None

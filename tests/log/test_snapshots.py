"""Snapshots: Kafka's bytes, and no damage accepted."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kraftwreck.nodes.log.batch import encode_batch, split_batches
from kraftwreck.nodes.log.snapshots import (
    BOOTSTRAP,
    SnapshotCorruptError,
    SnapshotHeader,
    data_batch,
    data_records,
    footer_batch,
    header_batch,
    parse_snapshot_name,
    read_control,
    read_header,
    snapshot_name,
    verify,
)
from kraftwreck.nodes.log.uuids import from_halves

TIME = 1_700_000_000_000
NAME = "00000000000000000100-0000000007.checkpoint"
VOTERS: list[dict[str, Any]] = [
    {
        "voter_id": 1,
        "voter_directory_id": from_halves(7, 8),
        "endpoints": [{"name": "CONTROLLER", "host": "c1", "port": 9093}],
        "kraft_version_feature": {"min_supported_version": 0, "max_supported_version": 1},
    }
]


def small(epoch: int = 7) -> bytes:
    """A header of three records, two data batches, a footer."""
    return (
        header_batch(epoch, TIME, TIME - 5, 1, VOTERS)
        + data_batch(3, epoch, TIME, [b"a", b"bc"])
        + data_batch(5, epoch, TIME, [b"d"])
        + footer_batch(6, epoch, TIME)
    )


def test_names_have_twenty_and_ten_digits() -> None:
    assert snapshot_name(100, 7) == NAME
    assert parse_snapshot_name(NAME) == (100, 7)
    assert parse_snapshot_name(snapshot_name(*BOOTSTRAP)) == BOOTSTRAP
    for other in ("100-7.checkpoint", NAME + ".part", NAME + ".deleted", NAME[1:], "bootstrap"):
        assert parse_snapshot_name(other) is None


def test_header_and_footer_are_kafkas_bytes() -> None:
    assert header_batch(1, TIME, TIME).hex() == (
        "0000000000000000000000470000000102c7ac78040020000000000000018bcfe568000000018bcfe56800"
        "ffffffffffffffffffffffffffff000000012a00000008000000031600000000018bcfe568000000"
    )
    assert footer_batch(5, 1, TIME).hex() == (
        "00000000000000050000003f00000001028f6608e60020000000000000018bcfe568000000018bcfe56800"
        "ffffffffffffffffffffffffffff000000011a00000008000000040600000000"
    )


def test_written_data_reads_back() -> None:
    head = SnapshotHeader(TIME - 5, 1, VOTERS)
    assert verify(small(), NAME) == head
    assert read_header(small()) == head
    assert read_control(small()) == (TIME - 5, 1, VOTERS)
    assert list(data_records(small())) == [b"a", b"bc", b"d"]


def test_a_static_quorum_has_only_a_time_in_the_header() -> None:
    content = header_batch(7, TIME, 9) + footer_batch(1, 7, TIME)
    assert verify(content, NAME) == SnapshotHeader(9, None, None)
    assert list(data_records(content)) == []


def test_every_flipped_byte_is_found_and_the_message_names_file_and_byte() -> None:
    content = small()
    starts = [0]
    for batch in split_batches(content):
        starts.append(starts[-1] + len(batch))
    for place in range(len(content)):
        for flip in (1, 0x80, 0xFF):
            damaged = bytearray(content)
            damaged[place] ^= flip
            with pytest.raises(SnapshotCorruptError) as caught:
                verify(bytes(damaged), "/data/" + NAME)
            found = re.match(rf"/data/{NAME}, byte (\d+): .", str(caught.value))
            assert found is not None, caught.value
            batch_start = max(start for start in starts if start <= place)
            assert int(found[1]) == batch_start, f"byte {place}: {caught.value}"


def test_a_file_cut_at_any_byte_is_incomplete() -> None:
    content = small()
    for length in range(len(content)):
        with pytest.raises(SnapshotCorruptError, match=NAME):
            verify(content[:length], NAME)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "byte 0: the snapshot ends without its footer"),
        (small() + b"\0", "byte .*: 1 bytes follow the footer"),
        (small() + footer_batch(7, 7, TIME), "follow the footer"),
        (small(epoch=6), "batch has epoch 6, not 7"),
        (data_batch(0, 7, TIME, [b"a"]) + footer_batch(1, 7, TIME), "is not a snapshot header"),
        (footer_batch(0, 7, TIME), "control record of type 4 in the header"),
        (
            header_batch(7, TIME, 0) + header_batch(7, TIME, 0)[8:],
            "batch|not",
        ),
        (header_batch(7, TIME, 0) + footer_batch(2, 7, TIME), "base offset 2, not 1"),
        (
            header_batch(7, TIME, 0) + encode_batch(1, 7, TIME, [(b"\0\0\0\7", b"\0\0")], True),
            "unknown control record type 7",
        ),
        (
            header_batch(7, TIME, 0)
            + encode_batch(1, 7, TIME, [(b"\0\0\0\4", b"\0\0\0")] * 2, True),
            r"types \[4, 4\] where only a footer",
        ),
    ],
)
def test_malformed_snapshots_are_refused(content: bytes, reason: str) -> None:
    with pytest.raises(SnapshotCorruptError, match=reason):
        verify(content, NAME)


def test_a_file_that_is_not_named_as_a_snapshot_is_refused() -> None:
    with pytest.raises(SnapshotCorruptError, match="not the name of a snapshot"):
        verify(small(), NAME + ".part")


def test_a_batch_that_is_no_head_is_refused() -> None:
    with pytest.raises(SnapshotCorruptError, match="byte 0"):
        read_header(data_batch(0, 7, TIME, [b"a"]))
    with pytest.raises(SnapshotCorruptError, match="cut off"):
        read_header(small()[:70])

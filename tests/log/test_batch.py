"""Record batches: encoding and decoding agree, and other bytes are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftwreck.nodes.log.batch import (
    BatchError,
    Record,
    decode_batch,
    encode_batch,
    parse_header,
    split_batches,
    verify_crc,
)

PART = st.none() | st.binary(max_size=200)
RECORDS = st.lists(st.tuples(PART, PART), min_size=1, max_size=80)
EXAMPLE = encode_batch(7, 3, 1234, [(b"k", b"v" * 70), (None, b""), (b"", None)], False)


@given(
    base=st.integers(0, 2**62),
    epoch=st.integers(0, 2**31 - 1),
    time=st.integers(-1, 2**62),
    records=RECORDS,
    control=st.booleans(),
)
def test_a_batch_is_read_as_it_was_written(
    base: int, epoch: int, time: int, records: list[Record], control: bool
) -> None:
    batch = encode_batch(base, epoch, time, records, control)
    header, decoded = decode_batch(batch)
    assert verify_crc(batch)
    assert decoded == [(base + i, key, value) for i, (key, value) in enumerate(records)]
    assert (header.base_offset, header.epoch, header.is_control) == (base, epoch, control)
    assert header.last_offset == base + len(records) - 1
    assert (header.base_timestamp, header.max_timestamp) == (time, time)
    assert (header.length, header.count) == (len(batch), len(records))


def test_a_batch_needs_records() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        encode_batch(0, 0, 0, [], False)


@given(st.lists(st.integers(1, 5), max_size=6), st.integers(0, 100))
def test_splitting_gives_the_whole_batches(counts: list[int], cut: int) -> None:
    batches = [
        encode_batch(i * 10, 1, 0, [(None, b"x" * n)] * n, False) for i, n in enumerate(counts)
    ]
    data = b"".join(batches)
    assert list(split_batches(data)) == batches
    assert list(split_batches(data + EXAMPLE[: min(cut, len(EXAMPLE) - 1)])) == batches
    if cut and batches:
        torn = memoryview(data)[: -min(cut, len(batches[-1]))]
        assert list(split_batches(torn)) == batches[:-1]


def test_a_length_no_batch_can_have_is_refused() -> None:
    wrong = EXAMPLE[:8] + (3).to_bytes(4, "big") + EXAMPLE[12:]
    with pytest.raises(BatchError, match="says it has 15 bytes"):
        list(split_batches(EXAMPLE + wrong))
    with pytest.raises(BatchError, match="15 bytes"):
        parse_header(wrong)


def test_each_flipped_bit_under_the_checksum_is_noticed() -> None:
    for bit in range(17 * 8, len(EXAMPLE) * 8):
        damaged = bytearray(EXAMPLE)
        damaged[bit // 8] ^= 1 << bit % 8
        assert not verify_crc(damaged)
    assert not verify_crc(EXAMPLE[:60])


def test_every_prefix_is_refused() -> None:
    for length in range(len(EXAMPLE)):
        with pytest.raises(BatchError):
            decode_batch(EXAMPLE[:length])


def test_a_foreign_or_compressed_batch_is_refused() -> None:
    with pytest.raises(BatchError, match="magic 1"):
        parse_header(EXAMPLE[:16] + b"\1" + EXAMPLE[17:])
    with pytest.raises(BatchError, match="compressed"):
        decode_batch(EXAMPLE[:22] + b"\4" + EXAMPLE[23:])


@given(st.integers(57, len(EXAMPLE) - 1), st.integers(0, 255))
def test_damaged_records_give_a_batch_error_or_records(place: int, byte: int) -> None:
    damaged = EXAMPLE[:place] + bytes((byte,)) + EXAMPLE[place + 1 :]
    try:
        header, records = decode_batch(damaged)
    except BatchError:
        return
    assert len(records) == header.count

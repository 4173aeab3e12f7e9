"""Record batches as clients write and read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final

from kraftwreck.nodes.log.batch import (
    CRC_START,
    BatchError,
    decode_batch,
    encode_batch,
    split_batches,
    verify_crc,
)
from kraftwreck.nodes.log.crc import crc32c

_PRODUCER: Final = Struct(">qhi")
_PRODUCER_AT: Final = 43
_CRC: Final = Struct(">I")
_CRC_AT: Final = 17
TIMESTAMP_MS: Final = 1_600_000_000_000
"""The first timestamp: brokers refuse only those that are far in the future."""
SPAN_MS: Final = 1_000
"""Clients' clocks differ, so the timestamps of a log do not ascend."""


def batch_of(values: Sequence[int], producer: tuple[int, int, int] | None) -> bytes:
    """Return a batch of ``values``; ``producer`` is (id, epoch, first sequence number), if any.

    Its first value decides the timestamp of all of its records.
    """
    records = [(None, str(value).encode()) for value in values]
    batch = bytearray(encode_batch(0, -1, timestamp_of(values[0]), records, False))
    if producer is not None:
        _PRODUCER.pack_into(batch, _PRODUCER_AT, *producer)
        _CRC.pack_into(batch, _CRC_AT, crc32c(memoryview(batch)[CRC_START:]))
    return bytes(batch)


def timestamp_of(value: int) -> int:
    """Return the timestamp of a batch that begins with ``value``."""
    return TIMESTAMP_MS + value * 37 % SPAN_MS


def read_values(records: bytes, first: int) -> Iterator[tuple[int, int, int]]:
    """Yield (offset, value, leader epoch) of the records from offset ``first`` on.

    Raises BatchError for bytes that no broker may send.
    """
    for batch in split_batches(records):
        if not verify_crc(batch):
            raise BatchError("a fetched batch has a wrong checksum")
        header, decoded = decode_batch(batch)
        for offset, _, value in decoded:
            if offset >= first:
                yield offset, int(value or b"-1"), header.epoch

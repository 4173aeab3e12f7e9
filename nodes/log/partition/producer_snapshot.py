"""``<offset>.snapshot``: the idempotent producers of a partition, as of an offset.

Kafka's format 1, big-endian: ``version 2 | crc 4 | count 4 | entries``, the CRC-32C of the bytes
after it. Only the last batch of each producer is in it. The state can be rebuilt from the log, so
a damaged snapshot is removed and an older one, or the start of the log, takes its place.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct, error
from typing import Final

from kraftwreck.nodes.log.crc import crc32c

_HEAD = Struct(">hII")
_CRC_END: Final = 6
_VERSION: Final = 1
_ENTRY = Struct(">qhiqiqiq")


class ProducerSnapshotError(ValueError):
    """A producer snapshot is damaged; the text gives the reason."""


@dataclass(frozen=True, slots=True)
class ProducerEntry:
    """The last batch of a producer: its last sequence and offset, ``offset_delta`` after its first.

    ``timestamp_ms`` is the batch's largest. ``first_offset_of_transaction`` and
    ``coordinator_epoch`` are -1 without transactions.
    """

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int
    coordinator_epoch: int = -1
    first_offset_of_transaction: int = -1


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """Return the content of the file."""
    packed = [
        _ENTRY.pack(
            entry.producer_id,
            entry.epoch,
            entry.last_sequence,
            entry.last_offset,
            entry.offset_delta,
            entry.timestamp_ms,
            entry.coordinator_epoch,
            entry.first_offset_of_transaction,
        )
        for entry in entries
    ]
    body = b"".join((len(packed).to_bytes(4, "big"), *packed))
    return _HEAD.pack(_VERSION, crc32c(body), len(packed)) + body[4:]


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    """Return the entries. Raises :class:`ProducerSnapshotError` for anything but a whole file."""
    try:
        version, crc, count = _HEAD.unpack_from(data)
    except error:
        raise ProducerSnapshotError(f"it has {len(data)} bytes, less than a head") from None
    if version != _VERSION:
        raise ProducerSnapshotError(f"its version is {version}, not {_VERSION}")
    if len(data) != _HEAD.size + count * _ENTRY.size:
        raise ProducerSnapshotError(f"it has {len(data)} bytes and says {count} entries")
    if crc32c(data[_CRC_END:]) != crc:
        raise ProducerSnapshotError("its checksum is wrong")
    return [ProducerEntry(*fields) for fields in _ENTRY.iter_unpack(data[_HEAD.size :])]

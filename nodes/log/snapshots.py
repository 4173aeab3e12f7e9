"""Metadata snapshots: the names of their files, and their bytes.

A snapshot is a file of record batches in an offset space of its own, from 0 on, all in the epoch
of its name (KIP-630):

1. a control batch: SnapshotHeader, and from ``kraft.version`` 1 on KRaftVersion and Voters, the
   values in force at the end of the snapshot (KIP-853);
2. data batches with the metadata records that make the whole state;
3. a control batch: SnapshotFooter. A file without it is incomplete.

The name is ``<end offset, exclusive>-<epoch of the record before it>``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final

from kraftwreck.nodes.log.batch import (
    BatchError,
    BatchHeader,
    Buffer,
    decode_batch,
    encode_batch,
    parse_header,
    verify_crc,
)
from kraftwreck.nodes.protocol.codec import ProtocolError
from kraftwreck.nodes.protocol.records import (
    KRAFT_VERSION,
    KRAFT_VOTERS,
    SNAPSHOT_FOOTER,
    SNAPSHOT_HEADER,
    decode_control,
    encode_control,
)

SUFFIX: Final = ".checkpoint"
BOOTSTRAP: Final = (0, 0)
"""The snapshot that the formatter writes: a node loads it and never sends it."""

_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint", re.ASCII)
_FIRST: Final = (SNAPSHOT_HEADER, KRAFT_VERSION, KRAFT_VOTERS)


class SnapshotCorruptError(Exception):
    """A snapshot cannot be trusted; the text names the file, the byte and the reason."""


@dataclass(slots=True, frozen=True)
class SnapshotHeader:
    """The content of the control records at the head of a snapshot.

    ``timestamp`` is the last contained log timestamp in wall-clock ms. ``kraft_version`` and
    ``voters`` (the voters of a VotersRecord, as decoded) are None if absent.
    """

    timestamp: int
    kraft_version: int | None = None
    voters: list[dict[str, Any]] | None = None


def snapshot_name(end_offset: int, epoch: int) -> str:
    """Return the file name of the complete snapshot ``(end_offset, epoch)``."""
    return f"{end_offset:020d}-{epoch:010d}{SUFFIX}"


def parse_snapshot_name(name: str) -> tuple[int, int] | None:
    """Return ``(end offset, epoch)`` if ``name`` is that of a complete snapshot, else None."""
    match = _NAME.fullmatch(name)
    return (int(match[1]), int(match[2])) if match else None


# --- writing --------------------------------------------------------------------------------


def header_batch(
    epoch: int,
    timestamp_ms: int,
    last_contained_timestamp: int,
    kraft_version: int | None = None,
    voters: Sequence[dict[str, Any]] | None = None,
) -> bytes:
    """Return the first batch of a snapshot, at offset 0.

    ``voters`` are voters as in a VotersRecord. Below kraft.version 1 leave both None.
    """
    records: list[tuple[bytes | None, bytes | None]] = [
        encode_control(
            SNAPSHOT_HEADER,
            {"version": 0, "last_contained_log_timestamp": last_contained_timestamp},
        )
    ]
    if kraft_version is not None:
        fields = {"version": 0, "kraft_version": kraft_version}
        records.append(encode_control(KRAFT_VERSION, fields))
    if voters is not None:
        records.append(encode_control(KRAFT_VOTERS, {"version": 0, "voters": list(voters)}))
    return encode_batch(0, epoch, timestamp_ms, records, control=True)


def data_batch(base_offset: int, epoch: int, timestamp_ms: int, records: Sequence[bytes]) -> bytes:
    """Return a batch of framed metadata ``records``. Raises ValueError without records."""
    return encode_batch(
        base_offset, epoch, timestamp_ms, [(None, record) for record in records], control=False
    )


def footer_batch(base_offset: int, epoch: int, timestamp_ms: int) -> bytes:
    """Return the last batch of a snapshot."""
    footer = encode_control(SNAPSHOT_FOOTER, {"version": 0})
    return encode_batch(base_offset, epoch, timestamp_ms, [footer], control=True)


# --- reading --------------------------------------------------------------------------------


def verify(content: Buffer, name: str) -> SnapshotHeader:
    """Check a whole snapshot against its rules; return its header.

    ``name`` is the file's name or path. Any one changed byte is found: those outside of the
    checksums are offsets, lengths, epochs and versions of the format, which have one right value
    each. Raises :class:`SnapshotCorruptError`.
    """
    identity = parse_snapshot_name(PurePath(name).name)
    if identity is None:
        raise SnapshotCorruptError(f"{name}: this is not the name of a snapshot")
    view = memoryview(content)
    position = expected = 0
    head: SnapshotHeader | None = None
    complete = False
    try:
        while position < len(view):
            if complete:
                raise BatchError(f"{len(view) - position} bytes follow the footer")
            header = parse_header(view, position)
            batch = view[position : position + header.length]
            _check(header, batch, expected, identity[1])
            if head is None:
                head = _read_head(header, batch)
            elif header.is_control:
                _check_footer(batch)
                complete = True
            position += header.length
            expected = header.last_offset + 1
        if head is None or not complete:
            raise BatchError("the snapshot ends without its footer")
    except (BatchError, ProtocolError) as error:
        raise SnapshotCorruptError(f"{name}, byte {position}: {error}") from error
    return head


def read_header(content: Buffer) -> SnapshotHeader:
    """Return the header in the first batch; the rest is not read.

    Raises :class:`SnapshotCorruptError` if the batch is not the head of a snapshot.
    """
    try:
        header = parse_header(content)
        batch = memoryview(content)[: header.length]
        _check(header, batch, 0, header.epoch)
        return _read_head(header, batch)
    except (BatchError, ProtocolError) as error:
        raise SnapshotCorruptError(f"byte 0: {error}") from error


def read_control(
    content: Buffer,
) -> tuple[int, int | None, list[dict[str, Any]] | None]:
    """Return ``(timestamp, kraft_version, voters)`` of :func:`read_header`."""
    head = read_header(content)
    return head.timestamp, head.kraft_version, head.voters


def data_records(content: Buffer) -> Iterator[bytes]:
    """Yield the framed metadata records of a verified snapshot lazily, in order."""
    view = memoryview(content)
    position = 0
    while position < len(view):
        header = parse_header(view, position)
        if not header.is_control:
            _, records = decode_batch(view[position : position + header.length])
            for _, _, value in records:
                yield value or b""
        position += header.length


def _check(header: BatchHeader, batch: memoryview, expected: int, epoch: int) -> None:
    if len(batch) < header.length:
        raise BatchError(f"batch of {header.length} bytes is cut off after {len(batch)}")
    if header.base_offset != expected:
        raise BatchError(f"batch has base offset {header.base_offset}, not {expected}")
    if header.epoch != epoch:
        raise BatchError(f"batch has epoch {header.epoch}, not {epoch}")
    if header.count != header.last_offset - header.base_offset + 1:
        raise BatchError(f"batch has {header.count} records up to offset {header.last_offset}")
    if not verify_crc(batch):
        raise BatchError("batch has a wrong checksum")


def _read_head(header: BatchHeader, batch: memoryview) -> SnapshotHeader:
    if not header.is_control:
        raise BatchError("the first batch is not a snapshot header")
    found: dict[int, dict[str, Any]] = {}
    for place, (_, key, value) in enumerate(decode_batch(batch)[1]):
        kind, fields = decode_control(key, value)
        if kind not in _FIRST or kind in found or (place == 0) != (kind == SNAPSHOT_HEADER):
            raise BatchError(f"control record of type {kind} in the header of a snapshot")
        found[kind] = fields
    return SnapshotHeader(
        timestamp=found[SNAPSHOT_HEADER]["last_contained_log_timestamp"],
        kraft_version=found[KRAFT_VERSION]["kraft_version"] if KRAFT_VERSION in found else None,
        voters=found[KRAFT_VOTERS]["voters"] if KRAFT_VOTERS in found else None,
    )


def _check_footer(batch: memoryview) -> None:
    records = decode_batch(batch)[1]
    kinds = [decode_control(key, value)[0] for _, key, value in records]
    if kinds != [SNAPSHOT_FOOTER]:
        raise BatchError(f"control records of types {kinds} where only a footer may stand")

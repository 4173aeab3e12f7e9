"""Metadata records and control records, as encoded in the log's batches.

A metadata record's value is ``uvarint frame version (1) | uvarint type | uvarint version |
message`` with nothing after it. A control record's key is ``int16 0 | int16 type``; its value is a
message that begins with its own version.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any, Final

from kraftwreck.nodes.protocol.codec import ProtocolError, decode, encode
from kraftwreck.nodes.protocol.primitives import Buffer, MalformedError, get_uvarint, put_uvarint
from kraftwreck.nodes.protocol.schemas import MESSAGES, RECORDS

FRAME_VERSION: Final = 1

ABORT: Final = 0
COMMIT: Final = 1
LEADER_CHANGE: Final = 2
SNAPSHOT_HEADER: Final = 3
SNAPSHOT_FOOTER: Final = 4
KRAFT_VERSION: Final = 5
KRAFT_VOTERS: Final = 6

RECORD_TYPES: Final[dict[str, int]] = {
    name: message.key for name, message in RECORDS.items() if message.key is not None
}
RECORD_NAMES: Final[dict[int, str]] = {key: name for name, key in RECORD_TYPES.items()}

_CONTROL_MESSAGES: Final = {
    ABORT: "EndTxnMarker",
    COMMIT: "EndTxnMarker",
    LEADER_CHANGE: "LeaderChangeMessage",
    SNAPSHOT_HEADER: "SnapshotHeaderRecord",
    SNAPSHOT_FOOTER: "SnapshotFooterRecord",
    KRAFT_VERSION: "KRaftVersionRecord",
    KRAFT_VOTERS: "VotersRecord",
}
_PARTITION_NAME: Final = "PartitionRecord"
_PARTITION: Final = RECORD_TYPES[_PARTITION_NAME]
_IDS = struct.Struct(">i16s")
"""The first fields of a PartitionRecord: the numbers of the partition and of its topic."""
_SHAPES: Final = 4096
"""Partitions that are remembered but for their ids, some 4 MB."""
_KEY = struct.Struct(">hh")
_VERSION = struct.Struct(">h")


def encode_record(name: str, version: int, fields: dict[str, Any]) -> bytes:
    """Return the metadata record ``name`` (as ``"TopicRecord"``) as a record value."""
    if name not in RECORD_TYPES:
        raise ProtocolError(f"there is no metadata record {name}")
    frame = bytearray((FRAME_VERSION,))
    put_uvarint(frame, RECORD_TYPES[name])
    put_uvarint(frame, version)
    return bytes(frame) + encode(name, version, fields)


def decode_record(data: Buffer) -> tuple[str, int, dict[str, Any]]:
    """Return name, version and fields of a metadata record value.

    Raises :class:`ProtocolError` for an unknown frame, type or version and for bytes after the
    record: a node that cannot read its log must stop.
    """
    try:
        frame, position = get_uvarint(data, 0)
        if frame != FRAME_VERSION:
            raise ProtocolError(f"metadata record has frame version {frame}, not {FRAME_VERSION}")
        key, position = get_uvarint(data, position)
        version, position = get_uvarint(data, position)
    except IndexError:
        raise ProtocolError("metadata record ends inside its frame") from None
    except MalformedError as error:
        raise ProtocolError(f"metadata record: {error}") from error
    if key == _PARTITION and len(data) >= position + _IDS.size:
        return _PARTITION_NAME, version, _partition(version, data, position)
    name = RECORD_NAMES.get(key)
    if name is None:
        raise ProtocolError(f"metadata record has the unknown type {key}")
    return name, version, _fields(name, version, data, position)


def _fields(name: str, version: int, data: Buffer, position: int) -> dict[str, Any]:
    fields, end = decode(name, version, data, position)
    if end != len(data):
        raise ProtocolError(f"{name} v{version} is followed by {len(data) - end} bytes")
    return fields


def _partition(version: int, data: Buffer, position: int) -> dict[str, Any]:
    """Return the fields of a PartitionRecord.

    Most of the log are new partitions, which repeat few lists of replicas. So what comes after the
    ids of partition and topic is read once for many records; they share its lists.
    """
    ids = position + _IDS.size
    fields = _after_ids(version, bytes(data[ids:])).copy()
    fields["partition_id"], fields["topic_id"] = _IDS.unpack_from(data, position)
    return fields


@lru_cache(maxsize=_SHAPES)
def _after_ids(version: int, rest: bytes) -> dict[str, Any]:
    return _fields(_PARTITION_NAME, version, bytes(_IDS.size) + rest, 0)


def encode_control(control_type: int, fields: dict[str, Any]) -> tuple[bytes, bytes]:
    """Return key and value of a control record; ``fields["version"]`` is its version (or 0)."""
    message = _control_message(control_type)
    value = encode(message, fields.get("version", 0), fields)
    return _KEY.pack(0, control_type), value


def decode_control(key: Buffer | None, value: Buffer | None) -> tuple[int, dict[str, Any]]:
    """Return type and fields of a control record. Raises :class:`ProtocolError`."""
    if key is None or len(key) < _KEY.size:
        raise ProtocolError("control record without a key of 4 bytes")
    if value is None or len(value) < _VERSION.size:
        raise ProtocolError("control record without a version in its value")
    _, control_type = _KEY.unpack_from(key)
    message = _control_message(control_type)
    (version,) = _VERSION.unpack_from(value)
    fields, _ = decode(message, version, value)
    return control_type, fields


def _control_message(control_type: int) -> str:
    message = _CONTROL_MESSAGES.get(control_type)
    if message is None or message not in MESSAGES:
        raise ProtocolError(f"unknown control record type {control_type}")
    return message

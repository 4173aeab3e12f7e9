"""Apache Kafka's DumpLogSegments output of a segment or snapshot, compared with our reading."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kraftwreck.nodes.log.batch import decode_batch, encode_batch, split_batches
from kraftwreck.nodes.log.uuids import to_text
from kraftwreck.nodes.protocol.records import (
    KRAFT_VERSION,
    KRAFT_VOTERS,
    LEADER_CHANGE,
    SNAPSHOT_FOOTER,
    SNAPSHOT_HEADER,
    decode_control,
    decode_record,
    encode_control,
    encode_record,
)
from kraftwreck.oracle.java import run_tool
from kraftwreck.oracle.release import OracleError

DUMP: Final = "org.apache.kafka.tools.DumpLogSegments"
CONTROL_NAMES: Final = {
    LEADER_CHANGE: "LeaderChange",
    SNAPSHOT_HEADER: "SnapshotHeader",
    SNAPSHOT_FOOTER: "SnapshotFooter",
    KRAFT_VERSION: "KRaftVersion",
    KRAFT_VOTERS: "KRaftVoters",
}
_BATCH: Final = re.compile(
    r"baseOffset: (?P<base>\d+) lastOffset: (?P<last>\d+) count: (?P<count>\d+) .*"
    r"partitionLeaderEpoch: (?P<epoch>-?\d+) .*isControl: (?P<control>true|false) .*"
    r"size: (?P<size>\d+) .*crc: (?P<crc>\d+) isvalid: (?P<valid>true|false).*"
)
_RECORD: Final = re.compile(r"\| offset: (?P<offset>\d+) .*?headerKeys: \[\] (?P<rest>.*)")
_PAYLOAD: Final = re.compile(r"(?P<name>\w+):? (?P<json>\{.*\})")


@dataclass(frozen=True, slots=True)
class Record:
    """One record; ``fields`` are as in Kafka's JSON: camelCase names, uuids as text."""

    offset: int
    name: str
    version: int
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch with its records."""

    base_offset: int
    last_offset: int
    epoch: int
    control: bool
    size: int
    crc: int
    records: tuple[Record, ...]


def kafka_dump(path: Path) -> list[Batch]:
    """Let Apache Kafka read a segment or snapshot.

    Raises :class:`OracleError` with its message if it reports any error.
    """
    ran = run_tool(
        DUMP, "--cluster-metadata-decoder", "--deep-iteration", "--files", str(path.resolve())
    )
    if ran.status != 0 or ran.stderr.strip():
        raise OracleError(f"DumpLogSegments on {path.name}: {ran.stderr.strip()[:1000]}")
    return parse_dump(ran.stdout)


def parse_dump(text: str) -> list[Batch]:
    """Parse the tool's output. Raises :class:`OracleError` for any unexpected line."""
    batches: list[tuple[re.Match[str], list[Record]]] = []
    for line in text.splitlines():
        if line.startswith(("Dumping ", "Log starting offset: ", "Snapshot end offset: ")):
            continue
        if match := _BATCH.fullmatch(line):
            if match["valid"] != "true":
                raise OracleError(f"DumpLogSegments says a batch is not valid: {line}")
            batches.append((match, []))
        elif (match := _RECORD.fullmatch(line)) and batches:
            batches[-1][1].append(_record(int(match["offset"]), match["rest"]))
        elif line.strip():
            raise OracleError(f"DumpLogSegments says: {line}")
    return [
        Batch(
            int(match["base"]),
            int(match["last"]),
            int(match["epoch"]),
            match["control"] == "true",
            int(match["size"]),
            int(match["crc"]),
            tuple(records),
        )
        for match, records in batches
    ]


def _record(offset: int, rest: str) -> Record:
    match = _PAYLOAD.fullmatch(rest)
    if match is None:
        raise OracleError(f"DumpLogSegments says of the record at offset {offset}: {rest}")
    content = json.loads(match["json"])
    if match["name"] != "payload":
        return Record(offset, match["name"], content["version"], content)
    name = "".join(word.capitalize() for word in content["type"].split("_"))
    return Record(offset, name, content["version"], content["data"])


def our_dump(data: bytes) -> list[Batch]:
    """Read the same bytes with our own code. Raises ValueError or ProtocolError."""
    batches = []
    for raw in split_batches(data):
        header, records = decode_batch(raw)
        found = []
        for offset, key, value in records:
            if header.is_control:
                kind, fields = decode_control(key, value)
                name, version = CONTROL_NAMES[kind], fields["version"]
            else:
                name, version, fields = decode_record(value or b"")
            found.append(Record(offset, name, version, _as_json(fields)))
        batches.append(
            Batch(
                header.base_offset,
                header.last_offset,
                header.epoch,
                header.is_control,
                header.length,
                header.crc,
                tuple(found),
            )
        )
    return batches


def re_encoded(data: bytes) -> bytes:
    """Decode every batch and record, encode them again and return the bytes."""
    out = bytearray()
    for raw in split_batches(data):
        header, records = decode_batch(raw)
        again: list[tuple[bytes | None, bytes | None]] = []
        for _, key, value in records:
            if header.is_control:
                again.append(encode_control(*decode_control(key, value)))
            else:
                again.append((key, encode_record(*decode_record(value or b""))))
        out += encode_batch(
            header.base_offset, header.epoch, header.base_timestamp, again, header.is_control
        )
    return bytes(out)


def difference(theirs: list[Batch], ours: list[Batch]) -> str | None:
    """Return the first difference of two readings of one file, None if they agree.

    Kafka's JSON omits tagged fields at their default. Omitted fields are not compared, but
    ``re_encoded`` compares all bytes.
    """
    if len(theirs) != len(ours):
        return f"{len(theirs)} batches there, {len(ours)} here"
    for their, our in zip(theirs, ours, strict=True):
        for name in ("base_offset", "last_offset", "epoch", "control", "size", "crc"):
            if getattr(their, name) != getattr(our, name):
                return f"{name} of the batch at {their.base_offset}: {their} there, {our} here"
        if len(their.records) != len(our.records):
            return f"the batch at {their.base_offset}: {their} there, {our} here"
        for theirs_one, ours_one in zip(their.records, our.records, strict=True):
            same = (theirs_one.offset, theirs_one.name, theirs_one.version) == (
                ours_one.offset,
                ours_one.name,
                ours_one.version,
            )
            if not same or not _covers(ours_one.fields, theirs_one.fields):
                return f"{theirs_one} there, {ours_one} here"
    return None


def _covers(ours: Any, theirs: Any) -> bool:
    if isinstance(theirs, dict):
        return isinstance(ours, dict) and all(
            key in ours and _covers(ours[key], value) for key, value in theirs.items()
        )
    if isinstance(theirs, list):
        return (
            isinstance(ours, list)
            and len(ours) == len(theirs)
            and all(_covers(*pair) for pair in zip(ours, theirs, strict=True))
        )
    return bool(ours == theirs)


def _as_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {_camel(key): _as_json(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(inner) for inner in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return to_text(bytes(value)) if len(value) == 16 else b64encode(value).decode()
    return value


def _camel(name: str) -> str:
    if name.startswith("kraft_version"):
        name = "k_raft_version" + name.removeprefix("kraft_version")
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)

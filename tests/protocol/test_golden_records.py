"""Metadata records, byte for byte as Kafka's own serialisers write them."""

from __future__ import annotations

from typing import Any

import pytest

from kraftwreck.nodes.log.uuids import from_halves
from kraftwreck.nodes.protocol.codec import ProtocolError
from kraftwreck.nodes.protocol.records import decode_record, encode_record

TOPIC = from_halves(1, 2)

GOLDEN: list[tuple[str, int, dict[str, Any], str]] = [
    ("NoOpRecord", 0, {}, "01140000"),
    (
        "FeatureLevelRecord",
        0,
        {"name": "metadata.version", "feature_level": 27},
        "010c00116d657461646174612e76657273696f6e001b00",
    ),
    (
        "TopicRecord",
        0,
        {"name": "t", "topic_id": TOPIC},
        "01020002740000000000000001000000000000000200",
    ),
    (
        "PartitionRecord",
        1,
        {
            "partition_id": 0,
            "topic_id": TOPIC,
            "replicas": [1, 2, 3],
            "isr": [1, 2],
            "leader": 1,
            "leader_epoch": 0,
            "partition_epoch": 0,
            "directories": [from_halves(9, n) for n in (1, 2, 3)],
        },
        "010301000000000000000000000001000000000000000204000000010000000200000003030000000100"
        "000002010100000001000000000000000004000000000000000900000000000000010000000000000009"
        "00000000000000020000000000000009000000000000000300",
    ),
    (
        "PartitionChangeRecord",
        2,
        {"partition_id": 0, "topic_id": TOPIC, "isr": [2, 3], "leader": 2},
        "0105020000000000000000000000010000000000000002020009030000000200000003010400000002",
    ),
    (
        "RegisterBrokerRecord",
        3,
        {
            "broker_id": 1,
            "incarnation_id": from_halves(5, 6),
            "broker_epoch": 42,
            "end_points": [
                {"name": "PLAINTEXT", "host": "localhost", "port": 9092, "security_protocol": 0}
            ],
            "features": [
                {
                    "name": "metadata.version",
                    "min_supported_version": 7,
                    "max_supported_version": 27,
                }
            ],
            "rack": None,
            "fenced": True,
            "log_dirs": [from_halves(9, 1)],
        },
        "010003000000010000000000000000050000000000000006000000000000002a020a504c41494e544558"
        "540a6c6f63616c686f7374238400000002116d657461646174612e76657273696f6e0007001b00000100"
        "0100110200000000000000090000000000000001",
    ),
    (
        "BrokerRegistrationChangeRecord",
        0,
        {"broker_id": 1, "broker_epoch": 42, "fenced": -1},
        "01110000000001000000000000002a010001ff",
    ),
    (
        "ConfigRecord",
        0,
        {
            "resource_type": 2,
            "resource_name": "t",
            "name": "min.insync.replicas",
            "value": "2",
        },
        "010400020274146d696e2e696e73796e632e7265706c69636173023200",
    ),
]
IDS = [f"{name}-v{version}" for name, version, _, _ in GOLDEN]


@pytest.mark.parametrize(("name", "version", "fields", "golden"), GOLDEN, ids=IDS)
def test_a_record_is_written_as_kafka_writes_it(
    name: str, version: int, fields: dict[str, Any], golden: str
) -> None:
    assert encode_record(name, version, fields).hex() == golden


@pytest.mark.parametrize(("name", "version", "fields", "golden"), GOLDEN, ids=IDS)
def test_a_record_of_kafka_is_read_back(
    name: str, version: int, fields: dict[str, Any], golden: str
) -> None:
    decoded_name, decoded_version, decoded = decode_record(bytes.fromhex(golden))
    assert (decoded_name, decoded_version) == (name, version)
    assert {key: decoded[key] for key in fields} == fields


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "ends inside its frame"),
        (b"\x00\x14\x00\x00", "frame version 0"),
        (b"\x01\x7f\x00\x00", "unknown type 127"),
        (b"\x01\x14\x09\x00", "versions 0 to 0, not 9"),
        (b"\x01\x14\x00\x00\x00", "followed by 1 bytes"),
        (b"\x01\xff\xff\xff\xff\xff\xff", "varint is longer"),
    ],
)
def test_a_record_nobody_can_read_is_refused(value: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        decode_record(value)


def test_every_prefix_of_a_record_is_refused() -> None:
    for _, _, _, golden in GOLDEN:
        value = bytes.fromhex(golden)
        for length in range(len(value)):
            with pytest.raises(ProtocolError):
                decode_record(value[:length])

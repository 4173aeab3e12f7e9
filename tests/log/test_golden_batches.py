"""Record batches, byte for byte as Kafka's own serialisers write them."""

from __future__ import annotations

from typing import Any

import pytest

from kraftwreck.nodes.log.batch import decode_batch, encode_batch, parse_header, verify_crc
from kraftwreck.nodes.log.uuids import from_halves
from kraftwreck.nodes.protocol import records

TIME = 1_700_000_000_000

CONTROL: list[tuple[str, int, int, dict[str, Any], str]] = [
    (
        "leader change",
        0,
        records.LEADER_CHANGE,
        {
            "leader_id": 1,
            "voters": [{"voter_id": n} for n in (1, 2, 3)],
            "granting_voters": [{"voter_id": n} for n in (1, 2)],
        },
        "00000000000000000000005e00000001021735ab2b0020000000000000018bcfe568000000018bcfe56800"
        "ffffffffffffffffffffffffffff000000015800000008000000024400000000000104000000010000000002"
        "00000000030003000000010000000002000000",
    ),
    (
        "snapshot header",
        0,
        records.SNAPSHOT_HEADER,
        {"last_contained_log_timestamp": TIME},
        "0000000000000000000000470000000102c7ac78040020000000000000018bcfe568000000018bcfe56800"
        "ffffffffffffffffffffffffffff000000012a00000008000000031600000000018bcfe568000000",
    ),
    (
        "snapshot footer",
        5,
        records.SNAPSHOT_FOOTER,
        {},
        "00000000000000050000003f00000001028f6608e60020000000000000018bcfe568000000018bcfe56800"
        "ffffffffffffffffffffffffffff000000011a00000008000000040600000000",
    ),
    (
        "kraft version",
        0,
        records.KRAFT_VERSION,
        {"kraft_version": 1},
        "0000000000000000000000410000000102a89c55860020000000000000018bcfe568000000018bcfe56800"
        "ffffffffffffffffffffffffffff000000011e00000008000000050a000000010000",
    ),
    (
        "voters",
        0,
        records.KRAFT_VOTERS,
        {
            "voters": [
                {
                    "voter_id": 1,
                    "voter_directory_id": from_halves(7, 8),
                    "endpoints": [{"name": "CONTROLLER", "host": "c1", "port": 9093}],
                    "kraft_version_feature": {
                        "min_supported_version": 0,
                        "max_supported_version": 1,
                    },
                }
            ]
        },
        "00000000000000000000006c000000010212523a830020000000000000018bcfe568000000018bcfe56800"
        "ffffffffffffffffffffffffffff000000017400000008000000066000000200000001000000000000000700"
        "00000000000008020b434f4e54524f4c4c45520363312385000000000100000000",
    ),
]
IDS = [name for name, *_ in CONTROL]

DATA = (
    "000000000000000a0000005a0000000302ad787e6d0000000000010000018bcfe568000000018bcfe56800"
    "ffffffffffffffffffffffffffff000000023a000000012e010c00116d657461646174612e76657273696f6e00"
    "1b00001400000201080114000000"
)


@pytest.mark.parametrize(("name", "base", "kind", "fields", "golden"), CONTROL, ids=IDS)
def test_a_control_batch_is_written_as_kafka_writes_it(
    name: str, base: int, kind: int, fields: dict[str, Any], golden: str
) -> None:
    batch = encode_batch(base, 1, TIME, [records.encode_control(kind, fields)], control=True)
    assert batch.hex() == golden


@pytest.mark.parametrize(("name", "base", "kind", "fields", "golden"), CONTROL, ids=IDS)
def test_a_control_batch_of_kafka_is_read_back(
    name: str, base: int, kind: int, fields: dict[str, Any], golden: str
) -> None:
    batch = bytes.fromhex(golden)
    header, [(offset, key, value)] = decode_batch(batch)
    decoded_kind, decoded = records.decode_control(key, value)
    assert verify_crc(batch)
    assert header.is_control
    assert (offset, header.epoch, header.base_timestamp) == (base, 1, TIME)
    assert decoded_kind == kind
    assert records.encode_control(kind, decoded) == (key, value)


def test_a_data_batch_is_written_and_read_as_kafka_does() -> None:
    values = [
        records.encode_record(
            "FeatureLevelRecord", 0, {"name": "metadata.version", "feature_level": 27}
        ),
        records.encode_record("NoOpRecord", 0, {}),
    ]
    batch = encode_batch(10, 3, TIME, [(None, value) for value in values], control=False)
    assert batch.hex() == DATA
    header, decoded = decode_batch(batch)
    assert decoded == [(10, None, values[0]), (11, None, values[1])]
    assert not header.is_control
    assert (header.last_offset, header.count, header.length) == (11, 2, len(batch))
    assert parse_header(b"xx" + batch, 2).crc == header.crc

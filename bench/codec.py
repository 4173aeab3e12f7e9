"""Measures how fast messages and batches are written and read, compared with kio.

    python -m bench.codec

Medians of several rounds, in microseconds per call, one thread. kio (https://kio.readthedocs.io)
reads in native code and writes in Python; the two agree byte for byte on each message here.
"""

from __future__ import annotations

import io
import statistics
import time
from collections.abc import Callable
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from kraftwreck.nodes.log.batch import decode_batch, encode_batch, parse_header, verify_crc
from kraftwreck.nodes.log.crc import crc32c, crc32c_by_table
from kraftwreck.nodes.protocol.apis import API_KEYS
from kraftwreck.nodes.protocol.codec import decode, encode

ROUNDS = 9
ROUND_S = 0.05
TOPIC_ID = bytes(15) + b"\1"
CLUSTER_ID = "kVZ8mbkSQPqA1sGPRxwYkg"
BATCH = encode_batch(0, 1, 1_700_000_000_000, [(None, b"x" * 100)] * 100, False)
SMALL = encode_batch(0, 1, 1_700_000_000_000, [(None, b"x" * 40)], False)

MESSAGES: list[tuple[str, str, int, dict[str, Any]]] = [
    (
        "Vote",
        "Request",
        2,
        {
            "cluster_id": CLUSTER_ID,
            "voter_id": 2,
            "topics": [
                {
                    "topic_name": "__cluster_metadata",
                    "partitions": [{"replica_epoch": 7, "replica_id": 1, "last_offset": 1234}],
                }
            ],
        },
    ),
    (
        "Fetch",
        "Request",
        18,
        {
            "cluster_id": CLUSTER_ID,
            "replica_state": {"replica_id": 2},
            "max_wait_ms": 500,
            "topics": [
                {
                    "topic_id": TOPIC_ID,
                    "partitions": [{"fetch_offset": 1234, "replica_directory_id": TOPIC_ID}],
                }
            ],
        },
    ),
    (
        "Fetch",
        "Response",
        18,
        {
            "responses": [
                {
                    "topic_id": TOPIC_ID,
                    "partitions": [
                        {
                            "high_watermark": 1234,
                            "current_leader": {"leader_id": 1, "leader_epoch": 7},
                            "records": BATCH,
                        }
                    ],
                }
            ]
        },
    ),
    (
        "CreateTopics",
        "Request",
        7,
        {
            "topics": [
                {
                    "name": "register-1",
                    "num_partitions": 1,
                    "replication_factor": 3,
                    "configs": [{"name": "retention.ms", "value": "17"}],
                }
            ]
        },
    ),
    (
        "Metadata",
        "Response",
        12,
        {
            "brokers": [{"node_id": n, "host": f"10.0.0.{n}", "port": 9092} for n in range(5)],
            "cluster_id": CLUSTER_ID,
            "topics": [
                {
                    "name": f"topic-{n}",
                    "topic_id": TOPIC_ID,
                    "partitions": [{"replica_nodes": [1, 2, 3], "isr_nodes": [1, 2, 3]}],
                }
                for n in range(50)
            ],
        },
    ),
]


def microseconds(call: Callable[[], object]) -> float:
    """Return the median over rounds of the mean time of one call."""
    call()
    start = time.perf_counter()
    call()
    number = max(1, int(ROUND_S / max(time.perf_counter() - start, 1e-7)))
    rounds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(number):
            call()
        rounds.append((time.perf_counter() - start) / number * 1e6)
    return statistics.median(rounds)


def compare(api: str, kind: str, version: int, body: dict[str, Any]) -> None:
    """Print one line: encoding and decoding of one message, ours and kio's."""
    name = f"{api}{kind}"
    encoded = encode(name, version, body)
    load = load_request_schema if kind == "Request" else load_response_schema
    # kio keeps both directions behind one type per message, which no static type covers.
    entity: Any = load(API_KEYS[api], version)
    read: Any = entity_reader(entity)
    write: Any = entity_writer(entity)
    theirs, _ = read(encoded, 0)

    def their_encode() -> bytes:
        buffer = io.BytesIO()
        write(buffer, theirs)
        return buffer.getvalue()

    if their_encode() != encoded:
        raise SystemExit(f"{name} v{version}: kio writes other bytes")
    figures = (
        microseconds(lambda: encode(name, version, body)),
        microseconds(their_encode),
        microseconds(lambda: decode(name, version, encoded)),
        microseconds(lambda: read(encoded, 0)),
    )
    line = "".join(f"{figure:10.2f}" for figure in figures)
    print(f"{name + ' v' + str(version):24}{len(encoded):8}{line}")


def main() -> None:
    """Print all figures."""
    print(f"{'message':24}{'bytes':>8}{'encode':>10}{'kio':>10}{'decode':>10}{'kio':>10}   [µs]")
    for message in MESSAGES:
        compare(*message)
    small: list[tuple[bytes | None, bytes | None]] = [(None, b"x" * 40)]
    calls: list[tuple[str, Callable[[], object]]] = [
        ("encode batch, 1 x 40 B", lambda: encode_batch(0, 1, 0, small, False)),
        ("encode batch, 100 x 40 B", lambda: encode_batch(0, 1, 0, small * 100, False)),
        ("parse header", lambda: parse_header(SMALL)),
        ("verify checksum, 11 KB", lambda: verify_crc(BATCH)),
        ("decode batch, 1 record", lambda: decode_batch(SMALL)),
        ("decode batch, 100 records", lambda: decode_batch(BATCH)),
        ("crc32c of 11 KB", lambda: crc32c(BATCH)),
        ("crc32c of 11 KB by table", lambda: crc32c_by_table(BATCH)),
    ]
    for name, call in calls:
        print(f"{name:32}{microseconds(call):10.2f}")


if __name__ == "__main__":
    main()

"""Apache Kafka's broker answers wrong records with the codes that we answer them with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kraftwreck.nodes.protocol.errors import error_name
from kraftwreck.oracle.quorum import Quorum, wait_until
from tests.oracle.kafka_topics import broker_with_topic
from tests.protocol.produced_cases import CASES, MOST_BYTES
from tests.protocol.test_produce import CODES

pytestmark = pytest.mark.oracle
TOPIC = {
    "name": "t",
    "num_partitions": 1,
    "replication_factor": 1,
    "configs": [{"name": "max.message.bytes", "value": str(MOST_BYTES)}],
}


def test_codes_are_apache_kafka_s(make_quorum: Callable[..., Quorum], tmp_path: Path) -> None:
    properties = {"offsets.topic.replication.factor": 1}
    with broker_with_topic(make_quorum, tmp_path, TOPIC, properties) as (_, client):
        found = {}

        def code(version: int, records: bytes) -> int:
            part = {"index": 0, "records": records}
            data = [{"name": "t", "partition_data": [part]}]
            body = {"acks": 1, "timeout_ms": 5000, "topic_data": data}
            answer = client.call("Produce", version, body, 10000)
            assert answer.status == "ok", answer
            return int(answer.response["responses"][0]["partition_responses"][0]["error_code"])

        wait_until("the topic has a leader", lambda: code(9, CASES["sound"][1]) == 0)
        for name, (version, records) in CASES.items():
            found[name] = code(version, records)
    ours = {name: error_name(code) for name, code in CODES.items()}
    assert {name: error_name(code) for name, code in found.items()} == ours

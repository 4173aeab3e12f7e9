"""We read the partition that a broker of Apache Kafka wrote, after a stop and after kill -9."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kraftwreck.nodes.log.media import PLAIN
from kraftwreck.nodes.log.partition.checkpoints import read_topic_id
from kraftwreck.oracle.quorum import Quorum, wait_until
from tests.log.partition.batches import contents, open_log
from tests.oracle.kafka_topics import broker_with_topic
from tests.protocol.produced_cases import batch, changed

pytestmark = pytest.mark.oracle
BATCHES = 300
TOPIC = {"name": "t", "num_partitions": 1, "replication_factor": 1}


@pytest.mark.parametrize("orderly", [True, False])
def test_a_partition_of_apache_kafka_is_read(
    make_quorum: Callable[..., Quorum], tmp_path: Path, orderly: bool
) -> None:
    running = broker_with_topic(make_quorum, tmp_path, TOPIC, {}, orderly=orderly)
    with running as (broker, client):

        def offset(number: int) -> int:
            """Produce with an idempotent producer; return the offset."""
            records = changed(batch(300, 3), "q", 43, 77)
            records = changed(changed(records, "h", 51, 0), "i", 53, number * 3)
            data = [{"name": "t", "partition_data": [{"index": 0, "records": records}]}]
            body = {"acks": -1, "timeout_ms": 5000, "topic_data": data}
            answer = client.call("Produce", 9, body, 10000)
            assert answer.status == "ok", answer
            part = answer.response["responses"][0]["partition_responses"][0]
            return int(part["base_offset"]) if part["error_code"] == 0 else -1

        wait_until("the topic has a leader", lambda: offset(0) + 1)
        assert [offset(n) for n in range(1, BATCHES)] == [3 * n for n in range(1, BATCHES)]
    directory = broker.data / "t-0"
    written = (directory / f"{0:020d}.log").read_bytes()
    log = open_log(directory, recovery_point=None if orderly else 0)
    assert (log.end_offset, log.cut) == (3 * BATCHES, None)
    assert contents(log) == written
    assert log.epochs == ((0, 0),)
    assert read_topic_id(directory, PLAIN) is not None
    assert all(next(log.batches(n)).base_offset == n - n % 3 for n in range(0, 3 * BATCHES, 7))
    if orderly:
        entries, end = log.stored_producers()
        assert end == log.end_offset
        assert [(e.producer_id, e.epoch, e.last_sequence, e.last_offset) for e in entries] == [
            (77, 0, 3 * BATCHES - 1, 3 * BATCHES - 1)
        ]

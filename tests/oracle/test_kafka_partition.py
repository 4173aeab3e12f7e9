"""We read the partition that a broker of Apache Kafka wrote, after a stop and after kill -9."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kraftwreck.nodes.log.media import PLAIN
from kraftwreck.nodes.log.partition.checkpoints import read_topic_id
from kraftwreck.oracle.broker import KafkaBroker
from kraftwreck.oracle.ports import free_ports
from kraftwreck.oracle.quorum import CLUSTER_ID, OURS, Quorum, wait_until
from kraftwreck.systems.kraft.client import KafkaClient
from tests.log.partition.batches import contents, open_log
from tests.protocol.produced_cases import batch, changed

pytestmark = pytest.mark.oracle
BATCHES = 300
TOPIC = {"name": "t", "num_partitions": 1, "replication_factor": 1}


@pytest.mark.parametrize("orderly", [True, False])
def test_a_partition_of_apache_kafka_is_read(
    make_quorum: Callable[..., Quorum], tmp_path: Path, orderly: bool
) -> None:
    quorum = make_quorum(OURS)
    quorum.start()
    (port,) = free_ports(1)
    broker = KafkaBroker(tmp_path, 100, port, CLUSTER_ID, quorum.ports, {})
    broker.format()
    broker.start()
    client = KafkaClient("127.0.0.1", port)
    try:
        wait_until("the broker is unfenced", lambda: 100 in broker.knows())
        made = client.call("CreateTopics", 5, {"topics": [TOPIC], "timeout_ms": 20000}, 30000)
        assert made.response["topics"][0]["error_code"] == 0, made

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
    finally:
        client.close()
        if orderly:
            broker.stop()
        else:
            broker.kill()
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

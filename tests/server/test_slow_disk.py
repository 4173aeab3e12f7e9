"""A combined node whose fsyncs take seconds serves records meanwhile."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import confluent_kafka
import pytest

from bench.slow_disk import PATIENCE_S, TOPIC, change, node
from kraftwreck.harness.on_host.disk import KINDS, write_trouble
from kraftwreck.oracle.controller import HOST

FSYNC_S = 3


@pytest.mark.wall_clock("no record waits as long as an fsync, which takes 3 s")
def test_no_record_waits_for_the_metadata_log_to_be_flushed(tmp_path: Path) -> None:
    control = tmp_path / "disk"
    changed: list[float] = []
    ended = threading.Event()
    with node(tmp_path, control) as port:
        producer = confluent_kafka.Producer({"bootstrap.servers": f"{HOST}:{port}", "acks": 1})
        _send(producer)
        longest = FSYNC_S * 10**9
        write_trouble(
            str(control), kind=KINDS.index("slow"), factor=10**6, least=longest, most=longest
        )
        changing = threading.Thread(target=change, args=(port, ended, changed))
        changing.start()
        waited = []
        while not changed:
            began = time.monotonic()
            _send(producer)
            waited.append(time.monotonic() - began)
        ended.set()
        write_trouble(str(control))
        changing.join(PATIENCE_S)
    assert changed[0] > 1000 * FSYNC_S
    assert max(waited) < 0.9 * FSYNC_S


def _send(producer: confluent_kafka.Producer) -> None:
    """Send one record, and wait until it is acknowledged."""
    producer.produce(TOPIC, b"v", partition=0)
    assert producer.flush(PATIENCE_S) == 0

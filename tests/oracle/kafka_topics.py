"""A broker of Apache Kafka beside our controller, with one topic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kraftwreck.oracle.broker import KafkaBroker
from kraftwreck.oracle.ports import free_ports
from kraftwreck.oracle.quorum import CLUSTER_ID, OURS, Quorum, wait_until
from kraftwreck.systems.kraft.client import KafkaClient


@contextmanager
def broker_with_topic(
    make_quorum: Callable[..., Quorum],
    folder: Path,
    topic: Mapping[str, Any],
    properties: Mapping[str, Any],
    *,
    orderly: bool = False,
) -> Iterator[tuple[KafkaBroker, KafkaClient]]:
    """Give a running broker and a client of it once ``topic`` is created.

    Afterwards the broker is stopped if ``orderly``, else it gets kill -9.
    """
    quorum = make_quorum(OURS)
    quorum.start()
    (port,) = free_ports(1)
    broker = KafkaBroker(folder, 100, port, CLUSTER_ID, quorum.ports, properties)
    broker.format()
    broker.start()
    client = KafkaClient("127.0.0.1", port)
    try:
        wait_until("the broker is unfenced", lambda: 100 in broker.knows())
        made = client.call("CreateTopics", 5, {"topics": [topic], "timeout_ms": 20000}, 30000)
        assert made.response["topics"][0]["error_code"] == 0, made
        yield broker, client
    finally:
        client.close()
        if orderly:
            broker.stop()
        else:
            broker.kill()

"""The gap that a producer sees when the leader of its partition is killed, on both kinds.

``python -m bench.brokers_failover [--kills 10] [--session-ms 3000]`` starts the clusters of
``bench.brokers`` with equal time-outs. An idempotent producer of librdkafka sends a record every
millisecond (acks=all) while the leader is killed with kill -9, in turns on both clusters. The gap
is the longest pause between two acknowledgements. The broker is started again before the next kill.
"""

from __future__ import annotations

import argparse
import itertools
import time
from typing import Any, Final

import confluent_kafka

from bench.brokers import PATIENCE_S, Figures, Side, ask, both, create, leader, note, report
from kraftwreck.oracle.quorum import wait_until

TOPIC: Final = "written"
BEFORE_S: Final = 2.0
AFTER_S: Final = 3.0


def gap(side: Side) -> float:
    """Kill the leader while records are sent; return the longest pause of deliveries, seconds."""
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": side.servers,
            "enable.idempotence": True,
            "linger.ms": 0,
            "retry.backoff.ms": 20,
            "retry.backoff.max.ms": 100,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
            "topic.metadata.refresh.fast.interval.ms": 50,
            "message.timeout.ms": 120_000,
            "log_level": 0,
        }
    )
    acknowledged: list[float] = []
    failed: list[Any] = []

    def delivered(error: Any, _: Any) -> None:
        if error is None:
            acknowledged.append(time.monotonic())
        else:
            failed.append(error)

    dead = wait_until("the topic has a leader", lambda: leader(side, TOPIC))
    began, killed = time.monotonic(), 0.0
    while True:
        now = time.monotonic()
        if not killed and acknowledged and now > acknowledged[0] + BEFORE_S:
            dead.kill()
            killed = now
        if killed and acknowledged and acknowledged[-1] > killed + AFTER_S:
            break
        if now > (killed or began) + PATIENCE_S:
            raise TimeoutError(f"{side.name}: no record is acknowledged")
        producer.produce(TOPIC, b"x" * 100, partition=0, on_delivery=delivered)
        producer.poll(0.001)
    assert producer.flush(PATIENCE_S) == 0 and not failed, failed[:1]
    times = [killed, *(each for each in acknowledged if each > killed)]
    longest = max(after - before for before, after in itertools.pairwise(times))
    dead.start()
    wait_until("the replica is in sync again", lambda: _in_sync(side), PATIENCE_S)
    return longest


def _in_sync(side: Side) -> bool:
    answer = ask(side, "Metadata", 9, {"topics": [{"name": TOPIC}]})
    found = answer["topics"][0]["partitions"]
    return len(found) == 1 and len(found[0]["isr_nodes"]) == len(side.brokers)


def main() -> None:
    """Run the measurement, and print its table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10, help="of each kind")
    parser.add_argument("--session-ms", type=int, default=3000)
    options = parser.parse_args()
    properties = {
        "broker.session.timeout.ms": options.session_ms,
        "broker.heartbeat.interval.ms": options.session_ms // 6,
    }
    found: Figures = {}
    with both(properties) as sides:
        for side in sides:
            create(side, TOPIC)
        for kill in range(options.kills):
            for side in sides:
                longest = gap(side)
                note(found, side, {"longest pause, s": longest})
                print(f"kill {kill + 1}, {side.name}: {longest:.3f} s", flush=True)
        report(found, sides)


if __name__ == "__main__":
    main()

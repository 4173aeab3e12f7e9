"""How long brokers of both kinds take for a produce, and how many single records they acknowledge.

``python -m bench.brokers_latency [--pairs 5] [--warm 3] [--seconds 10]`` starts the clusters of
``bench.brokers``, and loads them in turns, first some times to warm up:

* ``p99``: records of 100 bytes (acks=all, linger 5 ms) at half of the rate that the slower cluster
  reached before, from the call of librdkafka to its report of delivery;
* ``single``: one record of 100 bytes in a request, acks=all; four connections, each of which waits
  for the answer before its next request.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import struct
import threading
import time
from collections.abc import Sequence
from typing import Any, Final

from bench.brokers import (
    HEAD,
    PATIENCE_S,
    Side,
    both,
    cell,
    create,
    leader,
    load,
    producer_of,
    row,
)
from kraftwreck.nodes.log.batch import encode_batch
from kraftwreck.nodes.protocol.apis import encode_request
from kraftwreck.oracle.controller import HOST
from kraftwreck.oracle.quorum import wait_until

SIZE: Final = 100
PROBE: Final = 200_000
"""Records of the load that finds the rate."""
CONNECTIONS: Final = 4
PRODUCE_VERSION: Final = 9
_SAMPLED: Final = 10
"""One of so many records is timed."""
_LENGTH = struct.Struct(">i")


def paced(side: Side, topic: str, rate: float, seconds: float) -> list[float]:
    """Produce ``rate`` records a second; return the milliseconds of the timed ones."""
    producer = producer_of(side)
    took: list[float] = []
    failed: list[Any] = []

    def delivered(error: Any, message: Any) -> None:
        if error is None:
            took.append(1000 * message.latency())
        else:
            failed.append(error)

    value = os.urandom(SIZE)
    began = time.monotonic()
    sent = 0
    while (now := time.monotonic()) < began + seconds:
        for _ in range(int((now - began) * rate) - sent):
            sent += 1
            if sent % _SAMPLED == 0:
                producer.produce(topic, value, partition=0, on_delivery=delivered)
            else:
                producer.produce(topic, value, partition=0)
        producer.poll(0.001)
    assert producer.flush(PATIENCE_S) == 0 and not failed, failed[:1]
    return took


def single(side: Side, topic: str, seconds: float) -> float:
    """Return the acknowledged requests of one record per second over all connections."""
    leads = wait_until("the topic has a leader", lambda: leader(side, topic))
    frame = _frame(topic)
    counts = [0] * CONNECTIONS
    end = time.monotonic() + seconds

    def run(place: int) -> None:
        with socket.create_connection((HOST, leads.port)) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            reader = connection.makefile("rb")
            while time.monotonic() < end:
                connection.sendall(frame)
                (length,) = _LENGTH.unpack(reader.read(4))
                _check(reader.read(length), topic)
                counts[place] += 1

    threads = [threading.Thread(target=run, args=(place,)) for place in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if not all(counts):
        raise RuntimeError(f"{side.name}: a connection got no answer: {counts}")
    return sum(counts) / seconds


def _frame(topic: str) -> bytes:
    batch = encode_batch(0, -1, int(time.time() * 1000), [(None, os.urandom(SIZE))], False)
    body = {
        "transactional_id": None,
        "acks": -1,
        "timeout_ms": 30_000,
        "topic_data": [{"name": topic, "partition_data": [{"index": 0, "records": batch}]}],
    }
    request = encode_request("Produce", PRODUCE_VERSION, 1, "bench", body)
    return _LENGTH.pack(len(request)) + request


def _check(answer: bytes, topic: str) -> None:
    """Raise RuntimeError if a produce failed; its error follows the name and the index."""
    at = answer.index(topic.encode()) + len(topic) + 1 + 4
    (error,) = struct.unpack_from(">h", answer, at)
    if error:
        raise RuntimeError(f"a produce failed: error {error}")


def main() -> None:
    """Run the measurement, and print its table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--warm", type=int, default=3, help="pairs that do not count")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    options = parser.parse_args()
    p99: dict[str, list[float]] = {}
    median: dict[str, list[float]] = {}
    singles: dict[str, list[float]] = {}
    rates: list[float] = []
    with both() as sides:
        for pair in range(options.warm + options.pairs):
            speeds = []
            for side in sides:
                create(side, f"rate{pair}")
                speeds.append(PROBE / load(side, f"rate{pair}", SIZE, PROBE).produced_s)
            rate = min(speeds) / 2
            for side in sides:
                took = paced(side, f"rate{pair}", rate, options.seconds)
                create(side, f"single{pair}")
                count = single(side, f"single{pair}", options.seconds)
                ordered = sorted(took)
                figures = ordered[len(ordered) * 99 // 100], statistics.median(took), count
                print(f"pair {pair}, {side.name}, {rate:.0f}/s: {figures}", flush=True)
                if pair >= options.warm:
                    rates.append(rate)
                    for kept, value in zip((p99, median, singles), figures, strict=True):
                        kept.setdefault(side.name, []).append(value)
        names: Sequence[str] = [side.name for side in sides]
    print(f"load {os.getloadavg()}, {os.cpu_count()} processors; {cell(rates)} records/s")
    print(HEAD)
    rows: list[tuple[str, dict[str, list[float]]]] = [
        ("p99 of a produce, ms", p99),
        ("median of a produce, ms", median),
        ("requests of one record, per second", singles),
    ]
    for what, found in rows:
        print(row(what, *(found[name] for name in names)))


if __name__ == "__main__":
    main()

"""How long brokers of both kinds take for a produce, and how many single records they acknowledge.

``python -m bench.brokers_latency [--pairs 5] [--warm 3] [--seconds 10] [--single]`` starts the
clusters of ``bench.brokers``, and loads them in turns, first some times to warm up:

* ``p99``: records of 100 bytes (acks=all, linger 5 ms) at half of the rate that the slower cluster
  reached before, from the call of librdkafka to its report of delivery;
* ``single``: one record of 100 bytes in a request, acks=all; four connections, each of which waits
  for the answer before its next request. CPU time is that of all brokers.

``--single`` leaves out the others.
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
    PATIENCE_S,
    Figures,
    Side,
    both,
    create,
    leader,
    load,
    note,
    producer_of,
    report,
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


def single(side: Side, topic: str, seconds: float) -> tuple[float, float]:
    """Return the acknowledged requests of one record per second over all connections, and the CPU
    time of each (µs)."""
    leads = wait_until("the topic has a leader", lambda: leader(side, topic))
    frame = _frame(topic)
    counts = [0] * CONNECTIONS
    before = side.cpu_s()
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
    done = sum(counts)
    return done / seconds, 1e6 * (side.cpu_s() - before) / done


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
    parser.add_argument("--single", action="store_true", help="single records only")
    options = parser.parse_args()
    found: Figures = {}
    with both() as sides:
        for pair in range(options.warm + options.pairs):
            rate = 0.0 if options.single else _half(sides, f"rate{pair}")
            for side in sides:
                create(side, f"single{pair}")
                count, cpu_us = single(side, f"single{pair}", options.seconds)
                figures = {
                    "requests of one record, per second": count,
                    "CPU time of one record, µs": cpu_us,
                }
                if not options.single:
                    took = sorted(paced(side, f"rate{pair}", rate, options.seconds))
                    figures |= {
                        "records per second": rate,
                        "p99 of a produce, ms": took[len(took) * 99 // 100],
                        "median of a produce, ms": statistics.median(took),
                    }
                print(f"pair {pair}, {side.name}: {figures}", flush=True)
                if pair >= options.warm:
                    note(found, side, figures)
        report(found, sides)


def _half(sides: Sequence[Side], topic: str) -> float:
    """Return half of the records per second that the slower cluster takes."""
    speeds = []
    for side in sides:
        create(side, topic)
        speeds.append(PROBE / load(side, topic, SIZE, PROBE).produced_s)
    return min(speeds) / 2


if __name__ == "__main__":
    main()

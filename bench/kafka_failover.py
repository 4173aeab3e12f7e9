"""Measures the time from the death of a leader to the next committed write.

    .venv/bin/python -m bench.kafka_failover [--kills 100] [--timeouts 1000/2000,250/500]

Three controllers of Apache Kafka and three of ours run side by side. In turn, the leader of one
quorum is killed with kill -9 while there is no other load. A client sends both survivors a write
(IncrementalAlterConfigs with a value never used before) every 5 ms, over open connections. The time
is from the kill to the first acknowledgement. The killed controller is started again and catches up
before the next turn. ``--timeouts`` are pairs of controller.quorum.election.timeout.ms and
controller.quorum.fetch.timeout.ms; the first is Kafka's default. The page is
bench/results/kafka.md.
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from bench.kafka_page import table, taken, write_section
from bench.kafka_quorums import (
    KINDS,
    Pair,
    create_topic,
    register_brokers,
    wait_until_replicated,
)
from kraftwreck.nodes.protocol.errors import NONE
from kraftwreck.oracle.controller import HOST
from kraftwreck.oracle.quorum import KAFKA, OURS, Quorum
from kraftwreck.systems.kraft.client import KafkaClient

POLL_S: Final = 0.005
CALL_MS: Final = 20_000
PATIENCE_S: Final = 60.0
TOPIC: Final = "written"
SIZE: Final = 3
_values = itertools.count(1_000_000)


class Writer:
    """Sends one controller the write, from a thread, until any controller has done it."""

    def __init__(self, port: int, done: threading.Event) -> None:
        self._client = KafkaClient(HOST, port, "bench")
        self._done = done
        self._begin = threading.Event()
        self.acknowledged = math.inf
        self.thread = threading.Thread(target=self._run, daemon=True)
        if self._client.call("ApiVersions", 0, {}, CALL_MS).status != "ok":
            raise RuntimeError(f"the controller at port {port} does not answer")
        self.thread.start()

    def begin(self) -> None:
        """Let it send from now on."""
        self._begin.set()

    def _run(self) -> None:
        self._begin.wait()
        while not self._done.is_set():
            if self._write():
                self.acknowledged = time.monotonic()
                self._done.set()
            else:
                self._done.wait(POLL_S)
        self._client.close()

    def _write(self) -> bool:
        change = {"name": "retention.ms", "config_operation": 0, "value": str(next(_values))}
        resource = {"resource_type": 2, "resource_name": TOPIC, "configs": [change]}
        body = {"resources": [resource]}
        answer = self._client.call("IncrementalAlterConfigs", 1, body, CALL_MS)
        return answer.status == "ok" and answer.response["responses"][0]["error_code"] == NONE


def failover(quorum: Quorum) -> float:
    """Kill the leader, bring it back; return the seconds from the kill to the acknowledgement."""
    leader = quorum.leader()
    done = threading.Event()
    writers = [Writer(port, done) for node, port in quorum.ports.items() if node != leader]
    killed = time.monotonic()
    quorum.kill(leader)
    for writer in writers:
        writer.begin()
    if not done.wait(PATIENCE_S):
        done.set()
        raise TimeoutError(f"no write within {PATIENCE_S:g} s of killing controller {leader}")
    for writer in writers:
        writer.thread.join()
    quorum.start(leader)
    wait_until_replicated(quorum)
    return min(writer.acknowledged for writer in writers) - killed


def percentile(values: Sequence[float], part: float) -> float:
    """Return the nearest-rank percentile."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]


def measure(election_ms: int, fetch_ms: int, kills: int) -> dict[str, list[float]]:
    """Return the seconds of every kill, by kind."""
    properties = {
        "controller.quorum.election.timeout.ms": election_ms,
        "controller.quorum.fetch.timeout.ms": fetch_ms,
    }
    seconds: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory() as folder, Pair(Path(folder), SIZE, properties) as pair:
        for quorum in pair.quorums.values():
            with ExitStack() as stack:
                register_brokers(quorum, stack)
                create_topic(quorum, TOPIC)
        for kill in range(1, kills + 1):
            for kind, quorum in pair.quorums.items():
                pair.settle()
                seconds[kind].append(failover(quorum))
                print(f"{election_ms}/{fetch_ms} {kind} {kill}: {seconds[kind][-1]:.3f} s",
                      file=sys.stderr, flush=True)  # fmt: skip
    return seconds


def row(timeouts: str, seconds: dict[str, list[float]]) -> list[list[str]]:
    """Return the table rows of one measurement, with the ratio."""
    rows = []
    for kind in KINDS:
        taken_s = seconds[kind]
        figures = (
            statistics.median(taken_s),
            percentile(taken_s, 0.99),
            min(taken_s),
            max(taken_s),
        )
        rows.append([timeouts, kind, str(len(taken_s)), *(f"{1000 * s:,.0f}" for s in figures)])
    ratios = [
        statistics.median(seconds[OURS]) / statistics.median(seconds[KAFKA]),
        percentile(seconds[OURS], 0.99) / percentile(seconds[KAFKA], 0.99),
    ]
    rows.append([timeouts, "ours / kafka", "", *(f"{ratio:.2f}" for ratio in ratios), "", ""])
    return rows


def main() -> None:
    """Measure and write the section."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--timeouts", default="1000/2000,250/500")
    options = parser.parse_args()
    when = taken()
    rows: list[list[str]] = []
    for timeouts in options.timeouts.split(","):
        election_ms, fetch_ms = map(int, timeouts.split("/"))
        rows += row(timeouts, measure(election_ms, fetch_ms, options.kills))
    head = ["election / fetch time-out ms", "leader of", "kills"]
    text = f"""\
## Leader killed to next committed write

{when}
`.venv/bin/python -m bench.kafka_failover --kills {options.kills}`; three controllers each; the
script says what is measured. Milliseconds.

{table([*head, "median", "p99", "min", "max"], rows)}
"""
    write_section("failover", text)
    print(text)


if __name__ == "__main__":
    main()

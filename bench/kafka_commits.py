"""Measures committed metadata records per second with five controllers, and the CPU cost of each.

    .venv/bin/python -m bench.kafka_commits [--rounds 5] [--warm-up 4] [--scale 1.0] [--only TEXT]

Five controllers of Apache Kafka and five of ours run side by side, with three registered brokers
that have no data. Each load is a fixed number of requests, the same to both, alternately. The first
rounds warm up (Java compiles frequently executed code) and do not count. CPU is user and system
time of the controllers until every voter has the log, without the client, which is another process.
Rates and CPU are medians of the rounds. At the end our leader runs every load under cProfile. The
page is bench/results/kafka.md. With ``--only`` the loads with this text in their names run, and
their table is printed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.kafka_load import Request, run
from bench.kafka_page import table, taken, write_section
from bench.kafka_profile import profile_table
from bench.kafka_quorums import (
    KINDS,
    Pair,
    create_topic,
    register_brokers,
    wait_until_replicated,
)
from kraftwreck.oracle.controller import OurController
from kraftwreck.oracle.ports import free_ports
from kraftwreck.oracle.quorum import KAFKA, OURS, Quorum

SIZE: Final = 5
TOPICS_PER_BATCH: Final = 10
PARTITIONS_PER_TOPIC: Final = 99
CONFIGURED: Final = "configured"
TIMEOUT_MS: Final = 60_000
REPLICAS: Final = 3
PATIENT: Final = {"controller.quorum.fetch.timeout.ms": 20_000}
"""For the profile: long timeouts, because cProfile slows all controllers down."""


def create(names: list[str], partitions: int) -> Request:
    """Return a CreateTopics of all ``names``."""
    topics = [
        {"name": name, "num_partitions": partitions, "replication_factor": REPLICAS}
        for name in names
    ]
    body = {"topics": topics, "timeout_ms": TIMEOUT_MS}
    return Request("CreateTopics", 7, body, len(names) * (1 + partitions))


def small_topics(number: int, scale: float) -> list[Request]:
    """Return requests with one topic of one partition each."""
    return [create([f"small-{number}-{i}"], 1) for i in range(int(1000 * scale))]


def large_topics(number: int, scale: float) -> list[Request]:
    """Return requests with ten topics of 99 partitions each: 1,000 records."""
    return [
        create([f"large-{number}-{i}-{n}" for n in range(TOPICS_PER_BATCH)], PARTITIONS_PER_TOPIC)
        for i in range(int(40 * scale))
    ]


def configs(number: int, scale: float) -> list[Request]:
    """Return requests with one changed value of one topic each."""

    def alter(value: int) -> dict[str, Any]:
        change = {"name": "retention.ms", "config_operation": 0, "value": str(value)}
        resource = {"resource_type": 2, "resource_name": CONFIGURED, "configs": [change]}
        return {"resources": [resource]}

    first = 1_000_000 * (number + 1)
    return [
        Request("IncrementalAlterConfigs", 1, alter(first + i), 1) for i in range(int(1000 * scale))
    ]


LOADS: Final[dict[str, tuple[Callable[[int, float], list[Request]], int]]] = {
    "CreateTopics, 2 records a request, 8 connections": (small_topics, 8),
    "CreateTopics, 2 records a request, 64 connections": (small_topics, 64),
    "IncrementalAlterConfigs, 1 record a request, 64 connections": (configs, 64),
    "CreateTopics, 1,000 records a request, 4 connections": (large_topics, 4),
}
"""Name → (requests of round and scale, connections)."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one load for one quorum: records a second, CPU seconds a record."""

    rate: float
    leader: float
    all: float


def measure(quorum: Quorum, requests: list[Request], connections: int) -> Cost:
    """Run one load against the leader until every voter has the log."""
    leader = quorum.leader()
    before = {node: c.cpu_seconds() for node, c in quorum.controllers.items()}
    seconds = run(quorum.ports[leader], requests, connections)
    wait_until_replicated(quorum)
    cpu = {node: c.cpu_seconds() - before[node] for node, c in quorum.controllers.items()}
    records = sum(request.records for request in requests)
    return Cost(records / seconds, cpu[leader] / records, sum(cpu.values()) / records)


def delete_all(quorum: Quorum, requests: list[Request]) -> None:
    """Delete the topics made by these requests."""
    names = [topic["name"] for request in requests for topic in request.body.get("topics", [])]
    for first in range(0, len(names), 100):
        topics = [{"name": name, "topic_id": bytes(16)} for name in names[first : first + 100]]
        body = {"topics": topics, "timeout_ms": TIMEOUT_MS}
        run(quorum.ports[quorum.leader()], [Request("DeleteTopics", 6, body, 0)], 1)


def compare(rounds: int, warm_up: int, scale: float, only: str) -> dict[str, dict[str, list[Cost]]]:
    """Return load → kind → cost of each round, of the loads with ``only`` in their names."""
    loads = {load: how for load, how in LOADS.items() if only in load}
    costs: dict[str, dict[str, list[Cost]]] = {load: {kind: [] for kind in KINDS} for load in loads}
    with tempfile.TemporaryDirectory() as folder, Pair(Path(folder), SIZE, {}) as pair:
        pair.register_brokers()
        for quorum in pair.quorums.values():
            create_topic(quorum, CONFIGURED)
        for number in range(warm_up + rounds):
            for load, (make, connections) in loads.items():
                for kind, quorum in pair.quorums.items():
                    requests = make(number, scale)
                    pair.settle()
                    cost = measure(quorum, requests, connections)
                    print(f"{number} {load} {kind}: {cost}", flush=True)
                    if number >= warm_up:
                        costs[load][kind].append(cost)
                    delete_all(quorum, requests)
    return costs


def profile(scale: float) -> str:
    """Run every load against a quorum of ours under cProfile; return the leader's profile."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        quorum = stack.enter_context(Quorum(folder, [OURS] * SIZE, free_ports(SIZE), PATIENT))
        for node, controller in quorum.controllers.items():
            if isinstance(controller, OurController):
                controller.profile = folder / f"profile-{node}"
        quorum.format()
        quorum.start()
        with ExitStack() as brokers:
            register_brokers(quorum, brokers)
            create_topic(quorum, CONFIGURED)
            leader = quorum.leader()
            for number, (make, connections) in enumerate(LOADS.values()):
                measure(quorum, make(number, scale), connections)
        quorum.controllers[leader].stop()
        return profile_table(folder / f"profile-{leader}")


def rows(costs: dict[str, dict[str, list[Cost]]]) -> list[list[str]]:
    """Return the table: medians of both kinds and their ratio, per load."""
    found = []
    for load, by_kind in costs.items():
        medians = {
            kind: Cost(
                statistics.median(cost.rate for cost in taken_costs),
                statistics.median(cost.leader for cost in taken_costs),
                statistics.median(cost.all for cost in taken_costs),
            )
            for kind, taken_costs in by_kind.items()
        }
        for kind, cost in medians.items():
            figures = [f"{cost.rate:,.0f}", f"{1e6 * cost.leader:,.0f}", f"{1e6 * cost.all:,.0f}"]
            found.append([load, kind, *figures])
        ours, theirs = medians[OURS], medians[KAFKA]
        ratios = (ours.rate / theirs.rate, ours.leader / theirs.leader, ours.all / theirs.all)
        found.append([load, "ours / kafka", *(f"{ratio:.2f}" for ratio in ratios)])
    return found


def main() -> None:
    """Measure and write the section."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm-up", type=int, default=4, help="warm-up rounds, which do not count")
    parser.add_argument("--scale", type=float, default=1.0, help="of the requests of a load")
    parser.add_argument("--only", default="", help="a part of the names of loads; writes no page")
    options = parser.parse_args()
    when = taken()
    costs = compare(options.rounds, options.warm_up, options.scale, options.only)
    head = ["load", "quorum of", "records/s", "leader CPU µs/record", "all CPU µs/record"]
    if options.only:
        print(f"{when}\n\n{table(head, rows(costs))}")
        return
    text = f"""\
## Committed records, five controllers

{when}
`.venv/bin/python -m bench.kafka_commits --rounds {options.rounds} --warm-up {options.warm_up} \
--scale {options.scale:g}`;
medians of the rounds. All ten controllers and the client share {os.cpu_count()} cores.

{table(head, rows(costs))}
"""
    write_section("commits", text)
    print(text)
    text = f"""\
### Where our leader spends its time

Every load above once, under cProfile, which about doubles the cost of short functions.

{profile(options.scale)}
"""
    write_section("profile", text)
    print(text)


if __name__ == "__main__":
    main()

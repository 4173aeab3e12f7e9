"""Measures both designs of acknowledgement: all in-sync replicas, and a majority of the replicas.

    .venv/bin/python -m bench.acknowledgements latency [--pairs 5] [--seconds 10] [--delay-ms 100]
    .venv/bin/python -m bench.acknowledgements failures
    .venv/bin/python -m bench.acknowledgements power [--runs 30]

``latency`` (namespace hosts, root): one controller and three brokers; one producer sends a record
with acks=all, waits for the answer and sends the next one, to a topic of each mode in turns. Then
packets between one follower and all others take ``--delay-ms`` longer in each direction. With
``--pause-ms`` the producer pauses after each record.
``failures`` (namespace hosts): brokers are killed one after another, never the leader, until a
topic acknowledges nothing for 20 s. ``power`` (simulator): all brokers lose power twice in a run;
counts acknowledged records that the final read lacks. Each prints Markdown.

With ``--fastest`` processes have real-time priority: a busy machine then measures little but
itself, at the cost of other processes.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from kraftwreck.harness.archive import PROJECT_TREE
from kraftwreck.harness.clusters.netns import NetnsCluster
from kraftwreck.harness.options import RunOptions
from kraftwreck.harness.simulated.result import SimResult
from kraftwreck.histories.disturbance import Disturbance
from kraftwreck.histories.fault import Fault
from kraftwreck.nemesis.inject import Injector
from kraftwreck.nodes.metadata.config_keys import COMMIT_MODE, ISR, QUORUM
from kraftwreck.nodes.metadata.image_values import COMMIT_MODE_VERSION
from kraftwreck.nodes.protocol.errors import NONE
from kraftwreck.systems.kraft.client import KafkaClient
from kraftwreck.systems.kraft.simulated.campaign import KraftCampaign
from kraftwreck.systems.kraft.simulated.run import simulate
from kraftwreck.systems.kraft.system import SYSTEM, KraftDeployment
from kraftwreck.systems.kraft.workloads.produce import ProduceWorkload
from kraftwreck.systems.kraft.workloads.record_batches import batch_of

READY_S: Final = 300.0
ASK_MS: Final = 15_000
PATIENCE_S: Final = 20.0
SECOND: Final = 1_000_000_000
Configs = Mapping[str, str]


# --- hosts ----------------------------------------------------------------------------------


@dataclass
class Hosts:
    """A deployed cluster: one controller and ``brokers``, by name and by the id of each."""

    deployed: KraftDeployment
    brokers: list[str]
    ids: dict[str, int] = field(default_factory=dict)
    clients: dict[str, KafkaClient] = field(default_factory=dict)

    def ask(self, name: str, api: str, version: int, body: dict[str, Any]) -> dict[str, Any] | None:
        """Return the answer of a broker, None if there is none in time."""
        client = self.clients.get(name)
        if client is None:
            client = self.clients[name] = self.deployed.deployment.client(
                name, "bench", broker=True
            )
        answer = client.call(api, version, body, ASK_MS)
        response: dict[str, Any] = answer.response
        return response if answer.status == "ok" else None

    def create(self, topic: str, brokers: Sequence[str], configs: Configs) -> None:
        """Create a topic of one partition on ``brokers``; the first one leads it."""
        ids = [self.ids[name] for name in brokers]
        wanted = {
            "name": topic,
            "num_partitions": -1,
            "replication_factor": -1,
            "assignments": [{"partition_index": 0, "broker_ids": ids}],
            "configs": [{"name": name, "value": value} for name, value in configs.items()],
        }
        body = {"topics": [wanted], "timeout_ms": ASK_MS}
        answer = self.ask(brokers[0], "CreateTopics", 7, body)
        assert answer is not None and answer["topics"][0]["error_code"] == NONE, answer

    def send(self, leader: str, topic: str, value: int) -> bool:
        """Send one record with acks=all; return whether it is acknowledged."""
        data = [{"index": 0, "records": batch_of([value], None)}]
        body = {
            "transactional_id": None,
            "acks": -1,
            "timeout_ms": ASK_MS - 1_000,
            "topic_data": [{"name": topic, "partition_data": data}],
        }
        answer = self.ask(leader, "Produce", 9, body)
        if answer is None:
            return False
        part = answer["responses"][0]["partition_responses"][0]
        return bool(part["error_code"] == NONE)

    def send_in_time(self, leader: str, topic: str) -> bool:
        """Return whether a record is acknowledged within :data:`PATIENCE_S`."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if self.send(leader, topic, 1):
                return True
            time.sleep(0.2)
        return False


@contextmanager
def hosts(brokers: int) -> Iterator[Hosts]:
    """Deploy one controller and ``brokers`` on namespace hosts, with quorum commit permitted."""
    own = (f"brokers={brokers}",)
    options = RunOptions(nodes=1, workload="produce", system_options=own, seed=1)
    cluster = NetnsCluster(len(SYSTEM.layout(options).roles))
    try:
        deployed = SYSTEM.deploy(cluster.up(), options, PROJECT_TREE)
        assert isinstance(deployed, KraftDeployment)
        try:
            deployed.ready(READY_S)
            names = [name for name in deployed.remote.nodes if name not in
                     deployed.remote.controllers]  # fmt: skip
            mine = Hosts(deployed, names)
            _permit(mine, brokers)
            yield mine
        finally:
            deployed.stop()
            deployed.close()
    finally:
        cluster.down()


def _permit(mine: Hosts, brokers: int) -> None:
    """Learn the ids of all brokers, and finalize the feature of quorum commit."""
    deadline = time.monotonic() + READY_S
    while len(mine.ids) < brokers and time.monotonic() < deadline:
        body = {"topics": [], "allow_auto_topic_creation": False}
        answer = mine.ask(mine.brokers[0], "Metadata", 12, body) or {"brokers": []}
        found = {(each["host"], each["port"]): each["node_id"] for each in answer["brokers"]}
        for name in mine.brokers:
            address = mine.deployed.deployment.broker_address(name)
            if address in found:
                mine.ids[name] = found[address]
        time.sleep(0.2)
    update = {"feature": COMMIT_MODE_VERSION, "max_version_level": 1, "upgrade_type": 1}
    body = {"timeout_ms": ASK_MS, "feature_updates": [update], "validate_only": False}
    answered = mine.ask(mine.brokers[0], "UpdateFeatures", 1, body)
    assert answered is not None and answered["error_code"] == NONE, answered


# --- latency under one slow replica -----------------------------------------------------------

MODES: Final[Mapping[str, Configs]] = {
    ISR: {"min.insync.replicas": "2"},
    QUORUM: {COMMIT_MODE: QUORUM},
}


def timed(mine: Hosts, topic: str, seconds: float, pause_ms: int) -> list[float]:
    """Send records one after another, with a pause after each; return the times until their
    answers, in ms."""
    taken, value = [], 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.monotonic()
        acknowledged = mine.send(mine.brokers[0], topic, value)
        taken.append(1000 * (time.monotonic() - began))
        assert acknowledged, f"{topic}: a record was refused"
        value += 1
        time.sleep(pause_ms / 1000)
    return taken


def measure_latency(pairs: int, seconds: float, delay_ms: int, pause_ms: int) -> list[str]:
    """Measure all modes in turns, without a slow follower and with one; return a table."""
    found: dict[tuple[str, str], list[list[float]]] = {}
    with hosts(3) as mine:
        for mode, configs in MODES.items():
            mine.create(mode, mine.brokers, configs)
            assert mine.send_in_time(mine.brokers[0], mode)
        slow, others = mine.brokers[2], tuple(
            name for name in mine.deployed.remote.nodes if name != mine.brokers[2]
        )  # fmt: skip
        delay = delay_ms * 1000
        links = [
            Disturbance(senders=(slow,), receivers=others, delay=delay),
            Disturbance(senders=others, receivers=(slow,), delay=delay),
        ]
        for state, wanted in (("all in time", []), ("one follower slow", links)):
            mine.deployed.remote.disturb(wanted)
            time.sleep(2.0)
            for _ in range(pairs):
                for mode in MODES:
                    found.setdefault((state, mode), []).append(timed(mine, mode, seconds, pause_ms))
        mine.deployed.remote.disturb([])
    lines = [
        "| state | commit.mode | records | p50, ms | p99, ms | slowest, ms |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for (state, mode), rounds in found.items():
        cells = " | ".join(_spread([_percentile(each, at) for each in rounds]) for at in (50, 99))
        slowest = max(max(each) for each in rounds)
        count = sum(len(each) for each in rounds)
        lines.append(f"| {state} | {mode} | {count} | {cells} | {slowest:.0f} |")
    return lines


def _percentile(values: Sequence[float], at: int) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * at // 100)]


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


# --- failures survived --------------------------------------------------------------------------

DESIGNS: Final[Mapping[str, Configs]] = {
    "isr, least 1": {"min.insync.replicas": "1"},
    "isr, least a majority": {"min.insync.replicas": "majority"},
    "quorum": {COMMIT_MODE: QUORUM},
}
REPLICAS: Final = (2, 3, 5)


def measure_failures() -> list[str]:
    """Kill followers one after another; return after how many each topic still acknowledges."""
    survived: dict[tuple[str, int], int] = {}
    with hosts(max(REPLICAS)) as mine:
        topics = {}
        for number, (design, wanted) in enumerate(DESIGNS.items()):
            for replicas in REPLICAS:
                least = str(replicas // 2 + 1)
                configs = {k: least if v == "majority" else v for k, v in wanted.items()}
                topic = topics[design, replicas] = f"t{number}-{replicas}"
                mine.create(topic, mine.brokers[:replicas], configs)
                assert mine.send_in_time(mine.brokers[0], topic)
                survived[design, replicas] = 0
        open_topics = set(topics)
        for killed in range(1, max(REPLICAS)):
            mine.deployed.remote.kill(mine.brokers[killed])
            for place in sorted(open_topics):
                if killed < place[1]:
                    if mine.send_in_time(mine.brokers[0], topics[place]):
                        survived[place] = killed
                    else:
                        open_topics.discard(place)
    lines = [
        f"| replicas | {' | '.join(DESIGNS)} |",
        f"|---|{'--:|' * len(DESIGNS)}",
    ]
    for replicas in REPLICAS:
        cells = " | ".join(str(survived[design, replicas]) for design in DESIGNS)
        lines.append(f"| {replicas} | {cells} |")
    return lines


# --- all replicas lose power --------------------------------------------------------------------

FLUSHES: Final[Mapping[str, Configs]] = {
    "memory": {},
    "memory, flush.ms=1000": {"flush.ms": "1000"},
    "memory, flush.ms=200": {"flush.ms": "200"},
    "memory, flush.messages=5": {"flush.messages": "5"},
    "disk, flush.messages=1": {"flush.messages": "1"},
}


def powerless(configs: Configs, seed: int) -> SimResult:
    """Simulate 20 s in which all three brokers lose power at once, twice."""
    campaign = KraftCampaign(
        system="kraft", workload="produce", faults=("power",), nodes=3, time_limit_s=20.0,
        system_options=("brokers=3",),
    )  # fmt: skip
    schedule = [
        Fault(at=at * SECOND, kind="power", shape="all", duration=SECOND, draw=at,
              targets=("b1", "b2", "b3"))
        for at in (6, 13)
    ]  # fmt: skip
    options, knobs = campaign.options(seed), campaign.knobs(seed)
    return simulate(options, ProduceWorkload(configs), schedule, Injector, knobs=knobs)


def lost(result: SimResult) -> tuple[int, int]:
    """Return how many records were acknowledged, and how many of them the final read lacks.

    Raises LookupError if the run has no final read.
    """
    sent: set[tuple[str, int]] = set()
    found: set[tuple[str, int]] | None = None
    for op in result.ops:
        if op.type == "ok" and op.f == "send":
            sent |= {(str(key), pair[1]) for _, key, pair in op.value}
        elif op.type == "ok" and op.f == "poll" and op.final:
            found = {
                (key, value) for key, pairs in op.value[0][1].items() for _, value in pairs
            }  # fmt: skip
    if found is None:
        raise LookupError("no final read succeeded")
    return len(sent), len(sent - found)


def measure_power(runs: int) -> list[str]:
    """Count what is lost by mode and flush; return a table."""
    lines = [
        "| commit.mode | acknowledged from | runs | acknowledged | lost | most in a run | runs with"
        " a loss |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    for mode, chosen in MODES.items():
        for flush, configs in FLUSHES.items():
            counts = []
            for seed in range(runs):
                result = powerless({**chosen, **configs}, seed)
                assert not result.failures, (mode, flush, seed, result.failures[0])
                counts.append(lost(result))
            acked, gone = (sum(each[at] for each in counts) for at in (0, 1))
            most, bad = max(each[1] for each in counts), sum(each[1] > 0 for each in counts)
            lines.append(f"| {mode} | {flush} | {runs} | {acked} | {gone} | {most} | {bad} |")
            print(lines[-1], flush=True)
    return lines


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("what", choices=("latency", "failures", "power"))
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--delay-ms", type=int, default=100)
    parser.add_argument("--pause-ms", type=int, default=0)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--fastest", action="store_true")
    given = parser.parse_args()
    if given.fastest:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    load = os.getloadavg()[0]
    if given.what == "latency":
        lines = measure_latency(given.pairs, given.seconds, given.delay_ms, given.pause_ms)
    elif given.what == "failures":
        lines = measure_failures()
    else:
        lines = measure_power(given.runs)
    print(f"\nload average {load:.1f} before and {os.getloadavg()[0]:.1f} after\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()

"""Produce with acks=1 while the metadata log of the same process waits for its disk.

``python -m bench.slow_disk [--rounds 5] [--seconds 10]`` starts one node that is controller and
broker, and preloads the library of the fault ``disk``. In turns each fsync takes as long as it
takes, and 500 ms. Meanwhile one client changes a config again and again, so that the metadata log
is always waiting for an fsync, and another sends one record at a time with acks=1.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import confluent_kafka

from kraftwreck.harness.on_host.disk import KINDS, TROUBLE, read_trouble, write_trouble
from kraftwreck.harness.remote.preloads import library
from kraftwreck.oracle.controller import HOST
from kraftwreck.oracle.ports import free_ports
from kraftwreck.oracle.quorum import wait_until
from kraftwreck.systems.kraft.client import KafkaClient

FSYNC_NS = 500_000_000
TOPIC = "records"
PATIENCE_S = 300.0
PATIENCE_MS = int(1000 * PATIENCE_S)
WELL, SLOW = "fsync as it is", "fsync takes 500 ms"


@dataclass
class Measured:
    """Milliseconds of each produce and of each change of metadata, and the number of fsyncs."""

    produced: list[float] = field(default_factory=list)
    changed: list[float] = field(default_factory=list)
    fsyncs: int = 0


@contextmanager
def node(folder: Path, control: Path) -> Iterator[int]:
    """Run a combined node whose disk ``control`` rules; yield its port for clients."""
    controller, broker = free_ports(2)
    config, preload = folder / "node.properties", folder / "diskwork.so"
    preload.write_bytes(library(name="diskwork"))
    control.write_bytes(bytes(TROUBLE.size))
    config.write_text(
        "process.roles=controller,broker\nnode.id=1\ncluster.id=slow-disk\n"
        f"controller.quorum.voters=1@{HOST}:{controller}\n"
        f"listeners=CONTROLLER://{HOST}:{controller},PLAINTEXT://{HOST}:{broker}\n"
        f"log.dirs={folder / 'data'}\n"
    )
    command = [sys.executable, "-m", "kraftwreck.nodes.server"]
    subprocess.run([*command, "format", "--config", str(config)], check=True, capture_output=True)
    preloaded = {
        "LD_PRELOAD": str(preload),
        "KRAFTWRECK_DISK": str(control),
        "KRAFTWRECK_DISK_FILES": str(folder / "data"),
    }
    process = subprocess.Popen([*command, "--config", str(config)], env=os.environ | preloaded)
    try:
        wait_until("the topic exists", lambda: is_created(broker), PATIENCE_S)
        yield broker
    finally:
        write_trouble(str(control))
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)


def is_created(port: int) -> bool:
    """Create the topic; return whether that was possible."""
    wanted = {"name": TOPIC, "num_partitions": 1, "replication_factor": 1}
    client = KafkaClient(HOST, port, "bench")
    try:
        answer = client.call(
            "CreateTopics", 7, {"topics": [wanted], "timeout_ms": PATIENCE_MS}, PATIENCE_MS
        )
    finally:
        client.close()
    return answer.status == "ok" and answer.response["topics"][0]["error_code"] == 0


def change(port: int, ended: threading.Event, changed: list[float]) -> None:
    """Change a config of the topic until ``ended`` is set."""
    client = KafkaClient(HOST, port, "bench")
    number = 0
    while not ended.is_set():
        number += 1
        config = {"name": "retention.ms", "config_operation": 0, "value": str(10**9 + number)}
        resource = {"resource_type": 2, "resource_name": TOPIC, "configs": [config]}
        began = time.monotonic()
        answer = client.call("IncrementalAlterConfigs", 1, {"resources": [resource]}, PATIENCE_MS)
        assert answer.status == "ok" and answer.response["responses"][0]["error_code"] == 0, answer
        changed.append(1000 * (time.monotonic() - began))
    client.close()


def produce(port: int, seconds: float, produced: list[float]) -> None:
    """Send one record after the other for some seconds."""
    client = confluent_kafka.Producer(
        {"bootstrap.servers": f"{HOST}:{port}", "acks": 1, "linger.ms": 0, "log_level": 0}
    )
    failed: list[object] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failed.append(error)

    end = time.monotonic() + seconds
    while (began := time.monotonic()) < end:
        client.produce(TOPIC, b"v" * 100, partition=0, on_delivery=delivered)
        assert client.flush(PATIENCE_S) == 0 and not failed, failed
        produced.append(1000 * (time.monotonic() - began))


def measure(port: int, control: Path, seconds: float, result: Measured, *, slow: bool) -> None:
    """Load the node for some seconds with one kind of disk."""
    if slow:
        write_trouble(
            str(control), kind=KINDS.index("slow"), factor=10**6, least=FSYNC_NS, most=FSYNC_NS
        )
    ended = threading.Event()
    changing = threading.Thread(target=change, args=(port, ended, result.changed))
    changing.start()
    produce(port, seconds, result.produced)
    ended.set()
    changing.join(PATIENCE_S)
    result.fsyncs += read_trouble(str(control))["fsyncs"]
    write_trouble(str(control))


def row(name: str, result: Measured) -> str:
    """Return one line of the table."""
    cuts = statistics.quantiles(result.produced, n=1000)
    return (
        f"| {name} | {len(result.changed)} | {statistics.median(result.changed):.1f} "
        f"| {len(result.produced)} | {cuts[499]:.2f} | {cuts[989]:.2f} | {cuts[998]:.2f} "
        f"| {max(result.produced):.1f} |"
    )


def main() -> None:
    """Run the measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each kind in each round")
    options = parser.parse_args()
    found: defaultdict[str, Measured] = defaultdict(Measured)
    with tempfile.TemporaryDirectory(prefix="kraftwreck-slow-disk-") as place:
        control = Path(place) / "disk"
        with node(Path(place), control) as port:
            produce(port, 2.0, [])
            for _ in range(options.rounds):
                for name in (WELL, SLOW):
                    measure(port, control, options.seconds, found[name], slow=name == SLOW)
    print(f"load {os.getloadavg()}, {os.cpu_count()} processors")
    print(f"{found[SLOW].fsyncs} fsyncs took 500 ms")
    print("| disk | changes of metadata | median, ms | produces | p50, ms | p99 | p99.9 | max |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for name, result in found.items():
        print(row(name, result))


if __name__ == "__main__":
    main()

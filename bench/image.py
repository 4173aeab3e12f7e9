"""Measures loading and making snapshots of a metadata image by size, and the cost of a failover.

    python -m bench.image [partitions ...]

For each size (10,000, 100,000 and 1,000,000 partitions by default) a process of its own, in one
thread: an image of topics with ten partitions each, replication factor 3, on 100 brokers. Its
snapshot is made, loaded into an empty image (a restart) and loaded over the present image (a node
that fell behind), always in the bounded steps of a node. A *claim* is the cost of the image for a
new leader: its first records in the head; a *revert* removes them.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from kraftwreck.nodes.log.snapshots import data_batch, header_batch
from kraftwreck.nodes.metadata.image import MetadataImage
from kraftwreck.nodes.metadata.loader import Loader
from kraftwreck.nodes.protocol.records import decode_record, encode_record

SIZES: Final = (10_000, 100_000, 1_000_000)
PER_TOPIC: Final = 10
BROKERS: Final = 100
CLAIMS: Final = 200


def records(partitions: int) -> list[tuple[str, dict[str, Any]]]:
    """Return the records of the cluster, decoded: brokers, topics, partitions."""
    found: list[tuple[str, int, dict[str, Any]]] = [
        ("FeatureLevelRecord", 0, {"name": "metadata.version", "feature_level": 27})
    ]
    for broker in range(BROKERS):
        end_point = {"name": "PLAINTEXT", "host": f"b{broker}", "port": 9092}
        fields: dict[str, Any] = {
            "broker_id": broker,
            "incarnation_id": broker.to_bytes(16, "big"),
            "broker_epoch": broker,
            "end_points": [end_point],
            "rack": None,
            "fenced": False,
            "log_dirs": [(1000 + broker).to_bytes(16, "big")],
        }
        found.append(("RegisterBrokerRecord", 3, fields))
    for topic in range(partitions // PER_TOPIC):
        topic_id = (1 << 64 | topic).to_bytes(16, "big")
        found.append(("TopicRecord", 0, {"name": f"topic-{topic:07d}", "topic_id": topic_id}))
        for number in range(PER_TOPIC):
            first = topic * 7 + number
            replicas = [first % BROKERS, (first + 1 + topic % 50) % BROKERS]
            replicas.append((first + 60) % BROKERS)
            fields = {
                "partition_id": number,
                "topic_id": topic_id,
                "replicas": replicas,
                "isr": replicas,
                "leader": replicas[0],
                "leader_epoch": 0,
                "partition_epoch": 0,
                "directories": [(1000 + r).to_bytes(16, "big") for r in replicas],
            }
            found.append(("PartitionRecord", 1, fields))
    # Encoded and decoded, so that records share no objects, as in a log.
    return [(name, decode_record(encode_record(name, v, f))[2]) for name, v, f in found]


class Steps:
    """Times each call of a repeated step, in seconds."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def run(self, step: Callable[[], Any]) -> Any:
        started = time.perf_counter()
        result = step()
        self.times.append(time.perf_counter() - started)
        return result

    def figures(self) -> dict[str, float]:
        ordered = sorted(self.times)
        return {
            "seconds": sum(ordered),
            "steps": len(ordered),
            "p99_ms": ordered[int(len(ordered) * 0.99)] * 1000,
            "longest_ms": ordered[-1] * 1000,
        }


def rss() -> float:
    """Return the resident memory of this process, MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / (1 << 20)


def make(image: MetadataImage) -> tuple[bytes, Steps]:
    """Make a snapshot of the image; return it and the times of its pieces."""
    loader, steps = Loader(image), Steps()
    header = header_batch(image.stable_epoch, 0, 0)
    content = bytearray()
    steps.run(lambda: loader.begin_snapshot(header))
    while loader.generating is not None:
        content += steps.run(loader.next_piece)
    return bytes(content), steps


def load(image: MetadataImage, content: bytes, end: int, freeze: bool) -> Steps:
    """Load a snapshot into the image; return the times of the steps.

    ``freeze``: after each step exempt the loaded objects from garbage collection, which otherwise
    scans all of them repeatedly.
    """
    loader, steps = Loader(image), Steps()

    def step() -> bool:
        more = loader.work()
        if freeze:
            gc.freeze()
        return more

    loader.load(content, end, 1)
    while steps.run(step):
        pass
    return steps


def claims(image: MetadataImage) -> dict[str, float]:
    """Return medians in microseconds: the first records of a new leader, and their revert."""
    key = next(iter(image.partitions))
    change = {"topic_id": key[0], "partition_id": key[1], "leader": 1}
    first = [("NoOpRecord", {}), ("PartitionChangeRecord", change)]
    claim, revert = Steps(), Steps()
    for _ in range(CLAIMS):
        offset = image.last_offset + len(first)
        claim.run(partial(image.propose, offset, 2, first))
        revert.run(image.revert)
    middle = CLAIMS // 2
    return {
        "claim_us": sorted(claim.times)[middle] * 1e6,
        "revert_us": sorted(revert.times)[middle] * 1e6,
    }


def source(partitions: int, path: Path) -> dict[str, Any]:
    """Build the image of this size, write its snapshot to ``path`` and measure that."""
    image = MetadataImage()
    found = records(partitions)
    image.commit(len(found) - 1, 1, found)
    found.clear()
    gc.collect()
    gc.freeze()
    content, making = make(image)
    path.write_bytes(content)
    return {"make": making.figures(), "bytes": len(content), "end": image.stable_offset + 1}


def restart(path: Path, end: int, freeze: bool) -> dict[str, Any]:
    """Load the snapshot into an empty image, then claim, then load it again over itself."""
    content = path.read_bytes()
    warm = MetadataImage()  # the codec compiles each record on first use
    load(warm, header_batch(1, 0, 0) + one_of_each(), 1, False)
    before = rss()
    image = MetadataImage()
    image.digest()  # kept from here on, as in a node
    loading = load(image, content, end, freeze).figures()
    loaded = rss()
    failover = claims(image)
    again = load(image, content, end + 1, freeze).figures()
    return {"load": loading, "rss_mib": loaded - before, **failover, "reload": again}


def one_of_each() -> bytes:
    """Return a batch with one record of each measured kind."""
    small = records(PER_TOPIC)
    versions = {"RegisterBrokerRecord": 3, "PartitionRecord": 1}
    encoded = [encode_record(name, versions.get(name, 0), fields) for name, fields in small]
    return data_batch(1, 1, 0, encoded)


def in_process(*arguments: str) -> dict[str, Any]:
    """Run one measurement in a process of its own."""
    command = [sys.executable, "-m", "bench.image", *arguments]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    measured: dict[str, Any] = json.loads(run.stdout)
    return measured


def main() -> None:
    """Print one row per size, or, on request, one measurement as JSON."""
    parser = argparse.ArgumentParser(description="How a metadata image grows.")
    parser.add_argument("partitions", nargs="*", type=int, default=SIZES)
    parser.add_argument("--source", type=Path)
    parser.add_argument("--restart", type=Path)
    parser.add_argument("--end", type=int, default=0)
    parser.add_argument("--freeze", action="store_true")
    options = parser.parse_args()
    if options.source is not None:
        print(json.dumps(source(options.partitions[0], options.source)))
    elif options.restart is not None:
        print(json.dumps(restart(options.restart, options.end, options.freeze)))
    else:
        report(options.partitions)


def report(sizes: list[int]) -> None:
    """Measure every size, with and without freezing, and print the table."""
    heads = ["partitions", "snapshot MB", "make s", "longest step ms", "frozen gc", "load s"]
    heads += ["longest step ms", "image MiB", "load over s", "longest step ms"]
    heads += ["claim us", "revert us"]
    print("| " + " | ".join(heads) + " |")
    print("|---" * len(heads) + "|")
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "snapshot")
            made = in_process(str(size), "--source", path)
            for freeze in (True, False):
                flag = ["--freeze"] if freeze else []
                started = in_process("--restart", path, "--end", str(made["end"]), *flag)
                print("| " + " | ".join(cells(size, made, started, freeze)) + " |", flush=True)


def cells(size: int, made: dict[str, Any], started: dict[str, Any], freeze: bool) -> list[str]:
    """Return one row of the table."""
    return [
        f"{size:,}",
        f"{made['bytes'] / 1e6:.1f}",
        f"{made['make']['seconds']:.2f}",
        f"{made['make']['longest_ms']:.0f}",
        "yes" if freeze else "no",
        f"{started['load']['seconds']:.2f}",
        f"{started['load']['longest_ms']:.0f}",
        f"{started['rss_mib']:.0f}",
        f"{started['reload']['seconds']:.2f}",
        f"{started['reload']['longest_ms']:.0f}",
        f"{started['claim_us']:.1f}",
        f"{started['revert_us']:.1f}",
    ]


if __name__ == "__main__":
    main()

"""The memory of idle brokers of both kinds that hold many partitions.

``python -m bench.brokers_memory [--partitions 1000]`` starts the clusters of ``bench.brokers``,
creates topics of ten partitions with three replicas until each broker has that many, waits until
all lead or follow, and prints the RSS of each broker, in MB.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Final

from bench.brokers import HEAD, Side, ask, both, create
from kraftwreck.oracle.quorum import wait_until

EACH: Final = 10
IDLE_S: Final = 20.0
PATIENCE_S: Final = 600.0


def fill(side: Side, partitions: int) -> None:
    """Create the topics, and wait until each partition has all of its replicas in sync."""
    replicas = len(side.brokers)
    topics = [
        {"name": f"t{n}", "num_partitions": EACH, "replication_factor": replicas, "configs": []}
        for n in range(partitions // EACH)
    ]
    for topic in topics:
        found = ask(side, "CreateTopics", 7, {"topics": [topic], "timeout_ms": 50_000})
        assert found["topics"][0]["error_code"] == 0, found

    def in_sync() -> bool:
        names = [{"name": topic["name"]} for topic in topics]
        answer = ask(side, "Metadata", 9, {"topics": names})
        states = [each for topic in answer["topics"] for each in topic["partitions"]]
        return len(states) == partitions and all(
            each["leader_id"] >= 0 and len(each["isr_nodes"]) == replicas for each in states
        )

    wait_until("all partitions are in sync", in_sync, PATIENCE_S)


def main() -> None:
    """Run the measurement, and print its table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=1000)
    options = parser.parse_args()
    with both() as sides:
        for side in sides:
            create(side, "warm")
            fill(side, options.partitions)
        time.sleep(IDLE_S)
        kafka, ours = (side.rss_mb() for side in sides)
    print(HEAD)
    ratio = statistics.median(ours) / statistics.median(kafka)
    print(f"| RSS with {options.partitions} partitions, MB | {kafka} | {ours} | {ratio:.2f} |")


if __name__ == "__main__":
    main()

"""Each kind of controller is brought in by a snapshot that the other kind made.

The leader's log is cleaned, so no log has the records that the newcomer needs. A newcomer starts
with nothing; later it returns after the log has been cleaned beyond its own end.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from kraftwreck.oracle.images import first_offset, log_image, snapshot_image, snapshots
from kraftwreck.oracle.quorum import CLUSTER_ID, KAFKA, OURS, Quorum, wait_until
from kraftwreck.oracle.silent_broker import SilentBroker

pytestmark = pytest.mark.oracle
BROKER = 100
SNAPSHOT_BYTES = 4000
PROPERTIES = {
    "metadata.log.max.record.bytes.between.snapshots": SNAPSHOT_BYTES,
    "metadata.max.retention.bytes": 1,
    "metadata.max.idle.interval.ms": 100,
}
OFTEN = {"kraftwreck.clean.interval.ms": 200}
SLOWER = {"controller.quorum.fetch.timeout.ms": 3000}
"""The kind with the longer time-out leads next."""
KEPT = {"metadata.max.retention.bytes": 1 << 30}
RELEASE = ("--release-version", "4.0")
CLEANED_S = 150.0
"""Apache Kafka looks at its retention every 60 s."""


def create(quorum: Quorum, names: list[str]) -> None:
    for name in names:
        config = [{"name": "retention.ms", "value": "1234567"}]
        assert quorum.create_topic(name, num_partitions=3, configs=config) == 0


def named(prefix: str, count: int) -> list[str]:
    return [f"{prefix}-{number}" for number in range(count)]


def log_of(quorum: Quorum, node: int) -> Path:
    return quorum.controllers[node].log


def latest(quorum: Quorum, node: int) -> int:
    """Return the end offset of the newest snapshot, 0 without one."""
    return max(snapshots(log_of(quorum, node)), default=0)


def oldest(quorum: Quorum, node: int) -> int:
    """Return the end offset of the oldest snapshot: the log begins there when it is cleaned."""
    return min(snapshots(log_of(quorum, node)), default=0)


def write_until(quorum: Quorum, prefix: str, what: str, check: Callable[[], bool]) -> list[str]:
    """Create topics until ``check`` holds, after three snapshots' worth only a few; name them."""
    names: list[str] = []

    def enough() -> bool:
        if check():
            return True
        more = named(f"{prefix}-{len(names)}", 5)
        create(quorum, more)
        names.extend(more)
        if len(names) > 60:
            time.sleep(2)
        return check()

    wait_until(what, enough, CLEANED_S)
    return names


def wait_for_snapshot(quorum: Quorum, node: int, beyond: int) -> None:
    """Wait until a node has a snapshot that it did not make: its log begins with its end."""

    def installed() -> bool:
        found = snapshots(log_of(quorum, node))
        return bool(found) and min(found) > beyond

    wait_until(f"node {node} has a snapshot above {beyond}", installed)


def same_images(quorum: Quorum) -> int:
    """Hold what each node's snapshots contain against what the others' logs say of that moment.

    Returns how many pairs there were.
    """
    compared = 0
    logs = [controller.log for controller in quorum.controllers.values()]
    for theirs in logs:
        for end, path in snapshots(theirs).items():
            for ours in logs:
                starts = [at for at in snapshots(ours) if at < end]
                if ours == theirs or not starts:
                    continue
                start = snapshots(ours)[max(starts)]
                assert log_image(ours, end, start) == snapshot_image(path), (path, ours)
                compared += 1
    return compared


def leader_with_snapshot(quorum: Quorum, stack: ExitStack) -> tuple[int, list[str]]:
    """Start controllers 1 and 2; return the leader, once it has a snapshot, and its topics."""
    quorum.start(1, 2)
    leader = quorum.leader()
    ports = list(quorum.ports.values())
    broker = stack.enter_context(SilentBroker(BROKER, 9092, CLUSTER_ID, ports))
    assert broker.unfenced.wait(60)
    topics = write_until(quorum, "first", "a snapshot", lambda: latest(quorum, leader) > 0)
    return leader, topics


def brought_in_twice(quorum: Quorum, newcomer: int, leader: int) -> list[str]:
    """Let ``newcomer`` start with nothing, fall behind what is kept, return."""
    quorum.start(newcomer)
    wait_for_snapshot(quorum, newcomer, 0)
    fetched = oldest(quorum, newcomer)
    # The file is there a moment before the log is begun anew.
    wait_until("a log from there", lambda: first_offset(log_of(quorum, newcomer)) == fetched)

    quorum.wait_for_log(newcomer)

    quorum.kill(newcomer)
    behind = max(quorum.end_offsets().values())
    topics = write_until(
        quorum, "second", f"log cleaned above {behind}", lambda: oldest(quorum, leader) > behind
    )
    quorum.start(newcomer)
    wait_until("a newer snapshot", lambda: first_offset(log_of(quorum, newcomer)) > behind)
    quorum.wait_for_log(newcomer)
    return topics


def leads_with_everything(quorum: Quorum, newcomer: int, topics: list[str]) -> None:
    """Kill the leader; the newcomer takes over with all the metadata of its snapshot."""
    leader, next_leader = quorum.fail_over(quorum.kinds[newcomer])
    assert next_leader == newcomer
    for name in topics:
        assert quorum.has_topic(newcomer, name)
    quorum.start(leader)
    before = max(latest(quorum, newcomer), latest(quorum, leader))

    def both_made_one() -> bool:
        return min(latest(quorum, newcomer), latest(quorum, leader)) > before

    write_until(quorum, "third", "snapshots by both kinds", both_made_one)
    quorum.wait_for_log(leader)
    assert all(controller.running for controller in quorum.controllers.values())
    quorum.close()
    assert same_images(quorum) > 0


def test_ours_are_brought_in_by_a_snapshot_of_kafka(make_quorum: Callable[..., Quorum]) -> None:
    quorum = make_quorum(
        *(KAFKA, KAFKA, OURS),
        properties=PROPERTIES,
        by_kind={OURS: {**SLOWER, **KEPT}},
        format_options=RELEASE,
    )
    with quorum, ExitStack() as stack:
        leader, topics = leader_with_snapshot(quorum, stack)
        topics += brought_in_twice(quorum, 3, leader)
        leads_with_everything(quorum, 3, topics)


def test_kafka_is_brought_in_by_a_snapshot_of_ours(make_quorum: Callable[..., Quorum]) -> None:
    quorum = make_quorum(
        *(OURS, OURS, KAFKA),
        properties=PROPERTIES,
        by_kind={OURS: OFTEN, KAFKA: {**SLOWER, **KEPT}},
        format_options=RELEASE,
    )
    with quorum, ExitStack() as stack:
        leader, topics = leader_with_snapshot(quorum, stack)
        topics += brought_in_twice(quorum, 3, leader)
        leads_with_everything(quorum, 3, topics)

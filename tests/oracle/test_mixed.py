"""Controllers of Apache Kafka and ours in one static quorum: replication and fail-over.

Fetch timeouts decide which node succeeds a killed leader. The first nodes to give up get no
pre-votes from nodes that have recently heard from the leader. The last node to give up gets
them. So the kind with the longer timeout usually leads next; if not, it gets another chance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from kraftwreck.oracle.dump import our_dump
from kraftwreck.oracle.quorum import CLUSTER_ID, KAFKA, OURS, Quorum, wait_until
from kraftwreck.oracle.silent_broker import SilentBroker

pytestmark = pytest.mark.oracle
SLOWER = {"controller.quorum.fetch.timeout.ms": 3000}
RELEASE = ("--release-version", "4.0")
BROKER = 100


def topics_on_disk(quorum: Quorum, node: int) -> set[str]:
    """Return the names of all topics ever created, by the log of ``node``."""
    return {
        record.fields["name"]
        for path in quorum.controllers[node].log.glob("*.log")
        for batch in our_dump(path.read_bytes())
        for record in batch.records
        if record.name == "TopicRecord"
    }


def common_log(quorum: Quorum) -> bytes:
    """Return what all logs begin with; it is at least as long as the shortest but a batch."""
    logs = [
        b"".join(path.read_bytes() for path in sorted(controller.log.glob("*.log")))
        for controller in quorum.controllers.values()
    ]
    shortest = min(map(len, logs))
    assert len({log[:shortest] for log in logs}) == 1, "the logs differ"
    return logs[0][:shortest]


def all_have(quorum: Quorum, names: set[str]) -> None:
    for node in quorum.controllers:

        def has(node: int = node) -> bool:
            return names <= topics_on_disk(quorum, node)

        wait_until(f"{sorted(names)} in the log of {node}", has)


@pytest.fixture(scope="module")
def mostly_kafka(make_quorum: Callable[..., Quorum]) -> Iterator[Quorum]:
    quorum = make_quorum(KAFKA, KAFKA, OURS, by_kind={OURS: SLOWER}, format_options=RELEASE)
    with quorum:
        yield quorum


@pytest.fixture(scope="module")
def mostly_ours(make_quorum: Callable[..., Quorum]) -> Iterator[Quorum]:
    quorum = make_quorum(OURS, OURS, KAFKA, by_kind={KAFKA: SLOWER}, format_options=RELEASE)
    with quorum:
        yield quorum


def through_both_kinds(quorum: Quorum, majority: str, minority: str) -> None:
    """Let ``majority`` lead, then ``minority``, then ``majority`` again; each creates topics."""
    ports = list(quorum.ports.values())
    quorum.start(*quorum.of_kind(majority))
    quorum.leader()
    quorum.start(*quorum.of_kind(minority))
    with SilentBroker(BROKER, 9092, CLUSTER_ID, ports) as broker:
        assert broker.unfenced.wait(60), "the broker is unfenced"
        assert quorum.create_topic("first") == 0
        all_have(quorum, {"first"})

        dead, second = quorum.fail_over(minority)
        assert quorum.has_topic(second, "first")
        assert quorum.create_topic("second") == 0
        quorum.start(dead)
        all_have(quorum, {"first", "second"})

        dead, third = quorum.fail_over(majority)
        assert quorum.has_topic(third, "second")
        assert quorum.create_topic("third") == 0
        quorum.start(dead)
        all_have(quorum, {"first", "second", "third"})
    assert all(controller.running for controller in quorum.controllers.values())
    quorum.close()
    assert common_log(quorum)


def test_two_of_kafka_and_one_of_ours(mostly_kafka: Quorum) -> None:
    through_both_kinds(mostly_kafka, KAFKA, OURS)


def test_one_of_kafka_and_two_of_ours(mostly_ours: Quorum) -> None:
    through_both_kinds(mostly_ours, OURS, KAFKA)

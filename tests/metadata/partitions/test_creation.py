"""New partitions on registered brokers: CreateTopics and CreatePartitions."""

from __future__ import annotations

from typing import Any

import pytest

UNKNOWN, EXISTS, BAD_PARTITIONS, BAD_FACTOR, BAD_ASSIGNMENT = 3, 36, 37, 38, 39
BAD_NAME, BAD_REQUEST, POLICY = 17, 42, 44
UNASSIGNED, MIGRATING = (1).to_bytes(16, "big"), bytes(16)
DISK, OTHER_DISK = b"\x0a" * 16, b"\x0b" * 16


def create(cluster: Any, name: str = "t", **options: Any) -> int:
    topic = {"name": name, "num_partitions": -1, "replication_factor": -1, **options}
    code: int = cluster.call("CreateTopics", 7, {"topics": [topic]})["topics"][0]["error_code"]
    return code


def manual(*replicas: list[int]) -> dict[str, Any]:
    return {
        "assignments": [{"partition_index": i, "broker_ids": r} for i, r in enumerate(replicas)]
    }


def grow(cluster: Any, count: int, *assignments: list[int], name: str = "t", **options: Any) -> int:
    topic = {
        "name": name,
        "count": count,
        "assignments": [{"broker_ids": ids} for ids in assignments] or None,
    }
    body = {"topics": [topic], "validate_only": False, **options}
    code: int = cluster.call("CreatePartitions", 3, body)["results"][0]["error_code"]
    return code


def test_only_active_replicas_are_in_sync(cluster: Any) -> None:
    """KAFKA-13083, C03 planted; in controlled shutdown is as bad as fenced."""
    cluster.fence(2)
    cluster.shut_down(3)
    assert create(cluster, **manual([2, 3, 1, 4])) == 0
    partition = cluster.partition()
    assert (partition.isr, partition.leader) == ((1, 4), 1)
    assert partition.replicas == (2, 3, 1, 4)


def test_an_assignment_without_an_active_replica_is_refused(cluster: Any) -> None:
    cluster.fence(2)
    cluster.shut_down(3)
    assert create(cluster, **manual([1], [2])) == BAD_ASSIGNMENT
    assert create(cluster, **manual([3])) == BAD_ASSIGNMENT
    assert create(cluster, **manual([9])) == BAD_ASSIGNMENT, "not registered"


def test_brokers_in_controlled_shutdown_get_nothing_new(cluster: Any) -> None:
    cluster.shut_down(3)
    assert create(cluster, num_partitions=12, replication_factor=3) == 0
    assert all(3 not in cluster.partition("t", n).replicas for n in range(12))
    assert create(cluster, "u", replication_factor=4) == BAD_FACTOR


def test_fenced_brokers_fill_up_and_lead_nothing(cluster: Any) -> None:
    cluster.fence(3)
    assert create(cluster, num_partitions=12, replication_factor=4) == 0
    for number in range(12):
        partition = cluster.partition("t", number)
        assert sorted(partition.replicas) == [1, 2, 3, 4]
        assert sorted(partition.isr) == [1, 2, 4]
        assert partition.leader == partition.replicas[0] != 3


def test_with_all_brokers_fenced_nothing_is_created(cluster: Any) -> None:
    for broker in (1, 2, 3, 4):
        cluster.fence(broker)
    assert create(cluster) == BAD_FACTOR


def test_brokers_with_all_directories_cordoned_get_nothing_new(make_cluster: Any) -> None:
    cluster = make_cluster()
    cluster.register(1, directories=[DISK], cordoned=[DISK])
    cluster.register(2, directories=[DISK, OTHER_DISK], cordoned=[DISK])
    for broker in (1, 2):
        cluster.unfence(broker)
    assert create(cluster, num_partitions=4) == 0
    assert {cluster.partition("t", n).replicas for n in range(4)} == {(2,)}


def test_a_replica_gets_the_only_directory_of_its_broker(make_cluster: Any) -> None:
    cluster = make_cluster()
    for broker, directories in ((1, [DISK]), (2, [DISK, OTHER_DISK]), (3, [])):
        cluster.register(broker, directories=directories)
        cluster.unfence(broker)
    assert create(cluster, **manual([1, 2, 3])) == 0
    assert cluster.partition().directories == (DISK, UNASSIGNED, MIGRATING)


@pytest.mark.parametrize(
    ("level", "elr", "version"), [(16, False, 0), (25, False, 1), (25, True, 2)]
)
def test_the_record_is_that_of_the_metadata_version(
    make_cluster: Any, level: int, elr: bool, version: int
) -> None:
    cluster = make_cluster(level, elr, brokers=2)
    versions: list[int] = []
    write = cluster.write

    def watched(records: list[Any]) -> None:
        versions.extend(record[1] for record in records)
        write(records)

    cluster.write = watched
    assert create(cluster, **manual([1, 2])) == 0
    assert versions == [0, version]


def test_while_no_broker_is_registered_the_voters_hold_the_replicas(make_cluster: Any) -> None:
    cluster = make_cluster()
    assert create(cluster, num_partitions=3, replication_factor=3) == 0
    assert all(sorted(cluster.partition("t", n).isr) == [1, 2, 3] for n in range(3))
    assert create(cluster, "u", **manual([4])) == BAD_ASSIGNMENT
    assert cluster.reassign([2, 1]) == 0


def test_a_topic_grows(cluster: Any) -> None:
    create(cluster, num_partitions=2, replication_factor=2)
    assert grow(cluster, 5) == 0
    assert cluster.image.topics["t"].partitions == 5
    for number in range(5):
        partition = cluster.partition("t", number)
        assert len(partition.replicas) == 2
        assert (partition.isr, partition.leader) == (partition.replicas, partition.replicas[0])


def test_new_partitions_follow_manual_assignments(cluster: Any) -> None:
    create(cluster, **manual([1, 2]))
    cluster.fence(3)
    assert grow(cluster, 3, [4, 3], [3, 2]) == 0
    assert cluster.partition("t", 1).isr == (4,)
    assert (cluster.partition("t", 2).replicas, cluster.partition("t", 2).isr) == ((3, 2), (2,))


@pytest.mark.parametrize(
    ("count", "assignments", "code"),
    [
        (1, [], BAD_PARTITIONS),
        (0, [], BAD_PARTITIONS),
        (-1, [], BAD_PARTITIONS),
        (2**31 - 1, [], POLICY),
        (3, [[1, 2]], BAD_ASSIGNMENT),
        (2, [[1, 2], [1, 2]], BAD_ASSIGNMENT),
        (2, [[1]], BAD_ASSIGNMENT),
        (2, [[1, 1]], BAD_ASSIGNMENT),
        (2, [[1, 9]], BAD_ASSIGNMENT),
        (2, [[]], BAD_ASSIGNMENT),
        (2, [[3, 4]], BAD_ASSIGNMENT),
    ],
)
def test_growth_that_cannot_be(
    cluster: Any, count: int, assignments: list[list[int]], code: int
) -> None:
    create(cluster, **manual([1, 2]))
    for broker in (3, 4):
        cluster.fence(broker)
    assert grow(cluster, count, *assignments) == code
    assert cluster.image.topics["t"].partitions == 1


def test_growth_needs_enough_brokers_and_a_topic(cluster: Any) -> None:
    create(cluster, **manual([1, 2]))
    assert grow(cluster, 2, name="x") == UNKNOWN
    for broker in (1, 2, 3, 4):
        cluster.fence(broker)
    assert grow(cluster, 2) == BAD_FACTOR


def test_growth_has_the_factor_that_a_reassignment_leads_to(cluster: Any) -> None:
    create(cluster, **manual([1, 2]))
    cluster.reassign([3, 4])
    assert grow(cluster, 2) == 0
    assert len(cluster.partition("t", 1).replicas) == 2


def test_growth_may_be_tried_only(cluster: Any) -> None:
    create(cluster)
    assert grow(cluster, 4, validate_only=True) == 0
    assert cluster.image.topics["t"].partitions == 1


def test_a_topic_named_twice_does_not_grow(cluster: Any) -> None:
    create(cluster)
    topics = [{"name": "t", "count": count, "assignments": None} for count in (2, 3)]
    answer = cluster.call("CreatePartitions", 3, {"topics": topics})
    assert [result["error_code"] for result in answer["results"]] == [BAD_REQUEST] * 2


def test_names_exist_once_and_collide(cluster: Any) -> None:
    assert create(cluster, "a.b") == 0
    assert create(cluster, "a.b") == EXISTS
    assert create(cluster, "a_b") == BAD_NAME
    assert create(cluster, "ab") == 0


def test_deletion_takes_partitions_and_configurations_along(cluster: Any) -> None:
    create(cluster, configs=[{"name": "retention.ms", "value": "7"}])
    topics = [{"name": "t"}]
    cluster.call("DeleteTopics", 6, {"topics": topics})
    assert not cluster.image.topics
    assert not cluster.image.partitions
    assert not cluster.image.configs

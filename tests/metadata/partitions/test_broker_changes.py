"""Changes of partitions when a broker comes or goes, on golden examples."""

from __future__ import annotations

from typing import Any

import pytest

from kraftwreck.nodes.metadata.partition_change import (
    changes_for_removed_directories,
    changes_for_unclean,
    changes_for_unregistered,
)

DISK, OTHER_DISK = b"\x0a" * 16, b"\x0b" * 16


def test_a_fenced_broker_leads_nothing_and_is_in_no_isr(cluster: Any) -> None:
    cluster.topic("t", [1, 2], [2, 1], [3, 4])
    cluster.fence(1)
    found = [cluster.partition("t", n) for n in range(3)]
    assert [(p.leader, p.isr) for p in found] == [(2, (2,)), (2, (2,)), (3, (3, 4))]
    assert [(p.leader_epoch, p.partition_epoch) for p in found] == [(1, 1), (0, 1), (0, 0)]


def test_the_records_go_before_the_fencing_and_after_the_unfencing(cluster: Any) -> None:
    cluster.topic("t", [1])
    cluster.fence(1)
    cluster.unfence(1)
    names = [[name for name, _ in batch] for batch in cluster.batches[-2:]]
    change, broker = "PartitionChangeRecord", "BrokerRegistrationChangeRecord"
    assert names == [[change, broker], [broker, change]]


def test_the_last_member_of_an_isr_waits_in_it(cluster: Any) -> None:
    """C20 planted: no other broker that returns may lead."""
    cluster.topic("t", [1, 2])
    cluster.fence(2)
    cluster.fence(1)
    assert (cluster.partition().leader, cluster.partition().isr) == (-1, (1,))
    cluster.unfence(2)
    assert (cluster.partition().leader, cluster.partition().isr) == (-1, (1,))
    cluster.unfence(1)
    assert (cluster.partition().leader, cluster.partition().isr) == (1, (1,))


def test_a_broker_going_down_that_is_fenced_in_the_end_changes_nothing_twice(cluster: Any) -> None:
    cluster.topic("t", [1, 2])
    cluster.shut_down(1)
    after = cluster.partition()
    assert (after.leader, after.isr) == (2, (2,))
    cluster.fence(1)
    assert cluster.partition() == after


def test_two_brokers_that_go_one_after_the_other(cluster: Any) -> None:
    """KAFKA-13173, C02 planted: the second never inherits what the first has left."""
    cluster.topic("t", [1, 2, 3])
    cluster.fence(1)
    cluster.fence(2)
    assert (cluster.partition().leader, cluster.partition().isr) == (3, (3,))


def test_eligible_replicas_come_in_the_order_of_the_fences(make_cluster: Any) -> None:
    cluster = make_cluster(elr=True, brokers=3)
    cluster.topic("t", [1, 2, 3], min_insync_replicas="2")
    seen = []
    for broker in (3, 1, 2):
        cluster.fence(broker)
        p = cluster.partition()
        seen.append((p.leader, p.isr, p.elr, p.last_known_elr))
    assert seen == [
        (1, (1, 2), (), ()),
        (2, (2,), (1,), ()),
        (-1, (), (1, 2), (2,)),
    ]
    cluster.unfence(3)
    assert cluster.partition().leader == -1, "it was gone before the others"
    cluster.unfence(1)
    p = cluster.partition()
    assert (p.leader, p.isr, p.elr, p.last_known_elr) == (1, (1,), (2,), ())
    assert p.recovery_state == 0, "nothing was lost"


def test_an_unclean_restart_is_eligible_for_nothing(make_cluster: Any) -> None:
    """C21 planted."""
    cluster = make_cluster(elr=True, brokers=2)
    cluster.topic("t", [1, 2], min_insync_replicas="2")
    cluster.fence(1)
    assert cluster.partition().elr == (1,)
    cluster.restart(1, clean=False)
    assert cluster.partition().elr == ()
    cluster.fence(2)
    cluster.unfence(1)
    assert cluster.partition().leader == -1


def test_a_clean_restart_stays_eligible(make_cluster: Any) -> None:
    cluster = make_cluster(elr=True, brokers=2)
    cluster.topic("t", [1, 2], min_insync_replicas="2")
    cluster.fence(1)
    cluster.restart(1, clean=True)
    cluster.fence(2)
    cluster.unfence(1)
    assert cluster.partition().leader == 1


def test_the_uncleanly_lost_last_leader_leads_as_a_last_resort(make_cluster: Any) -> None:
    cluster = make_cluster(elr=True, brokers=2)
    cluster.topic("t", [1, 2], min_insync_replicas="2")
    cluster.fence(2)
    cluster.restart(2, clean=False)
    cluster.restart(1, clean=False)
    p = cluster.partition()
    assert (p.leader, p.isr, p.elr, p.last_known_elr) == (-1, (), (), (1,))
    cluster.unfence(2)
    assert cluster.partition().leader == -1, "KAFKA-19522: the last leader is not up"
    cluster.unfence(1)
    p = cluster.partition()
    assert (p.leader, p.isr, p.recovery_state, p.last_known_elr) == (1, (1,), 1, ())


def test_without_eligible_replicas_unclean_is_as_clean(cluster: Any) -> None:
    cluster.topic("t", [1, 2])
    [(_, _, fields)] = changes_for_unclean(cluster.context(), 1)
    assert (fields["isr"], fields["leader"]) == ([2], 2)


def test_an_unregistered_broker_is_in_no_elr(make_cluster: Any) -> None:
    cluster = make_cluster(elr=True, brokers=2)
    cluster.topic("t", [1, 2], min_insync_replicas="2")
    cluster.fence(1)
    cluster.write(changes_for_unregistered(cluster.context(), 1))
    assert cluster.partition().elr == ()


@pytest.mark.parametrize("online", [[OTHER_DISK], []])
def test_replicas_in_a_directory_that_went_offline(make_cluster: Any, online: list[bytes]) -> None:
    cluster = make_cluster()
    for broker in (1, 2):
        cluster.register(broker, directories=[DISK])
        cluster.unfence(broker)
    cluster.topic("t", [1, 2], [2, 1])
    records = changes_for_removed_directories(cluster.context(), 1, online)
    cluster.write(records)
    found = [cluster.partition("t", n) for n in range(2)]
    assert [(p.leader, p.isr) for p in found] == [(2, (2,)), (2, (2,))]
    assert changes_for_removed_directories(cluster.context(), 2, [DISK]) == []


def test_a_replica_in_an_offline_directory_does_not_lead(make_cluster: Any) -> None:
    cluster = make_cluster()
    cluster.register(1, directories=[DISK])
    cluster.unfence(1)
    cluster.topic("t", [1])
    cluster.fence(1)
    cluster.register(1, directories=[OTHER_DISK])
    cluster.unfence(1)
    assert cluster.partition().leader == -1
    cluster.fence(1)
    cluster.register(1, directories=[DISK])
    cluster.unfence(1)
    assert cluster.partition().leader == 1

"""Each controller invariant: a log that keeps it, and one that breaks it, called by its id."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraftwreck.checkers.kraft.invariants import check
from kraftwreck.checkers.kraft.recorded.capture import Capture
from kraftwreck.checkers.recorded.run_data import RunData
from tests.checkers.breaks import broken


def status(run: RunData, invariant: str) -> str:
    return str(check(run).stats["invariants"][invariant]["status"])


def test_a_correct_life_of_brokers_and_partitions_is_valid(
    cluster: Any, records: Any, make_run: Callable[..., Any]
) -> None:
    epochs = cluster.epochs
    # Broker 1 is fenced, comes back, is restarted; the partition is reassigned to 2, 3.
    cluster.write(records.change(isr=[2, 3], leader=2), records.fence(1, epochs[1], 1))
    cluster.write(records.fence(1, epochs[1], -1))
    cluster.write(records.change(isr=[2, 3, 1]))
    again = cluster._end("n1")
    cluster.write(records.change(isr=[2]), records.register(1, again, incarnation=2))
    cluster.write(records.change(replicas=[2, 3, 1], removing_replicas=[1]))
    cluster.write(records.change(replicas=[2, 3], isr=[2, 3], leader=2, removing_replicas=[]))
    cluster.write(
        records.record(
            "ProducerIdsRecord", broker_id=2, broker_epoch=epochs[2], next_producer_id=1000
        )
    )
    cluster.write(records.remove_topic())
    result = check(make_run(None, cluster))
    assert (result.valid, result.anomalies) == (True, [])
    for invariant in ("C1", "C2", "C3", "C4", "C5", "C6", "C10", "C11", "C14", "I23"):
        assert result.stats["invariants"][invariant]["status"] == "checked", invariant


def test_without_brokers_their_invariants_are_not_checked(
    quorum: Any, records: Any, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    quorum.write(records.topic(), records.partition([1, 2, 3]))
    run = make_run(None, quorum)
    assert status(run, "C1") == status(run, "C3") == status(run, "C16") == "not checked"
    assert status(run, "C4") == "checked"
    assert check(run).valid is True


def test_c1_an_epoch_that_is_not_its_offset(
    cluster: Any, records: Any, make_run: Callable[..., Any]
) -> None:
    offset = cluster.write(records.register(4, cluster._end("n1") + 7))
    run = make_run(None, cluster)
    assert broken(run) == {"C1"}
    [event] = check(run).anomalies[0].events
    assert (event["node"], event["kind"], event["detail"]["base"]) == ("n1", "append", offset)


def test_c1_an_epoch_that_goes_back(
    cluster: Any, records: Any, make_run: Callable[..., Any]
) -> None:
    cluster.write(records.change(isr=[1, 2]), records.register(3, 1, incarnation=2))
    assert broken(make_run(None, cluster)) == {"C1"}


def test_c2_a_record_of_a_stale_epoch(
    cluster: Any, records: Any, make_run: Callable[..., Any]
) -> None:
    cluster.write(records.fence(3, 1, 1))
    assert broken(make_run(None, cluster)) == {"C2"}


def test_c2_producer_ids_for_a_stale_epoch(
    cluster: Any, records: Any, make_run: Callable[..., Any]
) -> None:
    cluster.write(
        records.record("ProducerIdsRecord", broker_id=2, broker_epoch=1, next_producer_id=1000)
    )
    assert broken(make_run(None, cluster)) == {"C2"}


def test_c3_a_fenced_broker_stays_in_the_isr(
    cluster: Any, records: Any, make_run: Callable[..., Any]
) -> None:
    cluster.write(records.fence(3, cluster.epochs[3], 1))
    assert broken(make_run(None, cluster)) == {"C3"}


def test_c3_the_last_member_may_stay(
    cluster: Any, records: Any, make_run: Callable[..., Any]
) -> None:
    cluster.write(records.change(isr=[1]))
    cluster.write(records.change(leader=-1), records.fence(1, cluster.epochs[1], 1))
    assert broken(make_run(None, cluster)) == set()


def test_c3_a_fenced_broker_joins_the_isr(
    cluster: Any, records: Any, make_run: Callable[..., Any]
) -> None:
    cluster.write(records.change(isr=[1, 2]), records.fence(3, cluster.epochs[3], 1))
    cluster.write(records.change(isr=[1, 2, 3]))
    assert broken(make_run(None, cluster)) == {"C3"}


def test_c4_a_leader_outside_of_the_isr(
    cluster: Any, records: Any, make_run: Callable[..., Any]
) -> None:
    cluster.write(records.change(isr=[2, 3]))
    assert broken(make_run(None, cluster)) == {"C4"}


def test_c4_a_fenced_leader(cluster: Any, records: Any, make_run: Callable[..., Any]) -> None:
    cluster.write(records.change(isr=[1]))
    cluster.write(records.change(leader=-1), records.fence(1, cluster.epochs[1], 1))
    cluster.write(records.change(leader=1))
    assert broken(make_run(None, cluster)) == {"C4"}


def test_c4_no_leader_although_a_replica_could_lead(
    cluster: Any, records: Any, make_run: Callable[..., Any]
) -> None:
    cluster.write(records.change(isr=[2, 3], leader=-1), records.fence(1, cluster.epochs[1], 1))
    assert broken(make_run(None, cluster)) == {"C4"}


@pytest.mark.parametrize("loose", [True, False])
def test_c4_an_unclean_leader_is_elected_if_allowed(
    cluster: Any, records: Any, make_run: Callable[..., Any], loose: bool
) -> None:
    cluster.write(records.config("t", "unclean.leader.election.enable", str(loose).lower()))
    cluster.write(records.change(isr=[1]))
    cluster.write(records.change(leader=-1), records.fence(1, cluster.epochs[1], 1))
    assert broken(make_run(None, cluster)) == ({"C4"} if loose else set())


def test_c4_no_leader_although_the_last_member_has_returned(
    cluster: Any, records: Any, make_run: Callable[..., Any]
) -> None:
    cluster.write(records.change(isr=[1]))
    cluster.write(records.change(leader=-1), records.fence(1, cluster.epochs[1], 1))
    cluster.write(records.fence(1, cluster.epochs[1], -1))
    assert broken(make_run(None, cluster)) == {"C4"}


@pytest.mark.parametrize(
    "change",
    [
        {"isr": [1, 2], "leader": 1},
        {"replicas": [1, 2], "isr": [1, 2]},
    ],
    ids=["an epoch for nothing", "a replica goes without one"],
)
def test_c5_the_leader_epoch(
    cluster: Any, records: Any, make_run: Callable[..., Any], change: dict[str, Any]
) -> None:
    cluster.write(records.feature("metadata.version", 25), records.change(**change))
    assert broken(make_run(None, cluster)) == {"C5"}


@pytest.mark.parametrize(("level", "right"), [(11, False), (12, True)])
def test_c5_a_smaller_isr_keeps_the_leader_epoch_from_level_12_on(
    cluster: Any, records: Any, make_run: Callable[..., Any], level: int, right: bool
) -> None:
    cluster.write(records.feature("metadata.version", level), records.change(isr=[1]))
    assert ("C5" in broken(make_run(None, cluster))) is not right


def test_c5_a_partition_is_created_twice(
    cluster: Any, records: Any, make_run: Callable[..., Any]
) -> None:
    cluster.write(records.partition([1, 2, 3]))
    assert broken(make_run(None, cluster)) == {"C5"}


def test_c6_an_unclean_leader(cluster: Any, records: Any, make_run: Callable[..., Any]) -> None:
    cluster.write(records.change(isr=[1]))
    fenced = records.fence(1, cluster.epochs[1], 1)
    unclean = records.change(isr=[2], leader=2, leader_recovery_state=1)
    cluster.write(records.change(leader=-1), fenced)
    cluster.write(unclean)
    assert broken(make_run(None, cluster)) == {"C6"}


def test_c6_an_unclean_leader_that_is_allowed(
    cluster: Any, records: Any, make_run: Callable[..., Any]
) -> None:
    cluster.write(records.change(isr=[1]))
    cluster.write(records.change(leader=-1), records.fence(1, cluster.epochs[1], 1))
    cluster.write(records.config("t", "unclean.leader.election.enable", "true"))
    cluster.write(records.change(isr=[2], leader=2, leader_recovery_state=1))
    assert broken(make_run(None, cluster)) == set()


@pytest.mark.parametrize("eligible", [True, False])
def test_c4_the_last_member_leaves_the_isr(
    cluster: Any, records: Any, make_run: Callable[..., Any], eligible: bool
) -> None:
    """Without eligible leader replicas it would be unknown which replica has the data."""
    if eligible:
        cluster.write(records.feature("eligible.leader.replicas.version", 1))
    for isr in ([1, 2], [1]):
        cluster.write(records.change(isr=isr))
    last: dict[str, Any] = {"isr": [], "leader": -1}
    if eligible:
        last["eligible_leader_replicas"] = [1]
    cluster.write(records.change(**last), records.fence(1, cluster.epochs[1], 1))
    assert broken(make_run(None, cluster)) == (set() if eligible else {"C4"})


def elected_uncleanly(cluster: Any, records: Any) -> None:
    """Elect a leader of topic t from outside the ISR, which its settings do not allow."""
    cluster.write(records.change(isr=[1]))
    cluster.write(records.change(leader=-1), records.fence(1, cluster.epochs[1], 1))
    cluster.write(records.change(isr=[2], leader=2, leader_recovery_state=1))


@pytest.mark.parametrize(
    ("kind", "key", "allowed"), [(1, "t", True), (0, "t", False), (1, "other", False)]
)
def test_c6_an_unclean_leader_that_was_asked_for(
    cluster: Any,
    records: Any,
    history: Any,
    make_run: Callable[..., Any],
    kind: int,
    key: str,
    allowed: bool,
) -> None:
    history.did(0, "elect", kind, key=key)
    elected_uncleanly(cluster, records)
    assert broken(make_run(history, cluster)) == (set() if allowed else {"C6"})


@pytest.mark.parametrize(
    ("kind", "topics", "allowed"),
    [(1, ["t"], True), (1, None, True), (0, ["t"], False), (1, ["other"], False)],
)
def test_c6_permission_is_a_request_whatever_the_operation_was_called(
    cluster: Any,
    records: Any,
    capture: Capture,
    make_run: Callable[..., Any],
    kind: int,
    topics: list[str] | None,
    allowed: bool,
) -> None:
    """An answer is not needed: the request may be carried out without one."""
    wanted = None if topics is None else [{"topic": t, "partitions": [0]} for t in topics]
    body = {"election_type": kind, "topic_partitions": wanted, "timeout_ms": 1000}
    capture.api(0, -1, 1, "ElectLeaders", body, None, 0)
    elected_uncleanly(cluster, records)
    run = make_run(None, cluster, capture=capture, simulated=True)
    assert ("C6" not in broken(run)) == allowed


@pytest.mark.parametrize(
    ("simulated", "dropped", "allowed"), [(True, 0, False), (True, 1, True), (False, 0, True)]
)
def test_c6_an_operation_is_a_permission_where_requests_may_be_missing(
    cluster: Any,
    records: Any,
    history: Any,
    capture: Capture,
    make_run: Callable[..., Any],
    simulated: bool,
    dropped: int,
    allowed: bool,
) -> None:
    history.did(0, "elect", 1, key="t")
    capture.dropped = dropped
    elected_uncleanly(cluster, records)
    run = make_run(history, cluster, capture=capture, simulated=simulated)
    assert ("C6" not in broken(run)) == allowed


def test_c6_a_replica_that_one_reassignment_added_and_another_kept(
    cluster: Any, records: Any, make_run: Callable[..., Any]
) -> None:
    """The leader proposes an ISR with it, which completes the second and makes it leader."""
    epoch = cluster._end("n1")
    cluster.write(records.register(4, epoch))
    cluster.write(records.fence(4, epoch, -1))
    moving = {"replicas": [4, 3, 1, 2], "adding_replicas": [4], "removing_replicas": [1, 2]}
    cluster.write(records.change(**moving))
    cluster.write(records.change(replicas=[4, 1, 2, 3], adding_replicas=[], removing_replicas=[1]))
    done = {"replicas": [4, 2, 3], "isr": [4, 2, 3], "leader": 4}
    cluster.write(records.change(**done, adding_replicas=[], removing_replicas=[]))
    assert broken(make_run(None, cluster)) == set()


def test_c10_a_topic_that_exists_is_created_again(
    cluster: Any, records: Any, make_run: Callable[..., Any]
) -> None:
    cluster.write(records.topic("t", bytes(15) + b"\x77"))
    assert broken(make_run(None, cluster)) == {"C10"}


@pytest.mark.parametrize(
    ("names", "wrong"),
    [
        (("a.b", "a_b"), True),
        (("a_b_c", "a.b_c"), True),
        (("a.b", "a-b"), False),
        (("a.b", "a_bc"), False),
        (("a.b", "A_b"), False),
    ],
)
def test_c10_two_topics_differ_in_more_than_dots_and_underscores(
    cluster: Any, records: Any, make_run: Callable[..., Any], names: tuple[str, str], wrong: bool
) -> None:
    for number, name in enumerate(names):
        cluster.write(records.topic(name, bytes(15) + bytes([100 + number])))
    assert broken(make_run(None, cluster)) == ({"C10"} if wrong else set())


def test_c10_a_name_is_free_once_the_topic_that_it_collides_with_is_deleted(
    cluster: Any, records: Any, make_run: Callable[..., Any]
) -> None:
    cluster.write(records.topic("a.b", bytes(15) + b"\x66"))
    cluster.write(records.remove_topic(bytes(15) + b"\x66"))
    cluster.write(records.topic("a_b", bytes(15) + b"\x67"))
    assert broken(make_run(None, cluster)) == set()


def test_c11_a_topic_id_is_used_again(
    cluster: Any, records: Any, make_run: Callable[..., Any]
) -> None:
    cluster.write(records.remove_topic())
    cluster.write(records.topic("u"))
    assert broken(make_run(None, cluster)) == {"C11"}


def test_c11_producer_ids_go_back(cluster: Any, records: Any, make_run: Callable[..., Any]) -> None:
    for following in (2000, 1000):
        cluster.write(
            records.record(
                "ProducerIdsRecord",
                broker_id=2,
                broker_epoch=cluster.epochs[2],
                next_producer_id=following,
            )
        )
    assert broken(make_run(None, cluster)) == {"C11"}


def test_c12_transactions_that_are_none(
    cluster: Any, records: Any, make_run: Callable[..., Any]
) -> None:
    cluster.write(records.record("BeginTransactionRecord"), records.topic("u", b"u" * 16))
    cluster.write(records.record("AbortTransactionRecord"))
    run = make_run(None, cluster)
    assert (broken(run), status(run, "C12")) == (set(), "checked")
    cluster.write(records.record("EndTransactionRecord"))
    assert broken(make_run(None, cluster)) == {"C12"}


def test_records_of_an_aborted_transaction_are_ignored(
    cluster: Any, records: Any, make_run: Callable[..., Any]
) -> None:
    for _ in range(2):
        cluster.write(records.record("BeginTransactionRecord"), records.topic("u", b"u" * 16))
        cluster.write(records.record("AbortTransactionRecord"))
    assert broken(make_run(None, cluster)) == set()


def test_i23_a_record_that_contradicts_the_state(
    cluster: Any, records: Any, make_run: Callable[..., Any]
) -> None:
    cluster.write(records.remove_topic(b"?" * 16))
    result = check(make_run(None, cluster))
    assert {anomaly.type for anomaly in result.anomalies} == {"I23"}
    assert "does not exist" in result.anomalies[0].explanation


def test_i23_bytes_that_are_no_record(
    cluster: Any, records: Any, make_run: Callable[..., Any]
) -> None:
    cluster.write(b"\x01\x7f\x00rubbish")
    assert broken(make_run(None, cluster)) == {"I23"}

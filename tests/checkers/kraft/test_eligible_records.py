"""C7, eligible leader replicas (KIP-966): a log that keeps them right, and one that does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.checkers.breaks import broken


def test_c7_isr_and_elr_meet(cluster: Any, records: Any, make_run: Callable[..., Any]) -> None:
    cluster.write(records.feature("eligible.leader.replicas.version", 1))
    cluster.write(records.change(isr=[1], eligible_leader_replicas=[1, 2]))
    assert broken(make_run(None, cluster)) == {"C7"}


def test_c7_a_large_isr_with_an_elr(
    cluster: Any, records: Any, make_run: Callable[..., Any]
) -> None:
    cluster.write(records.feature("eligible.leader.replicas.version", 1))
    cluster.write(records.config("t", "min.insync.replicas", "2"), records.clear_elr("t"))
    cluster.write(records.change(isr=[1], eligible_leader_replicas=[2, 3]))
    assert broken(make_run(None, cluster)) == set()
    cluster.write(records.change(isr=[1, 2], eligible_leader_replicas=[3]))
    assert broken(make_run(None, cluster)) == {"C7"}


@pytest.mark.parametrize(
    ("elr", "recovery", "right"),
    [([2, 3], None, True), ([2], None, False), ([], None, False), ([], 1, True)],
    ids=["both", "one", "none", "an unclean election"],
)
@pytest.mark.parametrize("topics_own", [True, False])
def test_c7_a_replica_that_leaves_a_too_small_isr_stays_eligible(
    cluster: Any,
    records: Any,
    make_run: Callable[..., Any],
    topics_own: bool,
    elr: list[int],
    recovery: int | None,
    right: bool,
) -> None:
    cluster.write(records.feature("eligible.leader.replicas.version", 1))
    least = records.config("t", "min.insync.replicas", "2" if topics_own else "1")
    cluster.write(least, records.clear_elr("t"))
    more = {} if recovery is None else {"leader_recovery_state": recovery, "leader": 1}
    cluster.write(records.change(isr=[1], eligible_leader_replicas=elr, **more))
    found = "C7" in broken(make_run(None, cluster))
    assert found == (not right if topics_own else bool(elr)), "one of one is enough"


@pytest.mark.parametrize(
    ("known", "right"), [(None, True), ([1], True), ([-1], False), ([], False)]
)
def test_c7_the_last_known_leader_is_kept_without_a_leader(
    cluster: Any, records: Any, make_run: Callable[..., Any], known: list[int] | None, right: bool
) -> None:
    cluster.write(records.feature("eligible.leader.replicas.version", 1))
    cluster.write(
        records.change(isr=[], leader=-1, eligible_leader_replicas=[2], last_known_elr=[1])
    )
    more = {} if known is None else {"last_known_elr": known}
    cluster.write(records.change(eligible_leader_replicas=[], **more))
    assert ("C7" in broken(make_run(None, cluster))) != right


@pytest.mark.parametrize("cleared", [True, False])
def test_c7_the_last_known_leader_is_cleared_by_an_election(
    cluster: Any, records: Any, make_run: Callable[..., Any], cleared: bool
) -> None:
    cluster.write(records.feature("eligible.leader.replicas.version", 1))
    cluster.write(records.change(isr=[], leader=-1, last_known_elr=[1]))
    more: dict[str, Any] = {"last_known_elr": []} if cleared else {}
    cluster.write(records.change(isr=[1], leader=1, leader_recovery_state=1, **more))
    assert ("C7" in broken(make_run(None, cluster))) != cleared


def test_c7_a_broker_that_lost_its_disk_is_not_eligible(
    cluster: Any, records: Any, make_run: Callable[..., Any]
) -> None:
    cluster.write(records.feature("eligible.leader.replicas.version", 1))
    cluster.write(records.config("t", "min.insync.replicas", "3"), records.clear_elr("t"))
    again = records.register(3, cluster._end("n1"), incarnation=2)
    cluster.write(again, records.change(isr=[1, 2]))
    assert "C7" not in broken(make_run(None, cluster))


def test_c7_an_elr_of_no_replicas(cluster: Any, records: Any, make_run: Callable[..., Any]) -> None:
    cluster.write(records.feature("eligible.leader.replicas.version", 1))
    cluster.write(records.change(isr=[1, 2], eligible_leader_replicas=[3]))
    assert broken(make_run(None, cluster)) == set()
    cluster.write(records.change(eligible_leader_replicas=[3, 4]))
    assert broken(make_run(None, cluster)) == {"C7"}


@pytest.mark.parametrize("stays", [True, False])
def test_c7_an_unregistered_broker_is_not_eligible(
    cluster: Any, records: Any, make_run: Callable[..., Any], stays: bool
) -> None:
    cluster.write(records.feature("eligible.leader.replicas.version", 1))
    cluster.write(records.change(isr=[1], eligible_leader_replicas=[2, 3]))
    gone = records.record("UnregisterBrokerRecord", broker_id=3, broker_epoch=cluster.epochs[3])
    cluster.write(*([] if stays else [records.change(eligible_leader_replicas=[2])]), gone)
    assert broken(make_run(None, cluster)) == ({"C7"} if stays else set())


@pytest.mark.parametrize(
    ("cleared", "right"), [(None, False), ("t", True), ("", True), ("other", False)]
)
def test_c7_another_least_number_of_replicas_in_sync_clears_the_elr(
    cluster: Any, records: Any, make_run: Callable[..., Any], cleared: str | None, right: bool
) -> None:
    setting = records.config("t", "min.insync.replicas", "2")
    cluster.write(setting)
    assert broken(make_run(None, cluster)) == set(), "nobody keeps eligible leaders yet"
    cluster.write(records.feature("eligible.leader.replicas.version", 1))
    cluster.write(
        records.config("t", "min.insync.replicas", "3"),
        *([] if cleared is None else [records.clear_elr(cleared)]),
    )
    assert broken(make_run(None, cluster)) == (set() if right else {"C7"})


@pytest.mark.parametrize("cleared", ["", "t"])
def test_c7_the_least_number_of_all_topics_clears_the_elr_of_all(
    cluster: Any, records: Any, make_run: Callable[..., Any], cleared: str
) -> None:
    cluster.write(records.feature("eligible.leader.replicas.version", 1))
    setting = records.record(
        "ConfigRecord", resource_type=4, resource_name="", name="min.insync.replicas", value="2"
    )
    cluster.write(setting, records.clear_elr(cleared))
    assert broken(make_run(None, cluster)) == ({"C7"} if cleared else set())


def test_c7_a_topic_that_begins_has_no_elr_to_clear(
    cluster: Any, records: Any, make_run: Callable[..., Any]
) -> None:
    cluster.write(records.feature("eligible.leader.replicas.version", 1))
    other = bytes(15) + b"\x77"
    cluster.write(records.topic("u", other), records.config("u", "min.insync.replicas", "2"))
    assert broken(make_run(None, cluster)) == set()


@pytest.mark.parametrize(
    ("mode", "least", "isr", "elr", "right"),
    [
        ("quorum", "1", [1], [2, 3], True),
        ("quorum", "1", [1], [], False),
        ("quorum", "1", [1, 2], [], True),
        ("quorum", "1", [1, 2], [3], False),
        ("isr", "1", [1], [], True),
        ("quorum", "3", [1], [], False),
    ],
)
def test_c7_a_quorum_needs_a_majority_whatever_min_insync_replicas_says(
    cluster: Any,
    records: Any,
    make_run: Callable[..., Any],
    mode: str,
    least: str,
    isr: list[int],
    elr: list[int],
    right: bool,
) -> None:
    cluster.write(records.feature("eligible.leader.replicas.version", 1))
    cluster.write(records.config("t", "min.insync.replicas", least), records.clear_elr("t"))
    cluster.write(records.config("t", "commit.mode", mode))
    cluster.write(records.change(isr=isr, eligible_leader_replicas=elr))
    assert ("C7" in broken(make_run(None, cluster))) != right


@pytest.mark.parametrize(
    ("isr", "elr", "right"),
    [([1], [], True), ([1], [2], False), ([], [2], False), ([], [], True)],
)
def test_c7_with_the_feature_off_a_change_leaves_no_elr(
    cluster: Any,
    records: Any,
    make_run: Callable[..., Any],
    isr: list[int],
    elr: list[int],
    right: bool,
) -> None:
    cluster.write(records.feature("eligible.leader.replicas.version", 1))
    cluster.write(records.change(isr=[1], eligible_leader_replicas=[2]))
    cluster.write(records.feature("eligible.leader.replicas.version", 0))
    cluster.write(records.change(isr=isr, eligible_leader_replicas=elr, leader=-1))
    assert ("C7" in broken(make_run(None, cluster))) is not right


@pytest.mark.parametrize(("elr", "right"), [([2], True), ([], True), ([2, 3], False)])
def test_c7_without_an_isr_the_members_from_before_may_stay(
    cluster: Any, records: Any, make_run: Callable[..., Any], elr: list[int], right: bool
) -> None:
    cluster.write(records.feature("eligible.leader.replicas.version", 1))
    cluster.write(records.change(isr=[], eligible_leader_replicas=[2], leader=-1))
    cluster.write(records.feature("eligible.leader.replicas.version", 0))
    cluster.write(records.change(isr=[], eligible_leader_replicas=elr, leader=-1))
    assert ("C7" in broken(make_run(None, cluster))) is not right

"""L1 to L8: rules after the last fault, and runs that are too short to judge them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraftwreck.checkers.kraft.invariants import check
from kraftwreck.checkers.recorded.run_data import RunData
from tests.checkers.breaks import broken

L = ("L1", "L2", "L3", "L4", "L5", "L6", "L7")


def listed(run: RunData, invariant: str) -> dict[str, Any]:
    found: dict[str, Any] = check(run).stats["invariants"][invariant]
    return found


def watch(quorum: Any, seconds: float, *nodes: str) -> None:
    """Let time pass; ``nodes`` write a trace event at its end."""
    quorum.time += seconds
    for node in nodes:
        quorum.event(node, "hw")


def test_all_follow_one_leader(quorum: Any, make_run: Callable[..., Any]) -> None:
    quorum.one_epoch()
    watch(quorum, 41, "n2")
    run = make_run(None, quorum)
    assert broken(run) == set()
    for invariant in ("L1", "L2", "L4", "L7"):
        assert listed(run, invariant)["status"] == "checked", invariant


def test_a_short_run_is_not_judged(quorum: Any, make_run: Callable[..., Any]) -> None:
    quorum.one_epoch()
    quorum.event("n2", "state", {"from": "follower"}, state="prospective", leader=-1)
    run = make_run(None, quorum)
    assert broken(run) == set()
    for invariant in ("L1", "L4", "L7"):
        assert listed(run, invariant)["status"] == "not checked", invariant


def test_a_fault_that_never_ended_leaves_liveness_open(
    quorum: Any, make_run: Callable[..., Any], make_fault: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    run = make_run(None, quorum, faults=make_fault(1, "kill", 1, None, "n1"))
    for invariant in L:
        assert listed(run, invariant)["why"] == "a fault never ended", invariant


def resign(quorum: Any) -> None:
    """n1 resigns, as it does when the harness sends it SIGTERM, and dies before it traces more."""
    quorum.event("n1", "state", {"from": "leader"}, state="resigned")
    quorum.event("n2", "state", {"from": "follower"}, state="prospective", leader=-1)


def test_nodes_that_stop_after_the_judged_time_are_not_judged(
    quorum: Any, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    watch(quorum, 41, "n2")
    ended = int(quorum.time * 1e9)
    resign(quorum)
    run = make_run(None, quorum, judged_until=ended)
    assert broken(run) == set()
    for invariant in ("L1", "L2", "L4", "L7"):
        assert listed(run, invariant)["status"] == "checked", invariant


def test_l1_and_l4_a_leader_that_resigns_within_the_judged_time(
    quorum: Any, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    watch(quorum, 41, "n2")
    resign(quorum)
    assert broken(make_run(None, quorum)) == {"L1", "L4"}


def test_without_the_end_of_the_judged_time_liveness_is_not_checked(
    quorum: Any, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    watch(quorum, 41, "n2")
    resign(quorum)
    run = make_run(None, quorum, judged_until=None)
    assert broken(run) == set()
    for invariant in L:
        assert listed(run, invariant)["status"] == "not checked", invariant


def test_l1_there_is_no_leader(quorum: Any, make_run: Callable[..., Any]) -> None:
    quorum.one_epoch()
    quorum.event(
        "n1", "state", {"from": "leader"}, state="unattached", epoch=2, leader=-1, voted=-1
    )
    watch(quorum, 40, "n1")
    assert broken(make_run(None, quorum)) == {"L1"}


def test_l2_a_high_watermark_that_stays(quorum: Any, make_run: Callable[..., Any]) -> None:
    quorum.one_epoch()
    quorum.append("n1", 1)
    watch(quorum, 40, "n1", "n2")
    assert broken(make_run(None, quorum)) == {"L2"}


def test_l3_an_observer_that_stays_behind(quorum: Any, make_run: Callable[..., Any]) -> None:
    directories = [[1, "1" * 32], [2, "2" * 32]]
    quorum.elect("n1", 1)
    voters = {"voters": directories, "offset": -1, "kraft_version": 1}
    quorum.event("n1", "voters", voters)
    quorum.copy("n1", "n2", "n3")
    quorum.commit("n1", "n2")
    watch(quorum, 40, "n1", "n3")
    assert broken(make_run(None, quorum)) == {"L3"}


@pytest.mark.parametrize("state", ["prospective", "candidate"])
def test_l4_a_node_stays_a_candidate(quorum: Any, make_run: Callable[..., Any], state: str) -> None:
    quorum.one_epoch()
    quorum.event("n3", "state", {"from": "follower"}, state=state, leader=-1)
    watch(quorum, 40, "n1")
    assert broken(make_run(None, quorum)) == {"L1", "L4"}


def test_l5_an_operation_that_never_ends(
    quorum: Any, history: Any, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    history.invoke(0, "create", "a", key="a")
    history.time = 61
    history.did(1, "read", saw=[])
    assert broken(make_run(history, quorum)) == {"L5"}


def test_l7_elections_without_end(quorum: Any, make_run: Callable[..., Any]) -> None:
    quorum.one_epoch()
    quorum.time += 40
    for number, leader in enumerate(("n2", "n1", "n2", "n1"), start=2):
        others = [node for node in ("n1", "n2", "n3") if node != leader]
        quorum.elect(leader, number, ["n3"])
        for node in others:
            own = int(leader[1])
            quorum.event(node, "state", {}, state="follower", epoch=number, leader=own, voted=-1)
        quorum.copy(leader, *others)
        quorum.commit("n1", "n2", "n3")
    quorum.time += 2
    quorum.event("n1", "hw")
    assert broken(make_run(None, quorum, images=[])) == {"L7"}

"""Faults hit their targets, can be combined, are undone, and hide no error."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest

from kraftwreck.harness.options import OptionError
from kraftwreck.histories.fault import Fault
from kraftwreck.nemesis.inject import Injector
from kraftwreck.nemesis.registry import parse
from tests.waiting import LIMIT_S


def fault(kind: str, shape: str, *targets: str) -> Fault:
    return Fault(at=0, kind=kind, shape=shape, duration=1, draw=11, targets=targets)


@pytest.fixture
def injector(env: Any) -> Injector:
    ticks = itertools.count(100, 10)
    return Injector(env, lambda: next(ticks))


def test_a_partition_starts_and_stops_with_measured_evidence(env: Any, injector: Injector) -> None:
    begun = injector.start(1, fault("partition", "leader"))
    assert begun.targets == ["n1"]
    assert begun.detail["leader"] == "n1"
    assert begun.detail["grudge"]["n2"] == ["n1"]
    assert begun.evidence["n2"] == {"dropping": ["n1"]}
    assert (begun.time, begun.done, begun.phase, begun.error) == (100, 110, "start", None)
    assert env.dropped["n1"] == {"n2", "n3", "n4", "n5"}
    ended = injector.stop(1)
    assert ended.evidence["n1"] == {"dropped_packets": 7}
    assert ended.targets == ["n1"]
    assert env.dropped == {}


def test_roles_are_resolved_when_the_fault_fires(env: Any, injector: Injector) -> None:
    env.current_leader = "n4"
    assert injector.start(1, fault("kill", "leader")).targets == ["n4"]
    assert env.down == {"n4"}


def test_targets_that_were_named_are_kept(env: Any, injector: Injector) -> None:
    assert injector.start(1, fault("pause", "leader", "n5")).targets == ["n5"]
    assert env.paused == {"n5"}


def test_partitions_add_up_and_the_rest_stays_when_one_heals(env: Any, injector: Injector) -> None:
    injector.start(1, fault("partition", "one", "n1"))
    injector.start(2, fault("partition", "one-way", "n2", "n3"))
    assert env.dropped["n3"] == {"n1", "n2"}
    ended = injector.stop(1)
    assert env.dropped == {"n3": {"n2"}}
    assert ended.evidence["n1"] == {"dropped_packets": 7}
    assert ended.evidence["remaining"]["n3"] == {"dropping": ["n2"]}
    injector.stop(2)
    assert env.dropped == {}


def test_a_kill_keeps_the_pid_as_proof_and_restarts(env: Any, injector: Injector) -> None:
    assert injector.start(1, fault("kill", "all")).evidence["n3"] == {"pid": 42, "gone": True}
    assert env.down == set(env.nodes)
    assert injector.stop(1).evidence["n3"] == {"pid": 43}
    assert env.down == set()


def test_a_dead_node_is_not_paused(env: Any, injector: Injector) -> None:
    injector.start(1, fault("kill", "one", "n2"))
    paused = injector.start(2, fault("pause", "one", "n2"))
    assert paused.detail["skipped"] == {"n2": "down already"}
    assert paused.error is None
    assert injector.stop(2).detail["skipped"] == {"n2": "not paused"}
    assert ("resume", "n2") not in env.calls


def test_a_paused_node_that_is_killed_is_not_resumed(env: Any, injector: Injector) -> None:
    injector.start(1, fault("pause", "one", "n2"))
    injector.start(2, fault("kill", "one", "n2"))
    assert injector.stop(1).error is None
    injector.stop(2)
    assert env.calls == [("pause", "n2"), ("kill", "n2"), ("start", "n2")]


def test_a_node_held_down_by_two_faults_starts_with_the_last(env: Any, injector: Injector) -> None:
    injector.start(1, fault("kill", "one", "n2"))
    second = injector.start(2, fault("kill", "minority", "n2", "n3"))
    assert second.detail["skipped"] == {"n2": "down already"}
    assert injector.stop(1).detail["skipped"] == {"n2": "held by another fault"}
    assert env.down == {"n2", "n3"}
    injector.stop(2)
    assert env.down == set()


def test_errors_are_one_line_in_the_event(env: Any, injector: Injector) -> None:
    env.failing = {"kill"}
    begun = injector.start(1, fault("kill", "minority", "n2", "n3"))
    assert begun.error == (
        "n2: RuntimeError: kill does not work; n3: RuntimeError: kill does not work"
    )
    assert injector.stop(1).error is None
    assert ("start", "n2") in env.calls


def test_an_unknown_leader_lookup_is_recorded_and_nothing_is_struck(
    env: Any, injector: Injector
) -> None:
    env.failing = {"leader"}
    assert injector.start(1, fault("kill", "leader")).error == (
        "RuntimeError: leader does not work"
    )
    assert env.calls == []
    assert injector.stop(1).error is None


def test_heal_all_ends_everything_and_continues_after_errors(env: Any, injector: Injector) -> None:
    injector.start(1, fault("partition", "one", "n1"))
    injector.start(2, fault("kill", "one", "n2"))
    injector.start(3, fault("pause", "one", "n3"))
    assert injector.active == ["partition/one", "kill/one", "pause/one"]
    env.failing = {"heal"}
    events = injector.heal_all()
    assert [event.id for event in events] == [1, 2, 3, -1]
    assert events[0].error == events[3].error == "heal: RuntimeError: heal does not work"
    assert env.down == env.paused == set()
    assert injector.active == []
    env.failing = set()
    assert injector.heal_all()[0].error is None
    assert env.dropped == {}
    assert injector.heal_all() == []


def test_a_start_that_failed_is_tried_again(env: Any, injector: Injector) -> None:
    injector.start(1, fault("kill", "one", "n2"))
    env.failing = {"start"}
    assert injector.stop(1).error == "n2: RuntimeError: start does not work"
    env.failing = set()
    (event,) = injector.heal_all()
    assert (event.kind, event.targets, event.evidence) == ("heal", ["n2"], {"n2": {"pid": 43}})
    assert env.down == set()


def test_comma_lists_of_faults() -> None:
    assert parse("kill, partition,kill") == ("kill", "partition")
    assert parse("none") == ()
    with pytest.raises(
        OptionError,
        match=r"unknown fault 'fire'; known faults: .*\bkill, .*\bpartition, .*, none$",
    ):
        parse("kill,fire")
    with pytest.raises(OptionError, match="no fault given"):
        parse(" ,")


def test_where_it_can_be_all_targets_are_hit_and_relieved_at_once(
    env: Any, injector: Injector
) -> None:
    env.concurrent = True
    together = threading.Barrier(5)

    def at_once(done: Any) -> Any:
        def act(node: str) -> Any:
            together.wait(LIMIT_S)  # passes only when all five have come
            return done(node)

        return act

    env.cut_power, env.start = at_once(env.cut_power), at_once(env.start)
    begun = injector.start(1, fault("power", "all"))
    assert begun.error is None
    assert set(begun.evidence) == env.down == set(env.nodes)
    assert injector.stop(1).error is None
    assert env.down == set()


def test_one_that_fails_beside_others_is_named_and_tried_again(
    env: Any, injector: Injector
) -> None:
    env.concurrent = True
    injector.start(1, fault("kill", "all"))
    working = env.start

    def start(node: str) -> Any:
        if node == "n3":
            raise RuntimeError("no such host")
        return working(node)

    env.start = start
    ended = injector.stop(1)
    assert ended.error == "n3: RuntimeError: no such host"
    assert env.down == {"n3"}
    env.start = working
    (again,) = injector.heal_all()
    assert (again.id, again.targets, again.error) == (-1, ["n3"], None)
    assert env.down == set()


def test_cut_power_is_a_kill_of_its_own(env: Any, injector: Injector) -> None:
    injector.start(1, fault("power", "one", "n2"))
    injector.start(2, fault("kill", "one", "n2"))
    assert env.calls == [("cut_power", "n2")]
    injector.stop(1)
    assert env.down == {"n2"}, "the kill holds it"
    injector.stop(2)
    assert env.calls[1:] == [("start", "n2")]


def test_a_node_that_was_shut_down_is_started_again(env: Any, injector: Injector) -> None:
    assert injector.start(1, fault("kill", "one", "n4")).error is None
    begun = injector.start(2, fault("terminate", "one", "n4", "n5"))
    assert begun.evidence == {"n5": {"signal": "SIGTERM"}}
    assert begun.detail["skipped"] == {"n4": "down already"}
    assert injector.start(3, fault("terminate", "one", "n5")).detail["skipped"]
    injector.stop(3)
    assert env.down == {"n4", "n5"}
    injector.stop(2)
    assert env.down == {"n4"}
    assert "stop" in {what for what, _ in env.calls}

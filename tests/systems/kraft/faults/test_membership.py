"""Effects of the membership faults on a cluster, and that they can be undone."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from kraftwreck.harness.options import OptionError, RunOptions
from kraftwreck.histories.fault import Fault
from kraftwreck.nemesis.inject import Injector
from kraftwreck.nemesis.possible import check, lacking_of
from kraftwreck.nemesis.registry import chosen, families
from kraftwreck.runs.place import supported_faults
from kraftwreck.systems.kraft.faults.membership import FEWEST, MEMBERSHIPS
from kraftwreck.systems.registry import find

Env = Any


def fault(kind: str, shape: str, *targets: str) -> Fault:
    return Fault(at=0, kind=kind, shape=shape, duration=10, draw=4, targets=targets)


def injector(env: Env) -> Injector:
    ticks = count()
    return Injector(env, lambda: next(ticks))


@pytest.mark.parametrize("shape", ["one", "leader", "shrink"])
def test_votes_are_taken_away_and_given_back(env: Env, shape: str) -> None:
    nemesis = injector(env)
    event = nemesis.start(1, fault("membership", shape))
    removed = [("remove", node) for node in event.targets]
    assert env.calls == [("change_members", removed)]
    assert len(removed) == (len(env.nodes) - FEWEST if shape == "shrink" else 1)
    assert shape != "leader" or event.targets == ["n1"]
    nemesis.stop(1)
    assert env.calls[1:] == [("change_members", [("add", node) for node in event.targets])]


def test_growing_lets_every_controller_vote_and_stays(env: Env) -> None:
    env.controllers = ("n1", "n2", "n3", "n4")
    nemesis = injector(env)
    nemesis.start(1, fault("membership", "grow"))
    [(name, changes)] = env.calls
    assert (name, sorted(changes)) == ("change_members", [("add", f"n{i}") for i in range(1, 5)])
    nemesis.stop(1)
    assert len(env.calls) == 1


def test_a_replaced_machine_comes_back_with_an_empty_disk_and_is_voted_in(env: Env) -> None:
    nemesis = injector(env)
    nemesis.start(1, fault("membership", "replace", "n2"))
    assert env.calls == [("kill", "n2"), ("wipe", "n2")]
    nemesis.stop(1)
    assert env.calls[2:] == [("start", "n2"), ("change_members", [("add", "n2")])]


def test_a_kill_that_wants_a_replaced_machine_down_keeps_it_down(env: Env) -> None:
    nemesis = injector(env)
    nemesis.start(1, fault("membership", "replace", "n2"))
    nemesis.start(2, fault("kill", "one", "n2"))
    nemesis.stop(1)
    assert env.down == {"n2"}
    nemesis.stop(2)
    assert env.down == set()


def test_a_machine_that_is_down_or_stopped_is_not_replaced(env: Env) -> None:
    for number, kind in enumerate(("kill", "pause")):
        nemesis = injector(env)
        nemesis.start(1, fault(kind, "one", "n2"))
        event = nemesis.start(2, fault("membership", "replace", "n2"))
        assert event.detail["skipped"] == "another fault holds n2"
        assert ("wipe", "n2") not in env.calls
        nemesis.heal_all()
        assert env.down == env.paused == set(), number


def test_changes_never_overlap(env: Env) -> None:
    nemesis = injector(env)
    nemesis.start(1, fault("membership", "one", "n1"))
    assert nemesis.start(2, fault("membership", "one", "n2")).detail["skipped"] == (
        "another change is in force"
    )
    nemesis.stop(2)
    nemesis.stop(1)
    env.open_changes = 1
    assert nemesis.start(3, fault("membership", "replace", "n2")).detail["skipped"] == (
        "an earlier change is not complete"
    )
    assert [name for name, _ in env.calls] == ["change_members", "change_members"]


def test_a_static_quorum_is_left_alone(env: Env) -> None:
    env.fixed = "the quorum is static"
    nemesis = injector(env)
    for shape in MEMBERSHIPS:
        assert nemesis.start(1, fault("membership", shape)).detail["skipped"] == (
            "the quorum is static"
        )
        nemesis.stop(1)
    assert env.calls == []


def test_only_controllers_are_changed(env: Env) -> None:
    env.controllers = ("n1", "n2", "n3")
    nemesis = injector(env)
    event = nemesis.start(1, fault("membership", "one", "n5"))
    assert (event.targets, event.detail["skipped"]) == ([], "its targets include no member")


def test_everything_is_undone_at_the_end(env: Env) -> None:
    nemesis = injector(env)
    nemesis.start(1, fault("membership", "replace", "n2"))
    nemesis.start(2, fault("power", "all", "n1", "n3", "n4", "n5"))
    assert env.down == set(env.nodes)
    nemesis.heal_all()
    assert env.down == set()
    assert ("change_members", [("add", "n2")]) in env.calls


def test_a_static_quorum_has_no_voters_to_change() -> None:
    known = families("kraft")
    static = lacking_of(find("kraft"), RunOptions(system_options=("quorum=static",)), known)
    check(("partition", "kill", "pause", "power"), known, static, "kraft")
    with pytest.raises(OptionError) as refused:
        check(("kill", "membership"), known, static, "kraft")
    assert str(refused.value) == (
        "kraft does not support the fault 'membership':"
        " the voters of a static quorum are fixed; add --quorum dynamic"
    )
    assert lacking_of(find("kraft"), RunOptions(), known) == {}


def test_what_is_impossible_with_the_options_is_left_out() -> None:
    options = RunOptions(faults=chosen(None, "kraft"), cluster="sim")
    assert supported_faults(options) == options.faults
    static = replace(options, system_options=("quorum=static",))
    assert supported_faults(static) == ("partition", "kill", "pause", "power")

"""A mistake in the declaration of a fault family or a workload is one line with what to change."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from kraftwreck.harness.capabilities import PROCESSES
from kraftwreck.harness.generator import Planned
from kraftwreck.histories import plugins
from kraftwreck.histories.fault import Fault
from kraftwreck.nemesis.families.processes import Kill
from kraftwreck.nemesis.family import Active, Family, FaultState
from kraftwreck.nemesis.registry import families
from kraftwreck.nemesis.registry import flaw as flaw_of_family
from kraftwreck.workloads.planned import PlannedWorkload
from kraftwreck.workloads.registry import flaw as flaw_of_workload
from kraftwreck.workloads.registry import workloads
from tests.nemesis.conftest import FakeEnvironment


class Sound(Family):
    name = "sound"
    shapes = Kill.shapes
    needs = (PROCESSES,)

    def start(self, active: Active) -> None:
        pass


class SoundWorkload(PlannedWorkload):
    name = "sound"
    checkers = ("stats",)

    def plan(self, seed: int, thread: int, count: int) -> Planned:
        return Planned("read")

    def final(self, nodes: Sequence[str]) -> Sequence[Planned]:
        return []


def family(**changed: Any) -> type[Family]:
    return type("Changed", (Sound,), changed)


def workload(**changed: Any) -> object:
    return type("Changed", (SoundWorkload,), changed)()


@pytest.mark.parametrize(
    ("declared", "wrong"),
    [
        (Sound, None),
        (object, "it is not a subclass of Family"),
        (family(shapes={}), "its `shapes` must be a mapping"),
        (family(shapes=("one",)), "its `shapes` must be a mapping"),
        (family(shapes={"one": 1}), "must be of the class Shape"),
        (family(needs=PROCESSES), "must be a tuple of capabilities"),
        (family(needs=("processes",)), "must be a tuple of capabilities"),
        (family(hits="process"), "must be 'nodes' or 'processes', not 'process'"),
        (family(start=Family.start), "it does not define `start`"),
    ],
)
def test_flaws_of_families_are_named(declared: object, wrong: str | None) -> None:
    found = flaw_of_family(declared)
    assert found is None if wrong is None else wrong in str(found)


@pytest.mark.parametrize(
    ("declared", "wrong"),
    [
        (SoundWorkload(), None),
        (SoundWorkload, "it is a class; name an object, such as WORKLOAD = SoundWorkload()"),
        (workload(checkers="stats"), "its `checkers` must be a tuple of names"),
        (workload(checkers=None), "its `checkers` must be a tuple of names"),
        (workload(verbs="read"), "its `verbs` must be a tuple of names"),
        (workload(final=None), "it does not define `final`"),
    ],
)
def test_flaws_of_workloads_are_named(declared: object, wrong: str | None) -> None:
    found = flaw_of_workload(declared)
    assert found is None if wrong is None else wrong in str(found)


def test_own_families_and_workloads_have_no_flaws() -> None:
    assert {name: flaw_of_family(each) for name, each in families().items()} == dict.fromkeys(
        families()
    )
    assert not {name: why for name, each in workloads().items() if (why := flaw_of_workload(each))}


def test_mistake_in_the_code_of_a_family_is_an_error_with_its_place(env: FakeEnvironment) -> None:
    def no_evidence(name: str) -> Any:
        return None

    def no_key(name: str) -> Any:
        return found[name]

    found: dict[str, Any] = {}
    state = FaultState(env)
    fault = Fault(kind="sound", shape="one", at=0, duration=1, draw=1)
    active = Active(fault, Sound(state), ("n1",))
    assert state.each(active, ["n1"], no_evidence) == set()
    assert state.each(active, ["n2"], no_key) == set()
    first, second = (str(error) for error in active.errors)
    assert first.startswith("n1: TypeError: the evidence must be a mapping by name, not None (")
    assert re.fullmatch(r"n2: KeyError: 'n2' \(test_declared\.py:\d+\)", second)


def test_object_with_a_flaw_is_broken_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    found = plugins.Plugins({"point": family(needs=PROCESSES), "other": Sound}, {})
    monkeypatch.setattr(plugins, "plugins", lambda group: found)
    named = plugins.by_own_name.__wrapped__("any", lambda each: None if each is Sound else "why")
    assert dict(named.broken) == {"sound": "the entry point 'point' cannot be used: why"}
    assert dict(named.found) == {"sound": Sound}

"""Members are compared after each storm, while clients pause; a difference ends the test."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.harness.client import Completion
from kraftwreck.harness.commands import (
    Begin,
    Compare,
    Compared,
    Ended,
    Event,
    Invoke,
    Ring,
    Strike,
    Struck,
    Undo,
    Undone,
    Wake,
)
from kraftwreck.harness.governor import COMPARE, LOOK, Counts, Governor
from kraftwreck.harness.inspection import GLANCE_S, SETTLE_S
from kraftwreck.harness.interpreter import Interpreter
from kraftwreck.harness.operations import Operations
from kraftwreck.harness.options import RunOptions
from kraftwreck.harness.run import TestRun
from kraftwreck.harness.workload import Load
from kraftwreck.histories.fault import Fault, FaultEvent, Storm
from kraftwreck.histories.members import Member, differing, read_members
from kraftwreck.nemesis.inject import Injector
from kraftwreck.systems.kraft.workloads.metadata import WORKLOAD

SECOND = 1_000_000_000
NODES = ("n1", "n2", "n3")
AGREED = {name: Member(7, {"hash": 1}) for name in NODES}
APART = {**AGREED, "n2": Member(7, {"hash": 2})}


def storm(number: int, length: int = SECOND) -> Fault:
    """Return the only fault of a storm; the next one may begin as soon as it is over."""
    begins = Storm(number=number, length=length, operations=0, percent=0, bound=SECOND)
    return Fault(
        at=0, kind="kill", shape="one", duration=length // 2, draw=1, targets=("n1",), storm=begins
    )


# --- the governor ---------------------------------------------------------------------------


def test_the_calm_after_a_storm_begins_when_the_members_have_been_compared() -> None:
    governor = Governor([storm(1), storm(2)], NODES, frozenset, compares=True)
    none = Counts(0, 0)
    assert governor.look(SECOND, none, busy=False)[-1] == (2 * SECOND, LOOK, 0)
    assert governor.look(2 * SECOND, none, busy=False) == [(2 * SECOND, COMPARE, 0)]
    assert governor.look(9 * SECOND, none, busy=False) == [], "no storm during the comparison"
    assert governor.compared(9 * SECOND, none) == [(9 * SECOND, LOOK, 0)]
    assert governor.look(9 * SECOND, none, busy=False)[-1] == (10 * SECOND, LOOK, 0)


def test_the_last_storm_is_followed_by_a_comparison_too() -> None:
    governor = Governor([storm(1)], NODES, frozenset, compares=True)
    governor.look(0, Counts(0, 0), busy=False)
    assert governor.look(SECOND, Counts(0, 0), busy=False) == [(SECOND, COMPARE, 0)]
    assert governor.governs
    governor.compared(SECOND, Counts(0, 0))
    assert not governor.governs


# --- the interpreter ------------------------------------------------------------------------


class Driven:
    """An interpreter in virtual time: operations fail at once, a comparison takes a second."""

    def __init__(self, *schedule: Fault) -> None:
        operations = Operations(WORKLOAD.generator(Load(2, 100.0)), seed=1, concurrency=2)
        self.interpreter = Interpreter(operations, schedule, NODES, frozenset, compares=True)
        self.begun: list[int] = []
        self.compared: list[int] = []
        self._order = itertools.count()
        self._events: list[tuple[int, int, Event]] = [(0, -1, Begin(0))]

    def run(self, until: int) -> None:
        while self._events and self._events[0][0] < until:
            now, _, event = heapq.heappop(self._events)
            for command in self.interpreter.step(event):
                match command:
                    case Wake():
                        self._later(command.at, Ring(command.at, command.alarm))
                    case Invoke():
                        self.begun.append(now)
                        ended = Ended(now, command.thread, command.op.index, Completion("fail"))
                        self._later(now, ended)
                    case Strike():
                        self._later(now, Struck(command.number, recorded(now, "start")))
                    case Undo():
                        self._later(now, Undone(command.number, recorded(now, "stop")))
                    case Compare():
                        self.compared.append(now)
                        self._later(now + SECOND, Compared(now + SECOND))

    def _later(self, at: int, event: Event) -> None:
        heapq.heappush(self._events, (at, next(self._order), event))


def recorded(now: int, phase: Any) -> FaultEvent:
    return FaultEvent(
        id=0, phase=phase, kind="kill", shape="one", targets=["n1"], time=now, done=now
    )


def test_operations_pause_during_comparisons_and_go_on_afterwards() -> None:
    driven = Driven(storm(1), storm(2))
    driven.run(10 * SECOND)
    assert len(driven.compared) == 2
    first, second = driven.compared
    assert SECOND <= first < first + SECOND < second
    for begun in driven.compared:
        assert not [at for at in driven.begun if begun < at < begun + SECOND]
    for low, high in ((0, first), (first + SECOND, second), (second + SECOND, 10 * SECOND)):
        assert len([at for at in driven.begun if low <= at <= high]) > 50


# --- the run --------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path: Path, fake: Any, cluster: Any) -> Callable[..., TestRun]:
    def build(members: Callable[[float], Mapping[str, Member]], seconds: float) -> TestRun:
        fake.members = members
        fake.said = []
        return TestRun(
            RunOptions(nodes=3, time_limit_s=seconds, store=tmp_path, rate=100.0, seed=9),
            system=fake,
            workload=WORKLOAD,
            schedule=[storm(number, SECOND // 10) for number in range(1, 100)],
            injector=Injector,
            cluster=cluster,
            say=fake.said.append,
        )

    return build


def test_a_test_ends_early_when_members_differ(run: Any, fake: Any) -> None:
    outcome = run(lambda settle_s: APART if settle_s == GLANCE_S else AGREED, 3600.0).go()
    assert outcome.errors == []
    [line] = [line for line in fake.said if "members differ" in line]
    assert line.endswith(": ending the test early")
    assert read_members(outcome.folder) == APART, "the states that differ stay recorded"


def test_members_that_agree_after_each_storm_are_recorded_as_they_are_in_the_end(
    run: Any,
) -> None:
    asked: list[float] = []

    def members(settle_s: float) -> Mapping[str, Member]:
        asked.append(settle_s)
        return AGREED

    outcome = run(members, 2.0).go()
    assert outcome.errors == []
    assert len(asked) > 1
    assert asked == [GLANCE_S] * (len(asked) - 1) + [SETTLE_S]
    assert read_members(outcome.folder) == AGREED


def test_members_that_cannot_be_asked_end_the_test_with_an_error(run: Any) -> None:
    def members(settle_s: float) -> Mapping[str, Member]:
        raise RuntimeError("no way")

    outcome = run(members, 3600.0).go()
    assert any("no way" in error for error in outcome.errors)


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        (AGREED, False),
        (APART, True),
        ({**APART, "n2": Member(8, {"hash": 2})}, False),
        ({**APART, "n2": Member(7, {"hash": 2}, "it moved on")}, False),
        ({"n1": Member(8, 1), "n2": Member(7, 1), "n3": Member(7, 2)}, True),
        ({}, False),
    ],
)
def test_only_members_at_one_position_differ(members: Mapping[str, Member], expected: bool) -> None:
    assert any(differing(members)) is expected

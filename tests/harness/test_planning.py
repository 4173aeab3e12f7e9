"""Errors in a workload's plan are one line."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kraftwreck.harness.commands import OperationDue, Wake
from kraftwreck.harness.generator import Context, Due, Generator, Planned
from kraftwreck.harness.generator import Event as Happened
from kraftwreck.harness.operations import Operations
from kraftwreck.harness.planning import PlanError, final_of, generator_of
from kraftwreck.harness.workload import Load
from kraftwreck.workloads.generators import Plans
from kraftwreck.workloads.planned import PlannedWorkload


def broken(seed: int, thread: int, count: int) -> Planned:
    raise KeyError("kind")


def test_error_in_a_plan_names_file_and_line() -> None:
    operations = Operations(Plans(broken), seed=1, concurrency=1, limit=1)
    with pytest.raises(
        PlanError, match=r"KeyError: 'kind' \(tests/harness/test_planning.py:\d+\)$"
    ):
        operations.begin(0)


class Raising(PlannedWorkload):
    """A workload that raises an error wherever it should plan."""

    name = "raising"
    checkers: Sequence[str] = ("stats",)

    def plan(self, seed: int, thread: int, count: int) -> Planned:
        raise KeyError("kind")

    def generator(self, load: Load) -> Generator:
        raise ZeroDivisionError("no generator")

    def final(self, nodes: Sequence[str]) -> Sequence[Planned]:
        return [Planned("read", node=nodes[len(nodes)])]


class Forgetful:
    """A generator that cannot process what happened."""

    def op(self, context: Context) -> tuple[Due, Generator]:
        return Due(context.time, 0, Planned("read")), self

    def update(self, context: Context, event: Happened) -> Generator:
        raise LookupError("no such thread")


HERE = r"\(tests/harness/test_planning.py:\d+\)$"


def test_errors_in_final_operations_name_file_and_line() -> None:
    with pytest.raises(PlanError, match=f"IndexError: tuple index out of range {HERE}"):
        final_of(Raising(), ("n1", "n2"))


def test_error_in_making_a_generator_names_file_and_line() -> None:
    with pytest.raises(PlanError, match=f"ZeroDivisionError: no generator {HERE}"):
        generator_of(Raising(), Load(1, 1.0))


def test_error_in_an_update_of_a_generator_names_file_and_line() -> None:
    operations = Operations(Forgetful(), seed=1, concurrency=1, limit=1)
    wakes = [each for each in operations.begin(0) if isinstance(each, Wake)]
    alarm = wakes[0].alarm
    assert isinstance(alarm, OperationDue)
    with pytest.raises(PlanError, match=f"LookupError: no such thread {HERE}"):
        operations.due(wakes[0].at, alarm)

"""Errors in a workload's plan, and plans that are none, are one line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kraftwreck.harness.commands import OperationDue, Wake
from kraftwreck.harness.generator import (
    PENDING,
    Context,
    Due,
    Generator,
    Pending,
    Planned,
    Step,
)
from kraftwreck.harness.generator import Event as Happened
from kraftwreck.harness.operations import Operations
from kraftwreck.harness.planning import PlanError, final_of, generator_of
from kraftwreck.harness.workload import Load
from kraftwreck.workloads.generators import EachThread, Plans, Stagger
from kraftwreck.workloads.independent import SequentialKeys
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


class Answering:
    """A generator that returns the given values, whatever they are."""

    def __init__(self, step: Any, after: Any = None) -> None:
        self.step, self.after = step, after

    def op(self, context: Context) -> Step:
        step: Step = self.step
        return step

    def update(self, context: Context, event: Happened) -> Generator:
        after: Generator = self.after
        return after


READ = Planned("read")
NONSENSE: Sequence[tuple[Any, str]] = [
    (7, "7, not a tuple"),
    ((PENDING,), r"\(Pending\(until=None\),\), not a tuple"),
    ((READ, None), "not a tuple"),
    ((Due(0, 0, READ), "again"), "not a tuple"),
    ((Due(0, 9, READ), None), r"Due\(.*, not a free thread of \[0\]"),
    ((Due(0.5, 0, READ), None), "not Due.* in whole nanoseconds"),  # type: ignore[arg-type]
    ((Pending("soon"), None), "not Pending.* in whole nanoseconds"),  # type: ignore[arg-type]
    ((Due(0, 0, "read"), None), "not Planned"),  # type: ignore[arg-type]
    ((Due(0, 0, Planned(3)), None), "not Planned"),  # type: ignore[arg-type]
    ((Due(0, 0, Planned("write", value=object())), None), "not Planned.*JSON"),
    ((Due(0, 0, Planned("write", key={3 + 1j})), None), "not Planned.*JSON"),
]


@pytest.mark.parametrize(("step", "said"), NONSENSE)
@pytest.mark.parametrize("around", [lambda inner: inner, lambda inner: Stagger(inner, 1.0)])
def test_a_generator_that_returns_nonsense_is_named(
    around: Callable[[Generator], Generator], step: Any, said: str
) -> None:
    operations = Operations(around(Answering(step)), seed=1, concurrency=1, limit=1)
    with pytest.raises(PlanError, match=rf"Answering.op returned .*{said}.* {HERE}"):
        operations.begin(0)


def test_an_update_without_a_generator_is_named() -> None:
    operations = Operations(
        EachThread(Answering((Due(0, 0, READ), Answering(None)))), seed=1, concurrency=1, limit=1
    )
    wakes = [each for each in operations.begin(0) if isinstance(each, Wake)]
    assert isinstance(wakes[0].alarm, OperationDue)
    with pytest.raises(PlanError, match=f"Answering.update returned None, not a generator.*{HERE}"):
        operations.due(wakes[0].at, wakes[0].alarm)


def of_strings(seed: int, thread: int, count: int) -> Planned:
    return "read"  # type: ignore[return-value]


def test_a_plan_that_returns_nonsense_is_named() -> None:
    operations = Operations(Plans(of_strings), seed=1, concurrency=1, limit=1)
    with pytest.raises(PlanError, match=f"of_strings returned 'read', not Planned.*{HERE}"):
        operations.begin(0)


def test_keys_whose_generator_is_none_are_named() -> None:
    operations = Operations(
        SequentialKeys((1,), lambda key: None),  # type: ignore[arg-type,return-value]
        seed=1, concurrency=1, limit=1,
    )  # fmt: skip
    with pytest.raises(PlanError, match=f"<lambda> returned None, not a generator.*{HERE}"):
        operations.begin(0)


class Nonsensical(Raising):
    """A workload whose generator and final operations are of other types."""

    def generator(self, load: Load) -> Generator:
        return ["read"]  # type: ignore[return-value]

    def final(self, nodes: Sequence[str]) -> Sequence[Planned]:
        return ["read"]  # type: ignore[list-item]


def test_a_workload_that_returns_nonsense_is_named() -> None:
    with pytest.raises(
        PlanError, match=rf"Nonsensical.generator returned \['read'\], not a gen.*{HERE}"
    ):
        generator_of(Nonsensical(), Load(1, 1.0))
    with pytest.raises(PlanError, match=f"Nonsensical.final returned 'read', not each .*{HERE}"):
        final_of(Nonsensical(), ("n1",))


class Overlapping(Forgetful):
    """A split generator whose parts share a thread."""

    def parts(self, threads: Sequence[int]) -> Sequence[tuple[tuple[int, ...], Generator]]:
        return [((0,), self), ((0,), self)]


def test_parts_that_share_a_thread_are_named() -> None:
    with pytest.raises(PlanError, match=f"Overlapping.parts returned .*, not threads of .*{HERE}"):
        Operations(Overlapping(), seed=1, concurrency=2, limit=1)

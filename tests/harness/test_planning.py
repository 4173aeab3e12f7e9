"""Errors in a workload's plan are one line."""

from __future__ import annotations

import pytest

from kraftwreck.harness.generator import Planned
from kraftwreck.harness.operations import Operations
from kraftwreck.harness.planning import PlanError, planning
from kraftwreck.workloads.generators import Plans


def broken(seed: int, thread: int, count: int) -> Planned:
    raise KeyError("kind")


def test_error_in_a_plan_names_file_and_line() -> None:
    operations = Operations(Plans(broken), seed=1, concurrency=1, limit=1)
    with pytest.raises(
        PlanError, match=r"KeyError: 'kind' \(tests/harness/test_planning.py:\d+\)$"
    ):
        operations.begin(0)


def test_error_in_final_operations_names_file_and_line() -> None:
    with pytest.raises(PlanError, match=r"test_planning.py:\d+\)$"), planning():
        broken(1, 0, 0)

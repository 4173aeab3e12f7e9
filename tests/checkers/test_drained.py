"""Elements that an indeterminate dequeue may have taken are no proof of a loss."""

from __future__ import annotations

from typing import Any

import pytest

from kraftwreck.checkers.drained import check
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.histories.operation import Op


def run(*calls: tuple[str, str, Any, Any]) -> RunData:
    """Return a run of sequential calls (f, type, argument, value)."""
    ops: list[Op] = []
    for process, (f, kind, argument, value) in enumerate(calls):
        for phase, said in (("invoke", argument), (kind, value)):
            ops.append(
                Op(index=len(ops), process=process, type=phase, f=f, value=said, time=len(ops))  # type: ignore[arg-type]
            )
    return RunData.from_memory(ops, [], [], [], {})


ONE, TWO = ("enqueue", "ok", 1, 1), ("enqueue", "ok", 2, 2)


@pytest.mark.parametrize(
    ("calls", "valid"),
    [
        ([ONE, TWO, ("drain", "ok", None, [1, 2])], True),
        ([ONE, TWO, ("dequeue", "ok", None, 2), ("drain", "ok", None, [1])], True),
        ([ONE, TWO, ("drain", "ok", None, [1])], False),
        ([ONE, TWO, ("drain", "ok", None, [])], False),
        ([ONE, TWO, ("dequeue", "info", None, None), ("drain", "ok", None, [1])], True),
        ([ONE, TWO, ("dequeue", "info", None, None), ("drain", "ok", None, [])], False),
        ([ONE, ("dequeue", "fail", None, None), ("drain", "ok", None, [])], False),
        ([("enqueue", "info", 1, 1), ("drain", "ok", None, [])], True),
        ([ONE, ("drain", "fail", None, None)], "unknown"),
        ([("drain", "ok", None, []), ONE], "unknown"),
        ([ONE, ("drain", "info", None, None), ("drain", "ok", None, [])], "unknown"),
    ],
)
def test_what_never_left_the_queue(calls: list[Any], valid: object) -> None:
    assert check(run(*calls)).valid == valid


def test_the_anomaly_names_the_elements() -> None:
    (anomaly,) = check(run(ONE, TWO, ("drain", "ok", None, []))).anomalies
    assert anomaly.operations == [0, 1, 2, 3]
    assert "1, 2" in anomaly.explanation


@pytest.mark.parametrize(("count", "named"), [(12, "12"), (13, "12 and 1 more")])
def test_the_anomaly_names_at_most_twelve_elements(count: int, named: str) -> None:
    lost = [("enqueue", "ok", value, value) for value in range(1, count + 1)]
    (anomaly,) = check(run(*lost, ("drain", "ok", None, []))).anomalies
    assert ", ".join(map(str, range(1, 12))) + f", {named}" in anomaly.explanation
    assert len(anomaly.operations) == 2 * 12


def test_twelve_lost_elements_are_named() -> None:
    lost = [("enqueue", "ok", number, number) for number in range(13)]
    found = check(run(*lost, ("drain", "ok", None, []))).anomalies[0]
    assert ": 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 1 more." in found.explanation
    assert len(found.operations) == 24

"""Whole columns give the results of a loop over objects: operations, fault windows, recovery."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftwreck.checkers.calls import HistoryShapeError, pair
from kraftwreck.histories.fault import FaultEvent
from kraftwreck.histories.operation import Op
from kraftwreck.histories.tables import HISTORY_SCHEMA, from_text, to_table
from kraftwreck.pipeline.silver import operations
from kraftwreck.pipeline.windows import FOREVER, earliest, fault_windows, first_served, name_windows


@st.composite
def histories(draw: st.DrawFn) -> list[Op]:
    ops: list[Op] = []
    pending: dict[int, Op] = {}
    for index in range(draw(st.integers(0, 30))):
        process = draw(st.integers(0, 3))
        begun = pending.pop(process, None)
        if begun is None:
            op = Op(
                index=index, process=process, type="invoke", time=index * 700_000_000,
                f=draw(st.sampled_from(["read", "write"])), key=draw(st.sampled_from([None, 1])),
                value=draw(st.sampled_from([None, 3, [1, 2]])), node="n1",
            )  # fmt: skip
            pending[process] = op
        else:
            op = Op(
                index=index, process=process, type=draw(st.sampled_from(["ok", "fail", "info"])),
                time=index * 700_000_000, f=begun.f, key=begun.key, value=7,
                node=draw(st.sampled_from([None, "n2"])), error=draw(st.sampled_from([None, "e"])),
                final=draw(st.booleans()),
            )  # fmt: skip
        ops.append(op)
    return ops


@settings(max_examples=200, deadline=None)
@given(histories())
def test_operations_are_the_checkers_calls(ops: list[Op]) -> None:
    table = operations(to_table(ops, HISTORY_SCHEMA), "a/b", [(0, 10**9, "kill")])
    found = table.to_pylist()
    calls = pair(ops)
    assert len(found) == len(calls)
    for row, call in zip(found, calls, strict=True):
        assert row["run"] == "a/b"
        assert (row["start"], row["process"], row["f"]) == (call.start, call.process, call.f)
        assert row["completion"] == (None if call.completion < 0 else call.completion)
        assert (row["type"], row["node"], row["error"]) == (call.type, call.node, call.error)
        assert (row["invoked_ns"], row["completed_ns"]) == (call.invoked, call.completed)
        assert (row["final"], row["second"]) == (call.final, call.invoked // 10**9)
        assert from_text(row["key"]) == call.key
        assert (from_text(row["argument"]), from_text(row["value"])) == (call.argument, call.value)
        took = None if call.completed is None else (call.completed - call.invoked) / 1e6
        assert row["latency_ms"] == (took if call.type == "ok" else None)
        assert row["fault_window"] == ("kill" if call.invoked < 10**9 else "none")


def test_a_history_that_is_none_is_refused() -> None:
    twice = [Op(index=i, process=1, type="invoke", f="read", time=i) for i in range(2)]
    with pytest.raises(HistoryShapeError, match="operation 1: process 1 invokes read"):
        operations(to_table(twice, HISTORY_SCHEMA), "a/b", [])


def event(number: int, phase: str, kind: str, at: int) -> FaultEvent:
    return FaultEvent(
        id=number, phase="start" if phase == "start" else "stop", kind=kind, shape="one",
        targets=[], time=at, done=at,
    )  # fmt: skip


def test_fault_windows_name_all_kinds_that_are_on() -> None:
    windows = fault_windows(
        [
            event(1, "start", "kill", 10),
            event(2, "start", "partition", 20),
            event(1, "stop", "kill", 30),
        ]
    )
    assert sorted(windows) == [(10, 30, "kill"), (20, FOREVER, "partition")]
    named = name_windows(windows, np.array([5, 10, 25, 30], np.int64))
    assert named.to_pylist() == ["none", "kill", "kill+partition", "partition"]
    assert name_windows([], np.array([5], np.int64)).to_pylist() == ["none"]
    assert name_windows(windows, np.array([], np.int64)).type == pa.string()


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), st.sampled_from("abc"))),
    st.lists(st.integers(0, 25)),
)
def test_windows_are_named_as_one_by_one(
    windows: list[tuple[int, int, str]], moments: list[int]
) -> None:
    expected = [
        "+".join(sorted({kind for begin, end, kind in windows if begin <= at < end})) or "none"
        for at in moments
    ]
    assert name_windows(windows, np.array(moments, np.int64)).to_pylist() == expected


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20))),
    st.lists(st.one_of(st.none(), st.integers(0, 25))),
)
def test_service_after_a_moment_is_the_first_answer_to_a_later_request(
    spans: list[tuple[int, int]], moments: list[int | None]
) -> None:
    invoked = np.array([begin for begin, _ in spans], np.int64)
    completed = np.array([begin + took for begin, took in spans], np.int64)
    whole = first_served(moments, invoked, completed)
    for moment, found in zip(moments, whole, strict=True):
        after = [b + took for b, took in spans if moment is not None and b >= moment]
        assert found == min(after, default=None)
    halves = [first_served(moments, invoked[part::2], completed[part::2]) for part in range(2)]
    assert earliest(halves, len(moments)) == whole, "a history may be read in shards"

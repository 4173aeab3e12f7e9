"""The search agrees with brute force, proves what it accepts, and explains what it refuses."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftwreck.checkers.calls import HistoryShapeError, pair
from kraftwreck.checkers.linearizability.decide import check
from kraftwreck.checkers.linearizability.keyed import check as check_run
from kraftwreck.checkers.linearizability.keyed import check_calls
from kraftwreck.checkers.linearizability.models import MODELS, Model, ModelError, after, allowed
from kraftwreck.checkers.linearizability.witness import verify
from kraftwreck.histories.convert import load
from kraftwreck.histories.operation import Op, OpType

CAS = MODELS["cas-register"]


def test_reads_of_the_last_write_are_legal(history: Any) -> None:
    history.did(0, "write", 1)
    history.did(1, "read", saw=1)
    history.did(0, "delete")
    history.did(1, "read")
    outcome = check(CAS, pair(history.ops))
    assert outcome.valid is True
    assert verify(CAS, pair(history.ops), outcome.order) is None


def test_a_stale_read_is_not(history: Any) -> None:
    history.did(0, "write", 1)
    history.did(0, "write", 2)
    history.did(1, "read", saw=1)
    result = check_calls(CAS, pair(history.ops))
    assert result.valid is False
    (anomaly,) = result.anomalies
    assert anomaly.type == "nonlinearizable"
    assert {4, 5} <= set(anomaly.operations)
    assert "read → 1 (process 1, operation 4–5)" in anomaly.explanation
    assert "may only be 2" in anomaly.explanation
    assert result.stats["longest_legal_prefix"] == {"null": [0, 2]}


def test_an_open_write_may_be_seen_early_but_not_unseen_again(history: Any) -> None:
    history.did(0, "write", 1)
    history.invoke(0, "write", 2)
    history.did(1, "read", saw=2)
    history.did(2, "read", saw=1)
    history.end(0)
    assert check(CAS, pair(history.ops)).valid is False


def test_a_failed_write_must_not_be_seen(history: Any) -> None:
    history.did(0, "write", 1, kind="fail")
    history.did(1, "read", saw=1)
    result = check_calls(CAS, pair(history.ops))
    assert result.valid is False
    assert "no call ever wrote" in result.anomalies[0].explanation


@pytest.mark.parametrize("seen", [None, 1])
def test_an_indeterminate_write_may_have_happened_or_not(history: Any, seen: int | None) -> None:
    history.did(0, "write", 1, kind="info")
    history.did(1, "read", saw=seen)
    assert check(CAS, pair(history.ops)).valid is True


def test_an_indeterminate_write_may_happen_late_but_only_once(history: Any) -> None:
    history.did(0, "write", 1, kind="info")
    history.did(1, "write", 2)
    history.did(1, "read", saw=2)
    history.did(1, "read", saw=1)
    assert check(CAS, pair(history.ops)).valid is True
    history.did(1, "write", 3)
    history.did(1, "read", saw=1)
    assert check(CAS, pair(history.ops)).valid is False


def test_an_invocation_without_completion_is_indeterminate(history: Any) -> None:
    history.invoke(0, "write", 7)
    history.did(1, "read", saw=7)
    assert check(CAS, pair(history.ops)).valid is True


def test_a_cas_needs_its_old_value(history: Any) -> None:
    history.did(0, "cas", [None, 1])
    history.did(0, "cas", [1, 2])
    history.did(1, "read", saw=2)
    assert check(CAS, pair(history.ops)).valid is True
    history.did(0, "cas", [1, 3])
    assert check(CAS, pair(history.ops)).valid is False


def test_a_topic_register_is_written_only_while_it_exists(history: Any) -> None:
    history.did(0, "write", 1)
    assert check(MODELS["cas-register"], pair(history.ops)).valid is True
    assert check(MODELS["topic-register"], pair(history.ops)).valid is False


def test_the_value_of_an_expiring_register_may_be_lost_but_does_not_return(history: Any) -> None:
    expiring = MODELS["expiring-register"]
    history.did(0, "write", 1)
    history.did(1, "read", saw=1)
    history.did(1, "read", saw=None)
    history.did(1, "read", saw=None)
    assert check(MODELS["cas-register"], pair(history.ops)).valid is False
    assert check(expiring, pair(history.ops)).valid is True
    history.did(1, "read", saw=1)
    assert check(expiring, pair(history.ops)).valid is False


def test_keys_are_independent(history: Any, make_run: Callable[..., Any]) -> None:
    history.did(0, "cas", [None, 1], key="a")
    history.did(0, "read", saw=None, key="b")
    history.did(0, "read", saw=2, key="a")
    history.did(0, "read", saw=None, key="b")
    result = check_run(make_run(history, workload="register"))
    assert result.valid is False
    assert result.stats["invalid_keys"] == ['"a"']


def test_an_empty_history_proves_nothing(make_run: Callable[..., Any]) -> None:
    assert check_run(make_run(workload="register")).valid == "unknown"


def test_an_undecided_search_is_unknown() -> None:
    # Many concurrent writes and a read that forces every order to be tried.
    ops: list[Op] = []

    def add(kind: Any, process: int, f: str, value: Any) -> None:
        ops.append(Op(index=len(ops), process=process, type=kind, f=f, value=value, time=len(ops)))

    for process in range(14):
        add("invoke", process, "write", process)
    for wanted in (0, 1, 0):
        add("invoke", 99, "read", None)
        add("ok", 99, "read", wanted)
    for process in range(14):
        add("ok", process, "write", process)
    calls = pair(ops)
    by_steps = check(CAS, calls, max_steps=10_000)
    assert by_steps.valid == "unknown"
    assert by_steps.reason == "no decision after 10000 configurations"
    by_time = check(CAS, calls, time_limit_s=0.0)
    assert (by_time.valid, by_time.reason) == ("unknown", "no decision within 0 s")
    stopped = check(CAS, calls, stop=lambda: True)
    assert (stopped.valid, stopped.reason) == ("unknown", "the search was interrupted")
    result = check_calls(CAS, calls, time_limit_s=0.0)
    assert result.valid == "unknown"
    assert "1 of 1 keys undecided" in (result.error or "")


def test_long_histories_need_no_recursion(history: Any) -> None:
    for i in range(5000):
        history.did(0, "write", i)
    assert check(CAS, pair(history.ops)).valid is True


def test_an_unknown_operation_is_refused(history: Any) -> None:
    history.did(0, "frobnicate", 1)
    with pytest.raises(ModelError, match="operation 0: model cas-register has no operation"):
        check(CAS, pair(history.ops))
    history.did(0, "cas", 1)
    with pytest.raises(ModelError, match=r"operation 2: the value of cas must be \[old, new\]"):
        check(CAS, pair(history.ops[2:]))


def test_a_process_does_one_thing_at_a_time(history: Any) -> None:
    history.invoke(0, "read")
    history.invoke(0, "read")
    with pytest.raises(HistoryShapeError, match="operation 1: process 0 invokes read while"):
        pair(history.ops)
    with pytest.raises(HistoryShapeError, match="completes a read that it did not invoke"):
        pair([Op(index=0, process=0, type="ok", f="read", time=0)])


def test_the_verifier_refuses_wrong_witnesses(history: Any) -> None:
    history.did(0, "write", 1)
    history.did(1, "write", 2)
    history.did(2, "read", saw=2)
    calls = pair(history.ops)
    assert verify(CAS, calls, [0, 2, 4]) is None
    assert "missing" in str(verify(CAS, calls, [0, 2]))
    assert "ended before" in str(verify(CAS, calls, [2, 0, 4]))
    assert "twice" in str(verify(CAS, calls, [0, 2, 2, 4]))
    calls[2].value = 1
    assert "not allowed" in str(verify(CAS, calls, [0, 2, 4]))


# --- against brute force --------------------------------------------------------------------


def brute_force(model: Model, ops: list[Op]) -> bool:
    """Try every order of every choice of the indeterminate calls."""
    calls = [c for c in pair(ops) if c.type != "fail"]
    calls = [c for c in calls if not (c.f == "read" and c.type != "ok")]
    sure = {c.start for c in calls if c.type == "ok"}
    for size in range(len(sure), len(calls) + 1):
        for order in permutations(calls, size):
            if sure <= {c.start for c in order} and _legal(model, order):
                return True
    return False


def _legal(model: Model, order: tuple[Any, ...]) -> bool:
    state = model.initial
    for i, call in enumerate(order):
        if any(later.end < call.start for later in order[i + 1 :]):
            return False
        action = model.action(call)
        assert action is not None
        if not allowed(state, action):
            return False
        state = after(state, action)
    return True


OUTCOMES: list[OpType] = ["ok", "ok", "ok", "info", "fail"]


@st.composite
def small_histories(draw: st.DrawFn) -> list[Op]:
    """Up to six calls of up to three clients over two values, some of them doubtful."""
    ops: list[Op] = []
    values = st.sampled_from([None, 1, 2])
    open_calls: dict[int, tuple[str, Any]] = {}
    thread_process = [0, 1, 2]
    left = draw(st.integers(1, 6))
    while left or open_calls:
        thread = draw(st.integers(0, 2))
        process = thread_process[thread]
        if process in open_calls:
            f, value = open_calls.pop(process)
            kind: OpType = draw(st.sampled_from(OUTCOMES))
            seen = draw(values) if f == "read" and kind == "ok" else value
            ops.append(
                Op(index=len(ops), process=process, type=kind, f=f, value=seen, time=len(ops))
            )
            if kind == "info":
                thread_process[thread] += 3
        elif left:
            left -= 1
            f = draw(st.sampled_from(["read", "read", "write", "cas"]))
            value = None
            if f == "write":
                value = draw(st.sampled_from([1, 2]))
            elif f == "cas":
                value = [draw(values), draw(values)]
            open_calls[process] = (f, value)
            ops.append(
                Op(index=len(ops), process=process, type="invoke", f=f, value=value, time=len(ops))
            )
        elif draw(st.booleans()):
            break
    return ops


@settings(max_examples=400, deadline=None)
@given(small_histories(), st.sampled_from(["cas-register", "topic-register", "expiring-register"]))
def test_the_search_agrees_with_brute_force(ops: list[Op], name: str) -> None:
    model = MODELS[name]
    calls = pair(ops)
    outcome = check(model, calls)
    assert outcome.valid is brute_force(model, ops)
    if outcome.valid is True:
        assert verify(model, calls, outcome.order) is None


# --- against histories whose verdict is known ------------------------------------------------


def test_it_agrees_with_other_checkers_on_known_histories(tmp_path: Path) -> None:
    folder = os.environ.get("KRAFTWRECK_CASES")
    if not folder:
        pytest.skip("KRAFTWRECK_CASES names no folder of histories with known verdicts")
    archive = Path(folder) / "differential-open.tar.xz"
    if not archive.exists():
        pytest.skip(f"{archive} does not exist")
    with tarfile.open(archive) as tar:
        files = {member.name: tar.extractfile(member) for member in tar if member.isfile()}
        contents = {name: file.read() for name, file in files.items() if file is not None}
    cases = [msgspec.json.decode(line) for line in contents["reg.expected.jsonl"].splitlines()]
    assert len(cases) >= 100
    wrong = []
    for case in cases:
        path = tmp_path / "history.jsonl"
        path.write_bytes(contents[case["file"]])
        calls = pair(load(path))
        outcome = check(CAS, calls, time_limit_s=10)
        if outcome.valid is not case["valid"]:
            wrong.append((case["file"], outcome.valid))
        if outcome.valid is True:
            assert verify(CAS, calls, outcome.order) is None
    assert wrong == []

"""Client threads: the operations of each, their times, and the recorded history."""

from __future__ import annotations

import itertools
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.harness.interpreter import Interpreter
from kraftwreck.harness.recorder import Recorder
from kraftwreck.harness.workload import Answer, Completion, Planned
from kraftwreck.histories.operation import Op
from kraftwreck.histories.reading import read_lines
from kraftwreck.histories.store import JsonLines, StoreError
from kraftwreck.workloads.metadata import WORKLOAD

NODES = ("n1", "n2", "n3")


class Run:
    """An interpreter over the fake system, with its history."""

    def __init__(self, folder: Path, fake: Any, workload: Any = WORKLOAD, **options: Any) -> None:
        self.path = folder / "history.jsonl"
        self.lines = JsonLines(self.path)
        self.recorder = Recorder(self.lines, time.monotonic_ns)
        settings = {"seed": 7, "concurrency": 3, "rate": 600.0, **options}
        self.interpreter = Interpreter(workload, self.recorder, fake.connect, NODES, **settings)

    def ops(self) -> list[Op]:
        return read_lines(self.path, Op)


def wait_for(condition: Any, limit_s: float = 5.0) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def pairs(ops: list[Op]) -> None:
    """Fail unless every process alternates between invocations and completions."""
    open_ops: dict[int, Op] = {}
    over: set[int] = set()
    for op in ops:
        if op.type == "invoke":
            assert op.process not in open_ops
            assert op.process not in over, "a process went on after an info"
            open_ops[op.process] = op
        else:
            begun = open_ops.pop(op.process)
            assert (begun.f, begun.key) == (op.f, op.key)
            if op.type == "info":
                over.add(op.process)
    assert not open_ops


def test_the_history_is_indexed_timed_and_paired(tmp_path: Path, fake: Any) -> None:
    run = Run(tmp_path, fake)
    run.interpreter.start()
    wait_for(lambda: run.recorder.counts["ok"] >= 60)
    assert run.interpreter.stop(5.0) == 0
    ops = run.ops()
    assert [op.index for op in ops] == list(range(len(ops)))
    assert [op.time for op in ops] == sorted(op.time for op in ops)
    pairs(ops)
    assert {op.process for op in ops} == {0, 1, 2}
    assert run.interpreter.believed_leader() == "n1"


def test_each_thread_follows_its_own_plan(tmp_path: Path, fake: Any) -> None:
    run = Run(tmp_path, fake)
    run.interpreter.start()
    wait_for(lambda: run.recorder.counts["ok"] >= 60)
    run.interpreter.stop(5.0)
    for thread in range(3):
        begun = [op for op in run.ops() if op.type == "invoke" and op.process == thread]
        planned = [WORKLOAD.plan(7, thread, count) for count in range(len(begun))]
        assert [(op.f, op.key, op.value) for op in begun] == [
            (plan.f, plan.key, plan.value) for plan in planned
        ]


def test_after_an_info_the_thread_continues_as_a_new_process(tmp_path: Path, fake: Any) -> None:
    lost = itertools.cycle([True, False, False])
    fake.answers = lambda node, api: (
        Answer("lost", error="timed out") if api != "Metadata" and next(lost) else None
    )
    run = Run(tmp_path, fake)
    run.interpreter.start()
    wait_for(lambda: run.recorder.counts["info"] >= 10)
    run.interpreter.stop(5.0)
    ops = run.ops()
    pairs(ops)
    ended = {op.process for op in ops if op.type == "info"}
    processes = {op.process for op in ops}
    last = {max(p for p in processes if p % 3 == thread) for thread in range(3)}
    assert all(process + 3 in processes for process in ended - last)
    assert len(ended - last) >= 7
    assert fake.closed > 0
    info = next(op for op in ops if op.type == "info")
    assert info.value is not None
    assert info.error == "lost: timed out"


@pytest.mark.parametrize("seed", [1, 2])
def test_the_rate_is_kept_however_it_is_staggered(tmp_path: Path, fake: Any, seed: int) -> None:
    run = Run(tmp_path, fake, seed=seed, rate=200.0, concurrency=4)
    begun = time.monotonic()
    run.interpreter.start()
    time.sleep(1.5)
    took = time.monotonic() - begun
    run.interpreter.stop(5.0)
    assert run.recorder.counts["invoke"] / took == pytest.approx(200, rel=0.35)


def test_operations_that_never_end_are_cut_off_as_info(tmp_path: Path, fake: Any) -> None:
    release = threading.Event()

    def hang(node: str, api: str) -> Answer | None:
        release.wait(10)
        return None

    fake.answers = hang
    run = Run(tmp_path, fake)
    run.interpreter.start()
    wait_for(lambda: run.recorder.counts["invoke"] == 3)
    assert run.interpreter.stop(0.1) == 3
    before = run.ops()
    release.set()
    time.sleep(0.1)
    assert run.ops() == before
    assert [op.type for op in before] == ["invoke"] * 3 + ["info"] * 3
    assert {op.error for op in before[3:]} == {"the test ended"}


def test_an_answer_that_makes_no_sense_is_an_info(tmp_path: Path, fake: Any) -> None:
    fake.answers = lambda node, api: Answer("ok", {"unexpected": 1})
    run = Run(tmp_path, fake)
    run.interpreter.start()
    wait_for(lambda: run.recorder.counts["info"] >= 3)
    run.interpreter.stop(5.0)
    errors = {op.error for op in run.ops() if op.type == "info"}
    assert errors == {"unusable answer: KeyError: 'controller_id'"}


def test_a_history_that_cannot_be_written_stops_the_clients(tmp_path: Path, fake: Any) -> None:
    run = Run(tmp_path, fake)

    def full(record: Any) -> None:
        raise StoreError("history.jsonl: No space left on device")

    run.lines.write = full  # type: ignore[method-assign]  # a full disk, simply
    run.interpreter.start()
    wait_for(lambda: run.interpreter.failure is not None)
    assert isinstance(run.interpreter.failure, StoreError)


def test_a_generator_that_raises_ends_the_run(tmp_path: Path, fake: Any) -> None:
    class Broken:
        name = "broken"
        checkers = ()

        def plan(self, seed: int, thread: int, count: int) -> Planned:
            raise ZeroDivisionError("no plan")

    run = Run(tmp_path, fake, workload=Broken())
    run.interpreter.start()
    wait_for(lambda: run.interpreter.failure is not None)
    assert isinstance(run.interpreter.failure, ZeroDivisionError)


def test_a_completion_repeats_the_value_unless_it_is_ok(tmp_path: Path) -> None:
    lines = JsonLines(tmp_path / "history.jsonl")
    recorder = Recorder(lines, itertools.count().__next__)
    first = recorder.invoke(0, Planned("write", "k", 3))
    recorder.complete(first, Completion("fail"))
    second = recorder.invoke(0, Planned("read", "k"))
    recorder.complete(second, Completion("ok", None))
    assert [op.value for op in read_lines(lines.path, Op)] == [3, 3, None, None]
    assert recorder.complete(second, Completion("ok", 1)) is False

"""Client threads: the operations of each, their times, and the recorded history."""

from __future__ import annotations

import itertools
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.harness.client import Answer, Call, Client, Completion, Invocation
from kraftwreck.harness.generator import Generator, Planned
from kraftwreck.harness.interpreter import Interpreter
from kraftwreck.harness.operations import Operations
from kraftwreck.harness.planning import PlanError
from kraftwreck.harness.run_errors import Trouble
from kraftwreck.harness.threads import Threads
from kraftwreck.harness.workload import ClientSetting, Load
from kraftwreck.histories.fault import Fault, FaultEvent
from kraftwreck.histories.operation import Op
from kraftwreck.histories.reading import read_lines
from kraftwreck.histories.store import JsonLines, StoreError
from kraftwreck.systems.kraft.workloads.metadata import WORKLOAD
from kraftwreck.workloads.generators import Plans
from tests.waiting import LIMIT_S, wait_until

NODES = ("n1", "n2", "n3")


class NoFaults:
    """An injector for runs without faults."""

    out: frozenset[str] = frozenset()

    @property
    def active(self) -> list[str]:
        return []

    def start(self, number: int, fault: Fault) -> FaultEvent:
        raise AssertionError("no fault is planned")

    def stop(self, number: int) -> FaultEvent:
        raise AssertionError("no fault is planned")

    def heal_all(self) -> list[FaultEvent]:
        return []

    def troubles(self, event: FaultEvent) -> list[Trouble]:
        return []


class Run:
    """A driver over the fake system, with its history."""

    def __init__(
        self,
        folder: Path,
        fake: Any,
        workload: Any = WORKLOAD,
        *,
        client_of: Any = None,
        seed: int = 7,
        concurrency: int = 3,
        rate: float = 600.0,
        limit_s: float | None = None,
    ) -> None:
        self.path = folder / "history.jsonl"
        self.lines = JsonLines(self.path)
        operations = Operations(
            workload.generator(Load(concurrency, rate)),
            seed=seed,
            concurrency=concurrency,
            limit=None if limit_s is None else int(limit_s * 1e9),
        )
        start = time.monotonic_ns()
        self.driver = Threads(
            Interpreter(operations, [], NODES, frozenset),
            client_of=client_of
            or (lambda thread: fake.client(workload, ClientSetting(thread, 7, NODES))),
            connect=fake.connect,
            concurrency=concurrency,
            injector=NoFaults(),
            history=self.lines,
            faults=JsonLines(folder / "faults.jsonl"),
            clock=lambda: time.monotonic_ns() - start,
        )

    def stop(self, wait_s: float) -> int:
        ended = self.driver.stop(wait_s)
        self.driver.close()
        return ended

    def ops(self) -> list[Op]:
        return read_lines(self.path, Op)


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
    run.driver.start()
    wait_until(lambda: run.driver.count("ok") >= 60)
    assert run.stop(5.0) == 0
    ops = run.ops()
    assert [op.index for op in ops] == list(range(len(ops)))
    assert [op.time for op in ops] == sorted(op.time for op in ops)
    pairs(ops)
    assert {op.process for op in ops} == {0, 1, 2}


def test_each_thread_follows_its_own_plan(tmp_path: Path, fake: Any) -> None:
    run = Run(tmp_path, fake)
    run.driver.start()
    wait_until(lambda: run.driver.count("ok") >= 60)
    run.stop(5.0)
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
    run.driver.start()
    wait_until(lambda: run.driver.count("info") >= 10)
    run.stop(5.0)
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


@pytest.mark.wall_clock("the rate is in operations per second")
@pytest.mark.parametrize("seed", [1, 2])
def test_the_rate_is_kept_however_it_is_staggered(tmp_path: Path, fake: Any, seed: int) -> None:
    run = Run(tmp_path, fake, seed=seed, rate=200.0, concurrency=4)
    begun = time.monotonic()
    run.driver.start()
    time.sleep(1.5)
    took = time.monotonic() - begun
    run.stop(5.0)
    assert run.driver.count("invoke") / took == pytest.approx(200, rel=0.35)


def test_operations_that_never_end_are_cut_off_as_info(tmp_path: Path, fake: Any) -> None:
    release = threading.Event()

    def hang(node: str, api: str) -> Answer | None:
        release.wait(LIMIT_S)
        return None

    fake.answers = hang
    run = Run(tmp_path, fake)
    run.driver.start()
    wait_until(lambda: run.driver.count("invoke") == 3)
    assert run.stop(0.1) == 3
    before = run.ops()
    release.set()
    wait_until(lambda: not any(t.name.startswith("client-") for t in threading.enumerate()))
    assert run.ops() == before
    assert [op.type for op in before] == ["invoke"] * 3 + ["info"] * 3
    assert {op.error for op in before[3:]} == {"the test ended"}


def test_an_answer_that_makes_no_sense_is_an_info(tmp_path: Path, fake: Any) -> None:
    fake.answers = lambda node, api: Answer("ok", {"unexpected": 1})
    run = Run(tmp_path, fake)
    run.driver.start()
    wait_until(lambda: run.driver.count("info") >= 3)
    run.stop(5.0)
    errors = {op.error for op in run.ops() if op.type == "info"}
    (error,) = errors
    assert error is not None
    assert error.startswith("unusable answer: KeyError: ")
    assert "(systems/kraft/workloads/" in error


def test_a_history_that_cannot_be_written_stops_the_clients(tmp_path: Path, fake: Any) -> None:
    run = Run(tmp_path, fake)

    def full(record: Any) -> None:
        raise StoreError("history.jsonl: No space left on device")

    run.lines.write = full  # type: ignore[method-assign]  # a full disk, simply
    run.driver.start()
    wait_until(lambda: run.driver.failure is not None)
    assert isinstance(run.driver.failure, StoreError)


def test_a_generator_that_raises_ends_the_run(tmp_path: Path, fake: Any) -> None:
    class Broken:
        name = "broken"
        checkers = ()

        def generator(self, load: Load) -> Generator:
            def plan(seed: int, thread: int, count: int) -> Planned:
                raise ZeroDivisionError("no plan")

            return Plans(plan)

        def client(self, setting: ClientSetting) -> Client:
            return WORKLOAD.client(setting)

    run = Run(tmp_path, fake, workload=Broken())
    run.driver.start()
    wait_until(lambda: run.driver.failure is not None)
    assert isinstance(run.driver.failure, PlanError)
    assert "ZeroDivisionError: no plan" in str(run.driver.failure)


class Odd:
    """An adapter that does what its name says, beside threads that work."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.release = threading.Event()

    def invoke(self, op: Op) -> Any:
        if self.what == "returns nothing":
            return None
        return self._steps(op)

    def _steps(self, op: Op) -> Invocation:
        if self.what == "raises":
            raise ValueError("of no use")
        if self.what == "yields nonsense":
            yield 7  # type: ignore[misc]
        if self.what == "ends with nonsense":
            return "done"  # type: ignore[return-value]
        if self.what == "hangs":
            self.release.wait(30)
        yield Call("n1", None)
        return Completion("ok")

    def reset(self) -> None:
        pass


class Blocking:
    """An adapter with a blocking library."""

    blocking = True

    def __init__(self, what: str) -> None:
        self.what = what
        self.closed = False
        self.release = threading.Event()

    def invoke(self, op: Op) -> Completion:
        if self.what == "raises":
            raise OSError("lost")
        if self.what == "exits":
            raise SystemExit(3)
        if self.what == "ends with a value of its own":
            return Completion("ok", {1j})
        if self.what == "returns nothing":
            return None  # type: ignore[return-value]
        if self.what == "hangs":
            self.release.wait(30)
        return Completion("ok", op.value)

    def reset(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True
        self.release.set()


@pytest.mark.parametrize(
    ("make", "what", "said"),
    [
        (Odd, "raises", "unusable answer: ValueError: of no use"),
        (Odd, "returns nothing", "unusable answer: invoke returned None"),
        (Odd, "yields nonsense", "unusable answer: invoke yielded 7"),
        (Odd, "ends with nonsense", "unusable answer: invoke ended with 'done'"),
        (Odd, "hangs", "the client did not return; it hangs at"),
        (Blocking, "raises", "unusable answer: OSError: lost"),
        (Blocking, "returns nothing", "unusable answer: invoke ended with None"),
        (Blocking, "exits", "unusable answer: SystemExit: 3"),
        (Blocking, "ends with a value of its own", "unusable answer: invoke ended with the value"),
        (Blocking, "hangs", "the client did not return; it hangs at"),
    ],
)
def test_an_adapter_that_misbehaves_is_an_info_and_the_run_continues(
    tmp_path: Path, fake: Any, make: Any, what: str, said: str
) -> None:
    def client_of(thread: int) -> Any:
        return make(what) if thread == 0 else WORKLOAD.client(ClientSetting(thread, 7, NODES))

    run = Run(tmp_path, fake, client_of=client_of, rate=100.0, limit_s=3.0)
    run.driver.start()
    wait_until(lambda: run.driver.count("info") >= 2)
    wait_until(lambda: run.driver.count("ok") >= 20)
    run.stop(1.0)
    assert run.driver.failure is None
    pairs(run.ops())
    infos = [op for op in run.ops() if op.type == "info" and op.error != "the test ended"]
    assert {op.process % 3 for op in infos} == {0}
    for op in infos:
        assert op.error is not None
        assert op.error.startswith(said)
        assert "test_threads.py:" in op.error


def test_a_blocking_client_that_works_is_ok_and_closed_at_the_end(
    tmp_path: Path, fake: Any
) -> None:
    made: list[Blocking] = []

    def client_of(thread: int) -> Blocking:
        made.append(Blocking("works"))
        return made[-1]

    run = Run(tmp_path, fake, client_of=client_of)
    run.driver.start()
    wait_until(lambda: run.driver.count("ok") >= 30)
    run.stop(1.0)
    wait_until(lambda: all(client.closed for client in made))

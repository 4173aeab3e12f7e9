"""The driver with threads: faults by time, faults by transition, and both undone at the end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kraftwreck.harness.client import Client, Connection
from kraftwreck.harness.interpreter import Interpreter
from kraftwreck.harness.operations import Operations
from kraftwreck.harness.run_errors import Trouble
from kraftwreck.harness.threads import Threads
from kraftwreck.harness.triggers import DELAYS_US, delay_us
from kraftwreck.histories.fault import Fault, FaultEvent
from kraftwreck.histories.reading import read_faults
from kraftwreck.histories.store import JsonLines
from kraftwreck.histories.trace import TraceEvent
from tests.waiting import LIMIT_S, wait_until

MS = 1_000_000


class Injector:
    """Records its calls; a fault that ends waits for ``may_end``."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self.clock = clock
        self.ending = False
        self.may_end = threading.Event()
        self.may_end.set()
        self.begun: list[tuple[int, tuple[str, ...]]] = []
        self.ended: list[int] = []
        self.open: dict[int, Fault] = {}

    @property
    def active(self) -> list[str]:
        return [fault.kind for fault in self.open.values()]

    @property
    def out(self) -> frozenset[str]:
        return frozenset()

    def start(self, number: int, fault: Fault) -> FaultEvent:
        self.begun.append((number, fault.targets))
        self.open[number] = fault
        return self._event(number, fault, "start")

    def stop(self, number: int) -> FaultEvent:
        self.ending = True
        assert self.may_end.wait(LIMIT_S)
        self.ended.append(number)
        return self._event(number, self.open.pop(number), "stop")

    def heal_all(self) -> list[FaultEvent]:
        return [self.stop(number) for number in list(self.open)]

    def troubles(self, event: FaultEvent) -> list[Trouble]:
        return [Trouble(event.error)] if event.error else []

    def _event(self, number: int, fault: Fault, phase: str) -> FaultEvent:
        now = self.clock()
        return FaultEvent(
            id=number,
            phase="start" if phase == "start" else "stop",
            kind=fault.kind,
            shape=fault.shape,
            targets=list(fault.targets),
            time=now,
            done=now,
        )


def draw_with(delay: int) -> int:
    """Return a draw by which a fault strikes ``delay`` microseconds after its trigger."""
    assert delay in DELAYS_US
    plain = Fault(at=0, kind="kill", shape="one", duration=0, draw=0)
    for number in range(1000):
        fault = Fault(at=0, kind=plain.kind, shape=plain.shape, duration=0, draw=number)
        if delay_us(fault) == delay:
            return number
    raise AssertionError(f"no draw delays by {delay} us")


def fault(
    at: int, trigger: str | None = None, *targets: str, last: int = 0, wait: int = 0
) -> Fault:
    return Fault(
        at=at * MS,
        kind="kill",
        shape="one",
        duration=last * MS,
        draw=draw_with(wait),
        targets=targets,
        trigger=trigger,
    )


def traced(node: str, kind: str, state: str = "leader", leader: int = 1) -> TraceEvent:
    return TraceEvent(
        node=node, incarnation=1, seq=7, mono=0, wall=0, kind=kind, state=state, epoch=4,
        leader=leader, voted=-1, leo=0, hw=0,
    )  # fmt: skip


class Bench:
    def __init__(self, folder: Path) -> None:
        self.begun_ns = time.monotonic_ns()
        self.held: int | None = None
        """Where the clock stands still; None: it runs."""
        self.path = folder / "faults.jsonl"
        self.lines = JsonLines(self.path)
        self.injector = Injector(self.clock)
        self.threads: list[Threads] = []

    def clock(self) -> int:
        held = self.held
        return time.monotonic_ns() - self.begun_ns if held is None else held

    def run(self, *schedule: Fault) -> Threads:
        injector = self.injector
        interpreter = Interpreter(
            Operations(None, seed=1, concurrency=0),
            schedule,
            ("n1", "n2", "n3"),
            lambda: injector.out,
        )

        def no_clients(number: int) -> Client:
            raise AssertionError("there are no clients")

        def no_connections(node: str, client_id: str) -> Connection:
            raise AssertionError("there are no connections")

        thread = Threads(
            interpreter,
            client_of=no_clients,
            connect=no_connections,
            concurrency=0,
            injector=injector,
            history=JsonLines(self.path.with_name("history.jsonl")),
            faults=self.lines,
            clock=self.clock,
        )
        self.threads.append(thread)
        thread.start()
        return thread

    def events(self) -> list[FaultEvent]:
        for thread in self.threads:
            thread.heal()
        self.lines.close()
        return read_faults(self.path.parent)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    for thread in made.threads:
        thread.heal(1.0)
        thread.close()


def test_a_timed_fault_begins_and_ends_by_the_clock(bench: Bench) -> None:
    bench.run(fault(20, None, "n2", last=30))
    wait_until(lambda: bench.injector.ended)
    start, stop = bench.events()
    assert start.time >= 20 * MS
    assert stop.time >= start.done + 30 * MS
    assert "trigger" not in start.detail


def test_a_triggered_fault_waits_for_its_time_and_then_for_its_transition(bench: Bench) -> None:
    bench.held = 0
    thread = bench.run(fault(30, "elected#2", "@", last=1))
    assert thread.needs_traces
    thread.see(traced("n3", "elected"), bench.clock())  # before it is armed: does not count
    assert not thread.waiting
    bench.held = None
    wait_until(lambda: thread.waiting)
    thread.see(traced("n3", "elected"), bench.clock())
    thread.see(traced("n3", "hw"), bench.clock())
    assert not bench.injector.begun
    thread.see(traced("n2", "elected"), bench.clock())
    wait_until(lambda: bench.injector.ended)
    assert bench.injector.begun == [(0, ("n2",))]


def test_the_delay_from_the_transition_to_the_fault_is_recorded(bench: Bench) -> None:
    thread = bench.run(fault(0, "grant", "@leader", wait=30_000))
    wait_until(lambda: thread.waiting)
    bench.held = bench.clock()
    happened = bench.held - 5 * MS  # it took 5 ms to be seen
    thread.see(traced("n2", "grant", "follower", leader=3), happened)
    bench.held = None
    wait_until(lambda: bench.injector.ended)
    start, _ = bench.events()
    assert start.targets == ["n3"]
    assert start.detail["trigger"] == "grant"
    told = start.evidence["trigger"]
    assert told["transition"] == ["n2", 1, 7]
    assert told["at"] == happened
    assert told["delay_us"] == 30_000
    assert told["seen_after_us"] == 5_000
    assert 30_000 <= told["begun_after_us"] <= told["done_after_us"]


def test_a_node_that_takes_long_to_start_holds_up_no_trigger(bench: Bench) -> None:
    bench.injector.may_end.clear()
    thread = bench.run(fault(0, None, "n1", last=1), fault(1, "claim", "@"))
    wait_until(lambda: thread.waiting and bench.injector.ending)
    thread.see(traced("n3", "claim"), bench.clock())
    wait_until(lambda: len(bench.injector.begun) == 2)
    assert not bench.injector.ended
    bench.injector.may_end.set()


def test_healing_disarms_waiting_faults_and_undoes_active_ones(bench: Bench) -> None:
    thread = bench.run(fault(0, None, "n1", last=60_000), fault(0, "elected", "@"))
    wait_until(lambda: thread.waiting and bench.injector.begun)
    thread.heal()
    thread.see(traced("n3", "elected"), bench.clock())
    assert bench.injector.ended == [0]
    assert [event.phase for event in bench.events()] == ["start", "stop"]
    thread.close()
    assert not any(t.name == "interpreter" for t in threading.enumerate())


def test_healing_waits_for_faults_that_are_ending(bench: Bench) -> None:
    bench.injector.may_end.clear()
    thread = bench.run(fault(0, None, "n1"))
    wait_until(lambda: bench.injector.ending)
    threading.Timer(0.3, bench.injector.may_end.set).start()
    thread.heal(LIMIT_S)
    assert bench.injector.ended == [0]


def test_a_schedule_that_only_waits_ends_when_it_is_healed(bench: Bench) -> None:
    thread = bench.run(fault(0, "truncate", "@"))
    wait_until(lambda: thread.waiting)
    thread.heal(LIMIT_S)
    thread.close()
    assert not any(t.name == "interpreter" for t in threading.enumerate())
    assert not bench.events()

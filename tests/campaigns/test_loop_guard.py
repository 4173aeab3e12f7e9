"""A run in which virtual time stands still is ended, whichever function the signal interrupts."""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Callable, Iterator
from weakref import WeakSet

import pytest

from kraftwreck.campaigns.loop_guard import _is_dropped_in, loop_guard
from kraftwreck.nodes.consensus.effects import FatalError
from kraftwreck.simulation.timeline import Timeline

LIMIT_S = 0.02
SECOND = 1_000_000


def compute(seconds: float) -> None:
    ends = time.process_time() + seconds
    while time.process_time() < ends:
        pass


def run(*events: Callable[[], None], apart: int = SECOND) -> None:
    """Let the events happen in virtual time."""
    timeline = Timeline()
    for number, event in enumerate(events):
        timeline.at(number * apart, event, "event")
    timeline.run(len(events) * apart)


@pytest.fixture
def slow_callback() -> Iterator[list[str]]:
    """Let each garbage collection take longer than the limit; return the phases that ended."""
    ended: list[str] = []

    def callback(phase: str, info: dict[str, int]) -> None:
        while time.process_time() < began + 2 * LIMIT_S:
            pass
        ended.append(phase)

    gc.collect()  # Finalizers of other tests' garbage, written in C, may drop the exception.
    began = time.process_time()
    gc.callbacks.append(callback)
    yield ended
    gc.callbacks.remove(callback)


def test_a_loop_is_interrupted() -> None:
    with pytest.raises(FatalError, match="endless loop"), loop_guard(LIMIT_S):
        run(lambda: compute(10))


def test_events_without_end_in_one_moment_are_interrupted() -> None:
    events = [lambda: compute(LIMIT_S / 5)] * 100
    loops = r"^0\.\d+ virtual seconds .* endless loop"
    with pytest.raises(FatalError, match=loops), loop_guard(LIMIT_S):
        run(*events, apart=1000)


def test_a_run_may_take_any_time_while_virtual_time_passes() -> None:
    with loop_guard(LIMIT_S):
        run(*[lambda: compute(LIMIT_S / 2)] * 20)


def test_no_code_outside_of_virtual_time_is_interrupted() -> None:
    with loop_guard(LIMIT_S):
        run(lambda: None)
        compute(5 * LIMIT_S)
        run(lambda: None)


def collect_and_compute() -> None:
    gc.collect()
    compute(10)


def test_a_limit_reached_within_the_garbage_collector_interrupts_what_follows(
    slow_callback: list[str],
) -> None:
    with pytest.raises(FatalError, match="endless loop"), loop_guard(LIMIT_S):
        run(collect_and_compute)
    assert slow_callback[:2] == ["start", "stop"]


class SlowToFinalize:
    """An object whose finalizer takes longer than the limit, in a function that it calls."""

    finalized = False

    def __del__(self) -> None:
        compute(2 * LIMIT_S)
        SlowToFinalize.finalized = True


def finalize_and_compute() -> None:
    SlowToFinalize()
    compute(10)


def test_a_limit_reached_within_a_finalizer_interrupts_what_follows() -> None:
    with pytest.raises(FatalError, match="endless loop"), loop_guard(LIMIT_S):
        run(finalize_and_compute)
    assert SlowToFinalize.finalized


def test_callbacks_of_weak_references_are_left_alone() -> None:
    callbacks = [WeakSet[object]()._remove, weakref.WeakValueDictionary[str, object]()._remove]  # type: ignore[attr-defined]
    assert [_is_dropped_in(callback.__code__) for callback in callbacks] == [True, True]
    assert not _is_dropped_in(compute.__code__)


def test_nothing_is_interrupted_afterwards() -> None:
    with loop_guard(LIMIT_S):
        pass
    run(lambda: compute(4 * LIMIT_S))

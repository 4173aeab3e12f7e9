"""A run whose step never ends has a limit in CPU time, whichever function the limit interrupts."""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Iterator
from weakref import WeakSet

import pytest

from kraftwreck.campaigns.case_run import _is_dropped_in, cpu_limit
from kraftwreck.nodes.consensus.effects import FatalError

LIMIT_S = 0.02


def compute(seconds: float) -> None:
    ends = time.process_time() + seconds
    while time.process_time() < ends:
        pass


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
    with pytest.raises(FatalError, match="endless loop"), cpu_limit(LIMIT_S):
        compute(10)


def test_a_limit_reached_within_the_garbage_collector_interrupts_what_follows(
    slow_callback: list[str],
) -> None:
    with pytest.raises(FatalError, match="endless loop"), cpu_limit(LIMIT_S):
        gc.collect()
        compute(10)
    assert slow_callback[:2] == ["start", "stop"]


class SlowToFinalize:
    """An object whose finalizer takes longer than the limit, in a function that it calls."""

    finalized = False

    def __del__(self) -> None:
        compute(2 * LIMIT_S)
        SlowToFinalize.finalized = True


def test_a_limit_reached_within_a_finalizer_interrupts_what_follows() -> None:
    with pytest.raises(FatalError, match="endless loop"), cpu_limit(LIMIT_S):
        SlowToFinalize()
        compute(10)
    assert SlowToFinalize.finalized


def test_callbacks_of_weak_references_are_left_alone() -> None:
    callbacks = [WeakSet[object]()._remove, weakref.WeakValueDictionary[str, object]()._remove]  # type: ignore[attr-defined]
    assert [_is_dropped_in(callback.__code__) for callback in callbacks] == [True, True]
    assert not _is_dropped_in(compute.__code__)


def test_nothing_is_interrupted_afterwards() -> None:
    with cpu_limit(LIMIT_S):
        pass
    compute(2 * LIMIT_S)

"""The searches for an order, right at their limits: room, steps, and what an explanation shows."""

from __future__ import annotations

from time import thread_time
from typing import Any

import numpy as np
import pytest

from kraftwreck.checkers.calls import Call, pair
from kraftwreck.checkers.linearizability import compiled_search, decide, search_kernel
from kraftwreck.checkers.linearizability.compiled_search import Coded, CompiledSearch
from kraftwreck.checkers.linearizability.decide import Outcome, check
from kraftwreck.checkers.linearizability.keyed import brief, explain
from kraftwreck.checkers.linearizability.models import Register, actions
from tests.checkers.rows import Row, did, history

pytestmark = pytest.mark.interpreted  # It replaces constants of modules.

CAS = Register("cas-register")
ROOMS = ("QUEUE", "VECTORS", "TRAIL", "SEEN", "ENTRIES")


def at_once(count: int, last: list[int]) -> list[Call]:
    """Concurrent writes of 0, 1, ..., and reads one after the other during all of them."""
    rows: list[Row] = [(process, "invoke", "write", process) for process in range(count)]
    for value in last:
        rows += did(99, "read", value)
    rows += [(process, "ok", "write", process) for process in range(count)]
    return pair(history(rows))


def compiled(calls: list[Call], memory: int = 1 << 30) -> CompiledSearch:
    return CompiledSearch(Coded(CAS, actions(CAS, calls)).problem, memory)


def judged(search: CompiledSearch) -> bool | str:
    return search.run(thread_time() + 60, None, 60)


def test_sixty_four_calls_may_be_open_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = at_once(64, [])
    assert compiled(calls).max_open == 64
    assert judged(compiled(calls)) is True
    monkeypatch.setattr(decide, "_QUICK", 1)
    monkeypatch.setattr(decide, "_SLOW", 1)
    # One read beside 63 writes: the plain search would give up after its first steps.
    hard = at_once(63, [0, 1, 0])
    assert check(CAS, hard, memory=1 << 17).reason == "no decision in 0 MiB"
    too_many = at_once(64, [0, 1, 0])
    assert check(CAS, too_many).reason == "no decision after 1 configurations"


def test_all_of_the_memory_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_search, "_SLICE", 1)
    calls = at_once(2, [0, 1])
    first = 256 * (4 + 2 + 4 + 2) * 8  # queue, trail, places and entries; nothing else is open
    assert judged(compiled(calls, first)) is True
    assert judged(compiled(calls, first - 1)) == "no decision in 0 MiB"


def test_the_limit_of_configurations_is_the_last_one_that_is_examined() -> None:
    calls = at_once(9, [0, 1, 0])
    assert check(CAS, calls, max_steps=1023).steps == 1024
    assert check(CAS, calls, max_steps=1024).steps == 2048


def interpreted(function: Any) -> Any:
    """Return the Python function of a compiled one; numba may be switched off."""
    return np.errstate(over="ignore")(getattr(function, "py_func", function))


QUEUE, VECTORS, TRAIL, SEEN, ENTRIES = (getattr(search_kernel, f"ROOM_{name}") for name in ROOMS)


def room(
    queue: int, vectors: int, trail: int, seen: int, entries: int, groups: int = 3, writes: int = 5
) -> Any:
    """Return what arrays of these lengths lack for a step with 2 reads, at 10 rows of each."""
    scalars = [10] * search_kernel.SCALARS
    shapes = (queue, 4), (vectors, groups), (trail, 2), (seen, 4), (entries, 2)
    return interpreted(search_kernel._room)(
        scalars, *(np.zeros(shape, np.int64) for shape in shapes), 10, 2, writes
    )


def test_a_step_has_room_for_the_most_that_it_may_write_and_no_less() -> None:
    # Five writes and a completion; three groups; two reads twice, and the six; two places.
    exact = (16, 13, 20, 24, 12)
    assert room(*exact) == search_kernel.MORE
    for place, lacking in enumerate((QUEUE, VECTORS, TRAIL, SEEN, ENTRIES)):
        less = [length - (place == at) for at, length in enumerate(exact)]
        assert room(*less) == lacking
    # Nine groups write more than the five writes, but less than no write would with its reads.
    assert room(19, 19, 20, 24, 12, groups=9) == search_kernel.MORE
    assert room(18, 19, 20, 24, 12, groups=9) == QUEUE
    assert room(25, 25, 25, 24, 12, groups=15) == search_kernel.MORE
    assert room(25, 25, 24, 24, 12, groups=15) == TRAIL


def test_rows_are_taken_one_after_the_other() -> None:
    scalars = [0] * search_kernel.SCALARS
    trail, entries = np.zeros((4, 2), np.int64), np.zeros((4, 2), np.int64)
    seen, vectors = np.full((8, 4), -1, np.int64), np.zeros((4, 0), np.int64)
    for row in range(3):
        assert interpreted(search_kernel._place)(scalars, trail, 7, -1) == row
        assert interpreted(search_kernel._fresh)(scalars, seen, entries, vectors, row, 0, 0, 0)
        assert scalars[search_kernel.ENTRIES] == scalars[search_kernel.FILLED] == row + 1


@pytest.mark.parametrize(
    ("calls", "known"), [((1, 0), True), ((1, 2), True), ((2, 0), True), ((0, 3), False)]
)
def test_a_configuration_is_known_by_one_with_at_most_as_many_calls_of_each_group(
    calls: tuple[int, int], known: bool
) -> None:
    """The known one has used one call of the first group, and none of the second."""
    scalars = [0] * search_kernel.SCALARS
    entries, seen = np.zeros((4, 2), np.int64), np.full((8, 4), -1, np.int64)
    vectors = np.array([(1, 0), calls], np.int64)

    def fresh(counts: int) -> bool:
        return bool(
            interpreted(search_kernel._fresh)(scalars, seen, entries, vectors, 3, 0, 0, counts)
        )

    assert fresh(0)
    assert fresh(1) is not known


def test_a_place_whose_slot_is_taken_gets_the_next_one() -> None:
    seen = np.full((8, 4), -1, np.int64)
    first = int(interpreted(search_kernel._slot)(seen, 5, 0, 0))
    seen[first] = 6, 0, 0, 0  # Another place.
    assert interpreted(search_kernel._slot)(seen, 5, 0, 0) == (first + 1) % 8


def call_of(value: Any, start: int = 0) -> Call:
    (call,) = pair(history([(0, "invoke", "write", value), (0, "ok", "write", value)]))
    call.start = start
    return call


@pytest.mark.parametrize(("count", "more"), [(12, False), (13, True)])
def test_twelve_of_a_kind_are_shown(count: int, more: bool) -> None:
    stuck = call_of("stuck", 100)
    many = [call_of(number, 2 * number) for number in range(count)]
    states = Outcome(valid=False, order=[], stuck=stuck, states=list(range(count)))
    core = Outcome(valid=False, order=[], stuck=stuck, states=[0], core=many)
    helpers = Outcome(valid=False, order=[], stuck=stuck, states=[0], core=[stuck], helpers=many)
    for outcome in (states, core, helpers):
        text = explain("null", outcome)
        assert ("…" in text) is more


@pytest.mark.parametrize(("length", "whole"), [(198, True), (199, False)])
def test_two_hundred_characters_of_a_value_are_shown(length: int, whole: bool) -> None:
    shown = brief("a" * length)
    assert (shown == f'"{"a" * length}"') is whole
    assert whole or (len(shown) == 153 and " … " in shown)

"""The searches for an order, right at their limits: room, steps, and what an explanation shows."""

from __future__ import annotations

from time import thread_time
from typing import Any

import pytest

from kraftwreck.checkers.calls import Call, pair
from kraftwreck.checkers.linearizability import compiled_search, decide
from kraftwreck.checkers.linearizability.compiled_search import Coded, CompiledSearch
from kraftwreck.checkers.linearizability.decide import Outcome, check
from kraftwreck.checkers.linearizability.keyed import brief, explain
from kraftwreck.checkers.linearizability.models import Register, actions
from tests.checkers.rows import Row, did, history

pytestmark = pytest.mark.interpreted  # It replaces constants of modules.

CAS = Register("cas-register")


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
    first = 256 * (4 + 2 + 3 + 2) * 8  # queue, trail, places and entries; nothing else is open
    assert judged(compiled(calls, first)) is True
    assert judged(compiled(calls, first - 1)) == "no decision in 0 MiB"


def test_the_limit_of_configurations_is_the_last_one_that_is_examined() -> None:
    calls = at_once(9, [0, 1, 0])
    assert check(CAS, calls, max_steps=1023).steps == 1024
    assert check(CAS, calls, max_steps=1024).steps == 2048


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

"""Requests for records that arrive within one turn of a broker's event loop are one step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from kraftwreck.nemesis.inject import Injector
from kraftwreck.nodes.consensus.effects import AppendLog, FlushLog
from kraftwreck.nodes.replication import events as come
from kraftwreck.nodes.replication.headers import PartitionKey
from kraftwreck.nodes.server.gathering import MOST_TOGETHER, Gathering
from kraftwreck.simulation.host import ClientCall, Host
from kraftwreck.systems.kraft.simulated import binding
from kraftwreck.systems.kraft.simulated.binding import kraft_world
from kraftwreck.systems.kraft.simulated.knobs import Knobs, draw_knobs
from kraftwreck.systems.kraft.simulated.requests_of_step import requests_of_step
from kraftwreck.systems.kraft.simulated.run import simulate
from kraftwreck.systems.kraft.workloads.produce import WORKLOAD
from tests.simulation.conftest import toy_batch
from tests.simulation.test_record_rules import campaign

KEY: PartitionKey = (bytes(16), 0)
FLUSHED = come.LogFlushed(KEY, 0, 0, 0)
"""An event that waits for no other."""
FLUSH_US = 40_000
NEVER = 1 << 60


class _Node:
    """Notes its events. LogFlushed is followed by a step that flushes for 40 ms."""

    deadline = NEVER

    def __init__(self, seen: list[tuple[int, Any]], host: Host, world: Any) -> None:
        self._seen, self._world = seen, world
        self._length = 0

    def start(self, now: int, wall_ms: int) -> list[Any]:
        return []

    def step(self, event: Any, now: int, wall_ms: int) -> list[Any]:
        self._seen.append((self._world().now, event))
        if not isinstance(event, come.LogFlushed):
            return []
        self._length += 1
        return [AppendLog(toy_batch(self._length - 1)), FlushLog()]


class _Loop:
    """One broker with turns of 500 µs. ``seen`` are the time and the tokens of each step."""

    def __init__(self, turn: int = 500) -> None:
        self._events: list[tuple[int, Any]] = []
        knobs = Knobs(turn=turn, fsync_min=FLUSH_US, fsync_max=FLUSH_US)
        self.world = kraft_world(["b1"], self._make, 1, knobs)
        self.host = self.world.hosts[0]
        self.world.start("b1")
        self._tokens = 0

    def _make(self, host: Host, recovered: Any, now: int, wall_ms: int) -> _Node:
        return _Node(self._events, host, lambda: self.world)

    def receive(self, count: int = 1) -> None:
        """Receive requests from one client each."""
        for _ in range(count):
            self._tokens += 1
            self.host.tokens[self._tokens] = ClientCall(self._tokens, 1, 1, 1, None, "")
            self.world.deliver(self.host, come.FetchReceived(self._tokens, ()))

    def run(self, until: int) -> None:
        self.world.run(until)

    @property
    def seen(self) -> list[tuple[int, list[int]]]:
        return [
            (at, [each.token for each in requests_of_step(event)]) for at, event in self._events
        ]


def test_requests_of_one_turn_are_one_step() -> None:
    loop = _Loop()
    loop.receive(2)
    loop.run(300)
    loop.receive()
    assert loop.seen == []
    loop.run(499)
    assert loop.seen == []
    loop.run(700)
    assert loop.seen == [(500, [1, 2, 3])]
    loop.receive()
    loop.run(2_000)
    assert loop.seen[1:] == [(1_200, [4])]


def test_without_turns_each_request_is_a_step() -> None:
    loop = _Loop(turn=0)
    loop.receive(2)
    assert loop.seen == [(0, [1]), (0, [2])]


def test_other_events_do_not_wait_for_the_end_of_the_turn() -> None:
    loop = _Loop()
    loop.receive()
    loop.world.deliver(loop.host, FLUSHED)
    assert loop.seen == [(0, [])]


def test_what_has_no_place_in_a_full_step_waits_for_the_next_turn() -> None:
    loop = _Loop()
    loop.receive(MOST_TOGETHER + 1)
    loop.run(501)
    assert loop.seen == [(500, list(range(1, MOST_TOGETHER + 1)))]
    loop.run(1_001)
    assert loop.seen[1:] == [(1_000, [MOST_TOGETHER + 1])]


def test_a_turn_ends_once_the_process_has_time() -> None:
    loop = _Loop()
    loop.receive()
    loop.world.deliver(loop.host, FLUSHED)  # The loop is busy for 40 ms.
    loop.run(1_000)
    loop.receive(2)
    loop.run(39_000)
    assert loop.seen == [(0, [])]
    loop.run(50_000)
    (_, first), (second_at, second) = loop.seen[1:]
    assert (first, second) == ([1], [2, 3])
    assert second_at > FLUSH_US


@pytest.mark.parametrize("turn", [1, 500])
def test_a_resumed_process_handles_what_it_finds_in_one_step(turn: int) -> None:
    loop = _Loop(turn)
    loop.receive()
    loop.world.pause("b1")
    loop.run(1_000)
    loop.receive(4)
    loop.run(2_000)
    assert loop.seen == []
    loop.world.resume("b1")
    loop.run(5_000)
    found = [tokens for _, tokens in loop.seen if tokens]
    assert found[0] == [1]
    assert [sorted(tokens) for tokens in found[1:]] == [[2, 3, 4, 5]]


def test_a_process_that_ends_takes_its_requests_along() -> None:
    loop = _Loop()
    loop.receive()
    loop.world.kill("b1")
    loop.world.start("b1")
    loop.run(400)
    loop.receive()
    loop.run(2_000)
    assert [tokens for _, tokens in loop.seen] == [[2]]


def test_some_runs_with_records_have_turns() -> None:
    turns = [draw_knobs(seed, 3, brokers=3, records=True).turn for seed in range(100)]
    assert {0, 1, 500, 5_000} == set(turns)
    assert 30 < turns.count(0) < 60
    assert draw_knobs(2, 3, brokers=3, records=False).turn == 0


@pytest.mark.interpreted
def test_simulated_brokers_handle_requests_together(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds: Counter[frozenset[str]] = Counter()

    class Counted(Gathering):
        def __init__(self, step: Callable[[Any], None], defer: Callable[[Any], None]) -> None:
            super().__init__(partial(self._count, step), defer)

        def _count(self, step: Callable[[Any], None], event: Any) -> None:
            if isinstance(event, come.Together):
                kinds[frozenset(type(each).__name__ for each in event.requests)] += 1
            step(event)

    monkeypatch.setattr(binding, "Gathering", Counted)
    drawn = campaign("pause")
    options, knobs = drawn.options(7), replace(drawn.knobs(7), turn=500)
    found = simulate(options, WORKLOAD, drawn.schedule(7), Injector, knobs=knobs)
    assert found.failures == []
    produces, fetches = "ProduceReceived", "FetchReceived"
    for wanted in ({produces}, {fetches}, {produces, fetches}):
        assert kinds[frozenset(wanted)] > 3

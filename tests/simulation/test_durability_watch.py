"""D1: a replica takes note of each flush, unless its log was cut or opened again meanwhile."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.replication.effects import Effect, OpenLog, StartAt, Truncate
from kraftwreck.nodes.replication.events import LogFlushed, LogOpened
from kraftwreck.nodes.replication.flushing import Durability
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import durability_watch
from kraftwreck.systems.kraft.simulated.durability_watch import DurabilityWatch
from tests.simulation.replicas import KEY

pytestmark = pytest.mark.interpreted


class Flushed:
    """A replica with a log up to offset 9, durable below 5, that hears of a flush up to 7."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.failures = Failures()
        world: Any = SimpleNamespace(now=0, on_write=[], on_caused=[], on_step=[])
        self.replica: Any = SimpleNamespace(
            log=SimpleNamespace(end=9), durability=Durability(5), with_=SimpleNamespace(now=0)
        )
        self.replica.durability.number = 1
        self.stopped = False
        patch.setattr(durability_watch, "replicas_on", lambda _: {KEY: self.replica})
        patch.setattr(durability_watch, "has_stopped", lambda _: self.stopped)
        self.world = world
        DurabilityWatch(world, self.failures)
        self.host: Any = SimpleNamespace(id=4, name="b4", life=1)

    def hears(self, *between: Effect | LogOpened, known: int = 5, caused: bool = True) -> list[str]:
        event = LogFlushed(KEY, 1, 0, 7)
        if caused:
            self.world.on_caused[0](self.host, event)
        for each in between:
            told = self.world.on_caused if isinstance(each, LogOpened) else self.world.on_write
            told[0](self.host, each)
        self.replica.durability.end = known
        self.world.on_step[0](self.host, event)
        return [failure.type for failure in self.failures.items]


@pytest.fixture
def replica(monkeypatch: pytest.MonkeyPatch) -> Flushed:
    return Flushed(monkeypatch)


def test_a_flush_that_is_ignored_breaks_d1(replica: Flushed) -> None:
    assert replica.hears(known=7) == []
    assert replica.hears(known=6) == ["D1"]


@pytest.mark.parametrize(
    "change",
    [Truncate(KEY, 4), StartAt(KEY, 9), OpenLog(KEY), LogOpened(KEY, 0, 9, (), (), 0)],
)
def test_a_flush_from_before_a_change_says_nothing(
    replica: Flushed, change: Effect | LogOpened
) -> None:
    assert replica.hears(change) == []
    assert replica.hears() == ["D1"]


@pytest.mark.parametrize(("number", "broken"), [(1, ["D1"]), (2, [])])
def test_a_flush_that_is_waited_for_after_its_end_breaks_d1(
    replica: Flushed, number: int, broken: list[str]
) -> None:
    replica.replica.durability.asked, replica.replica.durability.number = 0, number
    assert replica.hears(known=7) == broken


def test_a_flush_of_a_log_that_is_cut_or_opened_later_is_left_out(replica: Flushed) -> None:
    replica.replica.log.end = 5
    assert replica.hears() == []
    replica.replica.log = None
    assert replica.hears() == []


def test_a_flush_that_would_count_after_a_cut_breaks_d1(
    replica: Flushed, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert replica.hears(known=7) == []
    answered = Durability.answered

    def planted(self: Durability, event: LogFlushed, log_end: int, now: int) -> None:
        answered(self, replace(event, cuts=self.cuts), log_end, now)

    monkeypatch.setattr(Durability, "answered", planted)
    assert replica.hears(known=7) == ["D1"]


def test_a_broker_that_has_stopped_ignores_flushes(replica: Flushed) -> None:
    replica.stopped = True
    assert replica.hears() == []


def test_other_events_are_left_out(replica: Flushed) -> None:
    replica.world.on_step[0](replica.host, object())
    assert replica.hears(caused=False) == []

"""Controlled shutdowns: C19 judges who may go, and who is kept though nothing holds it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraftwreck.checkers.kraft.recorded.capture import Capture
from tests.checkers.breaks import findings

SECOND = 1_000_000_000


class Shutdown:
    """Broker 2 stops; 1 and 3 are in service. n1 is the active controller."""

    def __init__(self, cluster: Any, records: Any, capture: Capture) -> None:
        self.cluster, self.records, self.capture = cluster, records, capture
        cluster.event("n1", "claim", {"epoch_start": 0})

    def beat(
        self, broker: int, offset: int, *, stop: bool = False, go: bool = False, fence: bool = False
    ) -> None:
        """A heartbeat, answered within the millisecond."""
        body = {
            "broker_id": broker,
            "broker_epoch": self.cluster.epochs[broker],
            "current_metadata_offset": offset,
            "want_fence": fence,
            "want_shut_down": stop,
        }
        answer = {"error_code": 0, "is_fenced": go, "is_caught_up": True, "should_shut_down": go}
        since = int(self.cluster.time * SECOND)
        if go:
            self.cluster.write(self.records.fence(broker, self.cluster.epochs[broker], 1))
        self.cluster.time += 0.05
        now = int(self.cluster.time * SECOND)
        self.capture.api(now, broker, 1, "BrokerHeartbeat", body, answer, since)
        self.cluster.time += 0.05

    def begin(self) -> int:
        """Broker 2 gives up what it leads; return the offset of that."""
        stopping = self.records.record_of(
            "BrokerRegistrationChangeRecord", 1,
            broker_id=2, broker_epoch=self.cluster.epochs[2], in_controlled_shutdown=1,
        )  # fmt: skip
        began: int = self.cluster.write(stopping, self.records.change(isr=[1, 3], leader=1))
        self.cluster.time += 0.1
        return began


@pytest.fixture
def shutdown(cluster: Any, records: Any, capture: Capture) -> Shutdown:
    return Shutdown(cluster, records, capture)


@pytest.fixture
def wrong(shutdown: Shutdown, make_run: Callable[..., Any]) -> Callable[[], list[str]]:
    def judge() -> list[str]:
        run = make_run(None, shutdown.cluster, capture=shutdown.capture)
        return [a.explanation for a in findings(run) if a.type == "C19"]

    return judge


@pytest.mark.parametrize(
    ("third", "right"), [(0, True), (5, True), (-1, True), (-2, False), (None, False)]
)
def test_a_broker_may_shut_down_once_all_active_brokers_have_caught_up(
    shutdown: Shutdown, wrong: Callable[[], list[str]], third: int | None, right: bool
) -> None:
    """``third`` is how far beyond the start of the shutdown broker 3 has applied the metadata,
    None if n1 never got a heartbeat of it."""
    began = shutdown.begin()
    shutdown.beat(2, began, stop=True)
    shutdown.beat(1, began + 1)
    if third is not None:
        shutdown.beat(3, began + 1 + third)
    shutdown.beat(2, began + 1, stop=True, go=True)
    found = wrong()
    assert any("the active broker 3 has applied at most" in text for text in found) != right
    assert bool(found) != right


@pytest.mark.parametrize(("waits", "right"), [(0.1, False), (30, True)])
def test_the_first_heartbeat_to_a_controller_that_took_over_is_judged(
    shutdown: Shutdown, wrong: Callable[[], list[str]], waits: float, right: bool
) -> None:
    """All sessions begin with its claim. Long after it, that of the broker may have ended."""
    began = shutdown.begin()
    shutdown.cluster.time += waits
    shutdown.beat(2, began + 1, stop=True, go=True)
    found = wrong()
    assert any("has applied at most" in text for text in found) != right


@pytest.mark.parametrize(
    ("begun", "fence", "right"),
    [(False, False, False), (False, True, True), (True, True, False), (True, False, False)],
)
def test_a_broker_may_shut_down_at_once_if_it_asks_to_be_fenced_before_it_has_begun(
    shutdown: Shutdown, wrong: Callable[[], list[str]], begun: bool, fence: bool, right: bool
) -> None:
    """It still leads a partition, or other brokers have not caught up."""
    leads = shutdown.records.change(isr=[1, 2, 3], leader=2)
    end = shutdown.begin() if begun else shutdown.cluster.write(leads)
    shutdown.beat(2, end, stop=True, go=True, fence=fence)
    assert (wrong() == []) == right


def test_an_inactive_broker_need_not_catch_up(
    shutdown: Shutdown, wrong: Callable[[], list[str]]
) -> None:
    shutdown.cluster.write(shutdown.records.fence(3, shutdown.cluster.epochs[3], 1))
    began = shutdown.begin()
    shutdown.beat(2, began, stop=True)
    shutdown.beat(1, began + 1)
    shutdown.beat(2, began + 1, stop=True, go=True)
    assert wrong() == []


@pytest.mark.parametrize(
    ("third", "right"), [(9, False), (2, False), (1, True), (-1, True), (None, True)]
)
def test_a_broker_that_leads_nothing_must_be_allowed_to_shut_down(
    shutdown: Shutdown, wrong: Callable[[], list[str]], third: int | None, right: bool
) -> None:
    began = shutdown.begin()
    shutdown.beat(2, began, stop=True)
    shutdown.beat(1, began + 9)
    if third is not None:
        shutdown.beat(3, began + third)
    shutdown.beat(2, began + 9, stop=True)
    found = wrong()
    assert any("may not shut down, although" in text for text in found) != right
    assert bool(found) != right


def test_a_dead_broker_delays_no_shutdown(
    shutdown: Shutdown, wrong: Callable[[], list[str]]
) -> None:
    shutdown.cluster.write(shutdown.records.fence(3, shutdown.cluster.epochs[3], 1))
    began = shutdown.begin()
    shutdown.beat(1, began + 9)
    shutdown.beat(2, began + 9, stop=True)
    assert len(wrong()) == 1


def test_a_new_controller_needs_new_heartbeats_of_all_brokers(
    shutdown: Shutdown, wrong: Callable[[], list[str]]
) -> None:
    began = shutdown.begin()
    shutdown.beat(1, began + 9)
    shutdown.beat(3, began + 9)
    shutdown.cluster.event("n1", "claim", {"epoch_start": 0})
    shutdown.beat(2, began + 9, stop=True)
    assert wrong() == []

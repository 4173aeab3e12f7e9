"""L8: a follower waits after a failed fetch before it fetches again, at its edges."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.protocol.errors import NONE, NOT_LEADER_OR_FOLLOWER, OFFSET_OUT_OF_RANGE
from kraftwreck.nodes.replication.effects import FetchFrom
from kraftwreck.nodes.replication.events import (
    Assignment,
    FetchAnswered,
    FetchedPart,
    FetchPart,
    LogOpened,
)
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import fetch_backoff
from tests.simulation.replicas import BROKERS, KEY

pytestmark = pytest.mark.interpreted

SECOND = 1_000_000


class Following:
    """Broker 4, which follows 5 in epoch 1; its log ends at 10, with records of epoch 1."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.failures = Failures()
        world: Any = SimpleNamespace(now=0, on_step=[], on_caused=[])
        self.world = world
        self.fetches: list[Any] = []
        traffic = SimpleNamespace(followers=SimpleNamespace(on_fetch=self.fetches))
        patch.setattr(fetch_backoff, "record_traffic", lambda world: traffic)
        self.log: Any = SimpleNamespace(end=10, epochs=SimpleNamespace(latest=1))
        self.replica: Any = SimpleNamespace(
            log=self.log, assignment=Assignment(BROKERS, BROKERS, 5, 1, 0)
        )
        patch.setattr(fetch_backoff, "replicas_on", lambda host: {KEY: self.replica})
        fetch_backoff.FetchBackoff(world, self.failures)
        clock = SimpleNamespace(mono=lambda now: 2 * now + 7)
        self.host = SimpleNamespace(id=4, life=1, name="b4", clock=clock)
        self.sent = 0

    def fetch(self, leader: int = 5, epoch: int = 1) -> list[str]:
        """Fetch, and return the rules that are broken so far."""
        self.sent += 1
        part = FetchPart(KEY, 10, 1, epoch, 1)
        self.fetches[0](self.host, FetchFrom(leader, self.sent, 500, (part,)))
        return [failure.type for failure in self.failures.items]

    def answered(self, *parts: FetchedPart, whole: bool = False, number: int = 0) -> None:
        """Get the answer to the last fetch; None unless it is ``whole``."""
        event = FetchAnswered(number or self.sent, parts if whole else None)
        self.world.on_step[0](self.host, event)


@pytest.fixture
def following(monkeypatch: pytest.MonkeyPatch) -> Following:
    return Following(monkeypatch)


@pytest.mark.parametrize(("half_us", "broken"), [(0, []), (-1, ["L8"]), (-SECOND // 2, ["L8"])])
def test_a_follower_waits_a_second_by_its_clock_after_a_failed_fetch(
    half_us: int, broken: list[str], following: Following
) -> None:
    """Its clock is twice as fast."""
    following.fetch()
    following.world.now = 3
    following.answered()
    following.world.now += SECOND // 2 + half_us
    assert following.fetch() == broken


@pytest.mark.parametrize(
    ("error", "diverging", "broken"),
    [
        (NONE, None, []),
        (OFFSET_OUT_OF_RANGE, None, []),
        (NOT_LEADER_OR_FOLLOWER, None, ["L8"]),
        (NOT_LEADER_OR_FOLLOWER, (0, 5), []),
    ],
)
def test_an_answer_with_an_error_is_a_failure(
    error: int, diverging: tuple[int, int] | None, broken: list[str], following: Following
) -> None:
    following.fetch()
    following.answered(FetchedPart(KEY, error, -1, -1, (), diverging), whole=True)
    assert following.fetch() == broken


@pytest.mark.parametrize("moved", ["end", "latest", "epoch", "closed", "gone"])
def test_an_error_to_an_older_request_is_not_used(moved: str, following: Following) -> None:
    following.fetch()
    if moved == "end":
        following.log.end = 9
    elif moved == "latest":
        following.log.epochs.latest = 2
    elif moved == "epoch":
        following.replica.assignment = Assignment(BROKERS, BROKERS, 5, 2, 0)
    elif moved == "closed":
        following.replica.log = None
    following.answered(FetchedPart(KEY, NOT_LEADER_OR_FOLLOWER, -1, -1), whole=True)
    if moved == "gone":
        following.host.life = 2
    assert following.fetch() == []


def test_another_leader_or_a_log_that_is_opened_again_need_no_wait(following: Following) -> None:
    following.fetch()
    following.answered()
    assert following.fetch(leader=6) == []
    following.answered()
    assert following.fetch(leader=6, epoch=2) == []
    following.answered()
    following.world.on_caused[0](following.host, LogOpened(KEY, 0, 10, (), (), 0, 0))
    assert following.fetch(leader=6, epoch=2) == []


def test_only_the_answer_to_the_last_fetch_of_the_process_counts(following: Following) -> None:
    following.fetch()
    following.answered(number=7)
    assert following.fetch() == []
    following.host.life = 2
    following.answered()
    assert following.fetch() == []

"""F13: an answer resets the back-off to a member. It is 50 ms, and 500 ms at most."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.consensus.effects import ResponseReceived, Send, Tick
from kraftwreck.nodes.consensus.kraft.config import QuorumConfig
from kraftwreck.nodes.consensus.kraft.messages import (
    ApiVersionsResponse,
    FetchResponse,
    VoterChangeResponse,
)
from kraftwreck.nodes.consensus.links import Links
from kraftwreck.nodes.protocol.errors import NONE, UNKNOWN_LEADER_EPOCH
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import backoff_watch
from kraftwreck.systems.kraft.simulated.backoff_watch import BackoffWatch

pytestmark = pytest.mark.interpreted

PEER, EPOCH = 2, 3
MS = 1000
NO_ANSWER = None


def fake(**fields: Any) -> Any:
    return SimpleNamespace(**fields)


def answer_of(error: int = NONE, partition_error: int = NONE, epoch: int = EPOCH) -> FetchResponse:
    return FetchResponse(error, partition_error, PEER, epoch, 0, 0, -1, -1, -1, -1, b"")


ANSWER = answer_of()


class Forgetful(Links):
    """Links that remember failures although the other node has answered since."""

    def succeeded(self, destination: int) -> None:
        failures = self._failures.get(destination, 0)
        super().succeeded(destination)
        self._failures[destination] = failures


class Member:
    """A member of the quorum with real links; the clock of its host is 7 s ahead."""

    def __init__(self, patch: pytest.MonkeyPatch, links: type[Links] = Links) -> None:
        patch.setattr(backoff_watch, "Node", SimpleNamespace)
        config = fake(
            request_timeout_ms=2000,
            retry_backoff_ms=20,
            reconnect_backoff_ms=50,
            reconnect_backoff_max_ms=500,
        )
        self.links = links(config)
        self.failures = Failures()
        self.replica = fake(links=self.links, epoch=EPOCH)
        self.host = fake(
            id=1,
            name="n1",
            node=fake(replica=self.replica),
            clock=fake(mono=lambda now: now + 7_000_000),
        )
        self.world = fake(
            now=0,
            hosts=[self.host],
            knobs=fake(settings_of=lambda _: {}),
            on_response=[],
            on_step=[],
            on_trace=[],
            wires=fake(on_send=[]),
        )
        BackoffWatch(self.world, self.failures)
        self.correlation = 0

    @property
    def now(self) -> int:
        return int(self.host.clock.mono(self.world.now))

    def ask(self) -> int:
        """Send a request as soon as the links allow it."""
        while (correlation := self.links.open(PEER, self.now)) is None:
            self.world.now += MS
        self.correlation = correlation
        self.world.wires.on_send[0](self.host, Send(PEER, correlation, fake()))
        return correlation

    def hear(self, answer: Any, correlation: int | None = None) -> list[str]:
        """Let the node handle an answer as the quorum's handlers do; return the broken rules."""
        number = self.correlation if correlation is None else correlation
        event = ResponseReceived(PEER, number, answer)
        self.world.on_response[0](self.host, event)
        if self.links.close(PEER, number):
            if answer is None:
                self.links.failed(PEER, self.now)
            elif backoff_watch.is_success(self.replica, answer):
                self.links.succeeded(PEER)
            else:
                self.links.refused(PEER, self.now)
        self.world.on_step[0](self.host, event)
        return [failure.type for failure in self.failures.items]

    def asks(self, *answers: Any) -> list[str]:
        """Send a request for each of the answers; return the broken rules."""
        for answer in answers:
            self.ask()
            self.hear(answer)
        return [failure.type for failure in self.failures.items]


@pytest.fixture
def member(monkeypatch: pytest.MonkeyPatch) -> Member:
    return Member(monkeypatch)


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> Member:
    return Member(monkeypatch, Forgetful)


def test_f13_a_back_off_grows_with_each_failure_since_an_answer(member: Member) -> None:
    assert member.asks(NO_ANSWER, NO_ANSWER, ANSWER, *[NO_ANSWER] * 14, ANSWER, NO_ANSWER) == []


@pytest.mark.parametrize(
    "answer", [ANSWER, ApiVersionsResponse(NONE, 0, 1), VoterChangeResponse(NONE)]
)
def test_f13_an_answer_ends_the_failures(forgetful: Member, answer: Any) -> None:
    assert forgetful.asks(NO_ANSWER, answer) == []
    assert forgetful.asks(NO_ANSWER) == ["F13"]
    assert "1 times" in forgetful.failures.items[0].explanation


def test_f13_each_back_off_is_judged(forgetful: Member) -> None:
    assert forgetful.asks(NO_ANSWER, NO_ANSWER, ANSWER) == []
    assert forgetful.asks(NO_ANSWER) == ["F13"], "200 ms for 50 ms"
    assert forgetful.asks(*[NO_ANSWER] * 3) == ["F13"] * 4, "at last 500 ms for 400 ms"
    assert forgetful.asks(NO_ANSWER) == ["F13"] * 4, "the longest"


@pytest.mark.parametrize(("excess", "right"), [(0, True), (1, False)])
@pytest.mark.parametrize(("failures", "wait_ms"), [(1, 50), (2, 100), (4, 400), (5, 500), (9, 500)])
def test_f13_the_longest_back_off(
    member: Member, failures: int, wait_ms: int, excess: int, right: bool
) -> None:
    member.asks(ANSWER, *[NO_ANSWER] * (failures - 1))
    member.ask()
    config: Any = member.links._config
    config.reconnect_backoff_max_ms = wait_ms + excess
    config.reconnect_backoff_ms = wait_ms + excess
    assert member.hear(NO_ANSWER) == ([] if right else ["F13"])


def test_f13_failures_before_the_first_answer_are_unknown(forgetful: Member) -> None:
    """The node may have asked before its process was watched."""
    forgetful.links._failures[PEER] = 5
    assert forgetful.asks(NO_ANSWER) == []


def test_f13_a_new_process_has_no_memory(forgetful: Member) -> None:
    forgetful.asks(NO_ANSWER, ANSWER)
    forgetful.world.on_trace[0](forgetful.host, fake(kind="hw"))
    forgetful.ask()
    forgetful.world.on_trace[0](forgetful.host, fake(kind="start"))
    assert forgetful.hear(NO_ANSWER) == []


@pytest.mark.parametrize(
    "answer",
    [
        answer_of(UNKNOWN_LEADER_EPOCH),
        answer_of(partition_error=UNKNOWN_LEADER_EPOCH),
        answer_of(epoch=EPOCH - 1),
        answer_of(epoch=EPOCH + 1),
        VoterChangeResponse(UNKNOWN_LEADER_EPOCH),
    ],
)
def test_f13_refusals_end_no_failures(
    forgetful: Member, answer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node with a newer epoch, for example, may make this one a follower first."""
    monkeypatch.setattr(forgetful.links, "refused", lambda *_: None)
    assert forgetful.asks(ANSWER, NO_ANSWER, answer, NO_ANSWER) == []


def test_f13_answers_that_nobody_waits_for_do_not_count(forgetful: Member) -> None:
    forgetful.asks(ANSWER, NO_ANSWER)
    old = forgetful.ask()
    forgetful.links.clear()
    assert forgetful.hear(ANSWER) == [], "it was forgotten"
    forgetful.ask()
    assert forgetful.hear(ANSWER, old) == [], "a newer request is open"
    assert forgetful.hear(NO_ANSWER) == []


def test_f13_only_answers_to_nodes_are_judged(forgetful: Member) -> None:
    forgetful.asks(NO_ANSWER, ANSWER)
    forgetful.world.on_step[0](forgetful.host, Tick())
    forgetful.ask()
    forgetful.host.node = None
    event = ResponseReceived(PEER, forgetful.correlation, NO_ANSWER)
    forgetful.world.on_response[0](forgetful.host, event)
    forgetful.world.on_step[0](forgetful.host, event)
    assert not forgetful.failures.items


def test_f13_defaults_are_those_of_the_quorum(member: Member) -> None:
    fields = QuorumConfig.__dataclass_fields__
    assert fields[backoff_watch.FIRST].default == 50
    assert fields[backoff_watch.LONGEST].default == 500

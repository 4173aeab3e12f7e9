"""F33: brokers forward a write again only if it was certainly not carried out."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.broker import forwarding
from kraftwreck.nodes.broker.forwarding import Forwarding
from kraftwreck.nodes.broker.leadership import controller_of
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import forwarding_rehearsal
from kraftwreck.systems.kraft.simulated.api_message import ApiMessage
from kraftwreck.systems.kraft.simulated.forwarding_rehearsal import (
    MOST,
    ForwardingRehearsal,
    misjudged,
)
from tests.broker.conftest import Rig

pytestmark = pytest.mark.interpreted

Patch = pytest.MonkeyPatch
WRITE = "CreateTopics", 7, {"topics": [{"name": "t"}], "timeout_ms": 5000}
READ = "DescribeQuorum", 2, {"topics": [{"topic_name": "t", "partitions": []}]}
BOTH = pytest.mark.parametrize("asked", [WRITE, READ], ids=["write", "read"])


def fake(**fields: Any) -> Any:
    return SimpleNamespace(**fields)


class Broker:
    """A broker that has forwarded a client's request."""

    def __init__(self, patch: Patch, asked: tuple[str, int, dict[str, Any]]) -> None:
        self.rig = Rig()
        self.rig.run()
        self.failures = Failures()
        patch.setattr(forwarding_rehearsal, "Node", SimpleNamespace)
        self.world = fake(now=self.rig.now, wires=fake(on_ask=[]))
        ForwardingRehearsal(self.world, self.failures)
        clock, node = fake(mono=lambda now: now), fake(broker=self.rig.broker)
        self.host = fake(id=4, name="b4", node=node, clock=clock)
        self.rig.ask(*asked)

    @property
    def forwarding(self) -> Forwarding:
        found: Forwarding = vars(self.rig.broker)["_forwarding"]
        return found

    def misjudged(self) -> list[str]:
        controller = controller_of(self.rig.quorum)
        assert controller is not None
        [forwarded] = vars(self.forwarding)["_waiting"]
        return list(misjudged(self.forwarding, forwarded, controller, self.rig.now))

    def ask(self, api: str = "Envelope") -> list[str]:
        for told in self.world.wires.on_ask:
            told(self.host, fake(message=ApiMessage(api, 0, {})))
        return [each.explanation for each in self.failures.items]


@BOTH
def test_a_forwarded_request_is_sent_again_or_refused(monkeypatch: Patch, asked: Any) -> None:
    broker = Broker(monkeypatch, asked)
    sent = list(broker.rig.sent)
    assert broker.ask() == []
    broker.rig.tick()
    assert (broker.rig.sent, broker.rig.replies) == (sent, {}), "a copy was asked"


def forgets_whether_it_was_sent(patch: Patch, sent: bool) -> None:
    response = Forwarding.response

    def planted(self: Forwarding, event: Any, now: int) -> bool:
        event.sent = sent
        return response(self, event, now)

    patch.setattr(Forwarding, "response", planted)


def takes_all_for_unsent(patch: Patch) -> None:
    forgets_whether_it_was_sent(patch, False)


def takes_all_for_sent(patch: Patch) -> None:
    forgets_whether_it_was_sent(patch, True)


def repeats_nothing(patch: Patch) -> None:
    patch.setattr(Forwarding, "_retry", lambda self, each, now: self._waiting.remove(each))


def repeats_at_once_and_later(patch: Patch) -> None:
    tick = Forwarding.tick

    def planted(self: Forwarding, *of: Any) -> list[Any]:
        sends = tick(self, *of)
        for each in self._waiting:
            each.correlation = None
        return sends

    patch.setattr(Forwarding, "tick", planted)


def refuses_with_another_error(patch: Patch) -> None:
    patch.setattr(forwarding, "REQUEST_TIMED_OUT", -1)


def repeats_late(patch: Patch) -> None:
    patch.setattr(forwarding, "RETRY_BACKOFF_MS", 1001)


@pytest.mark.parametrize(
    ("asked", "plant", "found"),
    [
        (WRITE, takes_all_for_unsent, ["was not answered"]),
        (WRITE, takes_all_for_sent, ["was not sent"]),
        (READ, takes_all_for_sent, []),
        (WRITE, repeats_nothing, ["was not sent", "does not lead"]),
        (READ, repeats_nothing, ["was not sent", "was not answered", "does not lead"]),
        (READ, repeats_at_once_and_later, ["was not sent", "was not answered", "does not lead"]),
        (WRITE, refuses_with_another_error, ["was not answered"]),
        (WRITE, repeats_late, ["was not sent", "does not lead"]),
    ],
)
def test_a_wrong_reaction_is_found(
    asked: Any, plant: Callable[[Patch], None], found: list[str], monkeypatch: Patch
) -> None:
    broker = Broker(monkeypatch, asked)
    plant(monkeypatch)
    wrong = broker.misjudged()
    assert len(wrong) == len(found)
    assert all(part in each for part, each in zip(found, wrong, strict=True))
    assert len(broker.ask()) == len(found)


def test_reads_and_writes_are_judged_twice(monkeypatch: Patch) -> None:
    judged: list[str] = []

    def judge(_forwarding: Any, forwarded: Any, *_: Any) -> list[str]:
        judged.append(forwarded.request.api)
        return []

    monkeypatch.setattr(forwarding_rehearsal, "misjudged", judge)
    broker = Broker(monkeypatch, WRITE)
    for _ in range(3):
        broker.ask()
    broker.ask("BrokerHeartbeat")
    assert judged == ["CreateTopics"] * MOST


def test_a_request_is_judged_while_it_is_the_only_one(monkeypatch: Patch) -> None:
    broker = Broker(monkeypatch, WRITE)
    repeats_nothing(monkeypatch)
    broker.rig.ask(*READ)
    assert broker.ask() == []


@pytest.mark.parametrize(("timeout_ms", "judged"), [(2000, False), (2001, True)])
def test_a_request_that_ends_soon_is_not_judged(
    timeout_ms: int, judged: bool, monkeypatch: Patch
) -> None:
    broker = Broker(monkeypatch, (*WRITE[:2], {**WRITE[2], "timeout_ms": timeout_ms}))
    repeats_nothing(monkeypatch)
    assert bool(broker.ask()) is judged


def test_without_a_controller_nothing_is_judged(monkeypatch: Patch) -> None:
    broker = Broker(monkeypatch, WRITE)
    repeats_nothing(monkeypatch)
    broker.rig.quorum.led_by(-1)
    assert broker.ask() == []

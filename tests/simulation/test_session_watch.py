"""C16: only heartbeats of a broker's present process, and registrations, renew its session."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.consensus.effects import ApiRequest
from kraftwreck.nodes.metadata.sessions import Sessions
from kraftwreck.nodes.node import Node
from tests.simulation.watched import Watched

pytestmark = pytest.mark.interpreted

BROKER = 7
EPOCH = 40


class Led:
    """n1 is the active controller; broker 7 is registered in epoch 40."""

    def __init__(self) -> None:
        self.run = Watched()
        self.sessions = Sessions(1000)
        self.sessions.claim(self.mono, 3)
        self.run.world.now += 500_000
        self.sessions.touch(BROKER, EPOCH, self.mono)
        self.run.world.now += 100_000
        node = Node.__new__(Node)
        controller: Any = SimpleNamespace(is_active=True, sessions=self.sessions)
        image: Any = SimpleNamespace(
            brokers={BROKER: SimpleNamespace(broker_id=BROKER, epoch=EPOCH)}
        )
        node.controller, node.image = controller, image
        self.run.host(1).node = node

    @property
    def mono(self) -> int:
        return self.run.host(1).clock.mono(self.run.world.now)

    def handle(self, api: str, body: dict[str, Any], *, renews: bool = True) -> list[str]:
        """Let n1 handle a request; return the broken rules."""
        if renews:
            self.sessions.touch(BROKER, EPOCH, self.mono)
        for told in self.run.world.on_step:
            told(self.run.host(1), ApiRequest(1, api, 1, body))
        return self.run.found


def heartbeat(epoch: int, broker: int = BROKER) -> dict[str, Any]:
    return {"broker_id": broker, "broker_epoch": epoch}


def test_heartbeats_and_registrations_renew_a_session() -> None:
    assert Led().handle("BrokerHeartbeat", heartbeat(EPOCH)) == []
    assert Led().handle("BrokerRegistration", {"broker_id": BROKER}) == []


@pytest.mark.parametrize("body", [heartbeat(EPOCH - 1), heartbeat(EPOCH, 8)])
def test_a_heartbeat_of_another_process_renews_nothing(body: dict[str, Any]) -> None:
    assert Led().handle("BrokerHeartbeat", body, renews=False) == []
    assert Led().handle("BrokerHeartbeat", body) == ["C16"]


def test_other_requests_renew_nothing() -> None:
    assert Led().handle("AlterPartition", heartbeat(EPOCH)) == ["C16"]


def test_two_requests_at_one_time_are_told_apart() -> None:
    led = Led()
    assert led.handle("BrokerHeartbeat", heartbeat(EPOCH)) == []
    assert led.handle("BrokerHeartbeat", heartbeat(EPOCH - 1), renews=False) == []


def test_a_claim_begins_all_sessions() -> None:
    led = Led()
    led.sessions.claim(led.mono, 5)
    assert led.handle("Metadata", {}, renews=False) == []


def test_a_slow_clock_reads_the_same_at_two_moments() -> None:
    led = Led()
    led.run.host(1).clock.set(led.run.world.now, 0, 0, -500_000)
    assert led.handle("BrokerHeartbeat", heartbeat(EPOCH)) == []
    before = led.mono
    led.run.world.now += 1
    assert led.mono == before
    assert led.handle("Metadata", {}, renews=False) == []

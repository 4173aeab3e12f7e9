"""C16: only heartbeats of a broker's present process, and registrations, renew its session.

The controller fences all brokers whose sessions have ended, one per event.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.consensus.effects import ApiRequest, Tick
from kraftwreck.nodes.metadata.sessions import Sessions
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.replication.events import LogFlushed
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
            brokers={BROKER: SimpleNamespace(broker_id=BROKER, epoch=EPOCH, fenced=False)}
        )
        self.image = image
        node.controller, node.image = controller, image
        node.broker = None
        self.node: Any = node
        self.controller = controller
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

    def tick(self, at: int = -1) -> list[str]:
        """Let n1 handle a tick, at ``at`` or now; return the broken rules."""
        self.run.world.now = max(at, self.run.world.now)
        for told in self.run.world.on_step:
            told(self.run.host(1), Tick())
        return self.run.found

    def add(self, broker: int) -> None:
        """Register another broker in service, with contact now."""
        self.image.brokers[broker] = SimpleNamespace(broker_id=broker, epoch=EPOCH, fenced=False)
        self.sessions.touch(broker, EPOCH, self.mono)

    def fence(self, broker: int) -> None:
        self.image.brokers[broker].fenced = True


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
    assert led.handle("Metadata", {"topics": None}, renews=False) == []


def test_a_slow_clock_reads_the_same_at_two_moments() -> None:
    led = Led()
    led.run.host(1).clock.set(led.run.world.now, 0, 0, -500_000)
    assert led.handle("BrokerHeartbeat", heartbeat(EPOCH)) == []
    before = led.mono
    led.run.world.now += 1
    assert led.mono == before
    assert led.handle("Metadata", {"topics": None}, renews=False) == []


ENDED = 1_500_000
"""When the session of broker 7 ends: a second after its last contact."""
PERIOD = 125_000
"""The controller looks for ended sessions eight times a second."""


def test_a_session_that_ended_less_than_a_period_ago_may_be_unseen() -> None:
    led = Led()
    assert led.tick(ENDED + PERIOD - 1) == []
    assert led.tick(ENDED + PERIOD - 1) == []
    assert led.tick(ENDED + PERIOD) == []
    assert led.tick(ENDED + PERIOD) == ["C16"]


def test_every_event_fences_one_more_broker() -> None:
    led = Led()
    led.add(8)
    led.add(9)
    last = led.run.world.now + 1_000_000 + PERIOD
    assert led.tick(last) == []
    for broker in (BROKER, 8, 9):
        led.fence(broker)
        assert led.tick(last) == []
    assert led.tick(last + 1) == []


def test_fencing_must_not_end_before_the_last_broker() -> None:
    led = Led()
    led.add(8)
    led.add(9)
    last = led.run.world.now + 1_000_000 + PERIOD
    assert led.tick(last) == []
    led.fence(BROKER)
    assert led.tick(last) == []
    assert led.tick(last) == ["C16"]


def test_contact_and_a_new_epoch_end_the_silence() -> None:
    led = Led()
    assert led.tick(ENDED + PERIOD) == []
    assert led.handle("BrokerHeartbeat", heartbeat(EPOCH)) == []
    led = Led()
    assert led.tick(ENDED + PERIOD) == []
    led.image.brokers[BROKER].epoch += 1
    assert led.tick(ENDED + PERIOD) == []


def test_a_controller_that_loses_its_role_fences_no_broker() -> None:
    led = Led()
    assert led.tick(ENDED + PERIOD) == []
    led.controller.is_active = False
    assert led.tick(ENDED + PERIOD) == []
    led.controller.is_active = True
    assert led.tick(ENDED + PERIOD) == []


def test_a_new_process_of_a_controller_has_its_first_look_before_it() -> None:
    led = Led()
    assert led.tick(ENDED + PERIOD) == []
    led.node.controller = SimpleNamespace(is_active=True, sessions=led.sessions)
    assert led.tick(ENDED + PERIOD) == []


def test_events_of_the_data_plane_fence_no_broker() -> None:
    led = Led()
    assert led.tick(ENDED + PERIOD) == []
    for told in led.run.world.on_step:
        told(led.run.host(1), LogFlushed((bytes(16), 0), 0, 0, 0))
    assert led.run.found == []

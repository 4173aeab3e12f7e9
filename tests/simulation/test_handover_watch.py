"""A broker that knows a new controller waits for no answer of another node (F11)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.checkers.kraft.limits import HANDED_OVER_US
from kraftwreck.nodes.broker.lifecycle import Life
from kraftwreck.nodes.replication.effects import Proposal
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import handover_watch
from kraftwreck.systems.kraft.simulated.api_message import ApiMessage
from kraftwreck.systems.kraft.simulated.handover_watch import HandoverWatch
from tests.replication.world import KEY

pytestmark = pytest.mark.interpreted

OLD, NEW = 1, 2
"""Controllers."""


def fake(**fields: Any) -> Any:
    return SimpleNamespace(**fields)


class Broker:
    """A broker that has asked the old controller, and knows the new one since time 0."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, api: str = "BrokerHeartbeat") -> None:
        monkeypatch.setattr(handover_watch, "Node", SimpleNamespace)
        self.failures = Failures()
        self.world: Any = fake(now=0, on_step=[], wires=fake(on_ask=[]))
        self.replica = fake(state=fake(leader_id=OLD), leader_endpoint="n1:9093")
        self.broker = fake(state=Life.RUNNING)
        self.host = fake(
            id=4,
            life=1,
            name="b1",
            node=fake(broker=self.broker, replica=self.replica),
            requests={},
            resumed_at=-1,
            clock=fake(elapsed=lambda since, now: now - since),
        )
        self.partition = fake(
            key=KEY,
            in_sync=fake(pending=fake(proposal=Proposal(KEY, 3, 5, ((1, 7), (2, 7))))),
            with_=fake(proposed=set()),
        )
        monkeypatch.setattr(handover_watch, "replicas_on", lambda host: {KEY: self.partition})
        HandoverWatch(self.world, self.failures)
        self.step()
        self.asks(api, OLD)
        self.knows(NEW)
        self.step()

    def knows(self, leader: int) -> None:
        self.replica.state.leader_id = leader

    def asks(self, api: str, node: int, *members: int) -> None:
        topic_id, number = KEY
        part = {
            "partition_index": number,
            "leader_epoch": 3,
            "partition_epoch": 5,
            "new_isr_with_epochs": [{"broker_id": each} for each in members or (1, 2)],
        }
        body = {"topics": [{"topic_id": topic_id, "partitions": [part]}]}
        key = len(self.host.requests)
        rpc = fake(named=node, key=key, message=ApiMessage(api, 3, body))
        self.host.requests[key] = rpc
        for told in self.world.wires.on_ask:
            told(self.host, rpc)

    def step(self) -> None:
        for told in self.world.on_step:
            told(self.host, None)

    def steps_at(self, now: int) -> list[str]:
        """Return the rules that are broken after a step at ``now``."""
        self.world.now = now
        self.step()
        return [each.type for each in self.failures.items]


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    return Broker(monkeypatch)


@pytest.mark.parametrize("api", ["BrokerHeartbeat", "BrokerRegistration", "AlterPartition"])
def test_f11_a_broker_waits_a_moment_only(monkeypatch: pytest.MonkeyPatch, api: str) -> None:
    broker = Broker(monkeypatch, api)
    assert broker.steps_at(HANDED_OVER_US - 1) == []
    assert broker.steps_at(HANDED_OVER_US) == ["F11"]
    assert broker.steps_at(2 * HANDED_OVER_US) == ["F11"], "it is reported once"
    assert HANDED_OVER_US == 100_000


def test_f11_other_requests_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Broker(monkeypatch, "AllocateProducerIds").steps_at(HANDED_OVER_US) == []


def test_f11_a_request_to_the_new_controller_may_wait(broker: Broker) -> None:
    broker.asks("BrokerHeartbeat", NEW)
    assert broker.steps_at(HANDED_OVER_US) == []


def test_f11_an_answer_ends_the_wait(broker: Broker) -> None:
    broker.host.requests.clear()
    assert broker.steps_at(HANDED_OVER_US) == []


def test_f11_a_broker_that_knows_no_controller_waits(broker: Broker) -> None:
    """It may know of a leader, but not where to reach it."""
    broker.replica.leader_endpoint = None
    broker.steps_at(1)
    assert broker.steps_at(HANDED_OVER_US + 1) == []


def test_f11_node_0_is_a_controller_like_any_other(broker: Broker) -> None:
    broker.knows(0)
    broker.steps_at(1)
    assert broker.steps_at(HANDED_OVER_US + 1) == ["F11"]


def test_f11_the_time_begins_with_the_newest_controller(broker: Broker) -> None:
    broker.knows(3)
    broker.steps_at(1)
    assert broker.steps_at(HANDED_OVER_US) == []
    assert broker.steps_at(HANDED_OVER_US + 1) == ["F11"]


def test_f11_a_pause_does_not_count(broker: Broker) -> None:
    broker.host.resumed_at = 5
    assert broker.steps_at(HANDED_OVER_US + 4) == []
    assert broker.steps_at(HANDED_OVER_US + 5) == ["F11"]


def test_f11_a_new_process_has_asked_nobody(broker: Broker) -> None:
    broker.host.life = 2
    broker.host.requests.clear()
    broker.steps_at(1)
    assert broker.steps_at(HANDED_OVER_US + 1) == []


@pytest.mark.parametrize("what", ["stopped", "no broker", "no node"])
def test_f11_only_a_running_broker_is_judged(broker: Broker, what: str) -> None:
    if what == "stopped":
        broker.broker.state = Life.STOPPED
    elif what == "no broker":
        broker.host.node.broker = None
    else:
        broker.host.node = None
    assert broker.steps_at(HANDED_OVER_US) == []


@pytest.mark.parametrize("what", ["decided", "proposed again", "another epoch", "another ISR"])
def test_f11_a_proposal_that_nobody_waits_for_may_be_unanswered(
    monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    broker = Broker(monkeypatch, "AlterPartition")
    if what == "decided":
        broker.partition.in_sync.pending = None
    elif what == "proposed again":
        broker.partition.with_.proposed.add(KEY)
    elif what == "another epoch":
        broker.partition.in_sync.pending.proposal = Proposal(KEY, 3, 6, ((1, 7), (2, 7)))
    else:
        broker.partition.in_sync.pending.proposal = Proposal(KEY, 3, 5, ((1, 7),))
    assert broker.steps_at(HANDED_OVER_US) == []

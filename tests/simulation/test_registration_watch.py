"""F14: a registration that failed is sent again after its back-off. A second more is given."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.checkers.kraft.limits import (
    LONGEST_REGISTRATION_BACKOFF_MS,
    REGISTRATION_BACKOFF_MS,
    STEPS_US,
)
from kraftwreck.nodes.broker import lifecycle
from kraftwreck.nodes.broker.lifecycle import Life
from kraftwreck.nodes.consensus.effects import ApiResponseReceived, Tick
from kraftwreck.nodes.metadata import controllers
from kraftwreck.nodes.metadata.eligibility import DIRECTORIES
from kraftwreck.nodes.metadata.features import CONTROLLER_REGISTRATION
from kraftwreck.nodes.protocol.errors import NONE, NOT_CONTROLLER
from kraftwreck.nodes.replication.events import LogFlushed
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import registration_watch
from kraftwreck.systems.kraft.simulated.api_message import ApiMessage
from kraftwreck.systems.kraft.simulated.registration_watch import (
    BROKER,
    CONTROLLER,
    RegistrationWatch,
)

pytestmark = pytest.mark.interpreted

SELF, LEADER, OTHER = 1, 0, 3
PROCESS = bytes(15) + b"1"
FIRST_US = 1000 * REGISTRATION_BACKOFF_MS
LONGEST_US = 1000 * LONGEST_REGISTRATION_BACKOFF_MS
FIRST_LATE = 2 * FIRST_US + STEPS_US
"""After the first failure of a node."""


def fake(**fields: Any) -> Any:
    return SimpleNamespace(**fields)


class Sender:
    """A node that has registered at the leader, and hears at time 0 that this failed."""

    def __init__(self, patch: pytest.MonkeyPatch, api: str = CONTROLLER) -> None:
        patch.setattr(registration_watch, "Node", SimpleNamespace)
        patch.setattr(registration_watch, "metadata_version", lambda image: image.version)
        self.api = api
        self.failures = Failures()
        self.state = fake(leader_id=LEADER)
        self.replica = fake(state=self.state, leader_endpoint="n2:9093")
        self.stable = fake(controllers={}, brokers={}, version=CONTROLLER_REGISTRATION)
        self.broker = fake(state=Life.STARTING, epoch=-1)
        self.node = fake(
            replica=self.replica,
            broker=self.broker,
            image=fake(stable=self.stable),
            config=fake(node_id=SELF, request_timeout_ms=2000, heartbeat_interval_ms=500),
        )
        self.host = fake(
            id=SELF,
            name="n1",
            node=self.node,
            stopping=False,
            waited=lambda since, now, slack: max(0, now - since - slack),
        )
        self.world = fake(now=0, on_trace=[], on_step=[], wires=fake(on_ask=[]))
        RegistrationWatch(self.world, self.failures)
        self.correlation = 0
        self.send()
        self.hear(None)

    def send(self, api: str | None = None, message: Any = None) -> None:
        self.correlation += 1
        body = {"controller_id": SELF, "incarnation_id": PROCESS}
        sent = message or ApiMessage(api or self.api, 0, body)
        rpc = fake(named=LEADER, correlation=self.correlation, message=sent, sent=self.world.now)
        self.world.wires.on_ask[0](self.host, rpc)

    def hear(self, error: int | None, source: int = LEADER, correlation: int = 0) -> None:
        """Let the node hear the answer; None: there is none."""
        body = None if error is None else {"error_code": error}
        self.step(ApiResponseReceived(source, correlation or self.correlation, body))

    def step(self, event: Any = None) -> None:
        self.world.on_step[0](self.host, event or Tick())

    def at(self, now: int, event: Any = None) -> list[str]:
        """Return the rules that are broken after two steps at ``now``: the first one may send."""
        self.world.now = now
        self.step(event)
        self.step(event)
        return [each.type for each in self.failures.items]


@pytest.fixture
def sender(monkeypatch: pytest.MonkeyPatch) -> Sender:
    return Sender(monkeypatch)


@pytest.mark.parametrize("api", [BROKER, CONTROLLER])
def test_f14_a_registration_is_repeated(monkeypatch: pytest.MonkeyPatch, api: str) -> None:
    sender = Sender(monkeypatch, api)
    assert sender.at(FIRST_LATE) == []
    assert sender.at(FIRST_LATE + 1) == ["F14"]
    assert api in sender.failures.items[0].explanation
    assert sender.at(2 * FIRST_LATE) == ["F14"], "it is reported once"


def test_f14_the_back_off_doubles(sender: Sender) -> None:
    sender.send()
    sender.hear(NOT_CONTROLLER)
    assert sender.at(4 * FIRST_US + STEPS_US) == []
    assert sender.at(4 * FIRST_US + STEPS_US + 1) == ["F14"]


def test_f14_the_back_off_has_a_bound(sender: Sender) -> None:
    for _ in range(30):
        sender.send()
        sender.hear(None)
    assert sender.at(LONGEST_US + STEPS_US) == []
    assert sender.at(LONGEST_US + STEPS_US + 1) == ["F14"]


def test_f14_a_success_resets_the_back_off(sender: Sender) -> None:
    sender.send()
    sender.hear(NONE)
    assert sender.at(10 * FIRST_LATE) == []
    sender.send()
    sender.hear(None)
    assert sender.at(11 * FIRST_LATE) == []
    assert sender.at(11 * FIRST_LATE + 1) == ["F14"]


def test_f14_a_registration_in_flight_is_waited_for(sender: Sender) -> None:
    sender.send()
    sender.hear(None, correlation=1)
    sender.hear(None, source=OTHER)
    assert sender.at(2 * FIRST_LATE) == []


def test_f14_other_requests_are_no_registrations(sender: Sender) -> None:
    sender.send("BrokerHeartbeat")
    sender.send(message=fake(api=CONTROLLER))
    assert sender.at(FIRST_LATE + 1) == ["F14"]


def test_f14_both_registrations_of_a_node_are_judged(sender: Sender) -> None:
    sender.send(BROKER)
    sender.hear(None)
    sender.hear(None, correlation=1)
    assert sender.at(FIRST_LATE + 1) == ["F14", "F14"]


@pytest.mark.parametrize("what", ["unknown", "no address", "itself"])
def test_f14_a_node_that_knows_no_controller_waits(sender: Sender, what: str) -> None:
    if what == "no address":
        sender.replica.leader_endpoint = None
    else:
        sender.state.leader_id = -1 if what == "unknown" else SELF
    assert sender.at(FIRST_LATE + 1) == sender.at(2 * FIRST_LATE) == []
    sender.state.leader_id, sender.replica.leader_endpoint = LEADER, "n2:9093"
    assert sender.at(3 * FIRST_LATE) == sender.at(4 * FIRST_LATE) == []
    assert sender.at(4 * FIRST_LATE + 1) == ["F14"]


def test_f14_the_time_begins_with_the_newest_controller(sender: Sender) -> None:
    sender.state.leader_id = OTHER
    assert sender.at(1) == sender.at(FIRST_LATE + 1) == []
    assert sender.at(FIRST_LATE + 2) == ["F14"]


@pytest.mark.parametrize("what", ["registered", "old version", "stopping", "no node", "a new one"])
def test_f14_a_controller_that_need_not_register(sender: Sender, what: str) -> None:
    if what == "registered":
        sender.stable.controllers[SELF] = fake(incarnation=PROCESS)
    elif what == "old version":
        sender.stable.version -= 1
    elif what == "stopping":
        sender.host.stopping = True
    elif what == "no node":
        sender.host.node = None
    else:
        sender.world.on_trace[0](sender.host, fake(kind="start"))
    assert sender.at(FIRST_LATE + 1) == []


def test_f14_the_registration_of_an_earlier_process_does_not_count(sender: Sender) -> None:
    sender.stable.controllers[SELF] = fake(incarnation=bytes(16))
    sender.world.on_trace[0](sender.host, fake(kind="hw"))
    assert sender.at(FIRST_LATE + 1) == ["F14"]


@pytest.mark.parametrize("what", ["registered", "stopped", "no broker"])
def test_f14_a_broker_that_need_not_register(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    sender = Sender(monkeypatch, BROKER)
    if what == "registered":
        sender.broker.epoch = 0
    elif what == "stopped":
        sender.broker.state = Life.STOPPED
    else:
        sender.node.broker = None
    assert sender.at(FIRST_LATE + 1) == []


@pytest.fixture
def incomplete(monkeypatch: pytest.MonkeyPatch) -> Sender:
    """A broker that sees at time 0 that it is registered without its directory."""
    sender = Sender(monkeypatch, BROKER)
    sender.hear(NONE)
    sender.world.now = -1
    sender.send()
    sender.world.now = 0
    sender.hear(NONE)
    sender.broker.epoch, sender.broker.state = 30, Life.RUNNING
    sender.stable.brokers[SELF] = fake(epoch=30, log_dirs=())
    sender.stable.version = DIRECTORIES
    assert sender.at(0) == []
    return sender


AMENDED_LATE = 2_500_000 + STEPS_US


def test_f14_a_registration_without_directories_is_amended(incomplete: Sender) -> None:
    assert incomplete.at(AMENDED_LATE) == []
    assert incomplete.at(AMENDED_LATE + 1) == ["F14"]
    assert "without its directory" in incomplete.failures.items[0].explanation
    assert incomplete.at(3 * AMENDED_LATE) == ["F14"], "it is reported once"


def test_f14_a_registration_is_amended_once(incomplete: Sender) -> None:
    incomplete.send()
    assert incomplete.at(AMENDED_LATE + 1) == incomplete.at(3 * AMENDED_LATE) == []
    incomplete.stable.brokers[SELF] = fake(epoch=31, log_dirs=())
    incomplete.broker.epoch = 31
    assert incomplete.at(4 * AMENDED_LATE) == incomplete.at(5 * AMENDED_LATE) == []
    assert incomplete.at(5 * AMENDED_LATE + 1) == ["F14"]


def test_f14_the_time_for_directories_begins_with_the_newest_controller(
    incomplete: Sender,
) -> None:
    incomplete.state.leader_id = SELF
    assert incomplete.at(1) == incomplete.at(AMENDED_LATE + 1) == []
    incomplete.state.leader_id = OTHER
    assert incomplete.at(AMENDED_LATE + 2) == incomplete.at(2 * AMENDED_LATE + 2) == []
    assert incomplete.at(2 * AMENDED_LATE + 3) == ["F14"]


@pytest.mark.parametrize(
    "what", ["level", "directory", "earlier process", "unknown", "stopping", "stopped", "start"]
)
def test_f14_a_broker_that_need_not_amend(incomplete: Sender, what: str) -> None:
    stable, broker = incomplete.stable, incomplete.broker
    if what == "level":
        stable.version = DIRECTORIES - 1
    elif what == "directory":
        stable.brokers[SELF].log_dirs = (bytes(16),)
    elif what == "earlier process":
        broker.epoch += 1
    elif what == "unknown":
        del stable.brokers[SELF]
    elif what == "start":
        incomplete.world.on_trace[0](incomplete.host, fake(kind="start"))
    else:
        broker.state = Life.PENDING_CONTROLLED_SHUTDOWN if what == "stopping" else Life.STOPPED
    assert incomplete.at(AMENDED_LATE + 1) == []


def test_f14_events_of_the_data_plane_send_nothing(sender: Sender) -> None:
    flushed = LogFlushed((bytes(16), 0), 0, 0, 0)
    assert sender.at(FIRST_LATE + 1, flushed) == []


def test_f14_back_offs_are_those_of_nodes() -> None:
    first = {controllers.FIRST_BACKOFF_MS, lifecycle.FIRST_BACKOFF_MS}
    assert {1000 * each for each in first} == {FIRST_US}
    assert controllers.MAX_BACKOFF_MS * 1000 == LONGEST_US

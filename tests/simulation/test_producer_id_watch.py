"""F18: brokers give each producer id once, and get blocks of them in time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.checkers.kraft.limits import (
    DRIFT_US,
    HANDED_OVER_US,
    PRODUCER_IDS_BACKOFF_US,
    STEPS_US,
)
from kraftwreck.nodes.broker.lifecycle import NO_EPOCH, Life
from kraftwreck.nodes.consensus.effects import ApiRequest, ApiResponseReceived, Tick
from kraftwreck.nodes.protocol.errors import COORDINATOR_LOAD_IN_PROGRESS, NONE, NOT_CONTROLLER
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import ClientCall
from kraftwreck.systems.kraft.simulated import producer_id_watch
from kraftwreck.systems.kraft.simulated.api_message import ApiMessage
from kraftwreck.systems.kraft.simulated.producer_id_watch import (
    ALLOCATE,
    INIT,
    ProducerIdWatch,
)

pytestmark = pytest.mark.interpreted

SELF, LEADER, OTHER = 4, 1, 2
TIMEOUT_MS = 5_000
LATE = PRODUCER_IDS_BACKOFF_US + STEPS_US


def fake(**fields: Any) -> Any:
    return SimpleNamespace(**fields)


class Broker:
    """A broker in service, which knows the active controller since time 0."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(producer_id_watch, "Node", SimpleNamespace)
        self.failures = Failures()
        self.replica = fake(state=fake(leader_id=LEADER), leader_endpoint="n1:9093")
        self.broker = fake(state=Life.RUNNING, epoch=9)
        config = fake(request_timeout_ms=TIMEOUT_MS)
        node = fake(replica=self.replica, broker=self.broker, config=config)
        self.host = fake(
            id=SELF,
            name="b4",
            life=1,
            node=node,
            tokens={},
            stopping=False,
            resumed_at=0,
            clock=fake(elapsed=lambda since, now: now - since),
            waited=lambda since, now, slack: max(0, now - since - slack),
        )
        wires = fake(on_client_reply=[], on_ask=[], on_reply=[])
        self.world = fake(now=0, on_trace=[], on_step=[], wires=wires)
        self.calls = self.sent = 0
        ProducerIdWatch(self.world, self.failures)
        self.step()

    @property
    def found(self) -> list[str]:
        return [each.type for each in self.failures.items]

    def step(self, event: Any = None) -> None:
        self.world.on_step[0](self.host, event or Tick())

    def at(self, now: int, event: Any = None) -> list[str]:
        """Return the rules that are broken after a step at ``now``."""
        self.world.now = now
        self.step(event)
        return self.found

    def want(self) -> ClientCall:
        """Let a client ask for an id."""
        self.calls += 1
        request: Any = fake(api=INIT, body={"transactional_id": None})
        call = ClientCall(1, SELF, 1, self.calls, request, "", None, self.world.now)
        self.host.tokens[self.calls] = call
        self.step(ApiRequest(self.calls, INIT, 4, request.body, "PLAINTEXT"))
        return call

    def give(self, number: int, error: int = NONE, call: ClientCall | None = None) -> list[str]:
        """Answer a client; return the rules that are broken."""
        body = {"error_code": error, "producer_id": number}
        self.world.wires.on_client_reply[0](self.host, call or self.want(), body)
        return self.found

    def ask(self, named: int = LEADER, *, step: bool = True) -> Any:
        """Send a request for a block, at the end of a ``step`` now or of an earlier one."""
        self.sent += 1
        message = ApiMessage(ALLOCATE, 0, {})
        if step:
            self.step()
        rpc = fake(
            key=self.sent, correlation=self.sent, named=named, sent=self.world.now, message=message,
            source=SELF, source_life=1,
        )  # fmt: skip
        self.world.wires.on_ask[0](self.host, rpc)
        return rpc

    def answer(self, rpc: Any, start: int = 0, length: int = 2, error: int = NONE) -> None:
        """Let the controller answer, and the broker hear it."""
        body = {"error_code": error, "producer_id_start": start, "producer_id_len": length}
        self.world.wires.on_reply[0](self.host, rpc, fake(body=body))
        self.step(ApiResponseReceived(rpc.named, rpc.correlation, body))


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    return Broker(monkeypatch)


def test_f18_ids_are_those_of_blocks(broker: Broker) -> None:
    broker.answer(broker.ask(), 10)
    assert broker.give(10) == []
    assert broker.give(11) == []
    assert broker.give(12) == ["F18"]
    assert "none of its blocks" in broker.failures.items[0].explanation


def test_f18_no_id_is_given_twice(broker: Broker) -> None:
    broker.answer(broker.ask(), 10)
    broker.give(10)
    assert broker.give(10) == ["F18"]
    assert "another producer has" in broker.failures.items[0].explanation


def test_f18_a_process_uses_no_block_of_the_one_before(broker: Broker) -> None:
    broker.answer(broker.ask(), 10)
    broker.host.life = 2
    broker.world.on_trace[0](broker.host, fake(kind="start"))
    assert broker.give(10) == ["F18"]


def test_f18_an_error_gives_no_id(broker: Broker) -> None:
    assert broker.give(-1, COORDINATOR_LOAD_IN_PROGRESS) == []


def test_f18_one_request_for_a_block_is_in_flight(broker: Broker) -> None:
    broker.world.now = 1
    broker.ask()
    assert broker.found == []
    broker.ask()
    assert broker.found == ["F18"]


def test_f18_a_request_of_the_step_that_finds_the_controller_is_left_out(broker: Broker) -> None:
    broker.ask()
    broker.ask()
    assert broker.found == []


@pytest.mark.parametrize(("asks", "broken"), [(DRIFT_US + 1, ["F18"]), (DRIFT_US, [])])
def test_f18_the_time_of_a_request_begins_with_its_step(
    broker: Broker, asks: int, broken: list[str]
) -> None:
    broker.world.now = 1
    broker.step()
    broker.world.now = 700_000  # The message has waited for the disk.
    broker.ask(step=False)
    broker.world.now = 1 + 1000 * TIMEOUT_MS - asks
    broker.ask()
    assert broker.found == broken


@pytest.mark.parametrize("what", ["answered", "late", "another controller", "a new controller"])
def test_f18_a_request_that_is_not_in_flight_is_repeated(broker: Broker, what: str) -> None:
    broker.world.now = 1
    first = broker.ask(OTHER if what == "another controller" else LEADER)
    if what == "answered":
        broker.answer(first, error=NOT_CONTROLLER)
        broker.world.now += PRODUCER_IDS_BACKOFF_US
    elif what == "late":
        broker.world.now += 1000 * TIMEOUT_MS
    elif what == "a new controller":
        broker.replica.state.leader_id = OTHER
        broker.at(2)
        broker.replica.state.leader_id = LEADER
        broker.at(3)
    broker.ask()
    assert broker.found == []


def test_f18_a_broker_asks_in_time(broker: Broker) -> None:
    broker.want()
    assert broker.at(LATE) == []
    assert broker.at(LATE + 1) == ["F18"]
    assert broker.at(2 * LATE) == ["F18"], "it is reported once"


def test_f18_a_failed_request_is_repeated_in_time(broker: Broker) -> None:
    broker.want()
    rpc = broker.ask()
    assert broker.at(3 * LATE) == []
    broker.answer(rpc, error=NOT_CONTROLLER)
    assert broker.at(4 * LATE) == []
    assert broker.at(4 * LATE + 1) == ["F18"]


def test_f18_a_broker_waits_for_no_replaced_controller(broker: Broker) -> None:
    broker.want()
    broker.ask(OTHER)
    assert broker.at(HANDED_OVER_US - 1) == []
    assert broker.at(HANDED_OVER_US) == ["F18"]


def test_f18_a_request_without_an_answer_ends_after_its_timeout(broker: Broker) -> None:
    broker.want()
    broker.ask()
    end = 1000 * TIMEOUT_MS
    assert broker.at(end + LATE) == []
    assert broker.at(end + LATE + 1) == ["F18"]


@pytest.mark.parametrize(
    "what", ["no client", "no controller", "itself", "starts", "no epoch", "stops", "answered"]
)
def test_f18_nothing_is_to_be_asked(broker: Broker, what: str) -> None:
    call = broker.want() if what != "no client" else None
    if what == "no controller":
        broker.replica.leader_endpoint = None
    elif what == "itself":
        broker.replica.state.leader_id = SELF
    elif what == "starts":
        broker.broker.state = Life.STARTING
    elif what == "no epoch":
        broker.broker.epoch = NO_EPOCH
    elif what == "stops":
        broker.host.stopping = True
    elif what == "answered":
        broker.give(-1, COORDINATOR_LOAD_IN_PROGRESS, call)
    assert broker.at(3 * LATE) == []


@pytest.mark.parametrize("error", [NONE, NOT_CONTROLLER])
@pytest.mark.parametrize(("early", "broken"), [(0, []), (1, ["F18"])])
def test_f18_a_broker_pauses_after_an_error(
    broker: Broker, error: int, early: int, broken: list[str]
) -> None:
    broker.world.now = 1_000
    broker.answer(broker.ask(), error=error)
    broker.world.now += PRODUCER_IDS_BACKOFF_US - DRIFT_US - early
    broker.ask()
    assert broker.found == (broken if error else [])


@pytest.mark.parametrize("what", ["late", "of a replaced controller"])
def test_f18_an_answer_that_a_broker_ignores_makes_no_pause(broker: Broker, what: str) -> None:
    broker.world.now = 1_000
    rpc = broker.ask()
    if what == "late":
        broker.world.now += 1000 * TIMEOUT_MS
    else:
        broker.replica.state.leader_id = OTHER
        broker.at(2_000)
    broker.answer(rpc, error=NOT_CONTROLLER)
    broker.ask(broker.replica.state.leader_id)
    assert broker.found == []

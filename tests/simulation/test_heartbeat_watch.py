"""F27: a broker keeps in touch with the active controller. A second more is given."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.checkers.kraft.limits import REGISTRATION_BACKOFF_MS, STEPS_US
from kraftwreck.nodes.broker.lifecycle import Life
from kraftwreck.nodes.consensus.effects import ApiResponseReceived, Tick
from kraftwreck.nodes.protocol.errors import (
    BROKER_ID_NOT_REGISTERED,
    NOT_CONTROLLER,
    STALE_BROKER_EPOCH,
)
from kraftwreck.nodes.replication.events import LogFlushed
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import heartbeat_watch
from kraftwreck.systems.kraft.simulated.api_message import ApiMessage
from kraftwreck.systems.kraft.simulated.heartbeat_watch import HeartbeatWatch

pytestmark = pytest.mark.interpreted

SELF, LEADER, OTHER = 1, 0, 3
INTERVAL_MS, TIMEOUT_MS = 500, 2000
LATE = 1000 * INTERVAL_MS + STEPS_US


def fake(**fields: Any) -> Any:
    return SimpleNamespace(**fields)


class Asking:
    """A broker that knows a controller from time 0 on."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(heartbeat_watch, "Node", SimpleNamespace)
        self.failures = Failures()
        self.state = fake(leader_id=LEADER)
        self.broker = fake(state=Life.RUNNING)
        self.config = fake(request_timeout_ms=TIMEOUT_MS, heartbeat_interval_ms=INTERVAL_MS)
        replica = fake(state=self.state, leader_endpoint="n2:9093")
        self.node = fake(replica=replica, broker=self.broker, config=self.config)
        self.host = fake(
            id=SELF,
            name="b1",
            stopping=False,
            clock=fake(elapsed=lambda begun, now: now - begun),
            node=self.node,
            waited=lambda since, now, slack: max(0, now - since - slack),
        )
        self.world = fake(now=0, on_trace=[], on_step=[], wires=fake(on_ask=[]))
        HeartbeatWatch(self.world, self.failures)
        self.correlation = 0
        self.step()

    def send(self, now: int, api: str = "BrokerHeartbeat", message: Any = None) -> None:
        self.world.now = now
        self.correlation += 1
        rpc = fake(
            named=LEADER, correlation=self.correlation, message=message or ApiMessage(api, 0, {})
        )
        self.world.wires.on_ask[0](self.host, rpc)

    def hear(
        self, now: int, source: int = LEADER, correlation: int = 0, error: int | None = None
    ) -> None:
        """Let the broker hear an answer; without an error there is none."""
        self.world.now = now
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
def asking(monkeypatch: pytest.MonkeyPatch) -> Asking:
    return Asking(monkeypatch)


@pytest.mark.parametrize("api", ["BrokerHeartbeat", "BrokerRegistration"])
def test_the_next_request_is_due_after_the_interval(asking: Asking, api: str) -> None:
    asking.send(10, api)
    asking.hear(20)
    assert asking.at(20 + LATE) == []
    assert asking.at(21 + LATE) == ["F27"]
    assert "b1 knows node 0" in asking.failures.items[0].explanation
    assert asking.at(20 + 2 * LATE) == ["F27"], "it is reported once"


def test_the_first_request_is_due_once_there_is_a_controller(asking: Asking) -> None:
    assert asking.at(LATE) == []
    assert asking.at(LATE + 1) == ["F27"]


def test_the_step_that_finds_a_broker_late_may_send(asking: Asking) -> None:
    for round_ in range(1, 4):
        now = round_ * (LATE + 1)
        asking.world.now = now
        asking.step()
        asking.send(now)
        asking.hear(now)
    assert asking.failures.items == []


def test_a_request_that_is_not_answered_ends_with_its_time(asking: Asking) -> None:
    asking.send(10)
    over = 10 + 1000 * TIMEOUT_MS
    assert asking.at(over + LATE) == []
    assert asking.at(over + LATE + 1) == ["F27"]


@pytest.mark.parametrize("what", ["source", "correlation"])
def test_the_answer_to_another_request_is_none(asking: Asking, what: str) -> None:
    asking.send(10)
    if what == "source":
        asking.hear(20, source=OTHER)
    else:
        asking.hear(20, correlation=7)
    assert asking.at(1000 * TIMEOUT_MS) == []


def test_other_requests_are_no_heartbeats(asking: Asking) -> None:
    asking.send(LATE, "AlterPartition")
    asking.send(LATE, message=fake(api="BrokerHeartbeat"))
    assert asking.at(LATE + 1) == ["F27"]


def test_the_time_begins_with_the_newest_controller(asking: Asking) -> None:
    asking.world.now = LATE + 1
    asking.step()
    asking.state.leader_id = OTHER
    assert asking.at(LATE + 1) == asking.at(2 * LATE + 1) == []
    assert asking.at(2 * LATE + 2) == ["F27"]


@pytest.mark.parametrize("what", ["no controller", "itself", "stopped", "no broker", "no node"])
def test_a_broker_that_need_not_ask(asking: Asking, what: str) -> None:
    if what in ("no controller", "itself"):
        asking.state.leader_id = -1 if what == "no controller" else SELF
    elif what == "stopped":
        asking.broker.state = Life.STOPPED
    elif what == "no broker":
        asking.node.broker = None
    else:
        asking.host.node = None
    assert asking.at(9 * LATE) == []


def test_another_process_begins_anew(asking: Asking) -> None:
    asking.send(10)
    asking.world.on_trace[0](asking.host, fake(kind="hw"))
    asking.world.on_trace[0](asking.host, fake(kind="start"))
    assert asking.at(9 * LATE) == asking.at(10 * LATE) == []
    assert asking.at(10 * LATE + 1) == ["F27"]


def test_the_interval_is_at_least_the_first_back_off(asking: Asking) -> None:
    asking.config.heartbeat_interval_ms = 1
    due = 1000 * REGISTRATION_BACKOFF_MS + STEPS_US
    assert asking.at(due) == []
    assert asking.at(due + 1) == ["F27"]


def test_events_of_the_data_plane_send_nothing(asking: Asking) -> None:
    assert asking.at(9 * LATE, LogFlushed((bytes(16), 0), 0, 0, 0)) == []


@pytest.mark.parametrize("error", [STALE_BROKER_EPOCH, BROKER_ID_NOT_REGISTERED])
def test_a_broker_that_is_not_known_registers(asking: Asking, error: int) -> None:
    asking.send(10)
    asking.hear(20, error=error)
    asking.send(30, "BrokerRegistration")
    assert asking.failures.items == []
    asking.send(40)
    asking.hear(50, error=error)
    asking.send(60)
    assert "it has to register" in asking.failures.items[0].explanation
    asking.send(70)
    assert len(asking.failures.items) == 1, "it is reported once"


@pytest.mark.parametrize(
    "what", ["another error", "no answer", "stopping", "another process", "too late"]
)
def test_a_broker_may_send_another_heartbeat(asking: Asking, what: str) -> None:
    asking.send(10)
    error = {"another error": NOT_CONTROLLER, "no answer": None}.get(what, STALE_BROKER_EPOCH)
    answered = 10 + 1000 * TIMEOUT_MS if what == "too late" else 20
    asking.hear(answered, error=error)
    asking.host.stopping = what == "stopping"
    if what == "another process":
        asking.world.on_trace[0](asking.host, fake(kind="start"))
    asking.send(answered + 10)
    assert asking.failures.items == []


def test_a_refusal_counts_within_the_time_of_the_request(asking: Asking) -> None:
    asking.send(10)
    asking.hear(9 + 1000 * TIMEOUT_MS, error=STALE_BROKER_EPOCH)
    asking.send(1000 * TIMEOUT_MS)
    assert [each.type for each in asking.failures.items] == ["F27"]

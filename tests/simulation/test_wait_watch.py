"""L13: a produce whose batch had no room does not wait for its time-out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.protocol.errors import KAFKA_STORAGE_ERROR, NONE, REQUEST_TIMED_OUT
from kraftwreck.nodes.replication import effects as out
from kraftwreck.nodes.replication.events import ProduceReceived
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import replica_positions, wait_watch
from tests.replication.world import batch

pytestmark = pytest.mark.interpreted

KEY = (bytes(16), 0)
SENT = batch(1)


class Led:
    """A leader of epoch 3, whose log ends at 7, and which takes a produce."""

    def __init__(self, patch: pytest.MonkeyPatch, *, room: bool) -> None:
        self.failures = Failures()
        self.leader = SimpleNamespace(
            leading=True,
            hw=5,
            log=SimpleNamespace(start=0, end=7),
            assignment=SimpleNamespace(leader_epoch=3),
            in_sync=SimpleNamespace(isr=(4,), pending=None),
        )
        self.host: Any = SimpleNamespace(id=4, life=1, name="b1")
        world: Any = SimpleNamespace(now=0, on_step=[], on_emit=[])
        self.world = world
        self.traffic = SimpleNamespace(on_answer=[])
        disk = SimpleNamespace(logs=SimpleNamespace(full=set()))
        patch.setattr(wait_watch, "record_traffic", lambda world: self.traffic)
        for module in (replica_positions, wait_watch):
            patch.setattr(module, "replicas_on", lambda host: {KEY: self.leader})
        patch.setattr(wait_watch, "disk_of_records", lambda host: disk)
        log = SimpleNamespace(batches=[SENT.placed(6, 3)] if room else [])
        logs: Any = SimpleNamespace(of=lambda host, key: log)
        positions = replica_positions.ReplicaPositions(world)
        wait_watch.WaitWatch(world, self.failures, logs, positions)
        self.event = ProduceReceived(1, -1, 1000, ((KEY, SENT),))
        self.steps(1)
        self.world.on_step[0](self.host, self.event)

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.world.on_emit[0](self.host)

    def answer(self, error: int) -> list[str]:
        message: Any = SimpleNamespace(call=SimpleNamespace(event=self.event))
        effect = out.ReplyProduce(1, (out.ProducedPart(KEY, error),))
        self.traffic.on_answer[0](self.host, message, effect, {})
        return [failure.type for failure in self.failures.items]


def test_a_batch_without_room_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    led = Led(monkeypatch, room=False)
    led.steps(3)
    assert led.answer(KAFKA_STORAGE_ERROR) == []


def test_a_batch_without_room_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    led = Led(monkeypatch, room=False)
    led.steps(3)
    assert led.answer(REQUEST_TIMED_OUT) == ["L13"]


def test_a_batch_that_is_not_replicated_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    led = Led(monkeypatch, room=True)
    led.steps(3)
    assert led.answer(REQUEST_TIMED_OUT) == []


@pytest.mark.parametrize("error", [NONE, REQUEST_TIMED_OUT])
def test_a_batch_that_is_committed_does_not_wait(
    monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    led = Led(monkeypatch, room=True)
    led.leader.hw = 7
    led.steps(3)
    assert led.answer(error) == ["L13"]


def test_another_lead_may_have_cut_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    led = Led(monkeypatch, room=False)
    led.leader.assignment.leader_epoch = 5
    led.steps(3)
    assert led.answer(REQUEST_TIMED_OUT) == []

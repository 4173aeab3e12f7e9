"""L13: requests are answered by the first step that allows it, also if a batch had no room."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.protocol.errors import (
    KAFKA_STORAGE_ERROR,
    NONE,
    REQUEST_TIMED_OUT,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from kraftwreck.nodes.replication import effects as out
from kraftwreck.nodes.replication.events import (
    DeleteRecordsReceived,
    FetchPart,
    FetchReceived,
    Peer,
    ProduceReceived,
)
from kraftwreck.nodes.replication.in_sync import Remote
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import replica_positions, wait_watch
from kraftwreck.systems.kraft.simulated.record_logs import RecordLog
from tests.replication.world import batch

pytestmark = pytest.mark.interpreted

KEY, OTHER = (bytes(16), 0), (bytes(16), 1)
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
            in_sync=SimpleNamespace(isr=(4,), pending=None, remotes={}),
            with_=SimpleNamespace(peers={}),
        )
        self.replicas: dict[Any, Any] = {KEY: self.leader}
        self.host: Any = SimpleNamespace(id=4, life=1, name="b1")
        world: Any = SimpleNamespace(now=0, on_step=[], on_emit=[])
        self.world = world
        self.traffic = SimpleNamespace(on_answer=[])
        disk = SimpleNamespace(logs=SimpleNamespace(full=set()))
        patch.setattr(wait_watch, "record_traffic", lambda world: self.traffic)
        for module in (replica_positions, wait_watch):
            patch.setattr(module, "replicas_on", lambda host: self.replicas)
        patch.setattr(wait_watch, "disk_of_records", lambda host: disk)
        log = RecordLog(batches=[SENT.placed(6, 3)] if room else [])
        logs: Any = SimpleNamespace(of=lambda host, key: log)
        positions = replica_positions.ReplicaPositions(world)
        wait_watch.WaitWatch(world, self.failures, logs, positions)
        self.event: Any = ProduceReceived(1, -1, 1000, ((KEY, SENT),))
        self.steps(1)
        self.handle()

    def handle(self, event: Any = None) -> None:
        self.event = event or self.event
        self.world.on_step[0](self.host, self.event)

    def steps(self, count: int) -> None:
        for _ in range(count):
            for each in self.world.on_emit:
                each(self.host)

    def answer(self, error: int) -> list[str]:
        message: Any = SimpleNamespace(call=SimpleNamespace(event=self.event))
        effect: Any = out.ReplyProduce(1, (out.ProducedPart(KEY, error),))
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


@pytest.mark.parametrize(("steps", "broken"), [(1, []), (2, ["L13"])])
@pytest.mark.parametrize(
    "event", [None, FetchReceived(1, (FetchPart(KEY, 5, 100), FetchPart(OTHER, 5, 100)))]
)
def test_a_partition_that_is_removed_ends_its_requests(
    monkeypatch: pytest.MonkeyPatch, event: Any, steps: int, broken: list[str]
) -> None:
    led = Led(monkeypatch, room=True)
    led.replicas[OTHER] = led.leader
    led.steps(2)
    led.handle(event)
    led.steps(2)
    del led.replicas[KEY]
    led.steps(steps)
    assert led.answer(UNKNOWN_TOPIC_OR_PARTITION) == broken


def test_a_broker_that_does_not_know_its_partitions_yet_lets_requests_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    led = Led(monkeypatch, room=True)
    led.replicas.clear()
    led.steps(2)
    led.handle(ProduceReceived(9, -1, 1000, ((KEY, SENT),)))
    led.steps(3)
    assert led.answer(UNKNOWN_TOPIC_OR_PARTITION) == []


def test_a_partition_that_is_there_again_ends_no_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    led = Led(monkeypatch, room=True)
    led.steps(3)
    del led.replicas[KEY]
    led.steps(1)
    led.replicas[KEY] = led.leader
    led.steps(1)
    assert led.answer(NONE) == []


def test_a_request_for_several_partitions_may_wait_for_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    led = Led(monkeypatch, room=True)
    led.steps(2)
    led.handle(ProduceReceived(1, -1, 1000, ((KEY, SENT), (OTHER, SENT))))
    led.steps(3)
    assert led.answer(NONE) == []


@pytest.mark.parametrize(("steps", "broken"), [(1, []), (2, ["L13"])])
def test_the_step_after_the_one_that_handles_a_request_may_answer_it(
    monkeypatch: pytest.MonkeyPatch, steps: int, broken: list[str]
) -> None:
    led = Led(monkeypatch, room=True)
    led.leader.hw = 7
    led.steps(2)
    led.handle()
    led.steps(steps)
    assert led.answer(NONE) == broken


@pytest.mark.parametrize(
    ("offset", "least", "broken"),
    [(1, 1, []), (2, 1, ["L13"]), (4, 1, ["L13"]), (5, 1, []), (4, 2, [])],
)
def test_a_fetch_of_a_byte_does_not_wait_while_there_are_records(
    monkeypatch: pytest.MonkeyPatch, offset: int, least: int, broken: list[str]
) -> None:
    """The log begins at 2, and consumers read to 5. More bytes may have to be waited for."""
    led = Led(monkeypatch, room=True)
    led.leader.log.start = 2
    led.steps(2)
    led.handle(FetchReceived(1, (FetchPart(KEY, offset, 100),), min_bytes=least))
    led.steps(3)
    assert led.answer(NONE) == broken


@pytest.fixture
def deleting(monkeypatch: pytest.MonkeyPatch) -> Led:
    """A leader that deletes below 4, as a replica that is alive and a fenced one have not."""
    led = Led(monkeypatch, room=True)
    led.leader.log.start = 4
    led.leader.in_sync.remotes = {5: Remote(0, start=3), 6: Remote(0, start=3)}
    led.leader.with_.peers = {5: Peer(1, eligible=True), 6: Peer(1, eligible=False)}
    led.handle(DeleteRecordsReceived(1, 1000, ((KEY, 4),)))
    led.steps(9)
    assert led.failures.items == []
    return led


@pytest.mark.parametrize(("steps", "broken"), [(2, []), (3, ["L13"]), (9, ["L13"])])
def test_a_deletion_that_all_live_replicas_have_made_is_answered(
    deleting: Led, steps: int, broken: list[str]
) -> None:
    deleting.leader.in_sync.remotes[5].start = 4
    deleting.steps(steps)
    assert [each.type for each in deleting.failures.items] == broken


@pytest.mark.parametrize("what", ["deposed", "removed", "answered", "another process", "behind"])
def test_a_deletion_that_need_not_be_answered(deleting: Led, what: str) -> None:
    deleting.leader.in_sync.remotes[5].start = 4
    deleting.steps(2)
    if what == "deposed":
        deleting.leader.leading = False
    elif what == "removed":
        del deleting.replicas[KEY]
    elif what == "answered":
        deleting.answer(NONE)
    elif what == "another process":
        deleting.host.life += 1
    else:
        deleting.leader.in_sync.remotes[5].start = 3
    deleting.steps(9)
    assert deleting.failures.items == []


def test_a_deletion_up_to_the_high_watermark_is_one_up_to_where_the_log_begins(
    deleting: Led,
) -> None:
    deleting.answer(NONE)
    deleting.handle(DeleteRecordsReceived(2, 1000, ((KEY, -1),)))
    deleting.steps(9)
    deleting.leader.in_sync.remotes.clear()
    deleting.steps(3)
    assert [each.type for each in deleting.failures.items] == ["L13"]


@pytest.mark.parametrize("what", ["refused", "follower", "several"])
def test_a_deletion_that_has_not_begun_is_not_judged(deleting: Led, what: str) -> None:
    deleting.answer(NONE)
    deleting.leader.in_sync.remotes.clear()
    deleting.leader.leading = what != "follower"
    parts = ((KEY, 5 if what == "refused" else 4),)
    more = ((OTHER, 0),) if what == "several" else ()
    deleting.handle(DeleteRecordsReceived(2, 1000, parts + more))
    deleting.leader.leading = True
    deleting.steps(9)
    assert deleting.failures.items == []

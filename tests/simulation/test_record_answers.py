"""Answers about records: their leader epoch (D10), acknowledgements, and what consumers read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.log.batch import encode_batch
from kraftwreck.nodes.protocol.errors import (
    NONE,
    NOT_LEADER_OR_FOLLOWER,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
)
from kraftwreck.nodes.replication import effects as out
from kraftwreck.nodes.replication.events import (
    Assignment,
    EpochEndsReceived,
    FetchPart,
    FetchReceived,
    ListOffsetsReceived,
    ProduceReceived,
    Settings,
)
from kraftwreck.nodes.replication.headers import PartitionKey
from kraftwreck.nodes.replication.partition import LATEST
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import record_answers, replica_positions
from kraftwreck.systems.kraft.simulated.record_logs import RecordLog
from tests.simulation.replicas import batch

pytestmark = pytest.mark.interpreted

KEY = (bytes(16), 0)


@pytest.mark.parametrize("of_ends", [False, True])
@pytest.mark.parametrize(
    ("named", "wrong"), [(0, True), (7, True), (8, False), (9, False), (10, True)]
)
def test_the_step_that_answers_may_take_newer_metadata_afterwards(
    monkeypatch: pytest.MonkeyPatch, named: int, wrong: bool, of_ends: bool
) -> None:
    """A step has answered and moved the leader epoch from 8 to 9; the one before, from 7."""
    failures = Failures()
    world: Any = SimpleNamespace(now=0, on_emit=[])
    watch: Any = SimpleNamespace(on_committed=[])
    host: Any = SimpleNamespace(id=4, life=1, name="b1")
    assignment = SimpleNamespace(leader_epoch=7)
    partition: Any = SimpleNamespace(assignment=assignment, hw=0, log=None)
    partition.in_sync = SimpleNamespace(isr=(4,), pending=None)
    traffic = SimpleNamespace(on_request=[], on_answer=[])
    monkeypatch.setattr(record_answers, "record_traffic", lambda world: traffic)
    monkeypatch.setattr(replica_positions, "replicas_on", lambda host: {KEY: partition})
    positions = replica_positions.ReplicaPositions(world)
    answers = record_answers.RecordAnswers(world, failures, watch, positions)
    for epoch in (7, 8, 9):
        assignment.leader_epoch = epoch
        world.on_emit[0](host)
    event: Any = ListOffsetsReceived(1, ((KEY, LATEST, named),))
    effect: Any = out.ReplyListOffsets(1, (out.OffsetPart(KEY, NONE),))
    if of_ends:
        event = EpochEndsReceived(1, ((KEY, named, 3),))
        effect = out.ReplyEpochEnds(1, ((KEY, NONE, 3, 9),))
    answers._judge_epochs(host, event, effect, {KEY: partition})
    assert [failure.type for failure in failures.items] == ["D10"] * wrong


class Answering:
    """A leader of epoch 3 with two replicas in sync; its log goes from 2 to 10, committed to 6."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.failures = Failures()
        self.committed: dict[int, Any] = {}
        self.before = 0
        self.full: set[PartitionKey] = set()
        self.disk = RecordLog(2)
        world: Any = SimpleNamespace(now=0)
        watch: Any = SimpleNamespace(
            on_committed=[], lost=set(), committed_before=lambda key, epoch: self.before,
            committed_at=lambda key, offset: self.committed.get(offset),
            logs=SimpleNamespace(of=lambda host, key: self.disk),
        )  # fmt: skip
        self.watch = watch
        self.leader: Any = SimpleNamespace(
            key=KEY, leading=True, hw=6, log=SimpleNamespace(start=2, end=10),
            settings=Settings(min_insync=2), assignment=Assignment((4, 5, 6), (4, 5), 4, 3, 0),
            in_sync=SimpleNamespace(isr=(4, 5), pending=None),
        )  # fmt: skip
        data = SimpleNamespace(core=SimpleNamespace(partitions={KEY: self.leader}))
        node = SimpleNamespace(broker=SimpleNamespace(data=data))
        self.host: Any = SimpleNamespace(id=4, life=1, name="b1", node=node)
        traffic = SimpleNamespace(on_request=[], on_answer=[])
        patch.setattr(record_answers, "record_traffic", lambda world: traffic)
        logs = SimpleNamespace(full=self.full)
        patch.setattr(record_answers, "disk_of_records", lambda host: SimpleNamespace(logs=logs))
        positions: Any = SimpleNamespace(before=lambda host, key: None)
        self.rules = record_answers.RecordAnswers(world, self.failures, watch, positions)

    @property
    def broken(self) -> list[str]:
        return [failure.type for failure in self.failures.items]

    def answer(self, event: Any, effect: Any, body: Any) -> list[str]:
        message: Any = SimpleNamespace(call=SimpleNamespace(event=event))
        self.rules.answered(self.host, message, effect, body)
        return self.broken

    def produce(self, sent: Any, error: int, offset: int) -> list[str]:
        event = ProduceReceived(1, -1, 1000, ((KEY, sent),))
        message: Any = SimpleNamespace(call=SimpleNamespace(event=event))
        self.rules.read(self.host, message)
        part = {"index": 0, "error_code": error, "base_offset": offset}
        body = {"responses": [{"partition_responses": [part]}]}
        return self.answer(event, out.ReplyProduce(1, ()), body)

    def fetch(self, watermark: int, *, records: bytes = b"") -> list[str]:
        """Answer a consumer."""
        event = FetchReceived(1, (FetchPart(KEY, 2, 1),))
        told = out.ReadPart(KEY, NONE, watermark, 2)
        part = {"partition_index": 0, "records": records, "high_watermark": watermark}
        body = {"responses": [{"partitions": [part]}]}
        return self.answer(event, out.ReplyFetch(1, NONE, 0, 1, (told,)), body)

    def latest(self, offset: int, epoch: int) -> list[str]:
        event = ListOffsetsReceived(1, ((KEY, LATEST, -1),))
        effect = out.ReplyListOffsets(1, (out.OffsetPart(KEY, NONE, offset, epoch),))
        return self.answer(event, effect, {"topics": []})


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Answering:
    return Answering(monkeypatch)


@pytest.mark.parametrize(
    ("offset", "least", "broken"),
    [(4, 2, []), (4, 3, ["D14"]), (5, 2, ["D1"]), (2, 2, ["D1"]), (1, 2, [])],
)
def test_an_acknowledged_batch_is_committed_with_enough_replicas(
    offset: int, least: int, broken: list[str], answering: Answering
) -> None:
    """Two records: those at 4 and 5 are committed, others are not. Those below 2 were deleted."""
    answering.committed[4] = (4, 6, 3, 77)
    answering.leader.settings = Settings(min_insync=least)
    assert answering.produce(batch(0, 2, crc=77), NONE, offset) == broken


@pytest.mark.parametrize(("offset", "broken"), [(2, []), (4, ["D1"])])
def test_a_leader_acknowledges_what_it_stored_before_there_was_no_room(
    offset: int, broken: list[str], answering: Answering
) -> None:
    """A later batch of the step had no room, so the leader is judged after the next (seed
    3000272 of runs with records)."""
    answering.full.add(KEY)
    answering.disk.batches.append(batch(2, 4, crc=77))
    assert answering.produce(batch(0, 2, crc=77), NONE, offset) == broken


@pytest.mark.parametrize(("refusals", "broken"), [(1, []), (2, ["D4"])])
def test_a_batch_that_was_refused_each_time_is_not_committed(
    refusals: int, broken: list[str], answering: Answering
) -> None:
    sent = batch(0, 2, crc=77)
    for number in range(2):
        error = OUT_OF_ORDER_SEQUENCE_NUMBER if number < refusals else NOT_LEADER_OR_FOLLOWER
        answering.produce(sent, error, -1)
    answering.watch.on_committed[0](KEY, sent)
    assert answering.broken == broken


@pytest.mark.parametrize(
    ("first", "second", "broken"), [(6, 6, []), (6, 5, ["D5"]), (5, 6, []), (7, 7, ["D5"] * 2)]
)
def test_consumers_read_to_a_high_watermark_that_does_not_decrease(
    first: int, second: int, broken: list[str], answering: Answering
) -> None:
    answering.fetch(first)
    assert answering.fetch(second) == broken


@pytest.mark.parametrize(("base", "broken"), [(4, []), (5, ["D5"])])
def test_consumers_get_no_records_above_the_high_watermark(
    base: int, broken: list[str], answering: Answering
) -> None:
    records = encode_batch(base, 3, 0, [(b"k", b"v")] * 2, control=False)
    assert answering.fetch(6, records=records) == broken


@pytest.mark.parametrize(
    ("offset", "epoch", "broken"),
    [(6, 3, []), (5, 3, ["D13"]), (5, 4, ["D13"]), (6, 4, []), (5, 2, [])],
)
def test_the_latest_offset_does_not_decrease(
    offset: int, epoch: int, broken: list[str], answering: Answering
) -> None:
    """A deposed leader of epoch 2 may answer late."""
    answering.latest(6, 3)
    assert answering.latest(offset, epoch) == broken


@pytest.mark.parametrize(("offset", "broken"), [(6, []), (5, ["D13"])])
def test_a_new_leader_names_no_end_below_what_was_committed(
    offset: int, broken: list[str], answering: Answering
) -> None:
    answering.before = 6
    assert answering.latest(offset, 4) == broken

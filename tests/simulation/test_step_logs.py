"""D7 and D16: an answer is about the log as it was when the step gave it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.protocol.errors import (
    NONE,
    OFFSET_NOT_AVAILABLE,
    OFFSET_OUT_OF_RANGE,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
)
from kraftwreck.nodes.replication import effects as out
from kraftwreck.nodes.replication.events import (
    EpochEndsReceived,
    FetchPart,
    FetchReceived,
    ListOffsetsReceived,
    ProduceReceived,
)
from kraftwreck.nodes.replication.headers import Batch
from kraftwreck.nodes.replication.partition import LATEST
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import (
    record_lookups,
    record_refusals,
    replica_positions,
)
from kraftwreck.systems.kraft.simulated.answer_evidence import AnswerEvidence
from kraftwreck.systems.kraft.simulated.per_second import PerSecond
from kraftwreck.systems.kraft.simulated.record_logs import RecordLog
from kraftwreck.systems.kraft.simulated.replica_positions import ReplicaPositions
from kraftwreck.systems.kraft.simulated.step_logs import StepLogs

pytestmark = pytest.mark.interpreted

KEY = (bytes(16), 0)
PRODUCER = 7


def batch(offset: int, sequence: int, epoch: int = 0) -> Batch:
    """Return a batch with one record."""
    return Batch(offset, 0, epoch, PRODUCER, 0, sequence, 0, 1, 70, offset, 0)


class Leader:
    """A broker that leads epoch 1 of a partition; its log has one record of epoch 0."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.failures = Failures()
        self.log = RecordLog(0, [batch(0, 0)])
        view = SimpleNamespace(start=0, end=1)
        assignment = SimpleNamespace(leader_epoch=1)
        partition = SimpleNamespace(
            key=KEY, hw=0, leading=True, log=view, assignment=assignment, epoch_start=1
        )
        data = SimpleNamespace(core=SimpleNamespace(partitions={KEY: partition}))
        image = SimpleNamespace(stable=SimpleNamespace(topics={}))
        node = SimpleNamespace(broker=SimpleNamespace(data=data), image=image)
        self.host: Any = SimpleNamespace(id=4, name="b1", life=1, node=node)
        world: Any = SimpleNamespace(now=0, hosts=[self.host], on_emit=[], on_step=[])
        logs: Any = SimpleNamespace(of=lambda host, key: self.log, on_append=[], on_delete=[])
        full = SimpleNamespace(logs=SimpleNamespace(full=()))
        traffic = SimpleNamespace(on_answer=[])
        for module in (record_lookups, record_refusals):
            patch.setattr(module, "record_traffic", lambda world: traffic)
            patch.setattr(module, "disk_of_records", lambda host: full)
        patch.setattr(record_refusals, "replicas_on", lambda host: {KEY: partition})
        steps, positions = StepLogs(world, logs), ReplicaPositions(world)
        watch: Any = SimpleNamespace(logs=logs)
        evidence = AnswerEvidence(world, self.failures, watch, steps, positions)
        record_lookups.RecordLookups(evidence)
        record_refusals.RecordRefusals(evidence)
        self.world, self.logs, self.traffic, self.steps = world, logs, traffic, steps

    def step(self) -> None:
        self.world.on_step[0](self.host, None)

    def append(self, sequence: int, epoch: int = 1) -> None:
        self.log.batches.append(batch(self.log.end, sequence, epoch))
        self.logs.on_append[0](self.host, KEY, self.log.batches[-1])

    def delete(self, offset: int) -> None:
        began, self.log.start = self.log.start, offset
        gone = [each for each in self.log.batches if each.next_offset <= offset]
        self.log.batches = self.log.batches[len(gone) :]
        self.logs.on_delete[0](self.host, KEY, began, gone)

    def answers(self, event: Any, effect: Any) -> list[str]:
        """Return the rules that the answer breaks."""
        message = SimpleNamespace(call=SimpleNamespace(event=event), is_copy=False)
        for told in self.traffic.on_answer:
            told(self.host, message, effect, {"responses": [], "topics": []})
        return [failure.type for failure in self.failures.items]

    def ends(self, asked: int, epoch: int, end: int) -> list[str]:
        """Return what an answer to OffsetForLeaderEpoch breaks."""
        event = EpochEndsReceived(1, ((KEY, -1, asked),))
        return self.answers(event, out.ReplyEpochEnds(1, ((KEY, NONE, epoch, end),)))

    def refuses_fetch(self, offset: int) -> list[str]:
        """Return what the refusal of a fetch breaks: its offset is out of range."""
        event = FetchReceived(1, (FetchPart(KEY, offset, 1),))
        part = out.ReadPart(KEY, OFFSET_OUT_OF_RANGE)
        return self.answers(event, out.ReplyFetch(1, NONE, 0, 1, (part,)))

    def refuses(self, sequence: int) -> list[str]:
        """Return what the refusal of a batch breaks: its sequence number is out of order."""
        event = ProduceReceived(1, -1, 1000, ((KEY, batch(-1, sequence)),))
        part = out.ProducedPart(KEY, OUT_OF_ORDER_SEQUENCE_NUMBER)
        return self.answers(event, out.ReplyProduce(1, (part,)))


@pytest.fixture
def leader(monkeypatch: pytest.MonkeyPatch) -> Leader:
    found = Leader(monkeypatch)
    found.step()
    return found


def test_requests_that_waited_may_be_answered_out_of_order(leader: Leader) -> None:
    """A log opens: the batch with sequence number 2 waited first, then the one with 1."""
    leader.append(1)
    assert leader.refuses(2) == []
    leader.step()
    assert leader.refuses(2) == ["D16"]


@pytest.mark.parametrize(
    ("end", "right"), [(1, True), (2, True), (3, True), (0, False), (4, False)]
)
def test_an_epoch_ends_where_it_did_between_two_appends(
    leader: Leader, end: int, right: bool
) -> None:
    leader.append(1)
    leader.append(2)
    assert leader.ends(1, 1, end) == ([] if right else ["D7"])


@pytest.mark.parametrize(("offset", "broken"), [(0, ["D16"]), (1, ["D16"]), (2, []), (3, [])])
def test_an_offset_is_out_of_range_before_the_appends_of_its_step(
    leader: Leader, offset: int, broken: list[str]
) -> None:
    leader.append(1)
    leader.append(2)
    assert leader.refuses_fetch(offset) == broken
    leader.step()
    assert leader.refuses_fetch(offset) == [*broken, "D16"]


def test_what_was_true_before_the_step_is_no_answer(leader: Leader) -> None:
    leader.append(1)
    leader.step()
    assert leader.ends(1, 1, 1) == ["D7"]


def test_an_epoch_may_have_been_deleted_after_the_answer(leader: Leader) -> None:
    leader.append(1)
    leader.delete(2)
    assert leader.ends(0, 0, 1) == []
    leader.step()
    assert leader.ends(0, 0, 1) == ["D7"]


def test_a_log_has_no_batch_that_ends_where_it_begins(leader: Leader) -> None:
    leader.append(1)
    leader.append(2)
    leader.delete(1)
    states = leader.steps.states(leader.host, KEY, leader.log)
    assert [(each.start, [kept.base_offset for kept in each.batches]) for each in states] == [
        (1, [1, 2]),
        (0, [0, 1, 2]),
        (0, [0, 1]),
        (1, [1]),
        (0, [0]),
        (1, []),
    ]


@pytest.mark.parametrize("waited", [True, False])
def test_a_fetch_beyond_the_log_diverged_when_it_was_answered(leader: Leader, waited: bool) -> None:
    leader.append(1)
    if not waited:
        leader.step()
    event = FetchReceived(1, (FetchPart(KEY, 2, 1, last_fetched_epoch=1),), replica_id=2)
    part = out.ReadPart(KEY, NONE, 0, 0, diverging=(1, 1))
    assert leader.answers(event, out.ReplyFetch(1, NONE, 0, 1, (part,))) == (
        [] if waited else ["D7"]
    )


@pytest.mark.parametrize("hw", [7, 9])
def test_an_end_may_be_unknown_before_the_rest_of_a_step(
    hw: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D16: the step that refused the request may raise the high watermark after that."""
    failures = Failures()
    world: Any = SimpleNamespace(now=0, on_emit=[])
    host: Any = SimpleNamespace(id=4, life=1, name="b1")
    epoch, log = SimpleNamespace(leader_epoch=3), SimpleNamespace(start=0, end=9)
    leader = SimpleNamespace(leading=True, log=log, hw=7, epoch_start=7, assignment=epoch)
    leader.in_sync = SimpleNamespace(isr=(4,), pending=None)
    traffic = SimpleNamespace(on_answer=[])
    monkeypatch.setattr(record_refusals, "record_traffic", lambda world: traffic)
    for module in (record_refusals, replica_positions):
        monkeypatch.setattr(module, "replicas_on", lambda host: {KEY: leader})
    unused: Any = None
    positions = ReplicaPositions(world)
    evidence = AnswerEvidence(world, failures, unused, unused, positions)
    refusals = record_refusals.RecordRefusals(evidence)
    world.on_emit[0](host)
    leader.hw = hw
    world.on_emit[0](host)
    event = ListOffsetsReceived(1, ((KEY, LATEST, -1),))
    message: Any = SimpleNamespace(call=SimpleNamespace(event=event), is_copy=False)
    answer = out.ReplyListOffsets(1, (out.OffsetPart(KEY, OFFSET_NOT_AVAILABLE),))
    refusals.answered(host, message, answer, {})
    assert [failure.type for failure in failures.items] == (["D16"] if hw == 7 else [])


def test_counts_begin_again_with_each_second() -> None:
    counts = PerSecond()
    assert [counts.count("a", at) for at in (0, 999_999, 1_000_000, 1_000_001)] == [1, 2, 1, 2]
    assert counts.count("b", 1_000_002) == 1

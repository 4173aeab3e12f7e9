"""D16: the reasons that brokers give for refusals, each at the edge where it holds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.protocol import errors
from kraftwreck.nodes.replication import effects as out
from kraftwreck.nodes.replication.events import (
    Assignment,
    DeleteRecordsReceived,
    FetchPart,
    FetchReceived,
    ProduceReceived,
    Settings,
)
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import ClientCall
from kraftwreck.systems.kraft.simulated import record_refusals, replica_positions
from kraftwreck.systems.kraft.simulated.answer_evidence import AnswerEvidence
from kraftwreck.systems.kraft.simulated.record_logs import RecordLog
from kraftwreck.systems.kraft.simulated.record_refusals import (
    RecordRefusals,
    wrongly_answered,
    wrongly_refused,
)
from kraftwreck.systems.kraft.simulated.replica_positions import ReplicaPositions
from tests.simulation.replicas import KEY, batch

pytestmark = pytest.mark.interpreted

ALL, ONE = -1, 1


def leader(*, epoch: int = 3, isr: tuple[int, ...] = (4, 5), **settings: Any) -> Any:
    """A leader, whose high watermark and epoch are at 10."""
    return SimpleNamespace(
        key=KEY,
        leading=True,
        hw=10,
        epoch_start=10,
        log=SimpleNamespace(start=0, end=12),
        in_sync=SimpleNamespace(isr=isr, pending=None),
        assignment=Assignment((4, 5, 6), isr, 4, epoch, 0),
        settings=Settings(**settings),
    )


@pytest.mark.parametrize(
    ("error", "least", "right"),
    [
        (errors.NOT_ENOUGH_REPLICAS, 2, False),
        (errors.NOT_ENOUGH_REPLICAS, 3, True),
        (errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND, 2, False),
        (errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND, 3, True),
    ],
)
def test_an_isr_of_two_is_too_small_for_three(error: int, least: int, right: bool) -> None:
    wrong = wrongly_refused(leader(min_insync=least), None, batch(0, 1), ALL, error)
    assert (wrong == "") is right


def test_only_acks_all_needs_an_isr() -> None:
    partition, error = leader(min_insync=3), errors.NOT_ENOUGH_REPLICAS
    assert wrongly_refused(partition, None, batch(0, 1), ONE, error) != ""


@pytest.mark.parametrize(("size", "right"), [(100, False), (101, True)])
def test_a_batch_is_too_large_above_the_limit(size: int, right: bool) -> None:
    partition, error = leader(max_batch_bytes=100), errors.MESSAGE_TOO_LARGE
    wrong = wrongly_refused(partition, None, batch(0, 1, size=size), ALL, error)
    assert (wrong == "") is right


SEQUENCE, EPOCH = errors.OUT_OF_ORDER_SEQUENCE_NUMBER, errors.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize(
    ("error", "epoch", "sequence", "right"),
    [
        (EPOCH, 1, 0, True),  # The log has epoch 2.
        (EPOCH, 2, 0, False),
        (SEQUENCE, 1, 9, False),  # An older epoch has another error.
        (SEQUENCE, 2, 8, False),  # The log ends with sequence number 7.
        (SEQUENCE, 2, 9, True),
        (SEQUENCE, 2, 0, True),
        (SEQUENCE, 2, 4, False),  # This is the last batch itself.
        (SEQUENCE, 3, 0, False),  # A new epoch begins with 0.
        (SEQUENCE, 3, 8, True),
        (SEQUENCE, 3, 4, True),
    ],
)
def test_sequence_numbers_are_refused_only_out_of_order(
    error: int, epoch: int, sequence: int, right: bool
) -> None:
    log = RecordLog(0, [batch(0, 4, producer_id=7, producer_epoch=2, base_sequence=4)])
    sent = batch(0, 4, producer_id=7, producer_epoch=epoch, base_sequence=sequence)
    assert (wrongly_refused(leader(), log, sent, ALL, error) == "") is right


@pytest.mark.parametrize(
    ("error", "epoch", "right"),
    [
        (errors.FENCED_LEADER_EPOCH, -1, False),
        (errors.FENCED_LEADER_EPOCH, 0, True),
        (errors.FENCED_LEADER_EPOCH, 2, True),
        (errors.FENCED_LEADER_EPOCH, 3, False),
        (errors.UNKNOWN_LEADER_EPOCH, 3, False),
        (errors.UNKNOWN_LEADER_EPOCH, 4, True),
    ],
)
def test_an_epoch_is_fenced_below_that_of_the_leader_and_unknown_above(
    error: int, epoch: int, right: bool
) -> None:
    assert (wrongly_answered(leader(), error, epoch, follower=False) == "") is right


@pytest.mark.parametrize(("hw", "right"), [(9, True), (10, False)])
def test_an_end_is_unknown_until_the_leader_has_committed_in_its_epoch(
    hw: int, right: bool
) -> None:
    partition, error = leader(), errors.OFFSET_NOT_AVAILABLE
    partition.hw = hw
    assert (wrongly_answered(partition, error, -1, follower=False) == "") is right


class Answering:
    """The leader, and a client whose request it got at 0."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.failures, self.leader = Failures(), leader()
        world: Any = SimpleNamespace(now=0, on_emit=[])
        clock = SimpleNamespace(elapsed=lambda since, now: now - since)
        call = ClientCall.__new__(ClientCall)
        call.sent = 0
        self.host: Any = SimpleNamespace(id=4, life=1, name="b1", clock=clock, tokens={1: call})
        disk = SimpleNamespace(logs=SimpleNamespace(full=set()))
        patch.setattr(record_refusals, "record_traffic", lambda _: SimpleNamespace(on_answer=[]))
        patch.setattr(record_refusals, "disk_of_records", lambda _: disk)
        for module in (record_refusals, replica_positions):
            patch.setattr(module, "replicas_on", lambda _: {KEY: self.leader})
        logs = SimpleNamespace(of=lambda host, key: RecordLog(0, [batch(0, 12)]))
        steps: Any = SimpleNamespace(states=lambda host, key, log: iter((log,)))
        watch: Any = SimpleNamespace(logs=logs)
        positions = ReplicaPositions(world)
        evidence = AnswerEvidence(world, self.failures, watch, steps, positions)
        self.rules = RecordRefusals(evidence)
        self.world = world
        for _ in range(2):  # The last step has changed nothing.
            world.on_emit[0](self.host)

    def answer(self, event: Any, effect: Any, *, is_copy: bool = False) -> list[str]:
        message: Any = SimpleNamespace(call=SimpleNamespace(event=event), is_copy=is_copy)
        self.rules.answered(self.host, message, effect, {})
        return [failure.type for failure in self.failures.items]


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Answering:
    return Answering(monkeypatch)


@pytest.mark.parametrize(("now", "broken"), [(499_999, ["D16"]), (500_000, [])])
def test_the_time_of_a_produce_is_over_when_it_is(
    answering: Answering, now: int, broken: list[str]
) -> None:
    answering.world.now = now
    event = ProduceReceived(1, ALL, 500, ((KEY, batch(0, 1)),))
    effect = out.ReplyProduce(1, (out.ProducedPart(KEY, errors.REQUEST_TIMED_OUT),))
    assert answering.answer(event, effect) == broken


@pytest.mark.parametrize(("now", "broken"), [(499_999, ["D16"]), (500_000, [])])
@pytest.mark.parametrize("least", [0, 1])
def test_a_long_poll_without_news_takes_its_time(
    answering: Answering, least: int, now: int, broken: list[str]
) -> None:
    """A fetch of no bytes does not wait."""
    answering.world.now = now
    event = FetchReceived(1, (FetchPart(KEY, 10, 1),), max_wait_ms=500, min_bytes=least)
    effect = out.ReplyFetch(1, errors.NONE, 0, 1, (out.ReadPart(KEY, errors.NONE, 10, 0),))
    assert answering.answer(event, effect) == (broken if least else [])


@pytest.mark.parametrize(("epoch", "broken"), [(2, []), (1, ["D16"])])
def test_a_request_of_a_session_is_answered_once(
    answering: Answering, epoch: int, broken: list[str]
) -> None:
    answering.world.now = 500_000
    for session_epoch in (1, epoch):
        event = FetchReceived(1, (), session_id=7, session_epoch=session_epoch)
        answering.answer(event, out.ReplyFetch(1, errors.NONE, 7, 1, ()))
    assert [failure.type for failure in answering.failures.items] == broken


@pytest.mark.parametrize(("offset", "broken"), [(-2, []), (-1, ["D16"]), (10, ["D16"]), (11, [])])
def test_records_can_be_deleted_up_to_the_high_watermark(
    answering: Answering, offset: int, broken: list[str]
) -> None:
    """-1 stands for the high watermark."""
    event = DeleteRecordsReceived(1, 500, ((KEY, offset),))
    effect = out.ReplyDeleteRecords(1, ((KEY, errors.OFFSET_OUT_OF_RANGE, -1),))
    assert answering.answer(event, effect) == broken


def test_a_new_session_has_no_request_before(answering: Answering) -> None:
    event = FetchReceived(1, (), replica_id=5, session_epoch=0)
    for _ in range(2):
        assert answering.answer(event, out.ReplyFetch(1, errors.NONE, 7, 1, ())) == []


@pytest.mark.parametrize(
    ("offset", "epoch", "broken"),
    [(12, 3, ["D16"]), (13, 3, []), (0, -1, ["D16"]), (12, 4, [])],
)
def test_an_offset_is_out_of_range_outside_of_the_log(
    answering: Answering, offset: int, epoch: int, broken: list[str]
) -> None:
    """The offset of a follower that knows a newer epoch is not judged."""
    part = FetchPart(KEY, offset, 1, last_fetched_epoch=epoch)
    event = FetchReceived(1, (part,), replica_id=5)
    told = out.ReadPart(KEY, errors.OFFSET_OUT_OF_RANGE)
    assert answering.answer(event, out.ReplyFetch(1, errors.NONE, 0, 1, (told,))) == broken


def test_a_follower_that_is_refused_waits(answering: Answering) -> None:
    event = FetchReceived(1, (FetchPart(KEY, 10, 1, leader_epoch=2),), replica_id=5)
    refused = out.ReadPart(KEY, errors.FENCED_LEADER_EPOCH)
    effect = out.ReplyFetch(1, errors.NONE, 0, 1, (refused,))
    for _ in range(19):
        assert answering.answer(event, effect) == []
    assert answering.answer(event, effect, is_copy=True) == [], "seed 3200897"
    assert answering.answer(event, effect) == ["L8"]

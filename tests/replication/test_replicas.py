"""One broker's core: requests, their errors and their waiting."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kraftwreck.nodes.log.batch import NO_TIMESTAMP
from kraftwreck.nodes.protocol import errors
from kraftwreck.nodes.replication import effects as out
from kraftwreck.nodes.replication import events as come
from kraftwreck.nodes.replication.headers import Batch
from kraftwreck.nodes.replication.replicas import Replicas
from tests.replication.world import BROKERS, KEY, LAG_US, batch

PEERS = {broker: come.Peer(1, eligible=True) for broker in BROKERS}


class Broker:
    """Broker 1 and its virtual time; effects other than answers are in ``did``."""

    def __init__(self, isr: tuple[int, ...] = (1, 2), leader: int = 1, **settings: Any) -> None:
        self.core = Replicas(1, 1, 0, LAG_US)
        self.now = 0
        self.did: list[out.Effect] = []
        assigned = come.Assignment(BROKERS, isr, leader, 3, 10)
        known = {KEY: come.Settings(**settings)}
        self.step(come.Published((), {KEY: assigned}, known, PEERS))
        self.opened = self.step(come.LogOpened(KEY, 0, 0, (), (), 0))

    @property
    def wall_ms(self) -> int:
        return 1_000_000 + self.now // 1000

    def step(self, event: come.Event) -> list[out.Effect]:
        effects = self.core.step(event, self.now, self.wall_ms)
        self.did += effects
        return effects

    def wait(self, ms: int) -> list[out.Effect]:
        self.now += ms * 1000
        return self.step(come.Tick())

    def produce(self, each: Batch, acks: int = -1) -> list[out.Effect]:
        return self.step(come.ProduceReceived(1, acks, 100, ((KEY, each),)))

    def fetch(
        self, replica: int, offset: int, epoch: int = 3, log_start: int = 0, **more: Any
    ) -> list[out.Effect]:
        part = come.FetchPart(KEY, offset, 1 << 20, epoch, -1, log_start)
        event = come.FetchReceived(2, (part,), replica, 1 if replica > 0 else -1, **more)
        return self.step(event)


def only(effects: list[out.Effect], kind: type) -> Any:
    (found,) = [each for each in effects if isinstance(each, kind)]
    return found


def produced(effects: list[out.Effect]) -> tuple[int, int]:
    part = only(effects, out.ReplyProduce).parts[0]
    return part.error, part.base_offset


def test_the_log_is_shaped_by_the_configs_of_its_topic() -> None:
    assert out.ShapeLog not in map(type, Broker().opened), "the broker's properties are enough"
    broker = Broker(segment_bytes=1 << 20)
    assert out.ShapeLog(KEY, 1 << 20, None, None) in broker.opened

    def configure(**settings: Any) -> list[out.Effect]:
        return broker.step(come.Published((), None, {KEY: come.Settings(**settings)}, None))

    assert out.ShapeLog(KEY, 1 << 20, 5, 6) in configure(
        segment_bytes=1 << 20, segment_ms=5, index_interval_bytes=6
    )
    assert configure(segment_bytes=1 << 20, segment_ms=5, index_interval_bytes=6) == []
    assert out.ShapeLog(KEY, None, None, None) in configure()


def test_requests_that_arrive_together_wake_a_follower_once() -> None:
    broker = Broker(isr=(1, 2, 3))
    for follower in (2, 3):
        assert broker.fetch(follower, 0, max_wait_ms=500, min_bytes=1) == []
    requests = [come.ProduceReceived(n, -1, 100, ((KEY, batch(n)),)) for n in (10, 11)]
    effects = broker.step(come.Together(tuple(requests)))
    kinds = [type(each) for each in effects]
    assert kinds == [out.Append, out.Append, out.ReplyFetch, out.ReplyFetch]
    for each in effects[2:]:
        assert isinstance(each, out.ReplyFetch)
        assert each.parts[0].records == out.Slice(0, 2, 1 << 20)
    fetches = [
        come.FetchReceived(n, (come.FetchPart(KEY, 2, 1 << 20, 3, -1, 0),), n, 1, 500, 1)
        for n in (2, 3)
    ]
    answers = broker.step(come.Together(tuple(fetches)))
    tokens = [each.token for each in answers if isinstance(each, out.ReplyProduce)]
    assert tokens == [10, 11]


def test_acks_all_waits_for_the_isr() -> None:
    broker = Broker()
    first = broker.produce(batch(1, count=3))
    assert [type(each) for each in first] == [out.Append]
    assert only(first, out.Append).batch.leader_epoch == 3
    assert produced(broker.fetch(2, 3)) == (errors.NONE, 0)


def test_acks_all_is_late_without_the_isr() -> None:
    broker = Broker()
    broker.produce(batch(1))
    assert broker.core.deadline <= 100_000
    assert produced(broker.wait(100)) == (errors.REQUEST_TIMED_OUT, -1)
    assert produced(broker.produce(batch(2), acks=1)) == (errors.NONE, 1)


def test_acks_zero_is_silent_and_hangs_up_on_errors() -> None:
    broker = Broker()
    assert only(broker.produce(batch(1), acks=0), out.Silent) == out.Silent(1, close=False)
    control = Batch(-1, 0, -1, -1, -1, -1, 0, 1, 70, 0, 0x20)
    assert only(broker.produce(control, acks=0), out.Silent) == out.Silent(1, close=True)


@pytest.mark.parametrize(
    ("each", "acks", "error"),
    [
        (batch(1), 2, errors.INVALID_REQUIRED_ACKS),
        (Batch(-1, 0, -1, -1, -1, -1, 0, 1, 2000, 0, 0), 1, errors.MESSAGE_TOO_LARGE),
        (Batch(-1, 1, -1, -1, -1, -1, 0, 1, 70, 0, 0), 1, errors.INVALID_RECORD),
        (Batch(-1, 0, -1, 5, 0, 0, 0, 1, 70, 0, 0x10), 1, errors.INVALID_TXN_STATE),
    ],
)
def test_a_refused_batch_is_not_appended(each: Batch, acks: int, error: int) -> None:
    broker = Broker(max_batch_bytes=1000)
    effects = broker.produce(each, acks)
    assert produced(effects) == (error, -1)
    assert not [effect for effect in effects if isinstance(effect, out.Append)]


def test_a_small_isr_refuses_acks_all_before_the_append() -> None:
    broker = Broker(isr=(1,), min_insync=2)
    assert produced(broker.produce(batch(1))) == (errors.NOT_ENOUGH_REPLICAS, -1)
    assert produced(broker.produce(batch(1), acks=1)) == (errors.NONE, 0)
    assert broker.core.partitions[KEY].hw == 0


def test_lost_leadership_ends_parked_requests() -> None:
    broker = Broker()
    broker.produce(batch(1))
    broker.fetch(-1, 0, max_wait_ms=500, min_bytes=1)
    new = come.Assignment(BROKERS, (1, 2), 2, 4, 11)
    effects = broker.step(come.Published((), {KEY: new}))
    assert produced(effects) == (errors.NOT_LEADER_OR_FOLLOWER, -1)
    part = only(effects, out.ReplyFetch).parts[0]
    assert (part.error, part.leader) == (errors.FENCED_LEADER_EPOCH, 2)
    assert only(effects, out.FetchFrom).parts == (come.FetchPart(KEY, 1, 1 << 20, 4, 3, 0),)


def test_a_deleted_partition_ends_parked_requests() -> None:
    broker = Broker()
    broker.produce(batch(1))
    effects = broker.step(come.Published((KEY,)))
    assert produced(effects) == (errors.NOT_LEADER_OR_FOLLOWER, -1)
    assert only(effects, out.RemoveLog) == out.RemoveLog(KEY)


def test_retries_sequences_and_epochs_of_producers() -> None:
    broker = Broker(isr=(1,))
    for sequence in range(7):
        assert produced(broker.produce(batch(1, producer=7, sequence=sequence)))[1] == sequence
    assert produced(broker.produce(batch(1, producer=7, sequence=2))) == (errors.NONE, 2)
    for sequence in (0, 1, 8):
        answer = produced(broker.produce(batch(1, producer=7, sequence=sequence)))
        assert answer == (errors.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    newer = Batch(-1, 0, -1, 7, 1, 0, 0, 1, 70, 0, 0)
    assert produced(broker.produce(newer)) == (errors.NONE, 7)
    older = produced(broker.produce(batch(1, producer=7, sequence=7)))
    assert older == (errors.INVALID_PRODUCER_EPOCH, -1)


def test_sequence_numbers_wrap() -> None:
    broker = Broker(isr=(1,))
    last = 2**31 - 1
    assert produced(broker.produce(batch(1, producer=7, sequence=last)))[0] == errors.NONE
    assert produced(broker.produce(batch(1, producer=7, sequence=0))) == (errors.NONE, 1)


def test_a_consumer_waits_for_committed_bytes() -> None:
    broker = Broker()
    assert broker.fetch(-1, 0, max_wait_ms=500, min_bytes=1) == []
    broker.produce(batch(1), acks=1)
    broker.fetch(2, 1)
    reply = [each for each in broker.did if isinstance(each, out.ReplyFetch)]
    assert [each.parts[0].records for each in reply if each.parts[0].records] == [
        out.Slice(0, 1, 1 << 20)
    ]


def test_a_consumer_gets_an_empty_answer_in_the_end() -> None:
    broker = Broker()
    broker.fetch(-1, 0, max_wait_ms=500, min_bytes=1)
    part = only(broker.wait(500), out.ReplyFetch).parts[0]
    assert (part.error, part.records, part.high_watermark) == (errors.NONE, None, 0)


@pytest.mark.parametrize(
    ("replica", "offset", "epoch", "error"),
    [
        (-1, 0, 2, errors.FENCED_LEADER_EPOCH),
        (-1, 0, 4, errors.UNKNOWN_LEADER_EPOCH),
        (-1, 1, 3, errors.OFFSET_OUT_OF_RANGE),
        (9, 0, 3, errors.UNKNOWN_LEADER_EPOCH),
        (9, 0, -1, errors.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_fetches_that_are_refused(replica: int, offset: int, epoch: int, error: int) -> None:
    assert only(Broker().fetch(replica, offset, epoch), out.ReplyFetch).parts[0].error == error


def test_fetch_sessions() -> None:
    broker = Broker(isr=(1,))
    first = only(broker.fetch(-1, 0, session_epoch=0), out.ReplyFetch)
    assert first.session_id > 0
    assert len(first.parts) == 1

    def again(epoch: int, session: int = first.session_id) -> Any:
        event = come.FetchReceived(3, (), session_id=session, session_epoch=epoch)
        return only(broker.step(event), out.ReplyFetch)

    assert again(1).parts == ()
    broker.produce(batch(1))
    assert again(2).parts[0].records == out.Slice(0, 1, 1 << 20)
    assert again(2).error == errors.INVALID_FETCH_SESSION_EPOCH
    assert again(1, session=12345).error == errors.FETCH_SESSION_ID_NOT_FOUND


def test_a_lagging_member_leaves_the_isr_once() -> None:
    broker = Broker()
    broker.produce(batch(1))
    effects = broker.wait(2 * LAG_US // 1000)
    sent = only(effects, out.AlterPartition)
    assert sent.proposals == (out.Proposal(KEY, 3, 10, ((1, 1),)),)
    partition = broker.core.partitions[KEY]
    assert (partition.hw, partition.in_sync.maximal) == (0, frozenset({1, 2}))
    lost = broker.step(come.AlterPartitionAnswered(sent.correlation, None))
    assert not [each for each in lost if isinstance(each, out.AlterPartition)]
    retried = only(broker.wait(50), out.AlterPartition)
    assert retried.proposals == sent.proposals
    answer = come.Altered(KEY, errors.NONE, 3, 11, (1,))
    broker.step(come.AlterPartitionAnswered(retried.correlation, (answer,)))
    assert (partition.hw, partition.in_sync.isr) == (1, (1,))


def test_a_newcomer_is_proposed_with_the_epoch_of_its_fetch() -> None:
    broker = Broker(isr=(1,))
    sent = only(broker.fetch(3, 0), out.AlterPartition)
    assert sent.proposals[0].isr == ((1, 1), (3, 1))
    refused = come.Altered(KEY, errors.INELIGIBLE_REPLICA)
    broker.step(come.AlterPartitionAnswered(sent.correlation, (refused,)))
    assert broker.core.partitions[KEY].in_sync.maximal == {1}


def test_a_newcomer_that_is_refused_does_not_hold_the_high_watermark_back() -> None:
    broker = Broker(isr=(1,))
    sent = only(broker.fetch(3, 0), out.AlterPartition)
    broker.produce(batch(1))
    fenced = {**PEERS, 3: replace(PEERS[3], eligible=False)}
    broker.step(come.Published((), None, None, fenced))
    assert broker.core.partitions[KEY].hw == 0
    refused = come.Altered(KEY, errors.INELIGIBLE_REPLICA)
    broker.step(come.AlterPartitionAnswered(sent.correlation, (refused,)))
    assert broker.core.partitions[KEY].hw == 1


def test_a_replica_that_falls_silent_stops_holding_back_while_a_proposal_is_open() -> None:
    broker = Broker(isr=(1,))
    broker.fetch(2, 0)
    broker.fetch(3, 0)
    broker.produce(batch(1))
    broker.fetch(2, 1)
    partition = broker.core.partitions[KEY]
    assert partition.in_sync.pending is not None and partition.hw == 0
    for _ in range(4):
        broker.wait(15_001)
    assert partition.in_sync.pending is not None and partition.hw == 1


def test_a_replica_that_falls_silent_stops_holding_back_when_a_member_does_too() -> None:
    broker = Broker(isr=(1, 2))
    broker.fetch(2, 0)
    partition = broker.core.partitions[KEY]
    partition.in_sync.remotes[3] = replace(partition.in_sync.remotes[2])
    broker.produce(batch(1))
    broker.fetch(2, 1)
    broker.produce(batch(1))
    assert partition.hw == 0
    broker.wait(LAG_US // 1000 + 1)
    assert partition.in_sync.pending is not None and partition.hw == 1


def test_offsets_of_a_new_leader_are_not_available_at_first() -> None:
    broker = Broker()
    broker.core = Replicas(1, 1, 0, LAG_US)
    assigned = come.Assignment(BROKERS, (1, 2), 1, 4, 12)
    broker.step(come.Published((), {KEY: assigned}, None, PEERS))
    broker.step(come.LogOpened(KEY, 0, 5, ((3, 0),), (), 2))

    def ask(timestamp: int, replica: int = -1) -> Any:
        event = come.ListOffsetsReceived(4, ((KEY, timestamp, -1),), replica)
        return only(broker.step(event), out.ReplyListOffsets).parts[0]

    assert ask(-1).error == errors.OFFSET_NOT_AVAILABLE
    assert (ask(-1, replica=2).offset, ask(-2).offset) == (5, 0)
    broker.fetch(2, 5, epoch=4)
    assert ask(-1).offset == 5
    assert ask(77).lookup == out.Lookup(77, 0, 5)
    assert ask(-4) == ask(-2), "all that is here is local"
    tiered = [(ask(timestamp).error, ask(timestamp).offset) for timestamp in (-5, -6)]
    assert tiered == [(errors.NONE, -1)] * 2, "nothing is tiered"
    ends = come.EpochEndsReceived(5, ((KEY, 4, 3), (KEY, 4, 9), (KEY, 2, 3)))
    assert [part[1:] for part in only(broker.step(ends), out.ReplyEpochEnds).parts] == [
        (errors.NONE, 3, 5), (errors.NONE, -1, -1), (errors.FENCED_LEADER_EPOCH, -1, -1),
    ]  # fmt: skip


def test_deleted_records_wait_for_all_replicas() -> None:
    broker = Broker(isr=(1,))
    broker.produce(batch(1, count=4))
    for replica in (2, 3):
        broker.fetch(replica, 4)
    # A proposal to add them is in flight, and the high watermark counts them already.
    assert broker.core.partitions[KEY].hw == 4
    asked = broker.step(come.DeleteRecordsReceived(6, 100, ((KEY, -1),)))
    assert only(asked, out.DeleteUpTo).start_offset == 4
    above = broker.step(come.DeleteRecordsReceived(7, 100, ((KEY, 5),)))
    assert only(above, out.ReplyDeleteRecords).parts == ((KEY, errors.OFFSET_OUT_OF_RANGE, -1),)
    late = only(broker.wait(100), out.ReplyDeleteRecords)
    assert late.parts == ((KEY, errors.REQUEST_TIMED_OUT, -1),)


def test_a_deletion_does_not_wait_for_a_broker_that_is_fenced() -> None:
    broker = Broker(isr=(1, 2))
    broker.produce(batch(1, count=4))
    broker.fetch(2, 4)
    broker.step(come.DeleteRecordsReceived(6, 100, ((KEY, 4),)))
    broker.fetch(2, 4, log_start=4)
    peers = PEERS | {3: come.Peer(1, eligible=False)}
    done = only(broker.step(come.Published((), None, None, peers)), out.ReplyDeleteRecords)
    assert done.parts == ((KEY, errors.NONE, 4),)


def test_a_replica_that_has_lost_where_its_log_starts_has_to_delete_again() -> None:
    broker = Broker(isr=(1, 2))
    broker.produce(batch(1, count=4))
    for start in (4, 0):
        for replica in (2, 3):
            broker.fetch(replica, 4, log_start=start)
    broker.step(come.DeleteRecordsReceived(6, 100, ((KEY, 4),)))
    broker.fetch(2, 4, log_start=4)
    done = only(broker.fetch(3, 4, log_start=4), out.ReplyDeleteRecords)
    assert done.parts == ((KEY, errors.NONE, 4),)


@pytest.mark.parametrize(("epoch", "hw"), [(4, 4), (5, 0)])
def test_what_is_known_of_replicas_lasts_until_another_broker_may_have_led(
    epoch: int, hw: int
) -> None:
    """Replica 2 has what the leader of epoch 3 has, but may have cut its log since."""
    broker = Broker(isr=(1, 2, 3))
    broker.produce(batch(1, count=4))
    broker.fetch(2, 4)
    again = come.Assignment(BROKERS, (1, 2), 1, epoch, 10 + epoch)
    broker.step(come.Published((), {KEY: again}, None, PEERS))
    broker.fetch(3, 4, epoch)
    assert broker.core.partitions[KEY].hw == hw


def test_a_segment_without_timestamps_is_as_old_as_the_knowledge_that_it_is_full() -> None:
    broker = Broker(retention_ms=400_000)
    broker.produce(batch(0), acks=1)
    broker.fetch(2, 1)
    broker.fetch(3, 1)
    broker.step(come.SegmentClosed(KEY, 0, 1, 71, NO_TIMESTAMP))
    assert not [each for each in broker.wait(300_000) if isinstance(each, out.DeleteUpTo)]
    assert only(broker.wait(300_000), out.DeleteUpTo).start_offset == 1


@pytest.mark.parametrize(("leader", "retention_ms"), [(1, 10), (2, 10), (1, 0)])
def test_the_segment_that_is_written_is_closed_once_it_may_be_too_old(
    leader: int, retention_ms: int
) -> None:
    """Only the files have the times of all its batches."""
    broker = Broker(leader=leader, retention_ms=retention_ms)
    assert not [each for each in broker.wait(300_000) if isinstance(each, out.RollLog)]
    log = broker.core.partitions[KEY].log
    assert log is not None
    log.append(batch(0).placed(0, 3), 0)
    effects = broker.wait(300_000)
    assert only(effects, out.RollLog).before_ms == broker.wall_ms - retention_ms
    broker.step(come.SegmentClosed(KEY, 0, 1, 71, 0))
    assert not [each for each in broker.wait(300_000) if isinstance(each, out.RollLog)]


@pytest.mark.parametrize("limit", ["age", "none"])
def test_the_segment_that_is_written_stays_while_it_is_new(limit: str) -> None:
    broker = Broker(retention_ms=300_000 if limit == "age" else -1)
    broker.produce(batch(broker.wall_ms if limit == "age" else 0), acks=1)
    assert not [each for each in broker.wait(300_000) if isinstance(each, out.RollLog)]


def test_a_segment_whose_records_are_deleted_goes_once_it_is_closed() -> None:
    broker = Broker(isr=(1,), retention_ms=10)
    broker.produce(batch(0), acks=1)
    broker.step(come.DeleteRecordsReceived(6, 100, ((KEY, 1),)))
    assert only(broker.wait(300_000), out.RollLog)
    broker.step(come.SegmentClosed(KEY, 0, 1, 71, 0))
    assert only(broker.wait(300_000), out.DeleteUpTo).start_offset == 1
    assert not [each for each in broker.wait(300_000) if isinstance(each, out.DeleteUpTo)]


def test_retention_keeps_what_is_not_committed() -> None:
    broker = Broker(retention_ms=10)
    for ident in range(4):
        broker.produce(batch(ident), acks=1)
        broker.step(come.SegmentClosed(KEY, ident, ident + 1, 71, ident))
    broker.fetch(2, 2)
    assert only(broker.wait(300_000), out.DeleteUpTo).start_offset == 2


def test_an_unclean_leader_says_that_it_has_recovered() -> None:
    broker = Broker()
    assigned = come.Assignment(BROKERS, (1,), 1, 4, 12, recovering=True)
    effects = broker.step(come.Published((), {KEY: assigned}))
    assert only(effects, out.AlterPartition).proposals[0].recovering is False


def test_a_follower_out_of_range_asks_for_offsets() -> None:
    broker = Broker(leader=2)
    fetch = only(broker.opened, out.FetchFrom)
    refused = come.FetchedPart(KEY, errors.OFFSET_OUT_OF_RANGE, -1, -1)
    asked = only(broker.step(come.FetchAnswered(fetch.correlation, (refused,))), out.AskOffsets)
    answer = come.OffsetsAnswered(asked.correlation, ((KEY, errors.NONE, 40, 50),))
    effects = broker.step(answer)
    assert only(effects, out.StartAt).offset == 40
    assert only(effects, out.FetchFrom).parts[0].offset == 40


def begins_inside_of_a_batch() -> tuple[Broker, out.FetchFrom]:
    """A follower whose leader's log has the offsets 41 to 44, and its fetch from there."""
    broker = Broker(leader=2)
    fetch = only(broker.opened, out.FetchFrom)
    refused = come.FetchedPart(KEY, errors.OFFSET_OUT_OF_RANGE, -1, -1)
    asked = only(broker.step(come.FetchAnswered(fetch.correlation, (refused,))), out.AskOffsets)
    answer = come.OffsetsAnswered(asked.correlation, ((KEY, errors.NONE, 41, 44),))
    again = only(broker.step(answer), out.FetchFrom)
    return broker, again


def test_a_follower_follows_a_log_that_begins_inside_of_a_batch() -> None:
    """DeleteRecords may raise the log start to any offset, where a new follower begins."""
    broker, again = begins_inside_of_a_batch()
    batches = batch(1, count=3).placed(40, 3), batch(2).placed(43, 3)
    part = come.FetchedPart(KEY, errors.NONE, 44, 41, batches)
    effects = broker.step(come.FetchAnswered(again.correlation, (part,)))
    assert [each for each in effects if isinstance(each, out.StartAt)] == [out.StartAt(KEY, 40)]
    appended = [each.batch.base_offset for each in effects if isinstance(each, out.Append)]
    assert appended == [40, 43]
    assert only(effects, out.DeleteUpTo).start_offset == 41
    log = broker.core.partitions[KEY].log
    assert log is not None and (log.start, log.end, log.epochs.entries) == (41, 44, [(3, 41)])
    assert broker.core.partitions[KEY].hw == 44


def test_what_a_replica_has_deleted_stays_deleted_under_a_leader_that_has_it() -> None:
    """It led before and deleted; then a loss of power took the rest of its log."""
    broker, again = begins_inside_of_a_batch()
    part = come.FetchedPart(KEY, errors.NONE, 0, 0, (batch(1, count=3).placed(40, 3),))
    effects = broker.step(come.FetchAnswered(again.correlation, (part,)))
    assert [each for each in effects if isinstance(each, out.StartAt)] == [out.StartAt(KEY, 40)]
    assert only(effects, out.DeleteUpTo).start_offset == 41
    assert broker.core.partitions[KEY].hw == 41


def test_a_follower_ignores_answers_of_an_older_epoch() -> None:
    broker = Broker(leader=2)
    fetch = only(broker.opened, out.FetchFrom)
    broker.step(come.Published((), {KEY: come.Assignment(BROKERS, (1, 2), 2, 4, 11)}))
    late = come.FetchedPart(KEY, errors.NONE, 1, 0, (batch(1).placed(0, 3),))
    effects = broker.step(come.FetchAnswered(fetch.correlation, (late,)))
    assert [type(each) for each in effects] == [out.FetchFrom]


def test_a_follower_refuses_a_gap() -> None:
    broker = Broker(leader=2)
    fetch = only(broker.opened, out.FetchFrom)
    part = come.FetchedPart(KEY, errors.NONE, 9, 0, (batch(1).placed(5, 3),))
    effects = broker.step(come.FetchAnswered(fetch.correlation, (part,)))
    assert [type(each) for each in effects] == [out.Note]
    assert broker.core.partitions[KEY].hw == 0


def test_a_batch_without_room_is_taken_back_and_its_producer_may_repeat_it() -> None:
    broker = Broker()
    broker.produce(batch(1, producer=7, sequence=0))
    parked = broker.produce(batch(2, producer=7, sequence=1))
    assert [type(each) for each in parked] == [out.Append]
    assert produced(broker.step(come.AppendFailed(KEY, 1))) == (errors.KAFKA_STORAGE_ERROR, -1)
    partition = broker.core.partitions[KEY]
    assert partition.log is not None and partition.log.end == 1
    again = only(broker.produce(batch(2, producer=7, sequence=1)), out.Append)
    assert again.batch.base_offset == 1
    assert produced(broker.fetch(2, 1)) == (errors.NONE, 0)
    assert produced(broker.fetch(2, 2)) == (errors.NONE, 1)


def test_a_leader_whose_first_batch_has_no_room_still_knows_its_epoch() -> None:
    """Else a follower with a record of an older epoch was out of its range (seed 1800187)."""
    broker = Broker()
    broker.produce(batch(1))
    broker.step(come.AppendFailed(KEY, 0))
    partition = broker.core.partitions[KEY]
    assert partition.log is not None and partition.log.epochs.entries == [(3, 0)]
    older = partition.read(come.FetchPart(KEY, 0, 1 << 20, 3, 2, 0), 2, -1)
    assert (older.error, older.diverging) == (errors.NONE, None)


def test_an_empty_log_that_begins_inside_of_a_batch_without_room_begins_before_it() -> None:
    """The batch is appended and deleted up to the leader's log start in one step."""
    broker, fetch = begins_inside_of_a_batch()
    part = come.FetchedPart(KEY, errors.NONE, 44, 41, (batch(1, count=4).placed(40, 3),))
    effects = broker.step(come.FetchAnswered(fetch.correlation, (part,)))
    assert only(effects, out.DeleteUpTo).start_offset == 41
    broker.step(come.AppendFailed(KEY, 40))
    log = broker.core.partitions[KEY].log
    assert log is not None
    assert (log.start, log.end) == (40, 40)


def test_a_follower_without_room_fetches_the_same_batch_later() -> None:
    broker = Broker(leader=2)
    fetch = only(broker.opened, out.FetchFrom)
    part = come.FetchedPart(KEY, errors.NONE, 1, 0, (batch(1).placed(0, 3),))
    effects = broker.step(come.FetchAnswered(fetch.correlation, (part,)))
    following = only(effects, out.FetchFrom)
    assert broker.step(come.AppendFailed(KEY, 0)) == []
    assert broker.core.partitions[KEY].hw == 0
    broker.step(come.FetchAnswered(following.correlation, ()))
    later = [each for each in broker.wait(1000) if isinstance(each, out.FetchFrom)]
    assert later[0].parts[0].offset == 0


def test_an_unknown_event_is_refused() -> None:
    with pytest.raises(TypeError, match="unknown event"):
        Broker().step("nonsense")  # type: ignore[arg-type]

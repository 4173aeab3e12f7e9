"""Requests for a partition whose log its leader is still opening."""

from __future__ import annotations

import pytest

from kraftwreck.nodes.protocol import errors
from kraftwreck.nodes.replication import effects as out
from kraftwreck.nodes.replication import events as come
from kraftwreck.nodes.replication.headers import PartitionKey
from kraftwreck.nodes.replication.replicas import OPENING_US, Replicas
from tests.replication.world import BROKERS, KEY, LAG_US, batch

PEERS = {1: come.Peer(1, eligible=True)}
OPENED = come.LogOpened(KEY, 0, 0, (), (), 0)
OTHER: PartitionKey = (KEY[0], KEY[1] + 1)


class Broker:
    """Broker 1, the leader of a partition whose log is not open yet."""

    def __init__(self) -> None:
        self.core = Replicas(1, 1, 0, LAG_US)
        self.now = 0
        self.assign(KEY, 1, 3)

    def assign(self, key: PartitionKey, leader: int, epoch: int) -> list[out.Effect]:
        assigned = come.Assignment(BROKERS, (1,), leader, epoch, 10 + epoch)
        return self.step(come.Published((), {key: assigned}, {}, PEERS))

    def step(self, event: come.Event) -> list[out.Effect]:
        return self.core.step(event, self.now, 1_000_000)

    def wait(self, ms: int) -> list[out.Effect]:
        self.now += ms * 1000
        return self.step(come.Tick())

    def produce(self, token: int, acks: int, *keys: PartitionKey) -> list[out.Effect]:
        batches = tuple((key, batch(token)) for key in keys or (KEY,))
        return self.step(come.ProduceReceived(token, acks, 100, batches))


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_produce_waits_for_the_log_and_keeps_its_order(acks: int) -> None:
    broker = Broker()
    assert broker.produce(1, acks) == broker.produce(2, acks) == []
    effects = broker.step(OPENED)
    appended = [each.batch.base_offset for each in effects if isinstance(each, out.Append)]
    assert appended == [0, 1]
    if acks == 0:
        silent = [each for each in effects if isinstance(each, out.Silent)]
        assert silent == [out.Silent(1, close=False), out.Silent(2, close=False)]
    else:
        replies = [each for each in effects if isinstance(each, out.ReplyProduce)]
        assert [(each.token, each.parts[0].error) for each in replies] == [(1, 0), (2, 0)]


def test_an_open_partition_of_the_same_produce_is_not_held_back() -> None:
    broker = Broker()
    broker.assign(OTHER, 1, 3)
    broker.step(come.LogOpened(OTHER, 0, 0, (), (), 0))
    first = broker.produce(1, 1, KEY, OTHER)
    assert [each.key for each in first if isinstance(each, out.Append)] == [OTHER]
    second = broker.produce(2, 1, OTHER)
    (append,) = [each for each in second if isinstance(each, out.Append)]
    assert append.batch.base_offset == 1
    (reply,) = [each for each in broker.step(OPENED) if isinstance(each, out.ReplyProduce)]
    assert [(part.key, part.error) for part in reply.parts] == [(KEY, 0), (OTHER, 0)]


def test_produce_does_not_wait_beyond_its_timeout() -> None:
    broker = Broker()
    broker.produce(1, 1)
    assert broker.core.deadline <= 100_000
    (reply,) = broker.wait(100)
    assert isinstance(reply, out.ReplyProduce)
    assert reply.parts[0].error == errors.NOT_LEADER_OR_FOLLOWER
    assert not [each for each in broker.step(OPENED) if isinstance(each, out.Append)]


@pytest.mark.parametrize("deleted", [True, False])
def test_a_partition_that_goes_ends_the_wait(deleted: bool) -> None:
    broker = Broker()
    broker.produce(1, 1)
    gone = broker.step(come.Published((KEY,))) if deleted else broker.assign(KEY, 2, 4)
    (reply,) = [each for each in gone if isinstance(each, out.ReplyProduce)]
    wanted = errors.UNKNOWN_TOPIC_OR_PARTITION if deleted else errors.NOT_LEADER_OR_FOLLOWER
    assert reply.parts[0].error == wanted


def fetch(replica: int) -> come.FetchReceived:
    part = come.FetchPart(KEY, 0, 1 << 20, 3)
    return come.FetchReceived(5, (part,), replica, 1, max_wait_ms=500, min_bytes=1)


def test_a_consumer_waits_for_the_log_and_then_for_records() -> None:
    broker = Broker()
    assert broker.step(fetch(-1)) == []
    assert not [each for each in broker.step(OPENED) if isinstance(each, out.ReplyFetch)]
    effects = broker.produce(1, 1)
    (reply,) = [each for each in effects if isinstance(each, out.ReplyFetch)]
    assert reply.parts[0].records is not None


def test_a_follower_does_not_wait_for_the_log() -> None:
    (reply,) = Broker().step(fetch(2))
    assert isinstance(reply, out.ReplyFetch)
    assert reply.parts[0].error == errors.NOT_LEADER_OR_FOLLOWER


ASKED = [
    come.ListOffsetsReceived(7, ((KEY, -1, -1), (KEY, -2, -1))),
    come.EpochEndsReceived(7, ((KEY, -1, 3),)),
    come.DeleteRecordsReceived(7, 20_000, ((KEY, 0),)),
]


def answered(effects: list[out.Effect]) -> list[int]:
    """Return the error of each partition of the answer."""
    found: list[int] = []
    for each in effects:
        if isinstance(each, out.ReplyListOffsets):
            found += [part.error for part in each.parts]
        elif isinstance(each, out.ReplyEpochEnds | out.ReplyDeleteRecords):
            found += [part[1] for part in each.parts]
    return found


@pytest.mark.parametrize("event", ASKED)
def test_requests_for_offsets_wait_for_the_log(event: come.Event) -> None:
    broker = Broker()
    assert broker.step(event) == []
    assert set(answered(broker.step(OPENED))) == {errors.NONE}


@pytest.mark.parametrize("event", ASKED)
def test_requests_for_offsets_do_not_wait_for_ever(event: come.Event) -> None:
    broker = Broker()
    broker.step(event)
    assert answered(broker.wait(OPENING_US // 1000 - 1)) == []
    assert set(answered(broker.wait(20_000))) == {errors.NOT_LEADER_OR_FOLLOWER}

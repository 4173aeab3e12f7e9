"""Answers have room for few partitions: the others come first the next time."""

from __future__ import annotations

from kraftwreck.nodes.protocol import errors
from kraftwreck.nodes.replication import effects as out
from kraftwreck.nodes.replication import events as come
from kraftwreck.nodes.replication.headers import PartitionKey
from kraftwreck.nodes.replication.replicas import Replicas
from tests.replication.test_replicas import PEERS, only
from tests.replication.world import BROKERS, LAG_US, batch

KEYS: list[PartitionKey] = [(b"t" * 16, number) for number in range(3)]


class Several:
    """Broker 1 with three partitions, all led by ``leader``."""

    def __init__(self, leader: int) -> None:
        self.core = Replicas(1, 1, 0, LAG_US)
        assigned = come.Assignment(BROKERS, (leader,), leader, 3, 10)
        known = {key: come.Settings() for key in KEYS}
        self.step(come.Published((), dict.fromkeys(KEYS, assigned), known, PEERS))
        for key in KEYS:
            self.opened = self.step(come.LogOpened(key, 0, 0, (), (), 0))

    def step(self, event: come.Event) -> list[out.Effect]:
        return self.core.step(event, 0, 0)


def test_a_follower_asks_last_for_what_it_has_just_got() -> None:
    broker = Several(leader=2)
    fetch = only(broker.step(come.FetchAnswered(1, ())), out.FetchFrom)
    assert [part.key for part in fetch.parts] == KEYS
    part = come.FetchedPart(KEYS[0], errors.NONE, 1, 0, (batch(1).placed(0, 3),))
    others = [come.FetchedPart(key, errors.NONE, 0, 0) for key in KEYS[1:]]
    answered = come.FetchAnswered(fetch.correlation, (part, *others))
    fetch = only(broker.step(answered), out.FetchFrom)
    assert [part.key for part in fetch.parts] == [KEYS[1], KEYS[2], KEYS[0]]


def test_a_session_begins_each_answer_with_another_partition() -> None:
    broker = Several(leader=1)
    for number, key in enumerate(KEYS):
        broker.step(come.ProduceReceived(1, 1, 100, ((key, batch(number)),)))
    parts = tuple(come.FetchPart(key, 0, 1 << 20, 3, -1, 0) for key in KEYS)
    first = only(broker.step(come.FetchReceived(2, parts, session_epoch=0)), out.ReplyFetch)
    order = [[part.key for part in first.parts]]
    for epoch in (1, 2, 3):
        event = come.FetchReceived(2, (), session_id=first.session_id, session_epoch=epoch)
        order.append([part.key for part in only(broker.step(event), out.ReplyFetch).parts])
    a, b, c = KEYS
    assert order == [[a, b, c], [b, c, a], [c, a, b], [a, b, c]]

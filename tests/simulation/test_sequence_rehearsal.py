"""D3: leaders refuse batches whose sequence numbers do not follow."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kraftwreck.nodes.protocol.errors import OUT_OF_ORDER_SEQUENCE_NUMBER
from kraftwreck.nodes.replication.partition import Partition
from kraftwreck.nodes.replication.producers import Producers, SequenceError
from kraftwreck.systems.kraft.simulated.sequence_rehearsal import wrong_sequences
from tests.replication.test_replicas import Broker
from tests.replication.world import KEY, batch

pytestmark = pytest.mark.interpreted

Patch = pytest.MonkeyPatch


def leader(epoch: int = 2) -> Partition:
    """A leader with two batches of producer 5, with sequence numbers 0 to 2."""
    broker = Broker(isr=(1,))
    for ident, sequence, count in ((1, 0, 1), (2, 1, 2)):
        new = batch(ident, producer=5, sequence=sequence, count=count)
        broker.produce(replace(new, producer_epoch=epoch))
    return broker.core.partitions[KEY]


def takes_all(patch: Patch) -> None:
    patch.setattr(Producers, "check", lambda self, batch: None)


def test_a_leader_refuses_what_does_not_follow(monkeypatch: Patch) -> None:
    one = leader()
    assert list(wrong_sequences(one)) == []
    takes_all(monkeypatch)
    assert [wrong.partition(" of producer")[0] for _, wrong in wrong_sequences(one)] == [
        "would answer 0 to sequence number 4 in epoch 2",
        "would answer 0 to sequence number 1 in epoch 3",
        "would answer 0 to sequence number 3 in epoch 1",
    ]


def test_a_leader_takes_what_follows(monkeypatch: Patch) -> None:
    one = leader()
    assert one.log is not None
    before = one.log.producers.state()
    assert list(wrong_sequences(one)) == []
    assert one.log.producers.state() == before

    def planted(self: Producers, batch: Any) -> None:
        raise SequenceError(OUT_OF_ORDER_SEQUENCE_NUMBER)

    monkeypatch.setattr(Producers, "check", planted)
    assert [wrong.partition(" of producer")[0] for _, wrong in wrong_sequences(one)] == [
        "would answer 45 to sequence number 3 in epoch 2",
        "would answer 45 to sequence number 0 in epoch 3",
        "would answer 45 to sequence number 3 in epoch 1",
    ]


def test_the_first_epoch_has_none_before(monkeypatch: Patch) -> None:
    one = leader(epoch=0)
    takes_all(monkeypatch)
    assert len(list(wrong_sequences(one))) == 2


def test_a_log_without_producers_is_not_judged(monkeypatch: Patch) -> None:
    one = Broker(isr=(1,)).core.partitions[KEY]
    takes_all(monkeypatch)
    assert list(wrong_sequences(one)) == []

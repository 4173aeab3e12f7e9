"""D3: leaders refuse batches whose sequence numbers do not follow."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kraftwreck.nodes.protocol.errors import OUT_OF_ORDER_SEQUENCE_NUMBER
from kraftwreck.nodes.replication import producers
from kraftwreck.nodes.replication.headers import Batch
from kraftwreck.nodes.replication.partition import Partition
from kraftwreck.nodes.replication.producers import Producers, SequenceError
from kraftwreck.systems.kraft.sequence_numbers import SEQUENCES
from kraftwreck.systems.kraft.simulated.sequence_rehearsal import wrong_sequences
from tests.replication.test_replicas import Broker
from tests.replication.world import KEY, batch

pytestmark = pytest.mark.interpreted

Patch = pytest.MonkeyPatch


def leader(epoch: int = 2, first: int = 0) -> Partition:
    """A leader with batches of one and two records of producer 5, whose sequence numbers begin
    with ``first``."""
    broker = Broker(isr=(1,))
    for ident, sequence, count in ((1, first, 1), (2, (first + 1) % SEQUENCES, 2)):
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
        "would answer 0 to a repetition of 0 to 0",
        "would answer 0 to a repetition of 1 to 2",
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
        "would answer 45 to a repetition of 0 to 0",
        "would answer 45 to a repetition of 1 to 2",
        "would answer 45 to sequence number 3 in epoch 2",
        "would answer 45 to sequence number 0 in epoch 3",
        "would answer 45 to sequence number 3 in epoch 1",
    ]


@pytest.mark.parametrize("first", [SEQUENCES - 1, SEQUENCES - 2, SEQUENCES - 3])
def test_after_the_last_sequence_number_comes_0(monkeypatch: Patch, first: int) -> None:
    one = leader(first=first)
    assert list(wrong_sequences(one)) == []
    monkeypatch.setattr(producers, "next_sequence", lambda sequence: sequence + 1)
    found = [wrong.partition(" of producer")[0] for _, wrong in wrong_sequences(one)]
    follows = (first + 3) % SEQUENCES
    wraps = ["would answer 45 to sequence number 0 in epoch 2"]
    assert found == (wraps if follows == 0 else [])


def test_a_leader_recognizes_a_repetition_across_the_last_sequence_number(
    monkeypatch: Patch,
) -> None:
    one = leader(first=SEQUENCES - 2)
    check = Producers.check

    def planted(self: Producers, batch: Batch) -> Any:
        found = check(self, batch)
        return None if found is not None and found.last_sequence < found.first_sequence else found

    monkeypatch.setattr(Producers, "check", planted)
    assert [rule for rule, _ in wrong_sequences(one)] == ["D3"]


def test_the_first_epoch_has_none_before(monkeypatch: Patch) -> None:
    one = leader(epoch=0)
    takes_all(monkeypatch)
    assert len(list(wrong_sequences(one))) == 4


def test_a_log_without_producers_is_not_judged(monkeypatch: Patch) -> None:
    one = Broker(isr=(1,)).core.partitions[KEY]
    takes_all(monkeypatch)
    assert list(wrong_sequences(one)) == []

"""Records become durable as flush.messages and flush.ms say, and nothing is vouched for before."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftwreck.nodes.protocol.errors import NONE
from kraftwreck.nodes.replication import effects as out
from kraftwreck.nodes.replication import events as come
from kraftwreck.nodes.replication.flushing import Durability
from kraftwreck.nodes.replication.partition import Partition
from kraftwreck.nodes.replication.replicas import Replicas
from tests.replication import judge
from tests.replication.judge import Judged, judged_run
from tests.replication.test_planted import RULES
from tests.replication.test_replicas import PEERS, Broker, only, produced
from tests.replication.world import BROKERS, KEY, NUMBERS, batch


class Powerless(Judged):
    """A world in which each kill is a loss of power, while each record is flushed."""

    flush_messages = 1
    lost = 0

    def kill(self, broker: int) -> None:
        super().kill(broker)
        disk = self.hosts[broker].disk
        end = disk.end
        disk.lose_power()
        self.lost += end - disk.end


def flushed(broker: Broker, effects: list[out.Effect], end: int, cuts: int = 0) -> Any:
    number = only(effects, out.FlushLog).number
    return broker.step(come.LogFlushed(KEY, number, cuts, end))


def kinds(effects: list[out.Effect]) -> list[type]:
    return [type(each) for each in effects]


def test_without_a_config_nothing_is_flushed_and_acknowledgements_come_from_memory() -> None:
    broker = Broker()
    assert produced(broker.produce(batch(1), acks=1)) == (NONE, 0)
    broker.wait(600_000)
    assert out.FlushLog not in kinds(broker.did)


def test_flush_messages_holds_back_an_acknowledgement_of_the_leader() -> None:
    broker = Broker(flush_messages=1)
    first = broker.produce(batch(1, count=2), acks=1)
    assert out.ReplyProduce not in kinds(first)
    assert produced(flushed(broker, first, 2)) == (NONE, 0)


def test_at_most_flush_messages_less_one_records_are_vouched_for_from_memory() -> None:
    broker = Broker(flush_messages=3)
    for ident in (1, 2):
        assert produced(broker.produce(batch(ident), acks=1)) == (NONE, ident - 1)
    third = broker.produce(batch(3), acks=1)
    fourth = broker.produce(batch(4), acks=1)
    assert out.ReplyProduce not in kinds(third + fourth)
    assert out.FlushLog not in kinds(fourth), "one at a time"
    # The third is durable, so the fourth may be acknowledged from memory.
    done = flushed(broker, third, 3)
    answers = [each for each in done if isinstance(each, out.ReplyProduce)]
    assert [each.parts[0].base_offset for each in answers] == [2, 3]
    assert out.FlushLog not in kinds(done)


def test_the_high_watermark_waits_for_the_leader_too() -> None:
    broker = Broker(flush_messages=1)
    first = broker.produce(batch(1))
    assert out.ReplyProduce not in kinds(broker.fetch(2, 1))
    assert produced(flushed(broker, first, 1)) == (NONE, 0)


def test_no_high_watermark_lies_inside_of_a_batch() -> None:
    broker = Broker(flush_messages=5)
    broker.produce(batch(1, count=3))
    second = broker.produce(batch(2, count=3))
    broker.fetch(2, 6)
    broker.fetch(3, 6)
    assert broker.core.partitions[KEY].hw == 3, "four records may be vouched for from memory"
    flushed(broker, second, 6)
    assert broker.core.partitions[KEY].hw == 6


def test_a_follower_fetches_on_when_its_log_is_durable() -> None:
    broker = Broker(leader=2, flush_messages=1)
    fetch = only(broker.opened, out.FetchFrom)
    new = batch(1).placed(0, 3)
    part = come.FetchedPart(KEY, NONE, 0, 0, (new,))
    appended = broker.step(come.FetchAnswered(fetch.correlation, (part,)))
    assert kinds(appended) == [out.Append, out.FlushLog, out.WriteEpochs]
    assert broker.core.deadline > broker.now, "no busy waiting"
    assert kinds(broker.wait(100)) == []
    assert only(flushed(broker, appended, 1), out.FetchFrom).parts[0].offset == 1


def test_a_follower_fetches_on_when_nothing_has_to_be_flushed_any_longer() -> None:
    broker = Broker(leader=2, flush_messages=1)
    fetch = only(broker.opened, out.FetchFrom)
    part = come.FetchedPart(KEY, NONE, 0, 0, (batch(1).placed(0, 3),))
    asked = broker.step(come.FetchAnswered(fetch.correlation, (part,)))
    assert out.FetchFrom not in kinds(flushed(broker, asked, 0)), "the disk had no room"
    again = broker.step(come.Published((), None, {KEY: come.Settings()}, None))
    assert only(again, out.FetchFrom).parts[0].offset == 1


def test_flush_ms_bounds_the_age_of_a_record_in_memory() -> None:
    broker = Broker(flush_ms=500)
    assert produced(broker.produce(batch(1), acks=1)) == (NONE, 0), "it holds nothing back"
    broker.wait(300)
    broker.produce(batch(2), acks=1)
    assert broker.core.deadline == 500_000
    assert out.FlushLog not in kinds(broker.did)
    asked = broker.wait(200)
    broker.wait(50)
    broker.produce(batch(3), acks=1)
    flushed(broker, asked, 2)
    # The third was written 50 ms after the flush was asked for: the bound begins no later.
    assert out.FlushLog not in kinds(broker.wait(449))
    assert out.FlushLog in kinds(broker.wait(1))


def test_configs_act_at_once() -> None:
    broker = Broker()
    broker.produce(batch(1), acks=1)

    def configure(**settings: Any) -> list[out.Effect]:
        return broker.step(come.Published((), None, {KEY: come.Settings(**settings)}, None))

    asked = configure(flush_messages=1)
    waits = broker.produce(batch(2), acks=1)
    assert out.ReplyProduce not in kinds(waits)
    assert produced(configure()) == (NONE, 1)
    flushed(broker, asked, 1)
    broker.wait(100)
    assert broker.core.deadline > broker.now
    configure(flush_ms=50)
    assert out.FlushLog in kinds(broker.did[-1:]) or out.FlushLog in kinds(broker.wait(50))


def test_a_flush_that_ends_after_a_truncation_says_nothing() -> None:
    log = Durability(0)
    log.appended(1)
    number = log.ask(10, 5)
    log.cut(4)
    log.answered(come.LogFlushed(KEY, number, 0, 10), 12, 20)
    assert (log.end, log.asked) == (0, None)
    number = log.ask(12, 21)
    log.answered(come.LogFlushed(KEY, number, 1, 12), 12, 22)
    assert (log.end, log.oldest) == (12, None)


def test_a_flush_without_room_is_tried_again_later() -> None:
    broker = Broker(flush_messages=1)
    asked = broker.produce(batch(1), acks=1)
    assert out.FlushLog not in kinds(flushed(broker, asked, 0))
    assert broker.core.deadline > broker.now
    broker.wait(99)
    (late,) = [each for each in broker.wait(1) if isinstance(each, out.ReplyProduce)]
    assert late.parts[0].error == 7
    assert out.FlushLog in kinds(broker.wait(900))


def test_a_log_that_was_opened_is_flushed_before_it_is_vouched_for() -> None:
    core = Replicas(1, 1, 0, 1_000_000)
    known = {KEY: come.Settings(flush_messages=1)}
    core.step(
        come.Published((), {KEY: come.Assignment(BROKERS, (1,), 1, 3, 10)}, known, PEERS), 0, 0
    )
    effects = core.step(come.LogOpened(KEY, 0, 5, ((1, 0),), (), 0, 2), 0, 0)
    assert out.FlushLog(KEY, 1) in effects
    assert core.partitions[KEY].hw == 2
    core.step(come.LogFlushed(KEY, 1, 0, 5), 0, 0)
    assert core.partitions[KEY].hw == 5


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, NUMBERS - 1), max_size=250), st.integers(1, 2))
def test_no_loss_of_power_takes_an_acknowledged_record(numbers: list[int], least: int) -> None:
    world = Powerless(least)
    world.run(numbers)
    world.finish()


def test_long_runs_with_losses_of_power() -> None:
    worlds = [judged_run(seed, kind=Powerless) for seed in range(30)]
    assert sum(len(world.acked) for world in worlds) > 50
    assert sum(world.lost for world in worlds if isinstance(world, Powerless)) > 20


def test_acknowledgements_from_memory_are_lost_with_the_power(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def planted(self: Partition) -> int:
        return 0 if self.log is None else self.log.end

    monkeypatch.setattr(Partition, "vouched", property(planted))
    monkeypatch.setattr(judge, "IGNORED", RULES - {"D1"})
    for seed in range(60):
        try:
            judged_run(seed, kind=Powerless)
        except judge.BrokenError as broken:
            assert broken.rule == "D1"
            return
        except (AssertionError, KeyError, ValueError):
            continue
    pytest.fail("60 runs lost nothing")

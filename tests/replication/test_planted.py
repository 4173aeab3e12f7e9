"""Each invariant is broken by a bug planted on purpose, most of them bugs that Kafka had."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kraftwreck.nodes.protocol.errors import NONE, NOT_LEADER_OR_FOLLOWER
from kraftwreck.nodes.replication.effects import OffsetPart, ReadPart, Slice, Truncate
from kraftwreck.nodes.replication.epoch_cache import LeaderEpochs
from kraftwreck.nodes.replication.events import LogOpened
from kraftwreck.nodes.replication.following import Following
from kraftwreck.nodes.replication.partition import Partition
from kraftwreck.nodes.replication.producers import Producers
from tests.replication import judge
from tests.replication.world import World

Patch = pytest.MonkeyPatch
RUNS = 120


def truncates_to_the_high_watermark(patch: Patch) -> None:
    """KAFKA-1211: as every follower did before KIP-101."""
    opened = Partition.opened

    def planted(self: Partition, event: LogOpened) -> None:
        end = min(event.high_watermark, event.end_offset)
        self.with_.effects.append(Truncate(self.key, end))
        epochs = tuple(each for each in event.epochs if each[1] < end)
        kept = tuple(each for each in event.producers if each.next_offset <= end)
        opened(self, replace(event, end_offset=end, epochs=epochs, producers=kept))

    patch.setattr(Partition, "opened", planted)


def ignores_the_start_of_the_epoch(patch: Patch) -> None:
    """KAFKA-7128: a replica enters the ISR at the high watermark of a new leader."""

    def planted(self: Partition, broker: int) -> None:
        in_sync, remote = self.in_sync, self.in_sync.remotes[broker]
        if in_sync.pending is None and broker not in in_sync.isr and remote.end >= self.hw:
            self._propose((*in_sync.isr, broker))

    patch.setattr(Partition, "maybe_expand", planted)


def counts_the_committed_isr_only(patch: Patch) -> None:
    """Without KIP-497's maximal ISR."""

    def planted(self: Partition) -> None:
        log, in_sync = self.log, self.in_sync
        if log is not None and self.leading and len(in_sync.isr) >= self.min_insync:
            ends = [in_sync.remotes[each].end for each in in_sync.isr if each in in_sync.remotes]
            self.hw = max(self.hw, min([log.end, *ends]))
            self.with_.changed.add(self.key)

    patch.setattr(Partition, "advance", planted)


def ignores_the_smallest_isr(patch: Patch) -> None:
    """KAFKA-15583, KIP-966: the last replica moves the high watermark alone."""
    patch.setattr(Partition, "min_insync", 0)


def lets_consumers_read_to_the_end(patch: Patch) -> None:
    read = Partition.read

    def planted(self: Partition, part: Any, replica_id: int, broker_epoch: int) -> ReadPart:
        found = read(self, part, replica_id, broker_epoch)
        if found.error == NONE and self.log is not None and part.offset < self.log.end:
            found.records = Slice(part.offset, self.log.end, part.max_bytes)
        return found

    patch.setattr(Partition, "read", planted)


def appends_retries_again(patch: Patch) -> None:
    patch.setattr(Producers, "check", lambda self, batch: None)


def says_the_latest_offset_too_early(patch: Patch) -> None:
    """Without KIP-207: the latest offset goes back after a change of leaders."""

    def planted(self: Partition, timestamp: int, epoch: int, replica_id: int) -> OffsetPart:
        return OffsetPart(self.key, NONE, self.hw if replica_id == -1 else self.log.end)  # type: ignore[union-attr]

    patch.setattr(Partition, "offset_at", planted)


def accepts_any_leader_epoch(patch: Patch) -> None:
    """Without KIP-320: a deposed leader serves followers of the new epoch, and the reverse."""

    def planted(self: Partition, leader_epoch: int) -> int:
        return NONE if self.leading and self.log is not None else NOT_LEADER_OR_FOLLOWER

    patch.setattr(Partition, "fault", planted)
    patch.setattr(Following, "_diverged", lambda self, log, epoch, end: None)


def keeps_epochs_over_truncation(patch: Patch) -> None:
    patch.setattr(LeaderEpochs, "truncate_from", lambda self, end_offset: None)


def believes_diverging_followers(patch: Patch) -> None:
    """KAFKA-13141: a diverging fetch counts as progress of the follower."""
    read = Partition.read

    def planted(self: Partition, part: Any, replica_id: int, broker_epoch: int) -> ReadPart:
        found = read(self, part, replica_id, broker_epoch)
        if replica_id >= 0 and found.diverging is not None:
            self.fetched(part, replica_id, broker_epoch)
        return found

    patch.setattr(Partition, "read", planted)


def elects_without_a_new_epoch(patch: Patch) -> None:
    publish = World.publish

    def planted(self: World, **changes: Any) -> None:
        epoch = self.assignment.leader_epoch
        publish(self, **changes)
        object.__setattr__(self.assignment, "leader_epoch", epoch)

    patch.setattr(World, "publish", planted)


def deletes_above_the_high_watermark(patch: Patch) -> None:
    """KAFKA-5634: here it deletes all that is there, at each advance."""
    advance = Partition.advance

    def planted(self: Partition) -> None:
        advance(self)
        if self.log is not None and self.log.end > self.log.start:
            hw, self.hw = self.hw, self.log.end
            self.delete_up_to(self.log.end)
            self.hw = hw

    patch.setattr(Partition, "advance", planted)


RULES = frozenset(
    {"D1", "D2", "D3", "D5", "D6", "D7", "D8", "D9", "D10", "D11", "D13", "D14", "D15", "L"}
)
PLANTED: list[tuple[Callable[[Patch], None], str]] = [
    (truncates_to_the_high_watermark, "D1"),
    (truncates_to_the_high_watermark, "D2"),
    (truncates_to_the_high_watermark, "D13"),
    (ignores_the_start_of_the_epoch, "D9"),
    (counts_the_committed_isr_only, "D8"),
    (ignores_the_smallest_isr, "D8"),
    (ignores_the_smallest_isr, "D14"),
    (lets_consumers_read_to_the_end, "D5"),
    (appends_retries_again, "D3"),
    (says_the_latest_offset_too_early, "D13"),
    (accepts_any_leader_epoch, "D6"),
    (keeps_epochs_over_truncation, "D7"),
    (believes_diverging_followers, "D8"),
    (elects_without_a_new_epoch, "D10"),
    (deletes_above_the_high_watermark, "D11"),
]


def test_every_rule_has_a_planted_bug() -> None:
    assert {rule for _, rule in PLANTED} == RULES - {"D15", "L"}, "D15 has its own test"


@pytest.mark.parametrize(("plant", "rule"), PLANTED, ids=[f"{p.__name__}-{r}" for p, r in PLANTED])
def test_a_planted_bug_breaks_its_invariant(
    plant: Callable[[Patch], None], rule: str, monkeypatch: Patch
) -> None:
    plant(monkeypatch)
    monkeypatch.setattr(judge, "IGNORED", RULES - {rule})
    for seed in range(RUNS):
        try:
            judge.judged_run(seed)
        except judge.BrokenError as broken:
            assert broken.rule == rule
            return
        except (AssertionError, KeyError, ValueError):
            continue  # The bug broke what the world relies on, after a rule that is not judged.
    pytest.fail(f"{RUNS} runs did not break {rule}")

"""Invariants of brokers' data planes in whole simulated runs: each is broken by a planted bug."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

import pytest

from kraftwreck.campaigns.campaign import run_seed
from kraftwreck.harness.simulated.result import SimResult
from kraftwreck.histories.fault import Fault
from kraftwreck.nemesis.inject import Injector
from kraftwreck.nodes.protocol.errors import NONE, NOT_ENOUGH_REPLICAS, NOT_LEADER_OR_FOLLOWER
from kraftwreck.nodes.replication.effects import OffsetPart
from kraftwreck.nodes.replication.events import Assignment
from kraftwreck.nodes.replication.flushing import Durability
from kraftwreck.nodes.replication.following import Following
from kraftwreck.nodes.replication.headers import Batch
from kraftwreck.nodes.replication.in_sync import InSync, Remote
from kraftwreck.nodes.replication.partition import Appended, Partition
from kraftwreck.nodes.replication.producers import Producers
from kraftwreck.nodes.replication.quorum_commit import Pace, QuorumCommit
from kraftwreck.nodes.replication.requests import Fetching, Producing
from kraftwreck.nodes.replication.timers import NEVER
from kraftwreck.nodes.server import replica_fetches
from kraftwreck.nodes.server.partition_files import PartitionFiles
from kraftwreck.systems.kraft.simulated.campaign import KraftCampaign
from kraftwreck.systems.kraft.simulated.run import simulate
from kraftwreck.systems.kraft.workloads.log_client import FLUSH_MESSAGES, PREFIX, QUORUM_COMMIT
from kraftwreck.systems.kraft.workloads.produce import WORKLOAD, ProduceWorkload
from kraftwreck.systems.simulators import everything
from tests.replication.test_planted import (
    deletes_above_the_high_watermark,
    keeps_epochs_over_truncation,
    lets_consumers_read_to_the_end,
    truncates_to_the_high_watermark,
)
from tests.replication.test_quorum_commit import (
    counts_a_proposed_removal,
    takes_half_for_a_majority,
)

Patch = pytest.MonkeyPatch
RUNS = 24
SECOND = 1_000_000_000


def appends_retries_again(patch: Patch) -> None:
    patch.setattr(Producers, "check", lambda self, batch: None)


def writes_other_batches_than_its_leader(patch: Patch) -> None:
    """A follower writes batches with another checksum."""
    batches = replica_fetches._batches

    def planted(records: bytes) -> tuple[Batch, ...]:
        return tuple(replace(each, crc=each.crc ^ 1) for each in batches(records))

    patch.setattr(replica_fetches, "_batches", planted)


def lets_every_replica_enter(patch: Patch) -> None:
    """A replica enters the ISR by its first fetch."""

    def planted(self: Partition, broker: int) -> None:
        if self.in_sync.pending is None and broker not in self.in_sync.isr:
            self._propose((*self.in_sync.isr, broker))

    patch.setattr(Partition, "maybe_expand", planted)


def shrinks_to_the_leader(patch: Patch) -> None:
    """Followers are out of the ISR at once, and no ISR is too small."""
    patch.setattr(Remote, "is_caught_up", lambda self, end, now, lag_us: False)
    patch.setattr(Partition, "min_insync", 0)


def says_another_end_each_time(patch: Patch) -> None:
    def planted(self: Partition, timestamp: int, epoch: int, replica_id: int) -> OffsetPart:
        offset = max(self.hw - self.with_.now % 2, 0)
        return OffsetPart(self.key, NONE, offset, self.assignment.leader_epoch)

    patch.setattr(Partition, "offset_at", planted)


def ignores_leader_epochs(patch: Patch) -> None:
    """Brokers take each change of leaders for one within the first epoch."""
    assigned = Partition.assigned

    def planted(self: Partition, new: Assignment) -> None:
        assigned(self, replace(new, leader_epoch=0))

    patch.setattr(Partition, "assigned", planted)


def answers_in_any_leader_epoch(patch: Patch) -> None:
    def planted(self: Partition, leader_epoch: int) -> int:
        return NONE if self.leading else NOT_LEADER_OR_FOLLOWER

    patch.setattr(Partition, "fault", planted)


def commits_late(patch: Patch) -> None:
    """A leader whose ISR has changed raises its high watermark only with the next fetch."""
    altered, advance = Partition.altered, Partition.advance

    def planted(self: Partition, *args: Any) -> None:
        patch.setattr(Partition, "advance", lambda self: None)
        altered(self, *args)
        patch.setattr(Partition, "advance", advance)

    patch.setattr(Partition, "altered", planted)


def acknowledges_what_it_refused(patch: Patch) -> None:
    """A batch is appended although its producer gets an error."""
    append = Partition.append

    def planted(self: Partition, batch: Batch, acks: int) -> Appended:
        done = append(self, batch, acks)
        refused = done.error == 0 and batch.crc % 7 == 0
        return Appended(NOT_ENOUGH_REPLICAS) if refused else done

    patch.setattr(Partition, "append", planted)


def acknowledges_at_once(patch: Patch) -> None:
    """With acks=all, a batch is acknowledged before it is replicated."""
    patch.setattr(Producing, "_outcome", staticmethod(lambda partition, end: NONE))


def forgets_the_last_batch(patch: Patch) -> None:
    """A log opens without its last batch."""
    tell_opened = PartitionFiles._tell_opened

    def planted(self: PartitionFiles, key: Any, replica: Any) -> None:
        if replica.log.end_offset > replica.log.start_offset:
            self._truncate(key, replica.log.end_offset - 1)
        tell_opened(self, key, replica)

    patch.setattr(PartitionFiles, "_tell_opened", planted)


def lets_no_replica_return(patch: Patch) -> None:
    """A replica that left the ISR never enters it again."""
    patch.setattr(Partition, "maybe_expand", lambda self, broker: None)


def keeps_a_high_watermark_over_truncation(patch: Patch) -> None:
    """A follower cuts its log, and not its high watermark, which it had taken to its end."""
    truncate = Following._truncate

    def planted(self: Following, end: int) -> None:
        reached = self.log.end
        truncate(self, end)
        self.partition.hw = reached

    patch.setattr(Following, "_truncate", planted)


def lets_fetches_wait_too_long(patch: Patch) -> None:
    began = Fetching.__init__

    def planted(self: Fetching, *args: Any) -> None:
        began(self, *args)
        self.deadline += 5_000_000

    patch.setattr(Fetching, "__init__", planted)


PLANTED: list[tuple[Callable[[Patch], None], str]] = [
    (acknowledges_at_once, "D1"),
    (appends_retries_again, "D2"),
    (appends_retries_again, "D3"),
    (acknowledges_what_it_refused, "D4"),
    (lets_consumers_read_to_the_end, "D5"),
    (writes_other_batches_than_its_leader, "D6"),
    (keeps_epochs_over_truncation, "D7"),
    (shrinks_to_the_leader, "D8"),
    (lets_every_replica_enter, "D9"),
    (ignores_leader_epochs, "D10"),
    (deletes_above_the_high_watermark, "D11"),
    (says_another_end_each_time, "D13"),
    (shrinks_to_the_leader, "D14"),
    (forgets_the_last_batch, "F1"),
    (keeps_a_high_watermark_over_truncation, "D5"),
    (truncates_to_the_high_watermark, "D1"),
    (answers_in_any_leader_epoch, "D10"),
    (commits_late, "L13"),
    (lets_no_replica_return, "L13"),
    (lets_fetches_wait_too_long, "L13"),
]


def campaign(*faults: str) -> KraftCampaign:
    """Return short runs of three brokers."""
    return KraftCampaign(
        system="kraft",
        workload="produce",
        faults=faults,
        nodes=3,
        time_limit_s=10.0,
        system_options=("brokers=3",),
    )


def short_tests() -> Iterator[Callable[..., SimResult]]:
    """Return functions that make short runs, which partitions and kills strike."""
    drawn = campaign("partition", "kill")
    for seed in range(RUNS):
        options, knobs = drawn.options(seed), drawn.knobs(seed)
        yield partial(simulate, options, WORKLOAD, drawn.schedule(seed), Injector, knobs=knobs)


def runs() -> Iterator[SimResult]:
    """Return these runs."""
    return (make() for make in short_tests())


def quorum_runs() -> Iterator[SimResult]:
    """Return short runs with topics in which a majority of the replicas commits."""
    drawn, workload = campaign("partition", "kill", "pause"), ProduceWorkload(QUORUM_COMMIT)
    for seed in range(RUNS):
        options, knobs = drawn.options(seed), drawn.knobs(seed)
        yield simulate(options, workload, drawn.schedule(seed), Injector, knobs=knobs)


def powerless_runs(flushed: str | None) -> Iterator[SimResult]:
    """Return short runs with this ``flush.messages``, in which all brokers lose power twice."""
    drawn = campaign("power")
    workload = ProduceWorkload({} if flushed is None else {FLUSH_MESSAGES: flushed})
    schedule = [
        Fault(at=at * SECOND, kind="power", shape="all", duration=SECOND, draw=at,
              targets=("b1", "b2", "b3"))
        for at in (3, 6)
    ]  # fmt: skip
    for seed in range(RUNS):
        options, knobs = drawn.options(seed), drawn.knobs(seed)
        yield simulate(options, workload, schedule, Injector, knobs=knobs)


def fail_unless_broken(rule: str) -> None:
    """Fail unless one of the runs breaks ``rule``.

    A run ends at its first failure. If that breaks another rule, the whole run is made.
    """
    found: set[str] = set()
    for make in short_tests():
        first = {failure.type for failure in make(eager=True).failures}
        found |= first
        if first and rule not in first:
            found |= {failure.type for failure in make().failures}
        if rule in found:
            return
    pytest.fail(f"{RUNS} runs broke {sorted(found)}, not {rule}")


@pytest.mark.many_runs
@pytest.mark.parametrize(("plant", "rule"), PLANTED, ids=[f"{p.__name__}-{r}" for p, r in PLANTED])
def test_a_planted_bug_breaks_its_invariant(
    plant: Callable[[Patch], None], rule: str, monkeypatch: Patch
) -> None:
    plant(monkeypatch)
    fail_unless_broken(rule)


def waits_for_slow_followers(patch: Patch) -> None:
    patch.setattr(Pace, "is_late", lambda self, now: False)


@pytest.mark.many_runs
@pytest.mark.parametrize(
    ("plant", "rule"),
    [
        (counts_a_proposed_removal, "D15"),
        (takes_half_for_a_majority, "D15"),
        (waits_for_slow_followers, "L13"),
    ],
)
def test_a_planted_bug_of_quorum_commit_breaks_its_invariant(
    plant: Callable[[Patch], None], rule: str, monkeypatch: Patch
) -> None:
    plant(monkeypatch)
    found: set[str] = set()
    for run in quorum_runs():
        found |= {failure.type for failure in run.failures}
        if rule in found:
            return
    pytest.fail(f"no run broke {rule}, only {sorted(found)}")


@pytest.mark.many_runs
def test_a_quorum_removes_slow_followers_and_breaks_nothing(monkeypatch: Patch) -> None:
    removed = []
    without_late = QuorumCommit.without_late

    def counted(self: QuorumCommit, in_sync: InSync, now: int) -> tuple[int, ...]:
        left = without_late(self, in_sync, now)
        if left != in_sync.isr:
            removed.append(left)
        return left

    monkeypatch.setattr(QuorumCommit, "without_late", counted)
    for run in islice(quorum_runs(), 4):
        assert run.failures == []
    assert removed


def test_without_a_bug_every_invariant_holds_and_the_run_repeats() -> None:
    first, again = next(runs()), next(runs())
    assert first.failures == []
    assert (again.digest, again.ops) == (first.digest, first.ops)
    assert sum(op.f == "send" and op.type == "ok" for op in first.ops) > 20


@pytest.mark.many_runs
def test_an_empty_log_behind_a_legal_loss_commits_nothing() -> None:
    """All brokers lose power after DeleteRecords has cut inside of a batch."""
    campaign = replace(
        everything(), nodes=0, time_limit_s=30.0, style="swarm", system_options=("records=yes",)
    )
    tested = run_seed(campaign, 21, keep=False, eager=True)
    assert tested.found == []


@pytest.mark.many_runs
def test_records_flushed_one_by_one_survive_a_loss_of_power_of_all_brokers() -> None:
    for run in islice(powerless_runs("1"), 3):
        assert run.failures == []
        assert run.test["fault_model"]["lost_keys"] == []


def test_records_in_memory_only_are_lost_legally_with_the_power_of_all_brokers() -> None:
    for run in powerless_runs(None):
        assert run.failures == []
        if run.test["fault_model"]["lost_keys"]:
            return
    pytest.fail("no run lost a record")


def test_replicas_that_ignore_flush_messages_break_d1(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Durability, "vouched", lambda self, log_end, settings: log_end)
    monkeypatch.setattr(Durability, "due", lambda self, log_end, settings: NEVER)
    for run in powerless_runs("1"):
        if "D1" in {failure.type for failure in run.failures}:
            return
    pytest.fail("no run broke D1")


def test_the_trace_has_the_positions_of_all_replicas() -> None:
    """No record is lost, as each one is flushed before it is acknowledged."""
    drawn, workload = campaign("partition", "kill"), ProduceWorkload({FLUSH_MESSAGES: "1"})
    options, knobs = drawn.options(0), drawn.knobs(0)
    run = simulate(options, workload, drawn.schedule(0), Injector, knobs=knobs)
    samples: dict[tuple[str, str, int], list[list[int]]] = {}
    names: dict[str, str] = {}
    for event in run.events:
        if event.kind == "replica-positions":
            names.update(event.detail.get("topics", {}))
            for topic, number, *offsets in event.detail["replicas"]:
                samples.setdefault((event.node, topic, number), []).append(offsets)
    assert {node for node, _, _ in samples} == {"b1", "b2", "b3"}
    ends: dict[tuple[str, int], int] = {}
    for (_, topic, number), rows in samples.items():
        for start, checkpoint, flushed, high_watermark, end in rows:
            assert 0 <= start <= high_watermark <= end
            assert checkpoint >= 0
            assert 0 <= flushed <= end
        if not names[topic].startswith(PREFIX):
            continue  # No operation names its records.
        ends[topic, number] = max(ends.get((topic, number), 0), rows[-1][-1])
    sent = [op for op in run.ops if op.f == "send"]
    sampled = (run.sim_s - 1) * 1e9
    least = sum(len(op.value) for op in sent if op.type == "ok" and op.time < sampled)
    most = sum(len(op.value) for op in sent if op.type == "invoke")
    assert 0 < least <= sum(ends.values()) <= most
    traced = sum(event.kind == "replica-positions" for event in run.events)
    assert traced < len(run.events) / 20, "traces stay small"

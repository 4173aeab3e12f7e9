"""Eligible leader replicas (KIP-966): C7 ElrDisjoint, as every record must keep it."""

from __future__ import annotations

from dataclasses import dataclass, field

from kraftwreck.checkers.kraft.controller_model.metadata_model import (
    NO_LEADER,
    TOPIC,
    MetadataModel,
    Partition,
    PartitionKey,
)
from kraftwreck.checkers.kraft.controller_model.replay import Step
from kraftwreck.checkers.kraft.invariants.broker_rules import LARGEST_BATCH
from kraftwreck.checkers.kraft.invariants.report import Report
from kraftwreck.checkers.kraft.recorded.disk_log import StoredBatch

MIN_INSYNC = "min.insync.replicas"
COMMIT_MODE = "commit.mode"
RECOVERING = 1
"""State after an unclean election: the former ISR and ELR are forgotten."""
EVERYWHERE = ""
"""The topic that a ClearElrRecord for all topics names."""


@dataclass(slots=True)
class _Batch:
    """The changes of one batch."""

    settings: dict[str, int] = field(default_factory=dict)
    """The offsets of new min.insync.replicas, by topic, or of all."""
    cleared: set[str] = field(default_factory=set)
    created: set[str] = field(default_factory=set)
    """Topics."""
    gone: set[int] = field(default_factory=set)
    registered: set[int] = field(default_factory=set)
    """Brokers."""
    left: list[tuple[str, set[int]]] = field(default_factory=list)
    """By partition: replicas that left a too small ISR and are not in the ELR."""


class EligibleRules:
    """Rules for the ELR.

    The ELR and the ISR are disjoint, and a large enough ISR needs no ELR. A replica that leaves an
    ISR below min.insync.replicas enters the ELR, except after an unclean shutdown or election; in a
    topic with commit.mode=quorum that number is a majority of the replicas. The ELR contains only
    registered replicas. A new min.insync.replicas empties it.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._enabled = False
        """Whether eligible leader replicas were enabled before the batch."""
        self._batch = _Batch()

    def begin(self, model: MetadataModel) -> None:
        """Continue the replay from ``model``."""
        self._enabled = model.elr_enabled()
        self._batch = _Batch()

    def step(self, step: Step) -> None:
        """Judge a record that was applied."""
        change, batch = step.change, self._batch
        if step.name == "ClearElrRecord":
            batch.cleared.add(step.fields["topic_name"])
        elif change is None:
            return
        elif change.section == "partition":
            self._partition(step, change.key, change.old, change.new)
        elif change.section == "topic" and change.old is None:
            batch.created.add(change.key)
        elif change.section == "broker" and change.new is None:
            batch.gone.add(change.key)
        elif step.name == "RegisterBrokerRecord":
            batch.registered.add(change.key)
        elif change.section == "config" and change.key[2] == MIN_INSYNC:
            kind, name, _ = change.key
            batch.settings[name if kind == TOPIC else EVERYWHERE] = step.offset

    def _partition(
        self, step: Step, key: PartitionKey, old: Partition | None, new: Partition
    ) -> None:
        name = f"{step.model.label(key)} at offset {step.offset}"
        if not step.model.elr_enabled():
            # Those from before may stay while there is no ISR.
            if old is not None and (set(new.elr) - set(old.elr) or (old.isr and new.elr)):
                self._report.broken(
                    "C7", f"{name}: the ELR is {list(new.elr)} although the feature is off."
                )
            return
        self._report.held("C7")
        both = set(new.isr) & set(new.elr)
        if both:
            self._report.broken("C7", f"{name}: {sorted(both)} are both in the ISR and in the ELR.")
        strangers = set(new.elr) - set(new.replicas)
        if strangers:
            self._report.broken("C7", f"{name}: {sorted(strangers)} of the ELR are no replicas.")
        if old is not None and old.leader == new.leader == NO_LEADER:
            known = old.last_known_elr
            if known and not old.isr and new.last_known_elr != known:
                self._report.broken(
                    "C7",
                    f"{name}: the last known leader is forgotten while there is no leader:"
                    f" {list(known)} becomes {list(new.last_known_elr)}.",
                )
        if new.leader != NO_LEADER and new.last_known_elr:
            self._report.broken(
                "C7",
                f"{name}: {new.leader} leads, but the last known leader"
                f" {list(new.last_known_elr)} is still remembered.",
            )
        told = step.model.config(key[0], MIN_INSYNC)
        if step.model.config(key[0], COMMIT_MODE) == "quorum":
            least = (len(new.replicas) - len(new.adding)) // 2 + 1
        elif told is not None and told.isdigit():
            least = min(int(told), len(new.replicas))
        else:
            return
        if step.fields.get("isr") is None:
            return
        if old is not None and len(new.isr) < least and new.recovery != RECOVERING:
            left = set(old.isr + old.elr).intersection(new.replicas) - set(new.isr + new.elr)
            if left:
                self._batch.left.append((f"{name}, {least} replicas needed in sync", left))
        if len(new.isr) >= least and new.elr:
            self._report.broken(
                "C7",
                f"{name}: the ISR {list(new.isr)} has the {least} replicas needed in sync, but the "
                f"ELR {list(new.elr)} is not empty.",
            )

    def batch_end(self, batch: StoredBatch, count: int, model: MetadataModel) -> None:
        """Judge a batch of which all ``count`` records were applied."""
        was_enabled, self._enabled = self._enabled, model.elr_enabled()
        done, self._batch = self._batch, _Batch()
        if not was_enabled or count >= LARGEST_BATCH:
            return
        if EVERYWHERE not in done.cleared:
            for name in done.settings.keys() - done.cleared - done.created:
                self._report.broken(
                    "C7",
                    f"Offset {done.settings[name]} changes {MIN_INSYNC} of "
                    f"{name or 'all topics'}, but eligible leader replicas stay.",
                )
        if self._enabled:
            self._left_in(batch, done.gone - model.brokers.keys(), model)
            if not done.settings:
                self._left_out(done)

    def _left_out(self, batch: _Batch) -> None:
        for where, left in batch.left:
            lost = left - batch.gone - batch.registered
            if lost:
                self._report.broken(
                    "C7", f"{where}: {sorted(lost)} left the ISR without entering the ELR."
                )

    def _left_in(self, batch: StoredBatch, gone: set[int], model: MetadataModel) -> None:
        for key, partition in model.partitions.items() if gone else ():
            stays = gone.intersection(partition.elr)
            if stays:
                self._report.broken(
                    "C7",
                    f"After the batch at offset {batch.base} brokers {sorted(stays)} are no longer"
                    f" registered, but still in the ELR of {model.label(key)}.",
                )

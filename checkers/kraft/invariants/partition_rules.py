"""Rules for every partition change record: C3 FencedNotInIsr, C4 LeaderInIsr, C5
LeaderEpochRule, C6 UncleanOnlyIfAllowed and C14 ReassignmentSane."""

from __future__ import annotations

from kraftwreck.checkers.kraft.controller_model.config_values import is_true
from kraftwreck.checkers.kraft.controller_model.metadata_model import (
    NO_LEADER,
    SAME_LEADER,
    Change,
    MetadataModel,
    Partition,
    PartitionKey,
)
from kraftwreck.checkers.kraft.controller_model.refusals import UNCLEAN, has_online_replica
from kraftwreck.checkers.kraft.controller_model.replay import Step
from kraftwreck.checkers.kraft.invariants.asked_reassignments import AskedReassignments
from kraftwreck.checkers.kraft.invariants.broker_rules import LARGEST_BATCH
from kraftwreck.checkers.kraft.invariants.report import Report
from kraftwreck.checkers.kraft.recorded.arrived import all_arrived, arrived
from kraftwreck.checkers.kraft.recorded.disk_log import StoredBatch
from kraftwreck.checkers.recorded.run_data import RunData

ALL = None
"""An election of all topics, where others have a name."""
SHRINK_KEEPS_EPOCH = 12
"""From this metadata.version (3.6-IV0) on a smaller ISR does not bump the leader epoch."""


class PartitionRules:
    """Rules for partitions, one record after the other."""

    def __init__(self, report: Report, run: RunData) -> None:
        self._report = report
        self._unclean = _asked_unclean(run)
        self._asked = AskedReassignments(run)
        self._touched: set[PartitionKey] = set()
        self._leaderless: set[PartitionKey] = set()
        self._unfenced = False
        self._fenced = False

    def begin(self, model: MetadataModel) -> None:
        """Continue the replay from ``model``."""
        self._touched.clear()
        self._unfenced = self._fenced = False
        self._leaderless = {k for k, p in model.partitions.items() if p.leader == NO_LEADER}

    def broker_changed(self, change: Change) -> None:
        """Note that a broker may lead again, or that another must take over its partitions."""
        old, new = change.old, change.new
        self._fenced |= old is not None and old.active and (new is None or not new.active)
        self._unfenced |= new is not None and new.active and (old is None or not old.active)

    def topic_changed(self, change: Change) -> None:
        """Forget the partitions of a removed topic."""
        if change.new is None:
            self._leaderless = {key for key in self._leaderless if key[0] != change.old}
            self._touched = {key for key in self._touched if key[0] != change.old}

    def step(self, step: Step, change: Change) -> None:
        """Judge a partition that was created or changed."""
        _, key, old, new = change
        name = f"{step.model.label(key)} at offset {step.offset}"
        self._touched.add(key)
        if new.leader == NO_LEADER:
            self._leaderless.add(key)
        else:
            self._leaderless.discard(key)
        self._epochs(step, name, old, new)
        self._leader(step, key[0], name, old, new)
        self._isr(step, name, old, new)
        if step.name == "PartitionChangeRecord":
            self._reassignment(name, step.model.names.get(key[0]), old, new)

    # --- one change -----------------------------------------------------------------------

    def _epochs(self, step: Step, name: str, old: Partition | None, new: Partition) -> None:
        """C5: the leader epoch increases with every elected leader and every removed replica."""
        report = self._report
        report.held("C5")
        if step.name == "PartitionRecord":
            if old is not None:
                report.broken("C5", f"{name} is created although it exists.")
            elif (new.leader_epoch, new.partition_epoch) != (0, 0):
                report.broken(
                    "C5",
                    f"{name} begins with leader epoch {new.leader_epoch} and partition epoch "
                    f"{new.partition_epoch}.",
                )
            return
        assert old is not None
        version = step.model.features.get("metadata.version")
        removed = set(old.replicas) - set(new.replicas)
        shrunk = len(new.isr) < len(old.isr)
        early = version is not None and version < SHRINK_KEEPS_EPOCH
        must = bool(removed) or (shrunk and early)
        may = must or (shrunk and version is None)
        bumped = step.fields.get("leader", SAME_LEADER) != SAME_LEADER
        if must and not bumped:
            why = f"replicas {sorted(removed)} were removed" if removed else "its ISR shrank"
            report.broken("C5", f"{name}: {why}, and the leader epoch stays {old.leader_epoch}.")
        elif bumped and new.leader == old.leader and not may:
            report.broken(
                "C5", f"{name}: the leader epoch increases to {new.leader_epoch} for no reason."
            )

    def _leader(
        self, step: Step, topic_id: bytes, name: str, old: Partition | None, new: Partition
    ) -> None:
        """C4: the leader is in the ISR and active; C6: it was there before, or may be unclean."""
        report, model = self._report, step.model
        report.held("C4")
        if not set(new.isr) <= set(new.replicas) or len(set(new.isr)) != len(new.isr):
            report.broken(
                "C4", f"{name}: ISR {list(new.isr)} is no subset of replicas {list(new.replicas)}."
            )
        if not new.isr and (old is None or old.isr) and not model.elr_enabled():
            report.broken(
                "C4", f"{name}: the last member leaves the ISR, and no replica is eligible to lead."
            )
        if new.leader == NO_LEADER:
            return
        if new.leader not in new.isr:
            report.broken("C4", f"{name}: leader {new.leader} is not in the ISR {list(new.isr)}.")
        chosen = old is None or step.fields.get("leader", SAME_LEADER) != SAME_LEADER
        if chosen and model.brokers and (how := model.out_of_service(new.leader)):
            report.broken("C4", f"{name}: leader {new.leader} is {how}.")
        if old is None or new.leader == old.leader:
            return
        report.held("C6")
        if any(new.leader in ids for ids in (old.isr, old.elr, old.adding)):
            return
        under_way = old.adding or old.removing
        if under_way and not (new.adding or new.removing) and new.leader in new.isr:
            # Its leader added it to the ISR in the proposal that completed the reassignment. It
            # need not be among the added ones: a second reassignment may have kept it.
            return
        if new.recovery != 1:
            report.broken(
                "C6",
                f"{name}: leader {new.leader} was neither in the ISR {list(old.isr)} nor in the "
                f"ELR {list(old.elr)}, and the partition is not marked as recovering.",
            )
        last_known = not old.isr and old.last_known_elr == (new.leader,)
        allowed = is_true(model.config(topic_id, "unclean.leader.election.enable"))
        asked = step.model.names.get(topic_id) in self._unclean or ALL in self._unclean
        if not (allowed or last_known or asked):
            report.broken(
                "C6",
                f"{name}: leader {new.leader} was neither in the ISR {list(old.isr)} nor in the "
                f"ELR {list(old.elr)}, and unclean elections are not allowed.",
            )

    def _isr(self, step: Step, name: str, old: Partition | None, new: Partition) -> None:
        """C3: only active brokers join an ISR."""
        if not step.model.brokers:
            return
        joined = set(new.isr) - set(old.isr if old is not None else ())
        self._report.held("C3", len(joined))
        for broker_id in sorted(joined):
            if how := step.model.out_of_service(broker_id):
                self._report.broken("C3", f"{name}: broker {broker_id}, {how}, joins the ISR.")

    def _reassignment(self, name: str, topic: str | None, old: Partition, new: Partition) -> None:
        """C14: replicas come through adding and go through removing, and none goes too early.

        A second reassignment may replace the first, and complete at once if all its replicas are
        there. It may have fewer replicas than the first if a request asked for that.
        """
        under_way = bool(old.adding or old.removing)
        if not under_way and not (new.adding or new.removing or old.replicas != new.replicas):
            return
        report = self._report
        report.held("C14")
        strangers = {*new.adding, *new.removing} - set(new.replicas)
        if strangers or len(set(new.replicas)) != len(new.replicas):
            report.broken(
                "C14",
                f"{name}: replicas {list(new.replicas)} with adding {list(new.adding)} and "
                f"removing {list(new.removing)}.",
            )
        sudden = set(new.replicas) - set(old.replicas) - set(new.adding)
        if sudden:
            report.broken("C14", f"{name}: {sorted(sudden)} became replicas without being added.")
        if not (new.adding or new.removing):
            self._made_up_for(name, topic, old, new)
        else:
            self._goes_on(name, new)
        if not under_way or new.adding or new.removing:
            return
        target = set(old.replicas) - set(old.removing)
        back = set(old.replicas) - set(old.adding)
        if len(new.replicas) < min(len(target), len(back)):
            if self._asked.times(topic, new.replicas) >= 1:
                return
            report.broken(
                "C14",
                f"{name}: the reassignment to {sorted(target)} ends with {list(new.replicas)}.",
            )
        elif old.adding and set(new.replicas) == target and not set(old.adding) <= set(new.isr):
            unclean = new.leader != NO_LEADER and new.leader not in old.isr
            if unclean and set(old.adding) <= set(old.isr):
                return  # They were in sync until an unclean election in the same record.
            if self._asked.times(topic, new.replicas) >= 2:
                return  # The second begins with all the replicas that the first has left.
            report.broken(
                "C14",
                f"{name}: the reassignment to {sorted(target)} is complete although "
                f"{sorted(set(old.adding) - set(new.isr))} are not in sync.",
            )

    def _goes_on(self, name: str, new: Partition) -> None:
        """C14: a reassignment ends with the record that puts its last replica into the ISR.

        Where an election leaves its leader alone in the ISR, the next record ends it.
        """
        stay = set(new.replicas) - set(new.removing)
        isr = set(new.isr) - set(new.removing)
        enough = set(new.adding) if len(new.adding) >= len(new.removing) else stay
        if isr and stay and {*new.adding, *enough} <= isr and len(new.isr) > 1:
            self._report.broken(
                "C14",
                f"{name}: the reassignment to {sorted(stay)} continues although {sorted(isr)} are "
                "in sync.",
            )

    def _made_up_for(self, name: str, topic: str | None, old: Partition, new: Partition) -> None:
        """C14: if more replicas go than come, all that stay are in sync when the others go."""
        target = set(old.replicas) - set(old.removing)
        one_step = not (old.adding or old.removing)
        if not one_step and (
            set(new.replicas) != target or self._asked.times(topic, new.replicas) > 1
        ):
            return  # It was cancelled or replaced.
        gone = set(old.replicas) - set(new.replicas)
        lag = set(new.replicas) - set(new.isr) - set(old.isr)
        if gone and len(old.adding) < len(gone) and lag:
            self._report.broken(
                "C14",
                f"{name}: {sorted(gone)} are no longer replicas although {sorted(lag)}, which stay,"
                " are not in sync.",
            )

    # --- one batch ------------------------------------------------------------------------

    def batch_end(self, batch: StoredBatch, count: int, model: MetadataModel) -> None:
        """C4: no partition lacks a leader while a broker could lead it."""
        suspects = self._leaderless & self._touched
        if self._unfenced:
            suspects = set(self._leaderless)
        moved = self._unfenced or self._fenced
        self._touched.clear()
        self._unfenced = self._fenced = False
        if not suspects or not model.brokers or count >= LARGEST_BATCH:
            return
        for key in sorted(suspects):
            partition = model.partitions.get(key)
            if partition is None:
                continue
            candidates = partition.isr
            if not candidates and model.elr_enabled():
                candidates = partition.elr
            if moved and is_true(model.config(key[0], "unclean.leader.election.enable")):
                candidates = partition.replicas  # An unclean leader, when brokers come or go.
            able = [b for b in candidates if _acceptable(model, partition, b)]
            if able:
                self._report.broken(
                    "C4",
                    f"After the batch at offset {batch.base}, {model.label(key)} has no leader "
                    f"although {able} could lead.",
                )


def _acceptable(model: MetadataModel, partition: Partition, broker_id: int) -> bool:
    broker = model.brokers.get(broker_id)
    if broker is None or not broker.active:
        return False
    return has_online_replica(partition, broker_id, broker)


def _asked_unclean(run: RunData) -> set[str | None]:
    """Return the topics for which an unclean election was requested, which permits it.

    Where some requests may not have been captured, the operations of clients count, too.
    """
    topics: set[str | None] = set()
    for message in arrived(run, ("ElectLeaders",)):
        if message.request["election_type"] == UNCLEAN:
            wanted = message.request["topic_partitions"]
            topics.update([ALL] if wanted is None else [each["topic"] for each in wanted])
    if not all_arrived(run):
        topics.update(c.key for c in run.calls if c.f == "elect" and c.argument == UNCLEAN)
    return topics

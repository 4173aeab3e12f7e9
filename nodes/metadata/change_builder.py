"""The one way a partition changes: wanted replicas and ISR in, a PartitionChangeRecord out.

For any event of a partition (a broker is fenced, an ISR is proposed, a reassignment, an election),
:class:`PartitionChangeBuilder` decides the consequences. It decides whether a reassignment is
complete, which replicas stay eligible leaders (KIP-966), which one leads, and which epochs move.
The record holds the changed fields only. Merged into the image, a leader in the record moves the
leader epoch, and every record moves the partition epoch.

Rules for each record and the resulting partition:

* C3: a broker that is not active is in no new ISR, and leads nothing; without eligible leader
  replicas the last member stays in the ISR, where it waits to lead again.
* C4: a leader is active, in the ISR, and the ISR is a subset of the replicas; there is no leader
  only if no acceptable replica was left.
* C5: the leader epoch moves exactly when the record names a leader. It does so when the leader
  changes, when a replica is removed from the assignment, and below 3.6 when the ISR shrinks. The
  partition epoch moves with every record.
* C6: a leader from neither the ISR nor the eligible replicas needs unclean election, or is the last
  known leader of a partition with neither; then it is the whole ISR and RECOVERING.
* C7: ISR and ELR do not overlap, an ISR of at least the minimum leaves no ELR, and a replica that
  was shut down uncleanly is in neither.
* C8: (checked by the caller, :mod:`nodes.metadata.alter_partition`) a proposed ISR was made against
  the present epochs of the partition.
* C14: ``replicas`` never loses a member before enough of the wanted ones are in the ISR; when it
  does, nothing is left to add or to remove.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, TypeVar

from kraftwreck.nodes.metadata.eligibility import DIRECTORIES, ELIGIBLE_LEADER_REPLICAS
from kraftwreck.nodes.metadata.image_records import UNCHANGED_LEADER, UNCHANGED_RECOVERY
from kraftwreck.nodes.metadata.image_values import NO_LEADER, Partition
from kraftwreck.nodes.metadata.operation import Body, Record
from kraftwreck.nodes.replication.quorum_commit import least_in_sync

NO_EPOCH_BUMP_ON_SHRINK: Final = 12
"""metadata.version 3.6-IV0, from which a smaller ISR alone moves no epoch (KAFKA-15021)."""
RECOVERED: Final = 0
RECOVERING: Final = 1

_T = TypeVar("_T")


class Election(Enum):
    """The permitted kinds of election."""

    ONLINE = auto()
    """Keep the leader, or elect another member of the ISR (of the ELR if that is empty)."""
    PREFERRED = auto()
    """As ONLINE, but prefer the first replica."""
    UNCLEAN = auto()
    """As ONLINE, but elect any acceptable replica rather than none, even if records are lost."""


@dataclass(slots=True, frozen=True)
class Rules:
    """The rules of the cluster for a change of a partition.

    ``acceptable`` returns whether a broker may lead: it is active, is not just being taken out, and
    the replica's directory is online. ``min_insync`` is the configured number; at most the number
    of replicas counts. With ``quorum`` it is a majority of them (``commit.mode=quorum``).
    """

    metadata_version: int
    elr: bool
    min_insync: int
    acceptable: Callable[[int], bool]
    default_directory: Callable[[int], bytes]
    quorum: bool = False


def record_version(metadata_version: int, elr: bool) -> int:
    """Return the version of PartitionRecord and PartitionChangeRecord to write."""
    if metadata_version < DIRECTORIES:
        return 0
    return 2 if elr and metadata_version >= ELIGIBLE_LEADER_REPLICAS else 1


def without(replicas: Iterable[int], taken: Collection[int]) -> tuple[int, ...]:
    """Return ``replicas`` in their order without those ``taken``."""
    return tuple(replica for replica in replicas if replica not in taken)


class PartitionChangeBuilder:
    """Builds the record that brings one partition to its wanted state.

    Set the wanted state, then call :meth:`build` once. ``unclean_shutdown`` are brokers whose logs
    may have lost their ends; ``directories`` overrides the directories of replicas.
    """

    def __init__(self, topic_id: bytes, number: int, partition: Partition, rules: Rules) -> None:
        self._topic_id = topic_id
        self._number = number
        self._old = partition
        self._rules = rules
        self.replicas = partition.replicas
        self.isr = partition.isr
        self.removing = partition.removing
        self.adding = partition.adding
        self.recovery_state = partition.recovery_state
        self.election = Election.ONLINE
        self.unclean_shutdown: Collection[int] = ()
        self.directories: dict[int, bytes] = {}
        self._elr = partition.elr

    def build(self) -> Record | None:
        """Return the record, or None if the partition is in the wanted state already."""
        old = self._old
        self._complete_reassignment()
        self._update_elr()
        leader, unclean = self._elected()
        names_leader = leader != old.leader or unclean
        if unclean:
            # No other replica is known to have the new leader's records.
            self.isr, self._elr, self.recovery_state = (leader,), (), RECOVERING
        elif names_leader and leader in self._elr:
            self.isr, self._elr = (leader,), without(self._elr, (leader,))
        self._drop_needless_elr()
        isr = self.isr
        if not isr and not self._rules.elr:
            isr = old.isr  # the last one keeps its place, or its data would be forgotten
        left_assignment = not set(old.replicas) <= set(self.replicas)
        shrinks = not set(old.isr) <= set(isr)
        bumps_on_shrink = self._rules.metadata_version < NO_EPOCH_BUMP_ON_SHRINK
        if left_assignment or (shrinks and bumps_on_shrink):
            names_leader = True
        last_known = self._last_known(leader, isr)
        self._check(leader, isr)
        return self._record(leader if names_leader else UNCHANGED_LEADER, isr, last_known)

    def _complete_reassignment(self) -> None:
        if not self.removing and not self.adding:
            return
        isr = without(self.isr, self.removing)
        replicas = without(self.replicas, self.removing)
        if not isr or not replicas or not set(self.adding) <= set(isr):
            return
        # With fewer replicas than before, all remaining replicas must be in sync.
        if len(self.adding) < len(self.removing) and not set(replicas) <= set(isr):
            return
        self.replicas, self.isr, self.removing, self.adding = replicas, isr, (), ()

    @property
    def _min_isr(self) -> int:
        rules, replicas, adding = self._rules, len(self.replicas), len(self.adding)
        return least_in_sync(replicas, adding, rules.min_insync, quorum=rules.quorum)

    def _update_elr(self) -> None:
        """Move replicas that leave a too small ISR to the ELR: they hold all committed records.

        The high watermark does not move while the ISR is below the minimum (KIP-966). With the
        feature switched off no replica joins the ELR, and its members count only if there is no
        ISR.
        """
        eligible = set(self._old.elr)
        if self._rules.elr:
            eligible |= set(self._old.isr)
        elif self._old.isr:
            eligible.clear()
        eligible &= set(self.replicas)
        self._elr = without(sorted(eligible), {*self.isr, *self.unclean_shutdown})
        self._drop_needless_elr()

    def _drop_needless_elr(self) -> None:
        if len(self.isr) >= (self._min_isr if self._rules.elr else 1):
            self._elr = ()

    def _valid(self, replica: int) -> bool:
        candidates = self.isr or self._elr
        return (
            replica in candidates and replica in self.replicas and self._rules.acceptable(replica)
        )

    def _elected(self) -> tuple[int, bool]:
        """Return the leader (-1: none) and whether its election may lose records."""
        current = self._old.leader
        order = [current, *self.replicas]
        if self.election is Election.PREFERRED:
            order.insert(0, self.replicas[0])
        for replica in order:
            if self._valid(replica):
                return replica, False
        if self._rules.elr and not self.isr and not self._elr:
            known = self._old.last_known_elr
            # It must also be active (KAFKA-19522).
            if len(known) == 1 and known[0] in self.replicas and self._rules.acceptable(known[0]):
                return known[0], True
        if self.election is Election.UNCLEAN:
            for replica in self.replicas:
                if self._rules.acceptable(replica):
                    return replica, True
        return NO_LEADER, False

    def _last_known(self, leader: int, isr: Sequence[int]) -> tuple[int, ...]:
        """Return the last leader of an ISR that became empty, until a leader is elected."""
        if leader != NO_LEADER:
            return ()
        if self._rules.elr and not isr and self._old.leader != NO_LEADER:
            return (self._old.leader,)
        return self._old.last_known_elr

    def _check(self, leader: int, isr: Sequence[int]) -> None:
        where = f"{self._topic_id.hex()}-{self._number}"
        assert leader == NO_LEADER or leader in isr, f"{where}: leader {leader} not in {isr}"
        assert set(isr) <= set(self.replicas), f"{where}: ISR {isr} not in {self.replicas}"
        assert not set(isr) & set(self._elr), f"{where}: {isr} and ELR {self._elr} overlap"

    def _record(
        self, leader: int, isr: tuple[int, ...], last_known: tuple[int, ...]
    ) -> Record | None:
        old = self._old
        version = record_version(self._rules.metadata_version, self._rules.elr)
        directories = None
        if version >= 1:
            assigned = dict(zip(old.replicas, old.directories, strict=True)) | self.directories
            wanted = tuple(
                assigned.get(replica) or self._rules.default_directory(replica)
                for replica in self.replicas
            )
            directories = _if_changed(wanted, old.directories)
        changes: Body = {
            "isr": _if_changed(isr, old.isr),
            "replicas": _if_changed(self.replicas, old.replicas),
            "removing_replicas": _if_changed(self.removing, old.removing),
            "adding_replicas": _if_changed(self.adding, old.adding),
            "directories": directories,
            "eligible_leader_replicas": _if_changed(self._elr, old.elr),
            "last_known_elr": _if_changed(last_known, old.last_known_elr),
        }
        recovery = self.recovery_state
        if recovery == old.recovery_state:
            recovery = UNCHANGED_RECOVERY
        if (
            leader == UNCHANGED_LEADER
            and recovery == UNCHANGED_RECOVERY
            and all(value is None for value in changes.values())
        ):
            return None
        if changes["eligible_leader_replicas"] is not None or changes["last_known_elr"] is not None:
            version = 2  # eligible before the feature was switched off
        fields = {
            "partition_id": self._number,
            "topic_id": self._topic_id,
            "leader": leader,
            "leader_recovery_state": recovery,
            **changes,
        }
        return "PartitionChangeRecord", version, fields


def _if_changed(wanted: Sequence[_T], current: Sequence[_T]) -> list[_T] | None:
    return None if tuple(wanted) == tuple(current) else list(wanted)

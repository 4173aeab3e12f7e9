"""Changes of voters: which controllers lose their vote, and how they get it back (KIP-853).

A fault of this family changes voters when it starts and again when it ends, so that every
controller votes in the end. ``replace`` is a machine that comes back with an empty disk: a replica
with the same id and no memory of its votes, so its predecessor must be removed before it is added.
Other shapes leave the node running as an observer meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kraftwreck.harness.voter_changes import VoterChange
from kraftwreck.nemesis.partitions import Pick, leader_first, pick_leader, pick_one, shuffled

FEWEST = 3
"""The number of voters to which a quorum shrinks."""


@dataclass(frozen=True, slots=True)
class MembershipShape:
    """One shape. ``least`` is the number of controllers it needs.

    ``start`` is the first step: targets are removed, added, or lose machine and disk.
    """

    weight: int
    least: int
    pick: Pick
    start: Literal["remove", "add", "wipe"]

    def first(self, targets: Sequence[str]) -> list[VoterChange]:
        """Return the changes to request when the fault starts."""
        if self.start == "wipe":
            return []
        return [VoterChange(self.start, node) for node in targets]

    def last(self, targets: Sequence[str]) -> list[VoterChange]:
        """Return the changes to request when the fault ends."""
        return [] if self.start == "add" else [VoterChange("add", node) for node in targets]


def pick_surplus(nodes: Sequence[str], draw: int, leader: str | None) -> tuple[str, ...]:
    """Pick all but :data:`FEWEST` nodes, in half of the draws including the leader."""
    order = shuffled(nodes, draw) if draw & 1 else leader_first(nodes, draw, leader)
    return tuple(order[: max(len(nodes) - FEWEST, 1)])


def pick_all(nodes: Sequence[str], draw: int, leader: str | None) -> tuple[str, ...]:
    """Pick every controller, in any order."""
    return tuple(shuffled(nodes, draw))


MEMBERSHIPS: dict[str, MembershipShape] = {
    "one": MembershipShape(25, 3, pick_one, "remove"),
    "leader": MembershipShape(20, 3, pick_leader, "remove"),
    "shrink": MembershipShape(15, 4, pick_surplus, "remove"),
    "grow": MembershipShape(15, 2, pick_all, "add"),
    "replace": MembershipShape(15, 3, pick_one, "wipe"),
    "replace-leader": MembershipShape(10, 3, pick_leader, "wipe"),
}
"""``grow`` adds every controller as a voter, also those formatted to join later."""

"""Changes of voters: which controllers lose their vote, and how they get it back (KIP-853).

A fault of this family changes voters when it starts and again when it ends, so that every
controller votes in the end. ``replace`` is a machine that comes back with an empty disk: a replica
with the same id and no memory of its votes, so its predecessor must be removed before it is added.
Other shapes leave the node running as an observer meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

from kraftwreck.harness.capabilities import MEMBERSHIP, PROCESSES, MemberChange
from kraftwreck.nemesis.families.members import MemberChanges
from kraftwreck.nemesis.family import Active, Aims, Family, Needs, Shapes
from kraftwreck.nemesis.shapes import Shape, leader_first, pick_leader, pick_one, shuffled

FEWEST = 3
"""The number of voters to which a quorum shrinks."""


@dataclass(frozen=True, slots=True)
class MembershipShape(Shape):
    """One shape; ``start`` is the first step: targets are removed, added, or lose machine and
    disk."""

    start: Literal["remove", "add", "wipe"]

    def first(self, targets: Sequence[str]) -> list[MemberChange]:
        """Return the changes to request when the fault starts."""
        if self.start == "wipe":
            return []
        return [MemberChange(self.start, node) for node in targets]

    def last(self, targets: Sequence[str]) -> list[MemberChange]:
        """Return the changes to request when the fault ends."""
        return [] if self.start == "add" else [MemberChange("add", node) for node in targets]


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


_CHANGES = {"remove": "loses its vote", "add": "is made a voter", "wipe": "is replaced"}


class Voters(Family):
    """Changes voters, one change at a time."""

    name = "membership"
    about = "change the voters, replace machines"
    shapes: ClassVar[Shapes] = MEMBERSHIPS
    needs: ClassVar[Needs] = (MEMBERSHIP, PROCESSES)
    survives_crash = False
    aimed: ClassVar[Aims] = (
        ("one", ("@",)),
        ("one", ("@leader",)),
        ("leader", ()),
        ("shrink", ()),
        ("grow", ()),
        ("replace", ("@",)),
        ("replace", ("@leader",)),
    )

    @classmethod
    def keeps_with(cls, shape: str) -> Literal["", "down", "paused"]:
        return "down" if cls.shape(shape).start == "wipe" else ""

    @classmethod
    def describe(cls, shape: str, targets: str, duration: str) -> str:
        start = cls.shape(shape).start
        back = "" if start == "add" else f", and votes again {duration} later"
        return f"{targets}: {_CHANGES[start]}{back}"

    @classmethod
    def shape(cls, name: str) -> MembershipShape:
        """Return a shape of this family."""
        shape = cls.shapes[name]
        assert isinstance(shape, MembershipShape)
        return shape

    def candidates(self, active: Active) -> tuple[str, ...]:
        env = self.state.env
        changeable = env.why_not(MEMBERSHIP) is None
        return tuple(env[MEMBERSHIP].members()) if changeable else env.nodes

    def start(self, active: Active) -> None:
        """Remove voters or wipe a machine, unless an earlier change is incomplete.

        Two changes at once could leave a quorum whose majority is gone for good.
        """
        state = self.state
        env = state.env
        shape = self.shape(active.fault.shape)
        candidates = self.candidates(active)
        active.targets = tuple(node for node in active.targets if node in candidates)
        changes = state.effect(MemberChanges)
        why = changes.no_change(active)
        if why is None and shape.start == "wipe":
            held = [node for node in active.targets if state.held(node)]
            why = f"another fault holds {held[0]}" if held else None
        if why is not None:
            active.targets = ()
            active.detail["skipped"] = why
            return
        changes.changing.append(active)
        members = env[MEMBERSHIP]
        if shape.start == "wipe":
            for node in active.targets:
                state.down.add(node)
                if active.call(node, partial(env[PROCESSES].kill, node)):
                    active.call(node, partial(members.wipe, node))
        wanted = shape.first(active.targets)
        if wanted:
            active.call("voters", partial(members.change_members, wanted))

    def finish(self, active: Active) -> None:
        """Add the targets as voters again, after they have been started."""
        changes = self.state.effect(MemberChanges)
        if active in changes.changing:
            changes.changing.remove(active)
        if not active.targets and not changes.ended:
            return
        members = self.state.env[MEMBERSHIP]
        wanted = self.shape(active.fault.shape).last(active.targets)
        if wanted:
            active.call("voters", partial(members.change_members, wanted))
        known = members.member_changes()
        ended, changes.ended = changes.ended + known["ended"], []
        active.detail["changes"] = {"ended": ended, "open": known["open"]}

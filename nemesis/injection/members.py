"""Changes of voters, and machines that come back with an empty disk."""

from __future__ import annotations

from functools import partial
from typing import Any

from kraftwreck.nemesis.active import Active
from kraftwreck.nemesis.injection.ground import Detail, Evidence, Ground, Means
from kraftwreck.nemesis.membership import MembershipShape


class Members(Means):
    """Changes voters, one change at a time."""

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        self._ended: list[dict[str, Any]] = []
        self._ending: list[Active] = []
        """Ended faults whose voters have not been added back yet: their nodes start first."""

    def start(self, entry: Active, detail: Detail, evidence: Evidence) -> None:
        """Remove voters or wipe a machine, unless an earlier change is incomplete.

        Two changes at once could leave a quorum whose majority is gone for good.
        """
        ground = self.ground
        env = ground.env
        shape = _shape(entry)
        entry.targets = tuple(n for n in entry.targets if n in env.controllers)
        why = self.no_change(entry)
        if why is None and shape.start == "wipe":
            held = [node for node in entry.targets if node in ground.down | ground.stopped]
            why = f"another fault holds {held[0]}" if held else None
        if why is not None:
            entry.targets = ()
            detail["skipped"] = why
            return
        if shape.start == "wipe":
            for node in entry.targets:
                ground.down.add(node)
                if ground.call(entry, node, partial(env.kill, node), evidence):
                    ground.call(entry, node, partial(env.wipe, node), evidence)
        changes = shape.first(entry.targets)
        if changes:
            ground.call(entry, "voters", partial(env.change_voters, changes), evidence)

    def no_change(self, entry: Active) -> str | None:
        """Return why ``entry`` cannot change voters now, None if it can."""
        ground = self.ground
        if not ground.env.dynamic_quorum:
            return "the quorum is static"
        if not entry.targets:
            return "its targets include no controller"
        others = (a for a in ground.others(entry) if a.targets)
        ending = any(other is not entry for other in self._ending)
        if ending or any(other.family.action == "members" for other in others):
            return "another change is in force"
        changes = ground.env.voter_changes()
        self._ended.extend(changes["ended"])
        return "an earlier change is not complete" if changes["open"] else None

    def stop(self, entry: Active, detail: Detail, evidence: Evidence) -> None:
        """Block other changes until the targets have been started and vote again."""
        if entry.targets:
            self._ending.append(entry)

    def stopped(self, entry: Active, detail: Detail, evidence: Evidence) -> None:
        """Add the targets as voters again."""
        ground = self.ground
        if entry in self._ending:
            self._ending.remove(entry)
        changes = _shape(entry).last(entry.targets)
        if changes:
            again = partial(ground.env.change_voters, changes)
            ground.call(entry, "voters", again, evidence)
        if entry.targets or self._ended:
            known = ground.env.voter_changes()
            ended, self._ended = self._ended + known["ended"], []
            detail["changes"] = {"ended": ended, "open": known["open"]}


def _shape(entry: Active) -> MembershipShape:
    shape = entry.family.shapes[entry.fault.shape]
    assert isinstance(shape, MembershipShape)
    return shape

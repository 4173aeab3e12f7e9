"""Slow, full, failing and corrupted disks, and their effect on nodes.

While a disk is ``slow``, ``full`` or returns errors, its node lives, or dies with an error and is
started when the fault ends. A ``flip`` kills a node, changes one bit of its files and starts it:
it must refuse to run, or repair what the format allows. Afterwards its machine is replaced by one
with an empty disk if possible (members can be changed, and no other change is in progress).
Otherwise the bit is restored: a group with fixed members cannot survive the loss of acknowledged
data on one of them, any other group only on a minority at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

from kraftwreck.harness.capabilities import DISKS as BREAKABLE_DISKS
from kraftwreck.harness.capabilities import (
    MEMBERSHIP,
    PROCESSES,
    TORN_WRITES,
    MemberChange,
    host_of,
)
from kraftwreck.nemesis.families.members import MemberChanges
from kraftwreck.nemesis.family import Active, Aims, Evidence, Family, Needs, Shapes
from kraftwreck.nemesis.shapes import Shape, pick_leader, pick_minority, pick_one
from kraftwreck.nodes.draw import draw

DiskFault = Literal["slow", "full", "error", "flip", "readonly", "torn"]


@dataclass(frozen=True, slots=True)
class DiskShape(Shape):
    """One shape; ``fault`` is what happens to the disks of its targets."""

    fault: DiskFault


DISKS: dict[str, DiskShape] = {
    "slow": DiskShape(15, 1, pick_one, "slow"),
    "slow-leader": DiskShape(15, 1, pick_leader, "slow"),
    "full": DiskShape(10, 1, pick_one, "full"),
    "full-leader": DiskShape(5, 1, pick_leader, "full"),
    "full-minority": DiskShape(5, 3, pick_minority, "full"),
    "error": DiskShape(15, 1, pick_one, "error"),
    "error-leader": DiskShape(10, 1, pick_leader, "error"),
    "flip": DiskShape(20, 3, pick_one, "flip"),
    "flip-leader": DiskShape(5, 3, pick_leader, "flip"),
}
"""Only one disk is damaged at a time: two could destroy a majority."""


_TEARS = frozenset({TORN_WRITES.name})
STORAGE: dict[str, DiskShape] = {
    "readonly": DiskShape(30, 1, pick_one, "readonly"),
    "readonly-leader": DiskShape(20, 1, pick_leader, "readonly"),
    "torn": DiskShape(20, 1, pick_one, "torn", features=_TEARS),
    "torn-leader": DiskShape(15, 1, pick_leader, "torn", features=_TEARS),
    "torn-minority": DiskShape(15, 3, pick_minority, "torn", features=_TEARS),
}
"""A separate family, so that seeds with ``disk`` keep their meaning."""


class Disk(Family):
    """Breaks and repairs disks; each has one fault at a time."""

    name = "disk"
    about = "make disks slow, full, failing or corrupted"
    shapes: ClassVar[Shapes] = DISKS
    needs: ClassVar[Needs] = (BREAKABLE_DISKS, PROCESSES)
    hits = "processes"
    survives_crash = False
    aimed: ClassVar[Aims] = (
        ("slow", ("@",)),
        ("slow", ("@leader",)),
        ("full", ("@",)),
        ("full", ("@leader",)),
        ("error", ("@",)),
        ("error", ("@leader",)),
        ("flip", ("@",)),
        ("flip", ("@",)),
        ("flip", ("@leader",)),
        ("full-minority", ()),
    )
    jepsen = ("flip", "flip-leader")

    @classmethod
    def keeps_with(cls, shape: str) -> Literal["", "down", "paused"]:
        known = cls.shapes[shape]
        return "down" if isinstance(known, DiskShape) and known.fault == "flip" else ""

    def start(self, active: Active) -> None:
        shape = self.shapes[active.fault.shape]
        assert isinstance(shape, DiskShape)
        disks = self.state.env[BREAKABLE_DISKS]
        active.targets = self._free(active, shape.fault)
        for process in active.targets:
            number = draw(active.fault.draw, process)
            if shape.fault == "flip":
                damage = partial(disks.damage_disk, process, active.fault.draw)
                self._damage(active, process, damage)
            elif shape.fault == "torn":
                tear = self.state.env[TORN_WRITES].tear_log
                self._damage(active, process, partial(tear, process, number))
            else:
                active.call(process, partial(disks.trouble_disk, process, shape.fault, number))

    def _free(self, active: Active, fault: DiskFault) -> tuple[str, ...]:
        """Return the targets whose disks have no fault yet. Only one disk is damaged at a time."""
        others = [a for a in self.state.others(active) if isinstance(a.family, Disk) and a.targets]
        broken = {process for other in others for process in other.targets}
        damaged = any(other.keeps == "down" for other in others)
        free = []
        for process in active.targets:
            if process in broken:
                active.skip(process, "its disk has a fault already")
            elif fault in ("flip", "torn") and (self.state.held(process) or damaged):
                active.skip(process, "another fault holds it, or another disk is damaged")
            else:
                free.append(process)
        return tuple(free)

    def _damage(self, active: Active, process: str, damage: Callable[[], Evidence]) -> None:
        """Kill the process, damage its files, and start it; it may refuse to start."""
        processes = self.state.env[PROCESSES]
        self.state.down.add(process)
        if active.call(process, partial(processes.kill, process)):
            active.call(process, damage)
        started = active.call(process, partial(processes.start, process))
        if started and "refused" not in active.evidence[process]:
            self.state.down.discard(process)

    def stop(self, active: Active) -> None:
        """Repair disks; replace a machine whose disk is still damaged, if members can change."""
        env = self.state.env
        for process in active.targets:
            damaged = active.keeps == "down" and env[BREAKABLE_DISKS].disk_damaged(process)
            if damaged and self._replace(active, host_of(process)):
                continue
            active.call(process, partial(env[BREAKABLE_DISKS].mend_disk, process))
            if active.keeps != "down" and process not in self.state.down:  # It may have died.
                active.call(process, partial(env[PROCESSES].start, process))

    def _replace(self, active: Active, node: str) -> bool:
        """Give the node an empty disk and add it as a member again; return False if impossible."""
        env = self.state.env
        why = self.state.effect(MemberChanges).no_change(active)
        if why is None and node not in env[MEMBERSHIP].members():
            why = "it is not a member"
        if why is not None:
            active.detail["put right"] = why
            return False
        members = env[MEMBERSHIP]
        if active.call(node, partial(members.wipe, node)):
            again = [MemberChange("add", node)]
            active.call("members", partial(members.change_members, again))
        return True


class Storage(Disk):
    """Makes disks read-only, and cuts writes short."""

    name = "storage"
    about = "make disks read-only, cut writes short"
    shapes: ClassVar[Shapes] = STORAGE
    aimed: ClassVar[Aims] = ()

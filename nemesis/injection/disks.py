"""Disk faults: each disk has one at a time, and only one disk is damaged at a time."""

from __future__ import annotations

from functools import partial

from kraftwreck.harness.voter_changes import VoterChange
from kraftwreck.nemesis.active import Active
from kraftwreck.nemesis.disks import DiskShape
from kraftwreck.nemesis.injection.ground import Detail, Evidence, Ground, Means
from kraftwreck.nemesis.injection.members import Members
from kraftwreck.nodes.draw import draw


class Disks(Means):
    """Breaks and repairs disks; ``members`` decides whether a machine can be replaced."""

    def __init__(self, ground: Ground, members: Members) -> None:
        super().__init__(ground)
        self._members = members

    def start(self, entry: Active, detail: Detail, evidence: Evidence) -> None:
        """Give each disk one fault; damage one disk only, of a node that has run."""
        ground = self.ground
        env = ground.env
        shape = entry.family.shapes[entry.fault.shape]
        assert isinstance(shape, DiskShape)
        others = [a for a in ground.others(entry) if a.family.action == "disk" and a.targets]
        broken = {node for other in others for node in other.targets}
        struck = []
        for node in entry.targets:
            if node in broken:
                detail.setdefault("skipped", {})[node] = "its disk has a fault already"
            elif shape.fault in ("flip", "torn") and (
                node in ground.down | ground.stopped or any(other.keeps_down for other in others)
            ):
                detail.setdefault("skipped", {})[node] = (
                    "another fault holds it, or another disk is damaged"
                )
            else:
                struck.append(node)
        entry.targets = tuple(struck)
        for node in struck:
            number = draw(entry.fault.draw, node)
            damage = partial(env.damage_disk, node, entry.fault.draw)
            if shape.fault == "torn":
                damage = partial(env.tear_log, node, number)
            elif shape.fault != "flip":
                trouble = partial(env.trouble_disk, node, shape.fault, number)
                ground.call(entry, node, trouble, evidence)
                continue
            ground.down.add(node)
            if ground.call(entry, node, partial(env.kill, node), evidence):
                ground.call(entry, node, damage, evidence)
            started = ground.call(entry, node, partial(env.start, node), evidence)
            if started and "refused" not in evidence[node]:
                ground.down.discard(node)

    def stop(self, entry: Active, detail: Detail, evidence: Evidence) -> None:
        """Repair disks; replace a machine whose disk is still damaged, if voters can change."""
        ground = self.ground
        env = ground.env
        for node in entry.targets:
            if entry.keeps_down and env.disk_damaged(node):
                why = self._members.no_change(entry)
                if why is None and node in env.controllers:
                    again = partial(env.change_voters, [VoterChange("add", node)])
                    if ground.call(entry, node, partial(env.wipe, node), evidence):
                        ground.call(entry, "voters", again, evidence)
                    continue
                detail["put right"] = why or "it is not a controller"
            ground.call(entry, node, partial(env.mend_disk, node), evidence)
            if not entry.keeps_down and node not in ground.down:  # The fault may have killed it.
                ground.call(entry, node, partial(env.start, node), evidence)

"""Disks that are slow, full, broken or that forget: what happens to the node on each.

While a disk is ``slow``, ``full`` or gives errors its node lives, or dies of it loudly and is
started when the fault ends. A ``flip`` kills a node, changes one bit of its files and starts it:
it must refuse to run, or repair what the format lets it repair. In the end its machine is
replaced by one with an empty disk, where that can be (a dynamic quorum, no other change of voters
under way), and otherwise the bit is put right: a static quorum survives no loss of what a voter
has acknowledged, and a dynamic one only that of a minority at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nemesis.partitions import Pick, pick_leader, pick_minority, pick_one

DiskFault = Literal["slow", "full", "error", "flip", "readonly", "torn"]


@dataclass(frozen=True, slots=True)
class DiskShape:
    """One shape; ``fault`` is what happens to the disks of those it picks."""

    weight: int
    least: int
    pick: Pick
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
"""One disk at a time is damaged: with two, a majority might be gone."""

STORAGE: dict[str, DiskShape] = {
    "readonly": DiskShape(30, 1, pick_one, "readonly"),
    "readonly-leader": DiskShape(20, 1, pick_leader, "readonly"),
    "torn": DiskShape(20, 1, pick_one, "torn"),
    "torn-leader": DiskShape(15, 1, pick_leader, "torn"),
    "torn-minority": DiskShape(15, 3, pick_minority, "torn"),
}
"""A family of its own, so that what seeds mean with ``disk`` stays as it is."""

"""Slow, full, failing and corrupted disks, and their effect on nodes.

While a disk is ``slow``, ``full`` or returns errors, its node lives, or dies with an error and is
started when the fault ends. A ``flip`` kills a node, changes one bit of its files and starts it:
it must refuse to run, or repair what the format allows. Afterwards its machine is replaced by one
with an empty disk if possible (in a dynamic quorum, without another change of voters under way).
Otherwise the bit is restored: a static quorum cannot survive the loss of acknowledged data on a
voter, a dynamic one only on a minority at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kraftwreck.nemesis.partitions import Pick, pick_leader, pick_minority, pick_one

DiskFault = Literal["slow", "full", "error", "flip", "readonly", "torn"]


@dataclass(frozen=True, slots=True)
class DiskShape:
    """One shape; ``fault`` is what happens to the disks of its targets."""

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
"""Only one disk is damaged at a time: two could destroy a majority."""

STORAGE: dict[str, DiskShape] = {
    "readonly": DiskShape(30, 1, pick_one, "readonly"),
    "readonly-leader": DiskShape(20, 1, pick_leader, "readonly"),
    "torn": DiskShape(20, 1, pick_one, "torn"),
    "torn-leader": DiskShape(15, 1, pick_leader, "torn"),
    "torn-minority": DiskShape(15, 3, pick_minority, "torn"),
}
"""A separate family, so that seeds with ``disk`` keep their meaning."""

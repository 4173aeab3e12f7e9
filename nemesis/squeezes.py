"""Processes that get too little of what they need, or are killed for taking it.

That a node lives and gets nothing done is what a full machine, a noisy neighbour and a leak of
files look like. A node that cannot go on must end; one that can must be right again by itself once
it gets what it needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nemesis.partitions import Pick, pick_leader, pick_minority, pick_one, pick_ring

Want = Literal["cpu", "memory", "files", "oom", "slow-start"]


@dataclass(frozen=True, slots=True)
class SqueezeShape:
    """One shape; ``want`` is what those it picks get too little of.

    ``slow-start`` kills the process and lets it start again with little CPU.
    """

    weight: int
    least: int
    pick: Pick
    want: Want


SQUEEZES: dict[str, SqueezeShape] = {
    "cpu": SqueezeShape(15, 1, pick_one, "cpu"),
    "cpu-leader": SqueezeShape(15, 1, pick_leader, "cpu"),
    "cpu-minority": SqueezeShape(10, 3, pick_minority, "cpu"),
    "cpu-all": SqueezeShape(5, 2, pick_ring, "cpu"),
    "memory": SqueezeShape(10, 1, pick_one, "memory"),
    "files": SqueezeShape(10, 1, pick_one, "files"),
    "files-leader": SqueezeShape(10, 1, pick_leader, "files"),
    "oom": SqueezeShape(8, 1, pick_one, "oom"),
    "oom-leader": SqueezeShape(7, 1, pick_leader, "oom"),
    "slow-start": SqueezeShape(10, 1, pick_one, "slow-start"),
}

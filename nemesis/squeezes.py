"""Processes with too few resources, or killed for using too many.

Full machines, noisy neighbours and leaks of file descriptors leave a node alive but unable to work.
A node that cannot continue must exit; one that can must recover by itself once it has enough
resources.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kraftwreck.nemesis.partitions import Pick, pick_leader, pick_minority, pick_one, pick_ring

Want = Literal["cpu", "memory", "files", "oom", "slow-start"]


@dataclass(frozen=True, slots=True)
class SqueezeShape:
    """One shape; ``want`` is the resource that its targets lack.

    ``slow-start`` kills the process and starts it again with little CPU.
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

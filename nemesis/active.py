"""A fault in force: its targets and settings, and its errors."""

from __future__ import annotations

from dataclasses import dataclass, field

from kraftwreck.harness.environment import ClockSetting, Grudge
from kraftwreck.harness.run_errors import Trouble
from kraftwreck.histories.disturbance import Disturbance
from kraftwreck.histories.fault import Fault
from kraftwreck.nemesis.disks import DiskShape
from kraftwreck.nemesis.membership import MembershipShape
from kraftwreck.nemesis.registry import Family
from kraftwreck.nemesis.squeezes import SqueezeShape


@dataclass(slots=True, eq=False)
class Active:
    """``fault`` of ``family``; ``errors`` are those of the current phase."""

    fault: Fault
    family: Family
    targets: tuple[str, ...]
    grudge: Grudge
    disturbances: list[Disturbance] = field(default_factory=list)
    clock: ClockSetting | None = None
    errors: list[Trouble] = field(default_factory=list)

    @property
    def keeps_down(self) -> bool:
        """Whether its targets must stay down while it is in force."""
        shape = self.family.shapes.get(self.fault.shape)
        if isinstance(shape, MembershipShape):
            return shape.start == "wipe"
        if isinstance(shape, DiskShape):
            return shape.fault == "flip"
        if isinstance(shape, SqueezeShape):
            return shape.want in ("oom", "slow-start")
        return self.family.action in ("kill", "terminate", "power", "host")

    @property
    def keeps_paused(self) -> bool:
        """Whether its targets must stay paused while it is in force."""
        return self.family.action == "pause"

"""Wrong clocks. Source: jepsen.nemesis.time (bump, strobe), and drift.

The guarantees of consensus do not depend on the wall clock, so it may jump. Timeouts use the
monotonic clock, of which only the rate changes: by 1 or 5 %, like a badly disciplined oscillator,
or for seconds to half or double speed, as on a virtual machine that migrates or starves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import ClassVar

from kraftwreck.harness.capabilities import CLOCKS as CLOCK_CONTROL
from kraftwreck.harness.capabilities import ClockSetting
from kraftwreck.nemesis.family import (
    Active,
    Aims,
    Effect,
    Evidence,
    Family,
    FaultState,
    Needs,
    Shapes,
)
from kraftwreck.nemesis.shapes import Shape, leader_first, shuffled
from kraftwreck.nodes.draw import draw, draw_below

JUMPS_US = (50_000, 500_000, 5_000_000, 60_000_000, 3_600_000_000, 86_400_000_000)
STROBES_US = (1_000, 10_000, 100_000, 1_000_000)
DRIFTS_PPM = (10_000, -10_000, 50_000, -50_000, 1_000_000, -500_000)


@dataclass(frozen=True, slots=True)
class ClockShape(Shape):
    """One shape; ``setting`` draws how the clocks of a target run during the fault."""

    setting: Callable[[int], ClockSetting]


def pick_some(nodes: Sequence[str], number: int, leader: str | None) -> tuple[str, ...]:
    """Pick one node, the leader, a minority, or all nodes."""
    order = shuffled(nodes, number)
    match draw(number, "some") & 3:
        case 0:
            return tuple(order[:1])
        case 1:
            return tuple(leader_first(nodes, number, leader)[:1])
        case 2:
            return tuple(order[: (len(nodes) - 1) // 2 or 1])
    return tuple(order)


def jump(number: int) -> ClockSetting:
    """Move the wall clock forward or back, by 50 ms to a day."""
    return ClockSetting(wall_us=_wall(number))


def strobe(number: int) -> ClockSetting:
    """Switch the wall clock back and forth between right and wrong."""
    period = STROBES_US[draw_below(len(STROBES_US), number, "period")]
    return ClockSetting(wall_us=_wall(number), strobe_us=period)


def drift(number: int) -> ClockSetting:
    """Run both clocks too fast or too slowly."""
    return ClockSetting(rate_ppm=DRIFTS_PPM[draw_below(len(DRIFTS_PPM), number, "rate")])


def _wall(number: int) -> int:
    sign = 1 if draw(number, "sign") & 1 else -1
    return sign * JUMPS_US[draw_below(len(JUMPS_US), number, "jump")]


def together(settings: Sequence[ClockSetting]) -> ClockSetting:
    """Return the combined setting of several faults on one node: the last one of each kind."""
    wall = [s for s in settings if s.wall_us]
    rate = [s.rate_ppm for s in settings if s.rate_ppm]
    last = wall[-1] if wall else ClockSetting()
    return ClockSetting(last.wall_us, last.strobe_us, rate[-1] if rate else 0)


CLOCKS: dict[str, ClockShape] = {
    "jump": ClockShape(30, 1, pick_some, jump),
    "strobe": ClockShape(20, 1, pick_some, strobe),
    "drift": ClockShape(50, 1, pick_some, drift),
}


class Skews(Effect):
    """The clocks that are wrong; each follows all active faults that hit its node."""

    order = 3

    def __init__(self, state: FaultState) -> None:
        super().__init__(state)
        self.settings: dict[Active, ClockSetting] = {}
        self._skewed: set[str] = set()
        self._touched: set[str] = set()

    def apply(self, active: Active, nodes: Sequence[str], into: Evidence | None = None) -> None:
        """Set the clocks of ``nodes`` as the faults in force say."""
        clocks = self.state.env[CLOCK_CONTROL]
        for node in nodes:
            setting = together([s for a, s in self.settings.items() if node in a.targets])
            self._skewed.add(node)
            self._touched.add(node)
            done = active.call(node, partial(clocks.set_clock, node, setting), into)
            if done and setting == ClockSetting():
                self._skewed.discard(node)

    def renew(self, active: Active, nodes: Sequence[str], into: Evidence) -> None:
        self.apply(active, [node for node in nodes if node in self._touched], into)

    def remaining(self) -> set[str] | None:
        return set(self._skewed) or None

    def heal(self, active: Active) -> None:
        self.apply(active, sorted(self._skewed))


class Clock(Family):
    """Sets clocks wrong and right again."""

    name = "clock"
    about = "make clocks jump and drift"
    shapes: ClassVar[Shapes] = CLOCKS
    needs: ClassVar[Needs] = (CLOCK_CONTROL,)
    aimed: ClassVar[Aims] = (
        ("jump", ("@",)),
        ("jump", ()),
        ("strobe", ("@",)),
        ("drift", ("@",)),
        ("drift", ("@leader",)),
        ("drift", ()),
    )
    jepsen = ("jump", "strobe")

    def start(self, active: Active) -> None:
        shape = self.shapes[active.fault.shape]
        assert isinstance(shape, ClockShape)
        setting = shape.setting(active.fault.draw)
        active.detail["clock"] = asdict(setting)
        skews = self.state.effect(Skews)
        skews.settings[active] = setting
        skews.apply(active, active.targets)

    def stop(self, active: Active) -> None:
        skews = self.state.effect(Skews)
        skews.settings.pop(active, None)
        skews.apply(active, active.targets)

"""Wrong clocks. Source: jepsen.nemesis.time (bump, strobe), and drift.

The guarantees of a quorum do not depend on the wall clock, so it may jump. Timeouts use the
monotonic clock, of which only the rate changes: by 1 or 5 %, like a badly disciplined oscillator,
or for seconds to half or double speed, as on a virtual machine that migrates or starves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kraftwreck.harness.environment import ClockSetting
from kraftwreck.nemesis.partitions import Pick, leader_first, shuffled
from kraftwreck.nodes.draw import draw, draw_below

JUMPS_US = (50_000, 500_000, 5_000_000, 60_000_000, 3_600_000_000, 86_400_000_000)
STROBES_US = (1_000, 10_000, 100_000, 1_000_000)
DRIFTS_PPM = (10_000, -10_000, 50_000, -50_000, 1_000_000, -500_000)


@dataclass(frozen=True, slots=True)
class ClockShape:
    """One shape; ``setting`` draws how the clocks of a target run during the fault."""

    weight: int
    least: int
    pick: Pick
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

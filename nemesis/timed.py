"""Schedules by the clock only, as in jepsen.nemesis.combined, for comparison.

Each family acts after a random pause of up to twice the interval (``stagger``), and alternately
starts and ends a fault (``flip-flop``). Families are independent of each other. The partitions are
``one``, ``majority``, ``minority-third``, ``majorities-ring`` and ``primaries``. Kills, pauses,
power cuts and clocks hit ``one``, ``minority``, ``majority``, ``primaries`` or ``all``. Targets are
drawn when a fault starts. There is no calm between faults, and none waits for a transition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kraftwreck.histories.fault import Fault
from kraftwreck.nemesis.registry import Family, Shape, families
from kraftwreck.nodes.draw import draw, draw_below, draw_unit

SECOND = 1_000_000_000
INTERVAL_S = 10.0
"""The default of ``:interval`` in jepsen.nemesis.combined."""

SHAPES: dict[str, tuple[str, ...]] = {
    "cut": ("one", "halves", "minority-third", "ring", "leader"),
    "kill": ("one", "minority", "majority", "leader", "all"),
    "pause": ("one", "minority", "majority", "leader", "all"),
    "power": ("one", "minority", "majority", "leader", "all"),
    "disturb": ("slow", "lossy", "duplicate", "reorder"),
    "clock": ("jump", "strobe"),
    "disk": ("flip", "flip-leader"),
}
"""Jepsen's choices by action, under the shapes' names here. A family without an entry (such as
membership, as in Jepsen's tests) draws from all its shapes."""


def plan(
    kinds: Sequence[str],
    seed: int,
    duration_s: float,
    nodes: Sequence[str],
    *,
    brokers: int = 0,
    interval_s: float = INTERVAL_S,
) -> list[Fault]:
    """Return the faults of ``kinds`` for a run of ``duration_s`` seconds, by time.

    ``nodes`` are all nodes, ``brokers`` how many of them are brokers and not controllers.
    Raises KeyError for an unknown kind. The end of the run ends any fault that is still in
    force.
    """
    faults: list[Fault] = []
    for kind in dict.fromkeys(kinds):
        family = families()[kind]
        shapes = _choices(family, family.usable(len(nodes), brokers))
        at_s = _stagger(seed, kind, 0, interval_s)
        number = 0
        while shapes and at_s < duration_s:
            key = (seed, "jepsen", kind, number)
            length_s = _stagger(seed, kind, 2 * number + 1, interval_s)
            faults.append(
                Fault(
                    at=round(at_s * SECOND),
                    kind=kind,
                    shape=shapes[draw_below(len(shapes), *key, "shape")],
                    duration=round(min(length_s, duration_s - at_s) * SECOND),
                    draw=draw(*key, "targets"),
                )
            )
            at_s += length_s + _stagger(seed, kind, 2 * number + 2, interval_s)
            number += 1
    return sorted(faults, key=lambda fault: (fault.at, fault.kind))


def _choices(family: Family, usable: Mapping[str, Shape]) -> list[str]:
    known = SHAPES.get(family.action)
    return [name for name in usable if known is None or name in known]


def _stagger(seed: int, kind: str, step: int, interval_s: float) -> float:
    return 2 * interval_s * draw_unit(seed, "jepsen", kind, "stagger", step)

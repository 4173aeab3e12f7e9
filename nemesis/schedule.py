"""A schedule of faults, drawn from a seed: faults are data, determined before the run.

Each family has its own timeline, so faults of different families overlap and those of one family
never do. Gaps are 1-8 s and durations 1-10 s (short ones more often). The last seconds of every
period are calm, so that the cluster makes progress between storms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kraftwreck.histories.fault import Fault
from kraftwreck.nemesis.scope import Scope
from kraftwreck.nemesis.shapes import Shape
from kraftwreck.nodes.draw import draw, draw_unit

SECOND = 1_000_000_000
GAP_S = (1.0, 8.0)
DURATION_S = (1.0, 10.0)
PERIOD_S = 15.0
CALM_S = 3.0


def plan(
    kinds: Sequence[str],
    seed: int,
    duration_s: float,
    scope: Scope,
) -> list[Fault]:
    """Return the faults of ``kinds`` for a run of ``duration_s`` seconds, by time.

    Equal arguments give equal faults, and the timeline of one kind does not depend on the other
    kinds. Raises KeyError for an unknown kind. Every fault ends within ``duration_s``.
    """
    faults: list[Fault] = []
    for kind in dict.fromkeys(kinds):
        faults.extend(_timeline(kind, seed, duration_s, scope.usable(kind)))
    return sorted(faults, key=lambda fault: (fault.at, fault.kind))


def _timeline(kind: str, seed: int, duration_s: float, shapes: Mapping[str, Shape]) -> list[Fault]:
    faults: list[Fault] = []
    end_s = 0.0
    number = 0
    while shapes:
        key = (seed, "fault", kind, number)
        at_s = end_s + _between(GAP_S, draw_unit(*key, "gap"))
        length_s = _between(DURATION_S, draw_unit(*key, "duration") ** 2)
        storm_ends_s = _storm_end(at_s)
        if storm_ends_s - at_s < DURATION_S[0]:
            at_s = storm_ends_s + CALM_S + draw_unit(*key, "again")
            storm_ends_s = _storm_end(at_s)
        end_s = min(at_s + length_s, storm_ends_s, duration_s)
        if end_s - at_s < DURATION_S[0]:
            break
        at, end = round(at_s * SECOND), round(end_s * SECOND)
        faults.append(
            Fault(
                at=at,
                kind=kind,
                shape=choose_by_weight(shapes, draw_unit(*key, "shape")),
                duration=end - at,
                draw=draw(*key, "targets"),
            )
        )
        number += 1
    return faults


def _storm_end(at_s: float) -> float:
    """Return when faults in force at ``at_s`` must end."""
    return (at_s // PERIOD_S + 1) * PERIOD_S - CALM_S


def _between(bounds: tuple[float, float], unit: float) -> float:
    low, high = bounds
    return low + (high - low) * unit


def choose_by_weight(shapes: Mapping[str, Shape], unit: float) -> str:
    """Return a shape, chosen by weight with ``unit`` in [0, 1)."""
    mark = unit * sum(shape.weight for shape in shapes.values())
    for name, shape in shapes.items():
        mark -= shape.weight
        if mark < 0:
            return name
    return next(reversed(list(shapes)))

"""Schedules by the clock only, as in jepsen.nemesis.combined, for comparison.

Each family acts after a random pause of up to twice the interval (``stagger``), and alternately
starts and ends a fault (``flip-flop``). Families are independent of each other. The partitions are
``one``, ``majority``, ``minority-third``, ``majorities-ring`` and ``primaries``. Kills, pauses,
power cuts and clocks hit ``one``, ``minority``, ``majority``, ``primaries`` or ``all``. Targets are
drawn when a fault starts. There is no calm between faults, and none waits for a transition. A
family without ``jepsen`` shapes (as Jepsen's tests draw members) draws from all its shapes.
"""

from __future__ import annotations

from collections.abc import Sequence

from kraftwreck.histories.fault import Fault
from kraftwreck.nemesis.scope import Scope
from kraftwreck.nodes.draw import draw, draw_below, draw_unit

SECOND = 1_000_000_000
INTERVAL_S = 10.0
"""The default of ``:interval`` in jepsen.nemesis.combined."""


def plan(
    kinds: Sequence[str],
    seed: int,
    duration_s: float,
    scope: Scope,
    *,
    interval_s: float = INTERVAL_S,
) -> list[Fault]:
    """Return the faults of ``kinds`` for a run of ``duration_s`` seconds, by time.

    Raises KeyError for an unknown kind. The end of the run ends any fault that is still in
    force.
    """
    faults: list[Fault] = []
    for kind in dict.fromkeys(kinds):
        shapes = _choices(kind, scope)
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


def _choices(kind: str, scope: Scope) -> list[str]:
    known = scope.families[kind].jepsen
    return [name for name in scope.usable(kind) if known is None or name in known]


def _stagger(seed: int, kind: str, step: int, interval_s: float) -> float:
    return 2 * interval_s * draw_unit(seed, "jepsen", kind, "stagger", step)

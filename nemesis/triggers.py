"""Schedules of triggered faults, drawn from a seed.

Each run uses only a few triggers and a few kinds of faults: runs that differ a lot find more bugs
than runs that all do a bit of everything (swarm testing). Faults are aimed at the node that made
the transition, at its leader, or at the targets of the fault's shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from kraftwreck.harness.triggers import delay_us
from kraftwreck.histories.fault import Fault
from kraftwreck.nemesis.scope import Scope
from kraftwreck.nodes.draw import draw, draw_below, draw_unit

T = TypeVar("T")

SECOND = 1_000_000_000
MILLISECOND = 1_000_000

DURATIONS_MS = (5, 30, 100, 300, 1_000, 2_500, 4_000, 7_000)
"""From a restart without any effect to one that is longer than every timeout."""

_LONG_MS = (2_500, 4_000, 4_000, 7_000)

_KICKS = ("kill", "partition", "power", "pause")
_KICK_MS = (800, 1_500, 2_500, 4_000)


def plan(
    kinds: Sequence[str],
    seed: int,
    duration_s: float,
    scope: Scope,
) -> list[Fault]:
    """Return triggered faults of ``kinds`` for a run of ``duration_s`` seconds.

    Kinds without aimed shapes use the targets of their own shapes. Each fault is armed at ``at``
    and waits for its trigger; none is armed in the last fifth of the run. The result is empty if
    no trigger could fire because no fault deposes leaders, or because nodes show no transitions.
    Raises KeyError for an unknown kind.
    """
    usable = [kind for kind in dict.fromkeys(kinds) if scope.aims(kind)]
    known = scope.transitions
    if not usable or known is None:
        return []
    key = (seed, "triggers")
    triggers = [_pick(known.weighted, (*key, "trigger", i)) for i in range(3)]
    if draw_below(2, *key, "later"):
        later = (*known.later, *known.of_others) if scope.others else known.later
        triggers[0] = _pick(later, (*key, "later-trigger"))
    kinds_used = [_pick(usable, (*key, "kind", i)) for i in range(2)]
    longest = draw_below(len(DURATIONS_MS), *key, "longest") + 1
    gap_s = (0.2, 1.0, 3.0)[draw_below(3, *key, "gap")]
    faults: list[Fault] = []
    at_s = 1.0
    while at_s < duration_s * 0.8:
        number = len(faults)
        mine = (*key, number)
        kind = _pick(kinds_used, (*mine, "kind"))
        shape, targets = _pick(scope.aims(kind), (*mine, "shape"))
        name = _pick(triggers, (*mine, "trigger"))
        most = 12 if name in known.often else 2
        duration = DURATIONS_MS[draw_below(longest, *mine, "duration")] * MILLISECOND
        faults.append(
            Fault(
                at=round(at_s * SECOND),
                kind=kind,
                shape=shape,
                duration=duration,
                draw=draw(*mine, "draw"),
                targets=targets,
                trigger=f"{name}#{1 + draw_below(most, *mine, 'count')}",
            )
        )
        at_s += gap_s * (0.5 + draw_unit(*mine, "gap")) + 0.5 * duration / SECOND
    if known.rare.intersection(triggers):
        others = kicks(usable, seed, duration_s)
        if not others and known.rare.issuperset(triggers):
            return []
        faults += others
    return sorted(faults, key=lambda fault: (fault.at, fault.kind))


def kicks(kinds: Sequence[str], seed: int, duration_s: float) -> list[Fault]:
    """Return timed faults that sometimes hit the leader, so that another node is elected.

    Otherwise triggered faults would wait forever for a transition that never occurs.
    """
    usable = [kind for kind in _KICKS if kind in kinds]
    key = (seed, "triggers", "kick")
    faults: list[Fault] = []
    at_s = 1.5 + draw_unit(*key, "begin")
    while usable and at_s < duration_s * 0.8:
        mine = (*key, len(faults))
        faults.append(
            Fault(
                at=round(at_s * SECOND),
                kind=_pick(usable, (*mine, "kind")),
                shape="leader",
                duration=_pick(_KICK_MS, (*mine, "duration")) * MILLISECOND,
                draw=draw(*mine, "draw"),
            )
        )
        at_s += 2.0 + 4.0 * draw_unit(*mine, "gap")
    return faults


def depositions(seed: int, duration_s: float, scope: Scope) -> list[Fault]:
    """Cut each new leader off long enough for the election of another.

    Until it notices, its responses are stale, which is the most frequently published flaw. All
    faults are armed from the start: for the first leader, the second and so on, with some of them
    spared. So each deposition leads to the next.
    """
    if scope.transitions is None:
        return []
    faults: list[Fault] = []
    count = draw_below(2, seed, "depose", "spared")
    spare = draw_below(3, seed, "depose", "spare")
    for number in range(max(2, round(duration_s / 2.5))):
        mine = (seed, "depose", number)
        count += 1 + (spare > 0 and draw_below(4, *mine, "spare") < spare)
        duration = _LONG_MS[draw_below(len(_LONG_MS), *mine, "duration")] * MILLISECOND
        shape = _pick(("one", "one", "one", "to-leader", "leader-side"), (*mine, "shape"))
        faults.append(
            Fault(
                at=0,
                kind="partition",
                shape=shape,
                duration=duration,
                draw=draw(*mine, "draw"),
                targets=() if shape == "leader-side" else ("@",),
                trigger=f"{scope.transitions.claim}#{count}",
            )
        )
    return faults + kicks(("kill", "partition"), seed, duration_s)


def upheavals(kinds: Sequence[str], seed: int, scope: Scope) -> list[Fault]:
    """Hit the leader that has just appended the first lists of members of an upgraded cluster.

    Appended lists take effect at once, and the next leader truncates most of them.
    """
    usable = [kind for kind in _KICKS if kind in kinds]
    if not usable or scope.transitions is None:
        return []
    faults: list[Fault] = []
    count = 0
    for number in range(2):
        mine = (seed, "upheaval", number)
        count += 1 + draw_below(2, *mine, "count")
        fault = Fault(
            at=0,
            kind="partition" if "partition" in usable else _pick(usable, (*mine, "kind")),
            shape="one",
            duration=_LONG_MS[draw_below(len(_LONG_MS), *mine, "duration")] * MILLISECOND,
            draw=draw(*mine, "draw"),
            targets=("@",),
            trigger=f"{scope.transitions.members}#{count}",
        )
        tries = 0
        while delay_us(fault):  # Later, others have fetched it.
            tries += 1
            fault = msgspec.structs.replace(fault, draw=draw(*mine, "draw", tries))
        faults.append(fault)
    return faults


def _pick(options: Sequence[T], key: tuple[int | str, ...]) -> T:
    seed, *rest = key
    assert isinstance(seed, int)
    return options[draw_below(len(options), seed, *rest)]

"""Schedules derived from others: one to three small changes to one that reached new states."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from kraftwreck.histories.fault import Fault
from kraftwreck.nemesis.scope import Scope
from kraftwreck.nemesis.triggers import DURATIONS_MS, MILLISECOND
from kraftwreck.nodes.draw import draw, draw_below, draw_unit

Schedule = list[Fault]


def mutate(
    schedule: Sequence[Fault],
    other: Sequence[Fault],
    seed: int,
    *,
    duration_s: float,
    scope: Scope,
) -> Schedule:
    """Return a changed ``schedule``; spliced parts come from ``other``.

    Shapes without effect in the cluster of ``scope`` are dropped. Equal arguments give equal
    schedules.
    """
    changed = list(schedule)
    limit = round(duration_s * 1_000_000_000)
    for step in range(1 + draw_below(3, seed, "mutate", "steps")):
        change = _CHANGES[draw_below(len(_CHANGES), seed, "mutate", step)]
        changed = change(changed, other, draw(seed, "mutate", step, "draw"), limit, scope)
    kept = [
        fault for fault in changed if fault.shape in scope.usable(fault.kind) and fault.at < limit
    ]
    return sorted(kept, key=lambda fault: (fault.at, fault.kind))


def _trigger(faults: Schedule, _: Sequence[Fault], seed: int, limit: int, scope: Scope) -> Schedule:
    """Move a fault to another trigger, or to a time."""
    if not faults or scope.transitions is None:
        return faults
    place = draw_below(len(faults), seed, "place")
    fault = faults[place]
    names = (*scope.transitions.usual, *sorted(scope.transitions.rare))
    name = names[draw_below(len(names), seed, "name")]
    count = 1 + draw_below(6, seed, "count")
    trigger: str | None = f"{name}#{count}"
    if fault.trigger is not None and not any(t.startswith("@") for t in fault.targets):
        trigger = None if draw_below(4, seed, "timed") == 0 else trigger
    return [*faults[:place], replace(fault, trigger=trigger), *faults[place + 1 :]]


def _swap(faults: Schedule, _: Sequence[Fault], seed: int, limit: int, scope: Scope) -> Schedule:
    """Exchange the times of two faults."""
    if len(faults) < 2:
        return faults
    left = draw_below(len(faults) - 1, seed, "left")
    right = left + 1 + draw_below(len(faults) - left - 1, seed, "right")
    a, b = faults[left], faults[right]
    swapped = list(faults)
    swapped[left], swapped[right] = replace(b, at=a.at), replace(a, at=b.at)
    return swapped


def _duration(
    faults: Schedule, _: Sequence[Fault], seed: int, limit: int, scope: Scope
) -> Schedule:
    """Give a fault a duration of another class."""
    if not faults:
        return faults
    place = draw_below(len(faults), seed, "place")
    length = DURATIONS_MS[draw_below(len(DURATIONS_MS), seed, "duration")] * MILLISECOND
    return [*faults[:place], replace(faults[place], duration=length), *faults[place + 1 :]]


def _splice(
    faults: Schedule, other: Sequence[Fault], seed: int, limit: int, scope: Scope
) -> Schedule:
    """Take the start from this schedule and the end from the other."""
    cut = round(limit * (0.2 + 0.6 * draw_unit(seed, "cut")))
    return [f for f in faults if f.at < cut] + [f for f in other if f.at >= cut]


def _redraw(faults: Schedule, _: Sequence[Fault], seed: int, limit: int, scope: Scope) -> Schedule:
    """Draw the targets and the delay of a fault again."""
    if not faults:
        return faults
    place = draw_below(len(faults), seed, "place")
    fault = replace(faults[place], draw=draw(seed, "redraw"))
    return [*faults[:place], fault, *faults[place + 1 :]]


def _drop(faults: Schedule, _: Sequence[Fault], seed: int, limit: int, scope: Scope) -> Schedule:
    """Leave out some of the faults."""
    return [f for i, f in enumerate(faults) if draw_below(4, seed, "drop", i)]


def _repeat(faults: Schedule, _: Sequence[Fault], seed: int, limit: int, scope: Scope) -> Schedule:
    """Repeat a fault at another time."""
    if not faults:
        return faults
    fault = faults[draw_below(len(faults), seed, "place")]
    at = round(limit * 0.85 * draw_unit(seed, "at"))
    return [*faults, replace(fault, at=at, draw=draw(seed, "again"))]


def _shape(faults: Schedule, _: Sequence[Fault], seed: int, limit: int, scope: Scope) -> Schedule:
    """Give a fault whose targets are drawn another shape of its family."""
    free = [i for i, fault in enumerate(faults) if not fault.targets]
    if not free:
        return faults
    place = free[draw_below(len(free), seed, "place")]
    shapes = sorted(scope.families[faults[place].kind].shapes)
    shape = shapes[draw_below(len(shapes), seed, "shape")]
    return [*faults[:place], replace(faults[place], shape=shape), *faults[place + 1 :]]


_Change = Callable[[Schedule, Sequence[Fault], int, int, Scope], Schedule]
_CHANGES: tuple[_Change, ...] = (
    _trigger,
    _trigger,
    _swap,
    _duration,
    _duration,
    _splice,
    _redraw,
    _drop,
    _repeat,
    _shape,
)

"""The default schedule: storms of faults with calm between them, drawn from a seed.

Each storm has one fault, or several of different families. Families take turns, so that each is
used equally often. A storm lasts a few seconds. The governor (:mod:`harness.governor`) starts the
next one when the cluster has recovered and worked for a while, or after a time limit. The storms
that begin within the first minute even if the cluster never recovers hold the strikes that every
family must have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from kraftwreck.histories.fault import Fault, Storm
from kraftwreck.nemesis.schedule import choose_by_weight
from kraftwreck.nemesis.scope import Scope
from kraftwreck.nemesis.shapes import Shape
from kraftwreck.nodes.draw import draw, draw_below, draw_unit

SECOND = 1_000_000_000
INTERVAL_S = 8.0
"""Approximate duration of a storm and the calm after it."""
SHORTEST_S, LONGEST_S = 2.0, 6.0
BOUND_S = (8.0, 12.0)
CALM_S = (1.0, 3.0)
"""A storm waits for as many acknowledged operations as clients begin in so many seconds."""
PERCENT = 55
"""Share of the operations since the last storm began that must have been acknowledged."""

_LEADER = 70
"""Probability in percent that the first fault of a storm hits the leader, if its family can."""
_TRIGGERED = 30
"""Probability in percent that a fault waits for a transition."""

_STRIKES = 2
_FEW = 4
_MINUTE_S = 60.0
_ENDING_S = 1.5
"""Time that the last fault of a storm may need to end."""
MOST_OF_A_STORM = 6
_CROWDED = 4
"""Faults of a storm; with so many, none stops most nodes, so that the others have targets."""


def plan(
    kinds: Sequence[str],
    seed: int,
    duration_s: float,
    scope: Scope,
    *,
    rate: float = 20.0,
    interval_s: float = INTERVAL_S,
) -> list[Fault]:
    """Return the faults of ``kinds`` in storms for a run of ``duration_s`` seconds, by time.

    ``rate`` is that of all clients together, in operations per second. Storms begin about every
    ``interval_s`` seconds. There are enough for a cluster that always recovers at once. Raises
    KeyError for an unknown kind.
    """
    shapes = {kind: scope.usable(kind) for kind in dict.fromkeys(kinds)}
    usable = [kind for kind in shapes if shapes[kind]]
    if not usable:
        return []
    scale = interval_s / INTERVAL_S
    length = 1 + round(duration_s / (SHORTEST_S * scale))
    planned = [_storm(seed, number, rate, scale) for number in range(1, 1 + length)]
    turns = _Turns(usable, seed, scope)
    sizes = _sizes(planned, len(usable), seed, duration_s, interval_s)
    faults: list[Fault] = []
    for storm, size in zip(planned, sizes, strict=True):
        for place, kind in enumerate(turns.take(size)):
            mine = shapes[kind]
            if size >= _CROWDED:
                mine = {name: shape for name, shape in mine.items() if not shape.most} or mine
            faults.append(_fault(seed, place, storm, kind, mine, scope))
    return faults


def _sizes(
    planned: Sequence[Storm], kinds: int, seed: int, duration_s: float, interval_s: float
) -> list[int]:
    """Return the number of faults of each storm.

    The storms that are certain to take place hold all strikes that are due. Later ones have as many
    faults as are needed at the usual pace, or one more.
    """
    strikes = _STRIKES if kinds <= _FEW and duration_s >= _MINUTE_S else 1
    certain = _certain(planned, min(duration_s, _MINUTE_S))
    due = kinds * min(strikes, certain)
    least = max(1, -(-int(kinds * strikes * interval_s) // int(min(duration_s, _MINUTE_S))))
    sizes: list[int] = []
    for at, storm in enumerate(planned):
        size = least + draw_below(2, seed, "storm", storm.number, "more")
        if at < certain:
            size = max(1, -(-due // (certain - at)))
        size = min(size, kinds, MOST_OF_A_STORM)
        due -= size
        sizes.append(size)
    return sizes


def _certain(planned: Sequence[Storm], duration_s: float) -> int:
    """Return how many storms, at least 1, are over in time if each begins at its bound."""
    over = 0
    for number, storm in enumerate(planned):
        over += storm.bound + storm.length + round(_ENDING_S * SECOND)
        if over > duration_s * SECOND:
            return max(1, number)
    return max(1, len(planned))


class _Turns:
    """Families in rounds, each round in another order; what stops processes is spread over it."""

    def __init__(self, kinds: Sequence[str], seed: int, scope: Scope) -> None:
        stopping = [kind for kind in kinds if scope.families[kind].stops]
        self._classes = (stopping, [kind for kind in kinds if kind not in stopping])
        self._seed = seed
        self._drawn = 0
        self._left: list[str] = []

    def take(self, size: int) -> list[str]:
        """Return the next ``size`` different families; one that comes twice waits for its turn."""
        chosen: list[str] = []
        waiting: list[str] = []
        while len(chosen) < size:
            if not self._left:
                self._left = self._round()
            kind = self._left.pop(0)
            (waiting if kind in chosen else chosen).append(kind)
        self._left = waiting + self._left
        return chosen

    def _round(self) -> list[str]:
        places: list[tuple[float, str]] = []
        for kinds in self._classes:
            left = list(kinds)
            while left:
                at = (len(kinds) - len(left) + 0.5) / len(kinds)
                drawn = draw_below(len(left), self._seed, "storm", "turn", self._drawn)
                places.append((at, left.pop(drawn)))
                self._drawn += 1
        return [kind for _, kind in sorted(places)]


def _storm(seed: int, number: int, rate: float, scale: float) -> Storm:
    key = (seed, "storm", number)
    length_s = SHORTEST_S + (LONGEST_S - SHORTEST_S) * draw_unit(*key, "length")
    calm_s = CALM_S[0] + (CALM_S[1] - CALM_S[0]) * draw_unit(*key, "calm")
    bound_s = BOUND_S[0] + (BOUND_S[1] - BOUND_S[0]) * draw_unit(*key, "bound")
    return Storm(
        number=number,
        length=round(length_s * scale * SECOND),
        operations=max(1, round(rate * calm_s * scale)),
        percent=PERCENT,
        bound=round(bound_s * scale * SECOND),
    )


def _fault(
    seed: int,
    place: int,
    storm: Storm,
    kind: str,
    shapes: Mapping[str, Shape],
    scope: Scope,
) -> Fault:
    first = place == 0
    key = (seed, "storm", storm.number, place)
    at = 0 if first else round(0.6 * storm.length * draw_unit(*key, "at"))
    fault = Fault(
        at=at,
        kind=kind,
        shape=choose_by_weight(shapes, draw_unit(*key, "shape")),
        duration=round((storm.length - at) * (0.4 + 0.6 * draw_unit(*key, "duration"))),
        draw=draw(*key, "targets"),
        storm=storm,
    )
    if first and "leader" in shapes and draw_below(100, *key, "leader") < _LEADER:
        # The others elect a leader when they miss the old one for long enough.
        return msgspec.structs.replace(fault, shape="leader", duration=storm.length)
    transitions = scope.transitions
    if transitions is None or draw_below(100, *key, "triggered") >= _TRIGGERED:
        return fault
    aims = scope.aims(kind)
    aims = [aim for aim in aims if aim[0] in shapes] or aims
    shape, targets = aims[draw_below(len(aims), *key, "blow")]
    name = transitions.led[draw_below(len(transitions.led), *key, "trigger")]
    count = 1 + (draw_below(8, *key, "count") if name in transitions.often else 0)
    return msgspec.structs.replace(fault, shape=shape, targets=targets, trigger=f"{name}#{count}")


def govern(
    faults: Sequence[Fault], seed: int, *, rate: float, interval_s: float = INTERVAL_S
) -> list[Fault]:
    """Return the ``faults`` of another schedule as storms; each joins faults within some seconds.

    Excess faults of a storm are left out, triggered ones first.
    """
    scale = interval_s / INTERVAL_S
    governed: list[Fault] = []
    left = sorted(faults, key=lambda fault: (fault.at, fault.kind))
    number = 0
    while left:
        number += 1
        storm = _storm(seed, number, rate, scale)
        begins = left[0].at
        mine = [fault for fault in left if fault.at < begins + storm.length]
        left = left[len(mine) :]
        timed = [fault for fault in mine if fault.trigger is None]
        kept = (timed + [f for f in mine if f.trigger is not None])[:MOST_OF_A_STORM]
        for fault in kept:
            at = fault.at - begins
            duration = min(fault.duration, storm.length - at)
            governed.append(msgspec.structs.replace(fault, at=at, duration=duration, storm=storm))
    return governed

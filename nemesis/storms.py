"""The default schedule: storms of faults with calm between them, drawn from a seed.

Each storm has one fault, or several of different families. Families take turns, so that each is
used equally often. A storm lasts a few seconds. The governor (:mod:`harness.governor`) starts the
next one when the cluster has recovered and worked for a while, or after a time limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from kraftwreck.histories.fault import Fault, Storm
from kraftwreck.nemesis.registry import Shape, families
from kraftwreck.nemesis.schedule import choose_by_weight
from kraftwreck.nemesis.triggers import aimed
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
_TRIGGERS = ("append", "append", "replicate", "hw", "hw", "claim", "elected", "truncate")
"""Transitions of nodes while there is a leader."""
_OFTEN = frozenset({"append", "replicate", "hw"})

_STRIKES = 2
_FEW = 4
_MINUTE_S = 60.0
MOST_OF_A_STORM = 6


def plan(
    kinds: Sequence[str],
    seed: int,
    duration_s: float,
    nodes: Sequence[str],
    *,
    brokers: int = 0,
    rate: float = 20.0,
    interval_s: float = INTERVAL_S,
) -> list[Fault]:
    """Return the faults of ``kinds`` in storms for a run of ``duration_s`` seconds, by time.

    ``nodes`` are all nodes, ``brokers`` how many of them are brokers and not controllers; ``rate``
    is that of all clients together, in operations per second. Storms begin about every
    ``interval_s`` seconds. There are enough for a cluster that always recovers at once. Raises
    KeyError for an unknown kind.
    """
    shapes = {kind: families()[kind].usable(len(nodes), brokers) for kind in dict.fromkeys(kinds)}
    usable = [kind for kind in shapes if shapes[kind]]
    if not usable:
        return []
    scale = interval_s / INTERVAL_S
    turns = _turns(usable, seed)
    least = _together(len(usable), duration_s / interval_s, duration_s)
    faults: list[Fault] = []
    for number in range(1, 2 + round(duration_s / (SHORTEST_S * scale))):
        storm = _storm(seed, number, rate, scale)
        more = draw_below(2, seed, "storm", number, "more")
        count = min(least + more, len(usable), MOST_OF_A_STORM)
        chosen = [next(turns)]
        while len(chosen) < count:
            kind = next(turns)
            if kind not in chosen:
                chosen.append(kind)
        for place, kind in enumerate(chosen):
            faults.append(_fault(seed, place, storm, kind, shapes[kind], len(nodes), brokers))
    return faults


def _turns(kinds: Sequence[str], seed: int) -> Iterator[str]:
    """Yield ``kinds`` forever, each round in another order."""
    number = 0
    while True:
        left = list(kinds)
        while left:
            yield left.pop(draw_below(len(left), seed, "storm", "turn", number))
            number += 1


def _together(kinds: int, storms: float, duration_s: float) -> int:
    """Return the least number of faults per storm with which all ``kinds`` come often enough:
    twice per minute if they are few, otherwise once."""
    minutes = max(1.0, duration_s / _MINUTE_S)
    wanted = kinds * (_STRIKES if kinds <= _FEW and duration_s >= _MINUTE_S else 1) * minutes
    return max(1, -(-int(wanted) // max(1, int(storms))))


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
    nodes: int,
    brokers: int,
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
        return msgspec.structs.replace(fault, shape="leader")
    if draw_below(100, *key, "triggered") >= _TRIGGERED:
        return fault
    blows = aimed(kind, nodes, brokers)
    shape, targets = blows[draw_below(len(blows), *key, "blow")]
    name = _TRIGGERS[draw_below(len(_TRIGGERS), *key, "trigger")]
    count = 1 + (draw_below(8, *key, "count") if name in _OFTEN else 0)
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

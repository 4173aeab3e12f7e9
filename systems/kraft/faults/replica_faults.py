"""Schedules against the replication of records: faults at brokers, by time and by transition.

Some links between brokers are slow or cut, so that replicas lag behind and leave their ISRs. In
some runs brokers are cut off from all controllers, and not from each other: they lead and follow
as old metadata says. Meanwhile leaders are killed, stopped or cut off, at any time or when a
broker begins to lead, has changed an ISR, or cuts its log. In a third of the runs disks are full or
slow, too.

Other runs are made of bounces: a leader falls and leads again, and a replica learns of neither. Or
of successions: a leader falls, then its successor, which lacked records of it and has got others
that nobody else has (KIP-279). In others brokers hear nothing of each other for a time that leaves
the ISRs as they are, so a broker that is elected meanwhile has a history of its own. In others all
links between brokers are slow, so that a new leader commits late: until its followers have fetched,
it does not know how far its predecessor had committed. In others a leader is deaf to the
controllers while a follower comes back: the controllers make the change of the ISR that it
proposes, and it does not learn of that. Or a leader learns late that the session of a follower has
ended, just when this one comes back: the controllers refuse the ISR that it proposes. In others
the disks of brokers, leaders and followers, run out of room and get some again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count as count_from
from typing import Final, NamedTuple, TypeVar

from kraftwreck.histories.fault import Fault
from kraftwreck.nemesis.families.network import slow as slowed
from kraftwreck.nodes.draw import draw, draw_below, draw_unit

T = TypeVar("T")

SCARCE: Final = 2
"""Of this many runs with faults of disks one has brokers without room for records."""
SECOND: Final = 1_000_000_000
MILLISECOND: Final = 1_000_000

BLOWS: Final = ("kill", "power", "pause", "partition", "terminate")
"""Families that strike one broker."""
_SILENCES: Final = ("pause", "partition")
"""Families after which a broker is the same process as before."""
_DISKS: Final = ("full", "full", "slow")
"""Shapes of the family ``disk`` that a broker survives for a while."""
_SHORT_MS: Final = (5, 50, 300, 1_000, 2_500)
_LONG_MS: Final = (1_000, 2_500, 4_000, 7_000)
_LATE_US: Final = (200_000, 400_000)
"""Delays of metadata in microseconds; with more a session of a second ends."""
_TRIGGERS: Final = ("led", "led", "isr", "isr", "cut")


_Key = tuple[int, str, str, int]
"""The choices of a round are drawn from this: seed, module, name and number of the round."""
_Round = tuple[list[Fault], float]
"""The faults of a round, and how long it lasts (s)."""
_Blow = tuple[float, str, str, int, tuple[str, ...]]
"""A fault of a round: when it begins (s), its kind and shape, how long it lasts (ms), targets."""


class _Run(NamedTuple):
    """A run to draw faults for."""

    seed: int
    duration_s: float
    brokers: Sequence[str]
    controllers: Sequence[str]


def plan(
    kinds: Sequence[str],
    seed: int,
    duration_s: float,
    brokers: Sequence[str],
    controllers: Sequence[str],
) -> list[Fault]:
    """Return faults of ``kinds`` for a run of ``duration_s`` seconds, by time.

    The result is empty if there are no two brokers or no family strikes one.
    """
    if len(brokers) < 2 or not any(kind in kinds for kind in BLOWS):
        return []
    run, key = _Run(seed, duration_s, brokers, controllers), (seed, "replicas")
    scarce = "disk" in kinds and draw_below(SCARCE, *key, "scarce") == 0
    if not scarce:
        return _planned(kinds, run)
    if draw_below(4, *key, "alone") == 0:
        return _scarcity(run, 1.5)
    faults = [*_planned(kinds, run), *_scarcity(run, 6.0)]
    return sorted(faults, key=lambda fault: (fault.at, fault.kind))


def _planned(kinds: Sequence[str], run: _Run) -> list[Fault]:
    """Return the faults of one of the plans of this module."""
    brokers, key = run.brokers, (run.seed, "replicas")
    blows = [kind for kind in BLOWS if kind in kinds]
    disks = [kind for kind in ("disk",) if kind in kinds and draw_below(3, *key, kind) == 0]
    few = [_pick(blows, (*key, "kind", place)) for place in range(2)] + disks
    mode = draw_below(4, *key, "mode") if "partition" in kinds else 0
    if mode == 2 and len(brokers) > 2:
        return (_bounces, _successions)[draw_below(2, *key, "succession")](blows, run)
    if mode < 2 and "partition" in kinds and len(brokers) > 2 and draw_below(2, *key, "deaf"):
        return _deafness(kinds, run)
    if mode == 3 and draw_below(2, *key, "dark"):
        return _darkness(run)
    slow = mode == 3 and "network" in kinds
    lags = _slowness(run) if slow else _lags(kinds, run)
    faults = [*lags, *_blows(few, run)]
    if mode == 1:
        faults += _blindness(run)
    elif mode == 0 and "partition" in kinds and "network" in kinds:
        faults += _lateness(run)
    return sorted(faults, key=lambda fault: (fault.at, fault.kind))


def _lags(kinds: Sequence[str], run: _Run) -> list[Fault]:
    """Return faults on links between two brokers."""
    usable = [kind for kind in ("partition", "network") if kind in kinds]

    def lag(key: _Key, at_s: float) -> _Round:
        kind = _pick(usable, (*key, "kind"))
        shape = _pick(("link", "one-way"), (*key, "shape")) if kind == "partition" else "slow"
        duration = _pick(_LONG_MS, (*key, "duration")) * MILLISECOND
        fault = Fault(
            at=round(at_s * SECOND),
            kind=kind,
            shape=shape,
            duration=duration,
            draw=draw(*key, "draw"),
            targets=_two(run.brokers, key),
        )
        return [fault], duration / SECOND

    return _rounds(run, "lag", lag, begin_s=1.0, gap_s=(0.2, 3.0)) if usable else []


def _rounds(
    run: _Run,
    name: str,
    play: Callable[[_Key, float], _Round],
    *,
    begin_s: float,
    gap_s: tuple[float, float],
    until: float = 0.8,
) -> list[Fault]:
    """Return the faults of rounds, one after another, in this part of a run.

    ``play`` returns the faults of a round that begins at a time (s), whose choices are drawn from a
    key, and how long the round lasts. ``gap_s`` is the least time to the next one, and how much is
    added at most.
    """
    faults: list[Fault] = []
    at_s, (least_s, most_s) = begin_s, gap_s
    for number in count_from():
        if at_s >= run.duration_s * until:
            break
        key = run.seed, "replicas", name, number
        played, length_s = play(key, at_s)
        faults += played
        at_s += length_s + least_s + most_s * draw_unit(*key, "gap")
    return faults


def _slowness(run: _Run) -> list[Fault]:
    """Return faults that make each link between two brokers slow, together, in rounds."""
    faults: list[Fault] = []
    at_s = 1.0
    while at_s < run.duration_s * 0.8:
        mine = (run.seed, "replicas", "slow", round(at_s * 1000))
        length_s = _pick((4.0, 8.0, 12.0), (*mine, "length"))
        faults += [
            Fault(
                at=round(at_s * SECOND),
                kind="network",
                shape="slow",
                duration=round(length_s * SECOND),
                draw=draw(*mine, first, second),
                targets=(first, second),
            )
            for place, first in enumerate(run.brokers)
            for second in run.brokers[place + 1 :]
        ]
        at_s += length_s + 0.5 + 2.0 * draw_unit(*mine, "gap")
    return faults


def _darkness(run: _Run) -> list[Fault]:
    """Return rounds in which all links between brokers are cut, mostly for less than a lag."""

    def dark(key: _Key, at_s: float) -> _Round:
        length_ms = _pick((400, 700, 900, 1_500), (*key, "length"))
        blows: list[_Blow] = [
            (at_s, "partition", "link", length_ms, (first, second))
            for place, first in enumerate(run.brokers)
            for second in run.brokers[place + 1 :]
        ]
        return _timed(blows, key), length_ms / 1000

    return _rounds(run, "dark", dark, begin_s=1.5, gap_s=(0.3, 1.2))


def _scarcity(run: _Run, most_s: float) -> list[Fault]:
    """Return rounds in which the disk of one broker is full, or those of two; between them are up
    to ``most_s`` seconds."""

    def scarce(key: _Key, at_s: float) -> _Round:
        length_ms = _pick((1_000, 2_500, 2_500, 5_000), (*key, "length"))
        full = _two(run.brokers, key)[: 1 + draw_below(2, *key, "both")]
        blows: list[_Blow] = [(at_s, "disk", "full", length_ms, (broker,)) for broker in full]
        return _timed(blows, key), length_ms / 1000

    return _rounds(run, "scarce", scarce, begin_s=1.5, gap_s=(0.3, most_s), until=0.85)


def _blindness(run: _Run) -> list[Fault]:
    """Return partitions between one broker and all controllers, one after another."""

    def blind(key: _Key, at_s: float) -> _Round:
        broker = _pick(run.brokers, (*key, "which"))
        duration_ms = _pick(_LONG_MS, (*key, "duration"))
        fault = _blind(broker, run.controllers, at_s, duration_ms, draw(*key, "draw"))
        return [fault], duration_ms / 1000

    return _rounds(run, "blind", blind, begin_s=2.0, gap_s=(0.2, 2.0))


def _bounces(kinds: Sequence[str], run: _Run) -> list[Fault]:
    """Return bounces, one after another.

    One broker is blind from before until after. Its session ends, so it leads nothing. Then the
    link between two others is cut, so that one of them lacks records, and the other one falls. It
    leads again where it is the preferred replica, or because its successor falls in half of the
    bounces, once it is in the ISR again.
    """
    faults: list[Fault] = []
    brokers, at_s = run.brokers, 2.0
    number = 0
    while at_s < run.duration_s * 0.7:
        mine = (run.seed, "replicas", "bounce", number)
        number += 1
        first = draw_below(len(brokers), *mine, "first")
        turn = (1, 2) if draw_below(2, *mine, "turn") else (2, 1)
        blind, falls, lacks = (brokers[(first + step) % len(brokers)] for step in (0, *turn))
        cut_s = at_s + _pick((1.5, 3.5), (*mine, "session"))
        cut_ms = _pick((200, 500, 900), (*mine, "cut"))
        blow_s = cut_s + cut_ms / 1000 - 0.1
        kind = _pick(kinds, (*mine, "kind", 0))
        # A broker that only falls silent is deposed when its session ends.
        blow_ms = _pick((50, 300, 1_000, 2_500), (*mine, "blow"))
        if kind in _SILENCES:
            blow_ms = _pick((1_800, 3_500), (*mine, "silence"))
        blows = [(falls, blow_s, blow_ms)]
        if draw_below(2, *mine, "again"):
            return_s = blow_s + blow_ms / 1000 + _pick((1.5, 2.5, 4.0), (*mine, "return"))
            blows.append((lacks, return_s, _pick((1_000, 2_500), (*mine, "second"))))
        _, last_s, last_ms = blows[-1]
        blind_ms = round((last_s - at_s) * 1000) + last_ms + _pick((1_000, 2_500, 4_000), mine)
        faults += [
            _blind(blind, run.controllers, at_s, blind_ms, draw(*mine, "blind")),
            Fault(
                at=round(cut_s * SECOND),
                kind="partition",
                shape="link",
                duration=cut_ms * MILLISECOND,
                draw=draw(*mine, "link"),
                targets=(falls, lacks),
            ),
        ]
        faults += [
            Fault(
                at=round(when_s * SECOND),
                kind=kind if not place else _pick(kinds, (*mine, "kind", place)),
                shape="one",
                duration=duration_ms * MILLISECOND,
                draw=draw(*mine, "draw", place),
                targets=(broker,),
            )
            for place, (broker, when_s, duration_ms) in enumerate(blows)
        ]
        at_s += blind_ms / 1000 + 1.0 + 2.0 * draw_unit(*mine, "gap")
    return faults


def _successions(kinds: Sequence[str], run: _Run) -> list[Fault]:
    """Return rounds in which a leader falls and then another one, of which no third has heard.

    The link between the first two is cut before, so that the second lacks records. That between the
    second and the third is cut until the second falls.
    """
    faults: list[Fault] = []
    at_s, number = 2.0, 0
    while at_s < run.duration_s * 0.7:
        mine = (run.seed, "replicas", "succession", number)
        number += 1
        first = draw_below(len(run.brokers), *mine, "first")
        turn = (1, 2) if draw_below(2, *mine, "turn") else (2, 1)
        leads, next_, last = (run.brokers[(first + step) % len(run.brokers)] for step in (0, *turn))
        lacks_ms = _pick((600, 900, 900, 1_600), (*mine, "lacks"))
        falls_s = at_s + lacks_ms / 1000
        again_s = falls_s + _pick((1.8, 2.4, 3.0, 3.8, 4.8), (*mine, "again"))
        kind = _pick(kinds, (*mine, "kind"))
        blows = [
            (at_s, "partition", "link", lacks_ms + 300, (leads, next_)),
            (falls_s - 0.1, "partition", "link", round((again_s - falls_s) * 1000), (next_, last)),
            (falls_s, kind, "one", _pick((2_500, 5_000), (*mine, "blow")), (leads,)),
            (again_s, kind, "one", _pick((300, 1_500, 4_000), (*mine, "second")), (next_,)),
        ]
        faults += _timed(blows, mine)
        at_s = again_s + 5.0 + 2.0 * draw_unit(*mine, "gap")
    return sorted(faults, key=lambda fault: (fault.at, fault.kind))


def _timed(blows: Sequence[_Blow], key: _Key) -> list[Fault]:
    """Return the faults of one round; ``key`` is what their choices are drawn from."""
    return [
        Fault(
            at=round(begins_s * SECOND),
            kind=kind,
            shape=shape,
            duration=duration_ms * MILLISECOND,
            draw=draw(*key, place),
            targets=targets,
        )
        for place, (begins_s, kind, shape, duration_ms, targets) in enumerate(blows)
    ]


def _deafness(kinds: Sequence[str], run: _Run) -> list[Fault]:
    """Return rounds in which one broker hears nothing of the controllers, which hear it.

    Before, the link to another broker is cut, so that this one leaves the ISRs of the first. It
    comes back while the first is deaf, and soon the link is cut again. In half of the rounds the
    first broker hears everything, but late (:func:`_late_news`).
    """
    faults: list[Fault] = []
    at_s, number = 2.0, 0
    while at_s < run.duration_s * 0.8:
        mine = (run.seed, "replicas", "deaf", number)
        number += 1
        deaf, returns = _two(run.brokers, mine, "step")
        away_ms = _pick((2_000, 3_500, 6_500), (*mine, "away"))
        if "network" in kinds and draw_below(2, *mine, "late"):
            faults += _late_news(run, deaf, returns, at_s, away_ms)
            at_s += away_ms / 1000 + 3.5 + 2.0 * draw_unit(*mine, "gap")
            continue
        back_ms = _pick((400, 800, 1_500), (*mine, "back"))
        again_ms = _pick((1_500, 3_000, 5_000), (*mine, "again"))
        deaf_s = at_s + away_ms / 1000 - 0.2
        again_s = deaf_s + 0.2 + back_ms / 1000
        unheard = tuple(end for each in run.controllers for end in (each, deaf))
        blows = [
            (at_s, "partition", "link", away_ms, (deaf, returns)),
            (deaf_s, "partition", "one-ways", 200 + back_ms + again_ms, unheard),
            (again_s, "partition", "link", again_ms, (deaf, returns)),
        ]
        faults += _timed(blows, mine)
        at_s = again_s + again_ms / 1000 + 1.0 + 2.0 * draw_unit(*mine, "gap")
    return sorted(faults, key=lambda fault: (fault.at, fault.kind))


def _lateness(run: _Run) -> list[Fault]:
    """Return rounds of :func:`_late_news`, one after another."""
    faults: list[Fault] = []
    at_s, number = 2.0, 0
    while at_s < run.duration_s * 0.8:
        mine = (run.seed, "replicas", "lateness", number)
        number += 1
        leads, returns = _two(run.brokers, mine)
        away_ms = _pick((2_000, 3_500), (*mine, "away"))
        faults += _late_news(run, leads, returns, at_s, away_ms)
        at_s += away_ms / 1000 + 3.5 + 2.0 * draw_unit(*mine, "gap")
    return faults


def _late_news(run: _Run, leads: str, returns: str, at_s: float, away_ms: int) -> list[Fault]:
    """Return a round in which a broker comes back about when its session ends.

    The link between the two is cut until then. ``returns`` is blind, and the links of ``leads`` to
    the controllers are slow, so that it proposes ISRs by old metadata.
    """
    mine = (run.seed, "replicas", "late", round(at_s * 1000))
    session_ms = _pick((900, 1_200, 1_500, 3_000), (*mine, "session"))
    blind_s = at_s + max(0.2, (away_ms - session_ms) / 1000)
    blind_ms = session_ms + _pick((1_000, 2_500), (*mine, "blind"))
    numbers = (draw(*mine, "slow", count) for count in count_from())
    number = next(each for each in numbers if slowed(each)["delay"] in _LATE_US)
    blows: list[_Blow] = [(at_s, "partition", "link", away_ms, (leads, returns))]
    return [
        *_timed(blows, mine),
        _blind(returns, run.controllers, blind_s, blind_ms, draw(*mine, "draw")),
        *(
            Fault(
                at=round((blind_s - 0.1) * SECOND),
                kind="network",
                shape="slow",
                duration=(blind_ms + 500) * MILLISECOND,
                draw=number,
                targets=(leads, controller),
            )
            for controller in run.controllers
        ),
    ]


def _blind(
    broker: str, controllers: Sequence[str], at_s: float, duration_ms: int, number: int
) -> Fault:
    """Return a partition between ``broker`` and all controllers."""
    return Fault(
        at=round(at_s * SECOND),
        kind="partition",
        shape="links",
        duration=duration_ms * MILLISECOND,
        draw=number,
        targets=tuple(end for each in controllers for end in (broker, each)),
    )


def _blows(kinds: Sequence[str], run: _Run) -> list[Fault]:
    """Return faults that strike one broker each, half of them at a transition of that broker."""
    faults: list[Fault] = []
    at_s = 1.5
    while at_s < run.duration_s * 0.85:
        mine = (run.seed, "replicas", "blow", len(faults))
        triggered = draw_below(2, *mine, "triggered") == 0
        busiest = draw_below(2, *mine, "busiest") == 0
        one = run.brokers[draw_below(len(run.brokers), *mine, "which")]
        duration = _pick(_SHORT_MS if triggered else _LONG_MS, (*mine, "duration")) * MILLISECOND
        trigger = _pick(_TRIGGERS, (*mine, "trigger"))
        kind = _pick(kinds, (*mine, "kind"))
        shape = "broker" if busiest and not triggered else "one"
        if kind == "disk":
            busiest, shape = False, _pick(_DISKS, (*mine, "disk"))
        targets: tuple[str, ...] = ("@",) if triggered else () if busiest else (one,)
        faults.append(
            Fault(
                at=round(at_s * SECOND),
                kind=kind,
                shape=shape,
                duration=duration,
                draw=draw(*mine, "draw"),
                targets=targets,
                trigger=f"{trigger}#{1 + draw_below(3, *mine, 'count')}" if triggered else None,
            )
        )
        at_s += 0.3 + 2.0 * draw_unit(*mine, "gap") + (0 if triggered else duration / SECOND)
    return faults


def _two(
    brokers: Sequence[str], key: tuple[str | int, ...], other: str = "second"
) -> tuple[str, str]:
    """Return two different brokers; ``other`` is what the second one is drawn for."""
    first = _pick(range(len(brokers)), (*key, "first"))
    second = first + _pick(range(1, len(brokers)), (*key, other))
    return brokers[first], brokers[second % len(brokers)]


def _pick(options: Sequence[T], key: tuple[int | str, ...]) -> T:
    return options[draw_below(len(options), *key)]  # type: ignore[arg-type]

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
from kraftwreck.nemesis.registry import families
from kraftwreck.nodes.draw import draw, draw_below, draw_unit

T = TypeVar("T")

SECOND = 1_000_000_000
MILLISECOND = 1_000_000

USUAL = ("candidate", "grant", "elected", "append", "replicate", "hw", "truncate", "claim")
_WEIGHTED = ("elected", "elected", "grant", "grant", "append", "candidate", *USUAL)
_LATER = ("snapshot", "download", "install", "clean", "voters")
"""Transitions of snapshots and of voter sets: half of the runs wait for one of them, too."""

_OF_BROKERS = "joining"

DURATIONS_MS = (5, 30, 100, 300, 1_000, 2_500, 4_000, 7_000)
"""From a restart without any effect to one that is longer than every timeout."""

_LONG_MS = (2_500, 4_000, 4_000, 7_000)

RARE = frozenset(
    {
        "candidate",
        "grant",
        "elected",
        "truncate",
        "claim",
        "download",
        "install",
        "voters",
        "joining",
    }
)
"""Transitions that do not occur in a healthy cluster: another fault must cause them."""

_KICKS = ("kill", "partition", "power", "pause")
_KICK_MS = (800, 1_500, 2_500, 4_000)

_AIMED: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "kill": (
        ("one", ("@",)),
        ("one", ("@",)),
        ("one", ("@leader",)),
        ("leader", ()),
        ("broker", ()),
        ("minority", ()),
        ("all", ()),
    ),
    "pause": (("one", ("@",)), ("one", ("@leader",)), ("leader", ()), ("broker", ())),
    "terminate": (
        ("one", ("@",)),
        ("one", ("@leader",)),
        ("leader", ()),
        ("broker", ()),
    ),
    "power": (
        ("one", ("@",)),
        ("one", ("@",)),
        ("one", ("@leader",)),
        ("leader", ()),
        ("broker", ()),
        ("minority", ()),
        ("all", ()),
    ),
    "membership": (
        ("one", ("@",)),
        ("one", ("@leader",)),
        ("leader", ()),
        ("shrink", ()),
        ("grow", ()),
        ("replace", ("@",)),
        ("replace", ("@leader",)),
    ),
    "network": (
        ("slow", ("@",)),
        ("slow", ("@", "@leader")),
        ("slow", ()),
        ("lossy", ("@",)),
        ("lossy", ("@", "@leader")),
        ("lossy", ()),
        ("duplicate", ("@", "@leader")),
        ("duplicate", ()),
        ("reorder", ("@",)),
        ("reorder", ()),
        ("rpc", ()),
        ("rpc", ("@",)),
        ("rpc", ("@leader",)),
        ("rpc", ("@", "@leader")),
        ("rpc", ("@leader", "@")),
    ),
    "disk": (
        ("slow", ("@",)),
        ("slow", ("@leader",)),
        ("full", ("@",)),
        ("full", ("@leader",)),
        ("error", ("@",)),
        ("error", ("@leader",)),
        ("flip", ("@",)),
        ("flip", ("@",)),
        ("flip", ("@leader",)),
        ("full-minority", ()),
    ),
    "clock": (
        ("jump", ("@",)),
        ("jump", ()),
        ("strobe", ("@",)),
        ("drift", ("@",)),
        ("drift", ("@leader",)),
        ("drift", ()),
    ),
    "partition": (
        ("one", ("@",)),
        ("one", ("@",)),
        ("one", ("@leader",)),
        ("leader", ()),
        ("halves", ()),
        ("leader-side", ()),
        ("link", ("@", "@leader")),
        ("one-way", ("@", "@leader")),
        ("one-way", ("@leader", "@")),
        ("to-leader", ("@",)),
        ("from-leader", ("@",)),
        ("bridge", ()),
        ("ring", ()),
        ("links", ()),
        ("one-ways", ()),
        ("broker", ()),
        ("mute-broker", ()),
    ),
}


def plan(
    kinds: Sequence[str],
    seed: int,
    duration_s: float,
    nodes: Sequence[str],
    *,
    brokers: int = 0,
) -> list[Fault]:
    """Return triggered faults of ``kinds`` for a run of ``duration_s`` seconds.

    ``nodes`` are all nodes, ``brokers`` how many of them are brokers and not controllers.

    Kinds without aimed shapes use the targets of their own shapes. Each fault is armed at ``at``
    and waits for its trigger; none is armed in the last fifth of the run. The result is empty if
    no trigger could fire because no fault deposes leaders. Raises KeyError for an unknown kind.
    """
    usable = [kind for kind in dict.fromkeys(kinds) if aimed(kind, len(nodes), brokers)]
    if not usable:
        return []
    key = (seed, "triggers")
    triggers = [_pick(_WEIGHTED, (*key, "trigger", i)) for i in range(3)]
    if draw_below(2, *key, "later"):
        later = (*_LATER, _OF_BROKERS) if brokers else _LATER
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
        shape, targets = _pick(aimed(kind, len(nodes), brokers), (*mine, "shape"))
        name = _pick(triggers, (*mine, "trigger"))
        most = 12 if name in ("append", "replicate", "hw") else 2
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
    if RARE.intersection(triggers):
        others = kicks(usable, seed, duration_s)
        if not others and RARE.issuperset(triggers):
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


def depositions(seed: int, duration_s: float) -> list[Fault]:
    """Cut each new leader off long enough for the election of another.

    Until it notices, its responses are stale, which is the most frequently published flaw. All
    faults are armed from the start: for the first leader, the second and so on, with some of them
    spared. So each deposition leads to the next.
    """
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
                trigger=f"claim#{count}",
            )
        )
    return faults + kicks(("kill", "partition"), seed, duration_s)


def upheavals(kinds: Sequence[str], seed: int) -> list[Fault]:
    """Hit the leader that has just appended the first voter sets of an upgraded quorum.

    Appended voter sets take effect at once, and the next leader truncates most of them.
    """
    usable = [kind for kind in _KICKS if kind in kinds]
    if not usable:
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
            trigger=f"voters#{count}",
        )
        tries = 0
        while delay_us(fault):  # Later, others have fetched it.
            tries += 1
            fault = msgspec.structs.replace(fault, draw=draw(*mine, "draw", tries))
        faults.append(fault)
    return faults


def aimed(kind: str, nodes: int, brokers: int) -> list[tuple[str, tuple[str, ...]]]:
    """Return the shapes and targets of triggered faults of ``kind`` in such a cluster."""
    shapes = families()[kind].usable(nodes, brokers)
    known = _AIMED.get(kind, tuple((name, ()) for name in shapes))
    return [(shape, targets) for shape, targets in known if shape in shapes]


def _pick(options: Sequence[T], key: tuple[int | str, ...]) -> T:
    seed, *rest = key
    assert isinstance(seed, int)
    return options[draw_below(len(options), seed, *rest)]

"""Schedules aimed at combinations that no run has reached: fault pairs, cut-link patterns."""

from __future__ import annotations

from collections.abc import Sequence

from kraftwreck.histories.fault import Fault
from kraftwreck.nemesis.coverage import Coverage
from kraftwreck.nemesis.cuts import pattern_of, undirected_pattern, undirected_patterns
from kraftwreck.nemesis.families.partitions import MOST_LINKED
from kraftwreck.nemesis.scope import Scope
from kraftwreck.nodes.draw import draw, draw_below, draw_unit

SECOND = 1_000_000_000
_TRIES = 500


def pairs(
    kinds: Sequence[str],
    seed: int,
    duration_s: float,
    scope: Scope,
    *,
    counted: Coverage,
) -> list[Fault]:
    """Return ordered pairs of faults that have not overlapped yet (otherwise any), one by one."""
    classes = [(kind, shape) for kind in kinds for shape in scope.usable(kind)]
    open_ = [
        (first, second)
        for first in classes
        for second in classes
        if f"{'/'.join(first)} > {'/'.join(second)}" not in counted.overlaps
    ]
    open_ = open_ or [(first, second) for first in classes for second in classes]
    faults: list[Fault] = []
    at_s = 1.5
    while open_ and at_s < duration_s * 0.85:
        key = (seed, "pairs", len(faults))
        first, second = open_.pop(draw_below(len(open_), *key))
        length_s = 0.8 + 3.2 * draw_unit(*key, "length")
        follow_s = length_s * (0.1 + 0.85 * draw_unit(*key, "follow"))
        last_s = 0.3 + 3.0 * draw_unit(*key, "last")
        for (kind, shape), begin_s, span_s in (
            (first, at_s, length_s),
            (second, at_s + follow_s, last_s),
        ):
            faults.append(
                Fault(
                    at=round(begin_s * SECOND),
                    kind=kind,
                    shape=shape,
                    duration=round(span_s * SECOND),
                    draw=draw(*key, begin_s),
                )
            )
        at_s += max(length_s, follow_s + last_s) + 1.5 * draw_unit(*key, "calm")
    return faults


def cuts(
    kinds: Sequence[str],
    seed: int,
    duration_s: float,
    scope: Scope,
    *,
    counted: Coverage,
) -> list[Fault]:
    """Return partitions by link patterns that have not occurred yet (otherwise any), one by one.

    In half of the runs each comes with a fault of another family. Patterns mark the leader.
    """
    count = min(len(scope.nodes), MOST_LINKED)
    if "partition" not in kinds or count < 3:
        return []
    wanted = [
        number
        for number in sorted(undirected_patterns(count))
        if f"{count}:{number:x}" not in counted.cuts
    ]
    others = [kind for kind in kinds if kind != "partition"]
    beside = bool(others) and draw_below(2, seed, "cuts", "beside") == 0
    faults: list[Fault] = []
    at_s = 1.5
    while at_s < duration_s * 0.85:
        key = (seed, "cuts", len(faults))
        length_s = 0.5 + 3.5 * draw_unit(*key, "length")
        target = wanted.pop(draw_below(len(wanted), *key)) if wanted else None
        faults.append(
            Fault(
                at=round(at_s * SECOND),
                kind="partition",
                shape="links",
                duration=round(length_s * SECOND),
                draw=_draw_for(target, count, key),
            )
        )
        if beside:
            kind = others[draw_below(len(others), *key, "kind")]
            shapes = sorted(scope.usable(kind))
            if shapes:
                faults.append(
                    Fault(
                        at=round((at_s + length_s * draw_unit(*key, "when")) * SECOND),
                        kind=kind,
                        shape=shapes[draw_below(len(shapes), *key, "shape")],
                        duration=round((0.2 + 2.0 * draw_unit(*key, "span")) * SECOND),
                        draw=draw(*key, "beside"),
                    )
                )
        at_s += length_s + 1.0 * draw_unit(*key, "calm")
    return sorted(faults, key=lambda fault: (fault.at, fault.kind))


def _draw_for(pattern: int | None, count: int, key: tuple[int, str, int]) -> int:
    """Return a fault's draw that chooses ``pattern``, if one is found within a few tries."""
    number = draw(*key, "draw", 0)
    for attempt in range(1, _TRIES):
        if pattern is None or undirected_pattern(count, pattern_of(number, count)) == pattern:
            return number
        number = draw(*key, "draw", attempt)
    return number

"""Schedules against the replication of records: faults at brokers, by time and by transition.

Some links between brokers are slow or cut, so that replicas lag behind and leave their ISRs.
Meanwhile leaders are killed, stopped or cut off, at any time or when a broker begins to lead, has
changed an ISR, or cuts its log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

from kraftwreck.histories.fault import Fault
from kraftwreck.nodes.draw import draw, draw_below, draw_unit

T = TypeVar("T")

SECOND: Final = 1_000_000_000
MILLISECOND: Final = 1_000_000

BLOWS: Final = ("kill", "power", "pause", "partition", "terminate")
"""Families that strike one broker."""
_SHORT_MS: Final = (5, 50, 300, 1_000, 2_500)
_LONG_MS: Final = (1_000, 2_500, 4_000, 7_000)
_TRIGGERS: Final = ("led", "led", "isr", "isr", "cut")


def plan(kinds: Sequence[str], seed: int, duration_s: float, brokers: Sequence[str]) -> list[Fault]:
    """Return faults of ``kinds`` for a run of ``duration_s`` seconds, by time.

    The result is empty if there are no two brokers or no family strikes one.
    """
    blows = [kind for kind in BLOWS if kind in kinds]
    if not blows or len(brokers) < 2:
        return []
    key = (seed, "replicas")
    few = [_pick(blows, (*key, "kind", place)) for place in range(2)]
    faults = [*_lags(kinds, seed, duration_s, brokers), *_blows(few, seed, duration_s, brokers)]
    return sorted(faults, key=lambda fault: (fault.at, fault.kind))


def _lags(
    kinds: Sequence[str], seed: int, duration_s: float, brokers: Sequence[str]
) -> list[Fault]:
    """Return faults on links between two brokers."""
    usable = [kind for kind in ("partition", "network") if kind in kinds]
    faults: list[Fault] = []
    at_s = 1.0
    while usable and at_s < duration_s * 0.8:
        mine = (seed, "replicas", "lag", len(faults))
        kind = _pick(usable, (*mine, "kind"))
        shape = _pick(("link", "one-way"), (*mine, "shape")) if kind == "partition" else "slow"
        duration = _pick(_LONG_MS, (*mine, "duration")) * MILLISECOND
        first = draw_below(len(brokers), *mine, "first")
        second = first + 1 + draw_below(len(brokers) - 1, *mine, "second")
        targets = brokers[first], brokers[second % len(brokers)]
        faults.append(
            Fault(
                at=round(at_s * SECOND),
                kind=kind,
                shape=shape,
                duration=duration,
                draw=draw(*mine, "draw"),
                targets=targets,
            )
        )
        at_s += duration / SECOND + 0.2 + 3.0 * draw_unit(*mine, "gap")
    return faults


def _blows(
    kinds: Sequence[str], seed: int, duration_s: float, brokers: Sequence[str]
) -> list[Fault]:
    """Return faults that strike one broker each, half of them at a transition of that broker."""
    faults: list[Fault] = []
    at_s = 1.5
    while at_s < duration_s * 0.85:
        mine = (seed, "replicas", "blow", len(faults))
        triggered = draw_below(2, *mine, "triggered") == 0
        busiest = draw_below(2, *mine, "busiest") == 0
        one = brokers[draw_below(len(brokers), *mine, "which")]
        duration = _pick(_SHORT_MS if triggered else _LONG_MS, (*mine, "duration")) * MILLISECOND
        trigger = _pick(_TRIGGERS, (*mine, "trigger"))
        targets: tuple[str, ...] = ("@",) if triggered else () if busiest else (one,)
        faults.append(
            Fault(
                at=round(at_s * SECOND),
                kind=_pick(kinds, (*mine, "kind")),
                shape="broker" if busiest and not triggered else "one",
                duration=duration,
                draw=draw(*mine, "draw"),
                targets=targets,
                trigger=f"{trigger}#{1 + draw_below(3, *mine, 'count')}" if triggered else None,
            )
        )
        at_s += 0.3 + 2.0 * draw_unit(*mine, "gap") + (0 if triggered else duration / SECOND)
    return faults


def _pick(options: Sequence[T], key: tuple[int | str, ...]) -> T:
    return options[draw_below(len(options), *key)]  # type: ignore[arg-type]

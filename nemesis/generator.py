"""The choice of faults for a run: the seed chooses a style, each with its own strengths.

Runs that differ a lot find more bugs than runs that all do a bit of everything (swarm testing). A
style determines how faults follow each other, and some runs use only one or two families.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from kraftwreck.histories.fault import Fault
from kraftwreck.nemesis import relays, schedule, triggers
from kraftwreck.nemesis.scope import Scope
from kraftwreck.nodes.draw import draw_below

Style = Literal["timed", "mixed", "triggered", "depositions", "relay"]

STYLES: tuple[Style, ...] = (
    "timed",
    "mixed",
    "triggered",
    "triggered",
    "depositions",
    "relay",
    "relay",
    "relay",
)
"""Styles, repeated according to their frequency."""


def style_of(seed: int) -> Style:
    """Return the style of the run with this ``seed``."""
    return STYLES[draw_below(len(STYLES), seed, "style")]


def few(kinds: Sequence[str], seed: int) -> list[str]:
    """Return the families of the run with this ``seed``: one, two, three or all of ``kinds``.

    With all families at once, each hides the effects of the others.
    """
    left = list(dict.fromkeys(kinds))
    most = (1, 2, 3, len(left))[draw_below(4, seed, "families")]
    while len(left) > most:
        left.pop(draw_below(len(left), seed, "family", len(left)))
    return left


def plan(
    kinds: Sequence[str],
    seed: int,
    duration_s: float,
    scope: Scope,
    *,
    style: Style | None = None,
) -> list[Fault]:
    """Return the faults of ``kinds`` for a run of ``duration_s`` seconds, by time.

    If ``style`` is None, the seed chooses one. Where nodes show no transitions, no fault waits for
    one, whatever the style. Raises KeyError for an unknown kind.
    """
    style = style or style_of(seed)
    faults: list[Fault] = []
    if style == "relay":
        faults = relays.plan(kinds, seed, duration_s, scope)
        others = [kind for kind in dict.fromkeys(kinds) if kind not in relays.BLOWS]
        if others and draw_below(3, seed, "beside") == 0:
            beside = others[draw_below(len(others), seed, "beside", "family")]
            faults += schedule.plan((beside,), seed, duration_s, scope)
    if style == "depositions" and "partition" in kinds:
        faults = triggers.depositions(seed, duration_s, scope)
    used = few(kinds, seed)
    if style in ("timed", "mixed"):
        faults += schedule.plan(used, seed, duration_s, scope)
    if style in ("mixed", "triggered") or not faults:
        faults += triggers.plan(used, seed, duration_s, scope)
    # Where triggers could not fire, all faults are timed.
    faults = faults or schedule.plan(used, seed, duration_s, scope)
    return sorted(faults, key=lambda fault: (fault.at, fault.kind))

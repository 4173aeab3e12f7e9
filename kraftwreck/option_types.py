"""Numbers that options accept: finite, and small enough to be meant."""

from __future__ import annotations

import math
from typing import Any

import click

from harness.options import LONGEST_S, MOST_RATE, MOST_SEED


class Number(click.FloatRange):
    """A finite number in a range; ``or_zero`` accepts 0 below the range as well."""

    def __init__(self, least: float, most: float, *, or_zero: bool = False) -> None:
        super().__init__(least, most)
        self._or_zero = or_zero

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number; ``nan`` and ``inf`` are refused, which every range lets pass."""
        try:
            number = float(value)
        except (TypeError, ValueError):
            self.fail(f"{value!r} is not a number.", param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        if self._or_zero and number == 0:
            return 0.0
        converted = super().convert(number, param, ctx)
        assert isinstance(converted, float)
        return converted


SECONDS = Number(0.001, LONGEST_S)
"""A duration, or a budget of CPU time."""

INTERVAL = Number(0.5, LONGEST_S)
"""Seconds from one storm of faults to the next."""

HOURS = Number(0.000_001, LONGEST_S / 3600)
RATE = Number(0.001, MOST_RATE)
"""Operations a second."""

RATE_OR_SEED = Number(0.001, MOST_RATE, or_zero=True)
"""Operations a second, or 0: drawn from the seed."""

SEED = click.IntRange(0, MOST_SEED)

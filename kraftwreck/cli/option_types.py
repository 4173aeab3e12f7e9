"""Types of options: finite numbers in a sensible range, files to write, names of checkers."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import click

from kraftwreck.harness.options import LONGEST_S, MOST_RATE, MOST_SEED


class Number(click.FloatRange):
    """A finite number in a range; with ``or_zero`` also 0, below the range."""

    def __init__(self, least: float, most: float, *, or_zero: bool = False) -> None:
        super().__init__(least, most)
        self._or_zero = or_zero

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number; reject ``nan`` and ``inf``, which click's ranges accept."""
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
"""Seconds between the starts of two storms of faults."""

HOURS = Number(0.000_001, LONGEST_S / 3600)
RATE = Number(0.001, MOST_RATE)
"""Operations per second."""

RATE_OR_SEED = Number(0.001, MOST_RATE, or_zero=True)
"""Operations per second, or 0: the seed decides."""

SEED = click.IntRange(0, MOST_SEED)


class OutputFile(click.Path):
    """A file to write, in a folder that exists."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, dir_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path; reject one whose folder does not exist."""
        path = Path(str(super().convert(value, param, ctx)))
        if not path.parent.is_dir():
            self.fail(f"{path.parent}: not a directory.", param, ctx)
        return path


class Word(click.ParamType[str]):
    """A word that matches a pattern; ``meaning`` names what it must be."""

    name = "text"

    def __init__(self, pattern: str, meaning: str) -> None:
        self._pattern = re.compile(pattern)
        self._meaning = meaning

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the word."""
        if not self._pattern.fullmatch(value):
            self.fail(f"{value!r} is not {self._meaning}.", param, ctx)
        return str(value)


MASTER = Word(
    r"local|local\[(\d+|\*)(, *\d+)?\]|yarn|(spark|k8s)://.+",
    "a Spark master, such as local[*], spark://HOST:7077, k8s://HOST or yarn",
)
FILE_NAME = Word(r"[^/\x00-\x1f]*[^/\x00-\x1f.][^/\x00-\x1f]*", "a file name")
LINE = Word(r"[^\x00-\x1f]*\S[^\x00-\x1f]*", "a line of text")

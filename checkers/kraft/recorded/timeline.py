"""Values that hold from some time on, until the next one does."""

from __future__ import annotations

from bisect import bisect_right
from typing import Generic, TypeVar

T = TypeVar("T")


class Timeline(Generic[T]):
    """``values``, each of which holds from its time of ``times`` on. Times never decrease."""

    __slots__ = ("times", "values")

    def __init__(self) -> None:
        self.times: list[int] = []
        self.values: list[T] = []

    def note(self, time: int, value: T) -> None:
        """Add a value that holds from ``time`` on."""
        self.times.append(time)
        self.values.append(value)

    def at(self, time: int) -> T | None:
        """Return the value that holds at ``time``, None before the first."""
        place = bisect_right(self.times, time)
        return self.values[place - 1] if place else None

    def during(self, begin: int, end: int) -> list[T]:
        """Return the values that hold at any time from ``begin`` to ``end``; the first value of all
        counts before its time, too."""
        first = max(bisect_right(self.times, begin) - 1, 0)
        return self.values[first : bisect_right(self.times, end)]

"""Counts what happens within one second of virtual time."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

SECOND: Final = 1_000_000


class PerSecond:
    """Counts by key, from the beginning of each second on."""

    def __init__(self) -> None:
        self._counts: dict[Hashable, tuple[int, int]] = {}

    def count(self, key: Hashable, now: int) -> int:
        """Count one more at ``now`` (µs); return how many there are in this second."""
        second = now // SECOND
        since, count = self._counts.get(key, (second, 0))
        count = count + 1 if since == second else 1
        self._counts[key] = second, count
        return count

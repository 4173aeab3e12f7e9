"""What a disk that fails does to its node: slow, full, with errors or read-only; and what it has
done."""

from __future__ import annotations

import errno
import os
from typing import Literal

from nodes.draw import draw_below

Kind = Literal["slow", "full", "error", "readonly"]

_NUMBERS: dict[Kind, int] = {
    "slow": errno.EIO,
    "full": errno.ENOSPC,
    "error": errno.EIO,
    "readonly": errno.EROFS,
}

SLOWEST = 1_000_000
"""Microseconds that one fsync of a slow disk takes at most: a cluster of them gets on yet."""

MOST_SPACE = 3_000
"""Bytes that a disk has left at most when it is about to be full."""


class DiskTrouble:
    """One trouble, drawn from ``number``.

    ``slow``: fsync takes ``factor`` (10 to 100) times longer. ``full``: ``space`` more bytes can
    be written, and then part of a write, ENOSPC. ``error``: from the ``after``-th one on every
    ``failing`` operation (write, fsync or read) ends in EIO; nothing of it is carried out.
    ``readonly``: everything but reading ends in EROFS.
    """

    def __init__(self, kind: Kind, number: int) -> None:
        self.kind = kind
        self.factor = 10 + draw_below(91, number, "factor") if kind == "slow" else 1
        self.space = draw_below(MOST_SPACE, number, "space") if kind == "full" else -1
        self.failing = ""
        self.after = 0
        if kind == "error":
            self.failing = ("write", "fsync", "read")[draw_below(3, number, "failing")]
            self.after = draw_below(4, number, "after")
        self.refused_calls = 0
        self.refused_bytes = 0
        self.latencies: list[int] = []

    def duration(self, time: int) -> int:
        """Return how long (µs) an fsync takes that usually takes ``time``."""
        if self.factor == 1:
            return time
        longer = max(time, min(time * self.factor, SLOWEST))
        self.latencies.append(longer)
        return longer

    def write(self, size: int) -> int:
        """Return how many of ``size`` bytes may be written."""
        if self.kind == "error":
            return 0 if self._fails("write") else size
        if self.kind == "readonly":
            self.refused_calls += 1
            return 0
        if self.kind != "full":
            return size
        allowed = min(size, self.space)
        self.space -= allowed
        if allowed < size:
            self.refused_calls += 1
            self.refused_bytes += size - allowed
        return allowed

    def refuse(self) -> OSError:
        """Return the error of a write that landed in part."""
        number = _NUMBERS[self.kind]
        return OSError(number, os.strerror(number))

    def check(self, operation: str) -> None:
        """Called before ``read``, ``fsync`` and any other ``change``. Raises OSError."""
        if self._fails(operation):
            raise self.refuse()

    def _fails(self, operation: str) -> bool:
        if self.kind == "readonly" and operation != "read":
            self.refused_calls += 1
            return True
        if operation != self.failing:
            return False
        if self.after > 0:
            self.after -= 1
            return False
        self.refused_calls += 1
        return True

    def evidence(self) -> dict[str, object]:
        """Return what this trouble has done so far; times in microseconds."""
        found: dict[str, object] = {"trouble": self.kind}
        if self.kind == "slow":
            found["factor"] = self.factor
            found["fsyncs"] = len(self.latencies)
            found["slowest_fsync_us"] = max(self.latencies, default=0)
        else:
            found["refused_calls"] = self.refused_calls
        if self.kind == "full":
            found["space_left"] = self.space
            found["refused_bytes"] = self.refused_bytes
        elif self.kind == "error":
            found["failing"] = self.failing
        return found

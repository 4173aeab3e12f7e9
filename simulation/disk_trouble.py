"""Failing disks: slow, full, with errors or read-only; and the evidence of their effects."""

from __future__ import annotations

import errno
import os
from typing import Literal

from kraftwreck.nodes.draw import draw_below

Kind = Literal["slow", "full", "error", "readonly"]

_NUMBERS: dict[Kind, int] = {
    "slow": errno.EIO,
    "full": errno.ENOSPC,
    "error": errno.EIO,
    "readonly": errno.EROFS,
}

SLOWEST = 1_000_000
"""Longest fsync of a slow disk in microseconds: a cluster of such disks still works."""

MOST_SPACE = 3_000
"""Most bytes that are left on a disk that is about to be full."""


class DiskError(Exception):
    """A node requested an operation that no storage can do, such as a cut inside a batch."""


class DiskTrouble:
    """One trouble, drawn from ``number``.

    ``slow``: fsync takes ``factor`` (10 to 100) times longer. ``full``: ``space`` more bytes can
    be written. A write that needs more is short, and the next one fails with ENOSPC, or with EDQUOT
    if a quota is used up (in one of four). ``error``:
    from the ``after``-th one on every ``failing`` operation (write, fsync or read) fails with EIO
    and has no effect. With ``drops`` only that fsync fails, and the file loses what it should have
    made durable: further ones succeed ("Can Applications Recover from fsync Failures?", USENIX ATC
    2020, XFS and Btrfs). ``readonly``: everything except reading fails with EROFS.
    """

    def __init__(self, kind: Kind, number: int) -> None:
        self.kind = kind
        self.factor = 10 + draw_below(91, number, "factor") if kind == "slow" else 1
        self.space = draw_below(MOST_SPACE, number, "space") if kind == "full" else -1
        quota = kind == "full" and draw_below(4, number, "quota") == 1
        self.errno = errno.EDQUOT if quota else _NUMBERS[kind]
        self.failing = ""
        self.after = 0
        self.drops = False
        if kind == "error":
            self.failing = ("write", "fsync", "read")[draw_below(3, number, "failing")]
            self.after = draw_below(4, number, "after")
            self.drops = self.failing == "fsync" and draw_below(4, number, "drops") > 0
        self.refused_calls = 0
        self.refused_bytes = 0
        self.latencies: list[int] = []

    @classmethod
    def once(cls, operation: str, after: int = 0) -> DiskTrouble:
        """Return the trouble in which one write, fsync or read fails: that after ``after`` others.
        An fsync also loses what it should have made durable."""
        trouble = cls("error", 0)
        trouble.failing, trouble.after, trouble.drops = operation, after, True
        return trouble

    @classmethod
    def full(cls, space: int) -> DiskTrouble:
        """Return the trouble of a disk with room for ``space`` more bytes."""
        trouble = cls("full", 0)
        trouble.space = space
        return trouble

    @property
    def fills(self) -> bool:
        """Whether the disk runs out of room, and nothing else is wrong with it."""
        return self.kind == "full"

    @property
    def dropped(self) -> bool:
        """Whether a file has lost unsynced contents."""
        return self.drops and self.refused_calls > 0

    def duration(self, time: int) -> int:
        """Return how long (µs) an fsync takes that usually takes ``time``."""
        if self.factor == 1:
            return time
        longer = max(time, min(time * self.factor, SLOWEST))
        self.latencies.append(longer)
        return longer

    def write(self, size: int) -> int:
        """Return how many of ``size`` bytes may be written now; with 0 the write fails."""
        if self.kind == "error":
            return 0 if self._fails("write") else size
        if self.kind == "readonly":
            self.refused_calls += 1
            return 0
        if self.kind != "full":
            return size
        allowed = min(size, self.space)
        self.space -= allowed
        if allowed == 0 < size:
            self.refused_calls += 1
            self.refused_bytes += size
        return allowed

    def refuse(self) -> OSError:
        """Return the error of what fails."""
        return OSError(self.errno, os.strerror(self.errno))

    def check(self, operation: str) -> None:
        """Raise OSError if ``operation`` must fail: ``read``, ``fsync`` or any other ``change``."""
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
        if self.dropped:
            return False
        self.refused_calls += 1
        return True

    def evidence(self) -> dict[str, object]:
        """Return the effects of this trouble so far; times in microseconds."""
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
            found["failing"] = "one fsync" if self.drops else self.failing
        return found

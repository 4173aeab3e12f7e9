"""How far the log of a replica is surely on its disk, and when the rest has to be.

Appends reach the page cache: a killed process leaves them behind, a loss of power may take them.
``flush.messages`` and ``flush.ms`` of a topic bound what it may take. A replica with
``flush.messages`` n vouches for its durable part and the n - 1 records that follow. It neither
acknowledges nor fetches beyond. So a loss of power takes at most n - 1 records that it has vouched
for. With 1 nothing is acknowledged from memory. ``flush.ms`` holds nothing back: it
only bounds how old a record becomes in memory before its flush begins.
"""

from __future__ import annotations

from typing import Final

from kraftwreck.nodes.replication.events import UNLIMITED, LogFlushed, Settings
from kraftwreck.nodes.replication.timers import NEVER

NO_ROOM_US: Final = 1_000_000
"""Time before a flush that found no room on the disk is tried again."""


class Durability:
    """The flushes of one log; times are µs. All below ``end`` is durable.

    ``cuts`` counts truncations, since a flush may end after one. ``oldest`` is no later than the
    first append that is not durable, None if all is. One flush is asked for at a time: ``number``
    is that of the last, ``wanted`` the end that it is to reach, and ``asked`` the time, None once
    the shell has answered.
    """

    __slots__ = ("asked", "cuts", "end", "number", "oldest", "rests_until", "timer",
                 "wanted")  # fmt: skip

    def __init__(self, end: int) -> None:
        self.end = end
        self.cuts = 0
        self.oldest: int | None = None
        self.asked: int | None = None
        self.number = 0
        self.wanted = 0
        self.rests_until = 0
        self.timer = NEVER
        """When the next look at this log is due by :class:`Timers`."""

    def vouched(self, log_end: int, settings: Settings) -> int:
        """Return the offset below which the replica may acknowledge."""
        return min(log_end, self.end + settings.flush_messages - 1)

    def due(self, log_end: int, settings: Settings) -> int:
        """Return when the log has to be flushed, NEVER if nothing calls for it."""
        if log_end <= self.end or self.asked is not None:
            return NEVER
        if log_end - self.end >= settings.flush_messages:
            return self.rests_until
        if settings.flush_ms == UNLIMITED or self.oldest is None:
            return NEVER
        return max(self.oldest + settings.flush_ms * 1000, self.rests_until)

    def appended(self, now: int) -> None:
        """Note that the log has grown."""
        if self.oldest is None:
            self.oldest = now

    def cut(self, log_end: int) -> None:
        """Note that the log was cut and now ends at ``log_end``."""
        self.cuts += 1
        self.end = min(self.end, log_end)
        self.wanted = min(self.wanted, log_end)

    def emptied(self, start: int) -> None:
        """Note that the log was emptied, durably, and begins at ``start``."""
        self.cuts += 1
        self.end = self.wanted = start

    def ask(self, log_end: int, now: int) -> int:
        """Note that a flush of the log up to ``log_end`` is asked for, and return its number."""
        self.asked, self.wanted, self.number = now, log_end, self.number + 1
        return self.number

    def answered(self, event: LogFlushed, log_end: int, now: int) -> None:
        """Take in the end of a flush. One from before a truncation says nothing."""
        asked = self.asked if event.number == self.number else None
        if event.cuts == self.cuts:
            self.end = max(self.end, min(event.end_offset, log_end))
        if asked is not None:
            self.asked = None
            if self.end >= self.wanted:
                self.oldest = asked
            elif event.cuts == self.cuts:
                self.rests_until = now + NO_ROOM_US
        if self.end >= log_end:
            self.oldest = None

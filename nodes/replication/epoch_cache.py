"""The leader epochs of a partition's log: the start offset of each."""

from __future__ import annotations

from typing import Final

UNDEFINED: Final = (-1, -1)
"""Epoch and end offset of an epoch that the log cannot place."""


class LeaderEpochs:
    """(epoch, start offset), both ascending strictly.

    An epoch whose leader wrote no record is here, too, until another epoch starts at its offset.
    """

    __slots__ = ("entries",)

    def __init__(self, entries: tuple[tuple[int, int], ...] = ()) -> None:
        self.entries = list(entries)

    @property
    def latest(self) -> int:
        """The last epoch, -1 if there is none."""
        return self.entries[-1][0] if self.entries else -1

    def assign(self, epoch: int, offset: int) -> bool:
        """Let ``epoch`` start at ``offset`` if it is new; return whether it was.

        Epochs without records that were said to start there are removed.
        """
        entries = self.entries
        if entries and epoch <= entries[-1][0]:
            return False
        self.truncate_from(offset)
        entries.append((epoch, offset))
        return True

    def end_of(self, epoch: int, log_end: int) -> tuple[int, int]:
        """Return the largest epoch up to ``epoch``, and the offset where it ends.

        :data:`UNDEFINED` if the log has no epoch as large as ``epoch``. An epoch before all others
        ends where the first one starts.
        """
        entries = self.entries
        if epoch < 0 or not entries or epoch > entries[-1][0]:
            return UNDEFINED
        if epoch == entries[-1][0]:
            return epoch, log_end
        floor = epoch
        for known, start in entries:
            if known > epoch:
                return floor, start
            floor = known
        return UNDEFINED

    def at(self, offset: int) -> int:
        """Return the epoch of the record at ``offset``, -1 if no entry covers it."""
        found = -1
        for epoch, start in self.entries:
            if start > offset:
                break
            found = epoch
        return found

    def truncate_from(self, end_offset: int) -> None:
        """Remove the epochs that start at ``end_offset`` or later."""
        while self.entries and self.entries[-1][1] >= end_offset:
            self.entries.pop()

    def delete_below(self, start_offset: int) -> None:
        """Let the epochs begin at ``start_offset``."""
        covering = [epoch for epoch, start in self.entries if start <= start_offset]
        later = [entry for entry in self.entries if entry[1] > start_offset]
        self.entries = [(epoch, start_offset) for epoch in covering[-1:]] + later

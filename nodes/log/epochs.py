"""``leader-epoch-checkpoint``: the start offset of each epoch of the log.

Text: ``0``, the number of entries, one ``epoch start-offset`` line each. The file is rebuilt from
the batches at each start, so it may be missing or behind. Its entries for batches that are present
must be right, because a batch's checksum does not cover its epoch.
"""

from __future__ import annotations

from pathlib import Path

from kraftwreck.nodes.log.layout import EPOCH_CHECKPOINT
from kraftwreck.nodes.log.media import Media


class EpochCheckpoint:
    """The entries, ascending, and their file in ``directory``. Changes are not written at once."""

    def __init__(self, directory: Path, media: Media) -> None:
        self.entries: list[tuple[int, int]] = []
        self._path = directory / EPOCH_CHECKPOINT
        self._media = media

    def note(self, epoch: int, offset: int) -> bool:
        """Add an entry if ``offset`` is the first of ``epoch``; return whether it was."""
        if self.entries and epoch <= self.entries[-1][0]:
            return False
        self.entries.append((epoch, offset))
        return True

    def forget_from(self, end_offset: int) -> None:
        """Remove the entries from ``end_offset`` on: the log was cut there."""
        while self.entries and self.entries[-1][1] >= end_offset:
            self.entries.pop()

    def forget_below(self, start_offset: int, end_offset: int) -> int | None:
        """Let the entries begin at ``start_offset``: the log was cleaned up to there.

        If the log ends there too (``end_offset``), no entry is left, as the next record may be the
        first of a newer epoch. Returns the epoch of the record before ``start_offset``, None if no
        entry covers it.
        """
        before = [epoch for epoch, start in self.entries if start < start_offset]
        empty = start_offset == end_offset
        covering = [e for e, start in self.entries if start <= start_offset and not empty]
        later = [entry for entry in self.entries if entry[1] > start_offset]
        self.entries = [(epoch, start_offset) for epoch in covering[-1:]] + later
        return before[-1] if before else None

    def read(self) -> dict[int, int]:
        """Return the entries of the file, start offset → epoch; none if it cannot be parsed."""
        try:
            lines = self._media.read(self._path).decode("ascii").split("\n")
            entries = [tuple(map(int, line.split(" "))) for line in lines[2:-1]]
            if lines[0] != "0" or int(lines[1]) != len(entries):
                return {}
            return {start: epoch for epoch, start in entries}
        except (FileNotFoundError, ValueError, IndexError):
            return {}

    def write(self) -> None:
        """Replace the file. Raises OSError."""
        lines = ["0", str(len(self.entries)), *(f"{e} {start}" for e, start in self.entries), ""]
        self._media.replace(self._path, "\n".join(lines).encode())

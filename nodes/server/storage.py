"""The node's disk: carries out durable effects, and counts process starts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nodes.consensus.effects import (
    AppendLog,
    Effect,
    FlushLog,
    TruncateLog,
    WriteQuorumState,
)
from nodes.consensus.recovered import Recovered
from nodes.log import quorum_state
from nodes.log.atomic import replace_file
from nodes.log.files import MetadataLogFiles


class Storage:
    """The data directory of a running node; holds its lock until :meth:`close`.

    ``recovered`` is what was found. All methods raise OSError.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._log = MetadataLogFiles(directory)
        batches = self._log.recover()
        self.recovered = Recovered(quorum_state.read(directory), batches)

    def carry_out(self, effects: Sequence[Effect]) -> None:
        """Carry out the durable effects among ``effects``, in order; durable on return."""
        for effect in effects:
            if isinstance(effect, AppendLog):
                self._log.append(effect.batch)
            elif isinstance(effect, FlushLog):
                self._log.flush()
            elif isinstance(effect, TruncateLog):
                self._log.truncate(effect.end_offset)
            elif isinstance(effect, WriteQuorumState):
                quorum_state.write(self._directory, effect)

    def close(self) -> None:
        """Close the files."""
        self._log.close()


def next_incarnation(path: Path) -> int:
    """Count one more process start in the file at ``path``, durably, and return the count.

    Raises OSError, and ValueError if the file holds no number.
    """
    try:
        text = path.read_text("ascii").strip()
    except FileNotFoundError:
        text = "0"
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f"{path}: not a count of process starts: {text!r}")
    count = int(text) + 1
    replace_file(path, f"{count}\n".encode())
    return count

"""The node's disk: carries out durable effects, and counts process starts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kraftwreck.nodes.consensus.effects import (
    DURABLE,
    AppendLog,
    AppendSnapshot,
    CleanLog,
    DropSnapshot,
    FinishSnapshot,
    FlushLog,
    InstallSnapshot,
    TruncateLog,
    WriteQuorumState,
)
from kraftwreck.nodes.consensus.recovered import Recovered
from kraftwreck.nodes.effects import NodeEffect
from kraftwreck.nodes.log import quorum_state
from kraftwreck.nodes.log.files import MetadataLogFiles
from kraftwreck.nodes.log.layout import DEFAULT_SEGMENT_BYTES, DEFAULT_SEGMENT_MS
from kraftwreck.nodes.log.media import PLAIN, Media


class Storage:
    """The data directory of a running node; holds its lock until :meth:`close`.

    ``recovered`` is its content at start: the newest snapshot and the log from its start on. The
    constructor raises LogCorruptError, QuorumStateError and OSError, all methods OSError. ``media``
    is the file system, another one in write-loss mode; it is closed here.
    """

    def __init__(
        self,
        directory: Path,
        segment_bytes: int = DEFAULT_SEGMENT_BYTES,
        segment_ms: int = DEFAULT_SEGMENT_MS,
        media: Media = PLAIN,
    ) -> None:
        self._directory = directory
        self._media = media
        self._log = MetadataLogFiles(directory, segment_bytes, segment_ms, media)
        try:
            found = self._log.recover_all()
            self.recovered = Recovered(
                quorum_state=quorum_state.read(directory, media),
                batches=found.batches,
                start_offset=self._log.start_offset,
                snapshots=tuple(found.snapshots),
                latest=found.latest,
            )
        except BaseException:
            self.close()
            raise

    def carry_out(self, effects: Sequence[NodeEffect]) -> None:
        """Carry out the durable effects among ``effects``, in order; durable on return.

        Raises ValueError for data that does not continue the log or an unfinished snapshot.
        """
        for effect in effects:
            if type(effect) not in DURABLE:
                continue
            if isinstance(effect, AppendLog):
                self._log.append(effect.batch)
            elif isinstance(effect, FlushLog):
                self._log.flush()
            elif isinstance(effect, TruncateLog):
                self._log.truncate(effect.end_offset)
            elif isinstance(effect, WriteQuorumState):
                quorum_state.write(self._directory, effect, self._media)
            else:
                self._carry_out_snapshot(effect)

    def _carry_out_snapshot(self, effect: NodeEffect) -> None:
        snapshots = self._log.snapshots
        if isinstance(effect, AppendSnapshot):
            snapshots.append(effect.end_offset, effect.epoch, effect.position, effect.data)
        elif isinstance(effect, FinishSnapshot):
            snapshots.finish(effect.end_offset, effect.epoch)
        elif isinstance(effect, DropSnapshot):
            snapshots.drop(effect.end_offset, effect.epoch)
        elif isinstance(effect, InstallSnapshot):
            self._log.install(effect.end_offset, effect.epoch)
        elif isinstance(effect, CleanLog):
            self._log.clean(effect.start_offset)

    def read_snapshot(self, end_offset: int, epoch: int, position: int, max_bytes: int) -> bytes:
        """Return up to ``max_bytes`` bytes of a complete snapshot from ``position`` on."""
        return self._log.snapshots.read(end_offset, epoch, position, max_bytes)

    def close(self) -> None:
        """Close the files."""
        self._log.close()
        self._media.close()


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
    PLAIN.replace(path, f"{count}\n".encode())
    return count

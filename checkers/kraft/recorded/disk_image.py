"""The disks of nodes: images that were kept at kills and at the end of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from kraftwreck.histories.tables import HistoryError
from kraftwreck.histories.undecodable import UNDECODABLE

LOG_FOLDER = "__cluster_metadata-0"
META_PROPERTIES = "meta.properties"
EPOCH_CHECKPOINT = "leader-epoch-checkpoint"


class DiskImage(msgspec.Struct, kw_only=True, eq=False):
    """The content of one node's disk: at a kill (``label`` "kill-<k>") or at the end ("final").

    ``pieces`` are the metadata log from ``start_offset`` on, segments joined, as bytes in
    pieces: images of one disk may share them (:func:`share`). ``quorum_state`` is the decoded
    quorum-state file, None if there was none. ``snapshots`` are (file name, content) of the
    complete ones, in order of name. ``directory`` is the directory id in ``meta.properties``,
    None if unknown. ``epochs`` are the (epoch, start offset) entries of
    ``leader-epoch-checkpoint``, None if there is no such file.
    """

    node: str
    label: str
    pieces: tuple[bytes, ...]
    quorum_state: dict[str, Any] | None = None
    start_offset: int = 0
    snapshots: tuple[tuple[str, bytes], ...] = ()
    directory: str | None = None
    epochs: tuple[tuple[int, int], ...] | None = None

    @property
    def log(self) -> bytes:
        """The metadata log from ``start_offset`` on, joined on each use."""
        return b"".join(self.pieces)

    @log.setter
    def log(self, content: bytes) -> None:
        self.pieces = (content,)

    def __eq__(self, other: object) -> bool:
        """Return whether disks are equal, in whatever pieces their logs are kept."""
        if not isinstance(other, DiskImage):
            return NotImplemented
        one, two = (structs.replace(image, pieces=(image.log,)) for image in (self, other))
        return structs.astuple(one) == structs.astuple(two)


def share(log: bytes, before: Sequence[bytes]) -> tuple[bytes, ...]:
    """Return ``log`` in pieces that are shared with an older image as far as possible.

    So the log of a disk that is killed a thousand times is kept once, not a thousand times.
    """
    pieces: list[bytes] = []
    position = 0
    for piece in before:
        if not log.startswith(piece, position):
            break
        pieces.append(piece)
        position += len(piece)
    if position < len(log):
        pieces.append(log[position:])
    return tuple(pieces)


def read_images(run: Path) -> list[DiskImage]:
    """Return the disk images under ``nodes/<n>/images/<label>/``, by node and label.

    Raises :class:`~histories.tables.HistoryError` when a file cannot be read.
    """
    images = []
    for folder in sorted((run / "nodes").glob("*/images/*/")):
        log_folder = folder / LOG_FOLDER
        try:
            segments = sorted(log_folder.glob("*.log"))
            log = b"".join(path.read_bytes() for path in segments)
            snapshots = tuple(
                (path.name, path.read_bytes()) for path in sorted(log_folder.glob("*.checkpoint"))
            )
            directory = _directory_id(folder / META_PROPERTIES)
            state_file, epochs_file = log_folder / "quorum-state", log_folder / EPOCH_CHECKPOINT
            state = msgspec.json.decode(state_file.read_bytes()) if state_file.exists() else None
            epochs = parse_checkpoint(epochs_file.read_bytes()) if epochs_file.exists() else None
        except OSError as error:
            raise HistoryError(f"{error.filename}: {error.strerror}") from error
        except UNDECODABLE as error:
            raise HistoryError(f"{log_folder}/quorum-state: {error}") from error
        if log_folder.is_dir():
            node = folder.parent.parent.name
            # A segment is named by the offset of its first record.
            start = int(segments[0].stem) if segments and segments[0].stem.isdecimal() else 0
            images.append(
                DiskImage(
                    node=node,
                    label=folder.name,
                    pieces=(log,),
                    quorum_state=state,
                    start_offset=start,
                    snapshots=snapshots,
                    directory=directory,
                    epochs=epochs,
                )
            )
    return images


def _directory_id(path: Path) -> str | None:
    if not path.exists():
        return None
    for line in path.read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition("=")
        if key.strip() == "directory.id":
            return value.strip()
    return None


def parse_checkpoint(content: bytes) -> tuple[tuple[int, int], ...]:
    """Return the entries of a leader-epoch-checkpoint; none for one that is torn."""
    entries = []
    for line in content.split(b"\n")[2:-1]:
        epoch, _, start = line.partition(b" ")
        if not (epoch.isdigit() and start.isdigit()):
            return ()
        entries.append((int(epoch), int(start)))
    return tuple(entries)

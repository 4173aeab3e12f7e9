"""Recovery: the files of a metadata log at start, checked against the rules of a sound one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kraftwreck.nodes.consensus.recovered import SnapshotFile
from kraftwreck.nodes.log.batch import parse_header
from kraftwreck.nodes.log.epochs import EpochCheckpoint
from kraftwreck.nodes.log.layout import inside, is_stale, segment_name, segment_offsets
from kraftwreck.nodes.log.media import Media
from kraftwreck.nodes.log.scan import scan_segment
from kraftwreck.nodes.log.snapshot_files import SnapshotFiles
from kraftwreck.nodes.log.snapshots import SnapshotCorruptError


class LogCorruptError(Exception):
    """The log or a snapshot has damage that no crash can cause; the node must not start.

    The text names the file and, for damaged bytes, where in it.
    """


@dataclass(slots=True)
class Found:
    """The log found: ``batches`` in ``segments`` (base offsets), up to ``end_offset``.

    ``last_length`` are the sound bytes of the last segment; the rest is to be cut if ``torn``.
    ``restart`` (offset, epoch) is where the log is to start again, emptied. ``epoch_before`` is
    that of the record before the first, None if unknown.
    """

    segments: list[int]
    epoch_before: int | None
    batches: list[bytes] = field(default_factory=list)
    end_offset: int = 0
    last_length: int = 0
    torn: bool = False
    restart: tuple[int, int] | None = None
    snapshots: list[SnapshotFile] = field(default_factory=list)
    latest: bytes = b""


def find_log(
    directory: Path, media: Media, snapshots: SnapshotFiles, epochs: EpochCheckpoint
) -> Found:
    """Remove stale files, read segments and snapshots, and return what to do.

    ``snapshots`` is brought up to date, ``epochs`` filled from the batches. Raises
    :class:`LogCorruptError` and OSError.
    """
    names = media.names(directory)
    for name in filter(is_stale, names):
        media.unlink(directory / name)
    snapshots.find()
    latest = snapshots.ids[-1] if snapshots.ids else (0, 0)
    # A log without any segment was about to begin at the latest snapshot.
    segments = segment_offsets(names) or [latest[0]]
    start = segments[0]
    if start > max((end for end, _ in snapshots.ids), default=0):
        raise LogCorruptError(
            f"{directory}: the log starts at {start} and no snapshot reaches up to there; "
            "restore the missing files or remove the node's directory and format it again"
        )
    # Those below are about to be removed and are never read.
    snapshots.remove_below(start)
    before = dict(snapshots.ids) | ({0: 0} if start == 0 else {})
    found = Found(segments, before.get(start), end_offset=start)
    _read_segments(directory, media, epochs, found)
    _read_snapshots(snapshots, found)
    last_epoch = epochs.entries[-1][0] if epochs.entries else found.epoch_before or 0
    newer = (latest[1], latest[0]) > (last_epoch, found.end_offset)
    if newer or latest[0] > found.end_offset:
        # The process crashed between a snapshot's end and its installation. The log's records are
        # below the snapshot; those of a newer epoch were never committed.
        found.restart = latest
    if found.restart is not None:
        found.snapshots = [file for file in found.snapshots if file.end_offset >= latest[0]]
    return found


def _read_segments(directory: Path, media: Media, epochs: EpochCheckpoint, found: Found) -> None:
    noted = epochs.read()
    epochs.entries = []
    last_epoch = found.epoch_before
    present = set(media.names(directory))
    for base_offset in found.segments:
        path = inside(directory, segment_name(base_offset))
        if base_offset != found.end_offset:
            raise LogCorruptError(f"{path}: the segment before ends at {found.end_offset}")
        data = media.read(path) if path.name in present else b""
        scan = scan_segment(data, base_offset, last_epoch, noted)
        if scan.defect is not None:
            if not scan.torn or base_offset != found.segments[-1]:
                raise LogCorruptError(f"{path}, byte {scan.length}: {scan.defect}")
            found.torn = True
        for batch in scan.batches:
            header = parse_header(batch)
            epochs.note(header.epoch, header.base_offset)
        found.batches += scan.batches
        found.end_offset = scan.end_offset
        found.last_length = scan.length
        last_epoch = scan.last_epoch


def _read_snapshots(snapshots: SnapshotFiles, found: Found) -> None:
    for identity in snapshots.ids:
        try:
            file, found.latest = snapshots.load(identity)
        except SnapshotCorruptError as error:
            hint = _what_to_do(identity, snapshots.ids, found)
            raise LogCorruptError(f"{error}; {hint}") from error
        found.snapshots.append(file)


def _what_to_do(damaged: tuple[int, int], ids: Sequence[tuple[int, int]], found: Found) -> str:
    """Return the operator's remedy for a damaged snapshot.

    The node can do without it if another snapshot and the log replace it.
    """
    others = [end for end, _ in ids if end != damaged[0]]
    if found.segments[0] == 0:
        others.append(0)
    if any(found.segments[0] <= end <= found.end_offset for end in others) and (
        damaged[0] <= found.end_offset and damaged[0] > 0
    ):
        return "the log holds the same records: remove the file, and the node starts without loss"
    return "restore the file, or remove the node's directory and format it again"

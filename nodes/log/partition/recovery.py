"""A user partition's log at start: its segments as found, and those that a crash left checked.

Segments that end at or below the recovery point were made durable and are taken as they are; so
are all after an orderly stop. In the others every batch is checked. The log ends before the first
that is not sound, as in Apache Kafka: nothing after it was durable.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from kraftwreck.nodes.log.batch import BatchError
from kraftwreck.nodes.log.epochs import EpochCheckpoint
from kraftwreck.nodes.log.layout import is_stale, segment_name, segment_offsets
from kraftwreck.nodes.log.media import Media
from kraftwreck.nodes.log.partition.names import SEGMENT_FILES, numbered
from kraftwreck.nodes.log.partition.segment import Segment
from kraftwreck.nodes.log.partition.settings import LogSettings
from kraftwreck.nodes.log.recovery import LogCorruptError


@dataclass(slots=True)
class Opened:
    """The segments found; ``checked`` counts those whose batches were all checked.

    ``cut`` says why the log ends where it ends, None if no byte was removed.
    """

    segments: list[Segment] = field(default_factory=list)
    checked: int = 0
    cut: str | None = None


def open_segments(
    directory: Path,
    settings: LogSettings,
    media: Media,
    epochs: EpochCheckpoint,
    start_offset: int,
    recovery_point: int | None,
) -> Opened:
    """Remove stale files, and segments below ``start_offset``; open or create the others, and fill
    ``epochs``.

    ``recovery_point`` is None after an orderly stop. Raises :class:`LogCorruptError` for damage
    where everything was durable, and OSError.
    """
    names = media.names(directory)
    for name in filter(is_stale, names):
        media.unlink(directory / name)
    bases = segment_offsets(names) or [start_offset]
    # A process that died may not have removed all that lies below the start. It need not be whole.
    gone = [base for base, following in pairwise(bases) if following <= start_offset]
    remove_segments(directory, gone, media)
    bases = bases[len(gone) :]
    opened = Opened()
    noted = sorted((epoch, start) for start, epoch in epochs.read().items())
    found: list[tuple[int, int]] = []
    for base, following in zip(bases, [*bases[1:], None], strict=True):
        segment = Segment(directory, base, settings.index_interval_bytes, media)
        path = directory / segment_name(base)
        size = media.size(path) if path.name in names else 0
        whole = following is not None and following <= (recovery_point or 0)
        if recovery_point is not None and not whole:
            if _is_gap(opened.segments, base, settings):
                opened.cut = f"{path.name}: the segment before ends elsewhere"
                break
            of_segment, defect = segment.recover(size)
            found += of_segment
            opened.checked += 1
            opened.segments.append(segment)
            if defect is not None:
                opened.cut = f"{path.name}, byte {segment.length}: {defect}"
                break
            continue
        if _is_gap(opened.segments, base, settings):
            raise LogCorruptError(f"{path}: the segment before ends at another offset")
        try:
            segment.load(size)
        except BatchError as error:
            raise LogCorruptError(f"{path}: {error}") from error
        opened.segments.append(segment)
    last = opened.segments[-1]
    if last.end_offset < (recovery_point or 0) and start_offset <= last.end_offset:
        reason = opened.cut or f"it ends at {last.end_offset}"
        raise LogCorruptError(f"{directory}: all below {recovery_point} was durable, but {reason}")
    if opened.cut is not None:
        last.cut_file(last.length)
    kept = {segment.base_offset for segment in opened.segments}
    remove_segments(directory, [base for base in reversed(bases) if base not in kept], media)
    _fill(epochs, noted, found, opened)
    return opened


def remove_segments(directory: Path, bases: list[int], media: Media) -> None:
    """Remove segments, in this order, with their indexes; durably. Raises OSError."""
    for base in bases:
        media.unlink(directory / segment_name(base))
        for suffix in SEGMENT_FILES:
            media.unlink(directory / numbered(base, suffix))
    if bases:
        media.fsync_directory(directory)


def _is_gap(before: list[Segment], base: int, settings: LogSettings) -> bool:
    if not before:
        return False
    end = before[-1].end_offset
    return base < end or (base > end and not settings.gaps)


def _fill(
    epochs: EpochCheckpoint,
    noted: list[tuple[int, int]],
    found: list[tuple[int, int]],
    opened: Opened,
) -> None:
    """Let ``epochs`` be those ``noted`` below the checked segments, then those ``found`` in them.

    Without a file all headers are read. An epoch that began at the log's end, with no record yet,
    is kept.
    """
    end = opened.segments[-1].end_offset
    trusted = opened.segments[: len(opened.segments) - opened.checked]
    boundary = trusted[-1].end_offset if trusted else opened.segments[0].base_offset
    epochs.entries = []
    if trusted and not noted:
        for segment in trusted:
            for _, header in segment.batches(segment.base_offset):
                epochs.note(header.epoch, header.base_offset)
    for epoch, start in noted:
        if start < boundary:
            epochs.note(epoch, start)
    for epoch, start in found:
        epochs.note(epoch, start)
    for epoch, start in noted:
        if start == end and start >= boundary:
            epochs.note(epoch, start)

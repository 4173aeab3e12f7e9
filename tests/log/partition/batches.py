"""Batches of user records, and logs of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kraftwreck.nodes.draw import draw_below
from kraftwreck.nodes.log.batch import encode_batch, parse_header
from kraftwreck.nodes.log.media import PLAIN, Media
from kraftwreck.nodes.log.partition.partition_log import PartitionLog
from kraftwreck.nodes.log.partition.settings import LogSettings

SMALL = LogSettings(segment_bytes=2000, index_interval_bytes=200)
TIME = 1_700_000_000_000
_opened: list[PartitionLog] = []


def data_batch(offset: int, epoch: int = 1, count: int = 0, time_ms: int | None = None) -> bytes:
    """One batch of ``count`` records, of one to three if 0, the same for the same arguments."""
    count = count or 1 + draw_below(3, 0, offset, epoch)
    size = draw_below(90, 1, offset, epoch)
    records: list[tuple[bytes | None, bytes | None]] = [(None, b"%d:" % offset + b"x" * size)]
    return encode_batch(
        offset, epoch, TIME + offset if time_ms is None else time_ms, records * count, False
    )


def fill(log: PartitionLog, batches: int, epoch: int = 1) -> list[bytes]:
    """Append ``batches`` one by one; return them."""
    written = []
    for _ in range(batches):
        batch = data_batch(log.end_offset, epoch)
        log.append(batch, [parse_header(batch)])
        written.append(batch)
    return written


def open_log(
    directory: Path, settings: LogSettings = SMALL, media: Media = PLAIN, **more: Any
) -> PartitionLog:
    """Open a log without producers, until :func:`close_logs`."""
    log = PartitionLog(directory, lambda: (), settings, media=media, **more)
    _opened.append(log)
    return log


def close_logs() -> None:
    """Close all logs that were opened here: a process has a limited number of descriptors."""
    while _opened:
        _opened.pop().discard()


def contents(log: PartitionLog, media: Media = PLAIN) -> bytes:
    """All bytes of the log, by reads from its start on."""
    found, offset = b"", log.start_offset
    while offset < log.end_offset:
        part = log.read(offset, log.end_offset, 700)
        assert part is not None
        data = media.read_at(part.path, part.position, part.length)
        while data:
            try:
                header = parse_header(data)
            except ValueError:
                break
            if header.length > len(data):
                break
            found += data[: header.length]
            data = data[header.length :]
            offset = header.last_offset + 1
    return found

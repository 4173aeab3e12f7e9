"""Measures how fast the log writes batches and snapshots, on the disk of the temporary directory.

    python -m bench.log [DIRECTORY]

Appends are batches of 10 records of 100 bytes: each flushed, flushed 20 at a time, and not at all.
A snapshot has 200,000 records of 60 bytes. It is written in pieces of 64 KiB and finished, read
back and verified whole, and read in pieces of 1 MiB, the size that FetchSnapshot requests.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from kraftwreck.nodes.log.batch import encode_batch
from kraftwreck.nodes.log.files import MetadataLogFiles
from kraftwreck.nodes.log.media import PLAIN, Media
from kraftwreck.nodes.log.snapshots import data_batch, footer_batch, header_batch
from kraftwreck.nodes.log.write_loss import WriteLossMedia

APPENDS = 2000
RECORDS = 200_000
PIECE = 64 << 10


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def appends(directory: Path, flush_every: int, media: Media) -> float:
    """Return batches per second."""
    log = MetadataLogFiles(directory, media=media)
    log.recover()
    records: list[tuple[bytes | None, bytes | None]] = [(None, b"x" * 100)] * 10
    batches = [encode_batch(n * 10, 1, 0, records, n == 0) for n in range(APPENDS)]

    def work() -> None:
        for number, batch in enumerate(batches, 1):
            log.append(batch)
            if flush_every and number % flush_every == 0:
                log.flush()

    seconds = timed(work)
    log.close()
    return APPENDS / seconds


def snapshot() -> bytes:
    """Return the content of a snapshot."""
    parts = [header_batch(1, 0, 0)]
    for base in range(1, RECORDS, 500):
        parts.append(data_batch(base, 1, 0, [b"x" * 60] * 500))
    parts.append(footer_batch(1 + RECORDS, 1, 0))
    return b"".join(parts)


def snapshots(directory: Path) -> None:
    """Print the rates of writing and reading a snapshot."""
    content = snapshot()
    mb = len(content) / 1e6
    log = MetadataLogFiles(directory)
    log.recover()
    files = log.snapshots

    def write() -> None:
        for position in range(0, len(content), PIECE):
            files.append(RECORDS, 1, position, content[position : position + PIECE])
        files.finish(RECORDS, 1)

    def serve() -> None:
        for position in range(0, len(content), 1 << 20):
            files.read(RECORDS, 1, position, 1 << 20)

    print(f"snapshot of {mb:.1f} MB: written at {mb / timed(write):.0f} MB/s", end="")
    print(f", read and verified at {mb / timed(lambda: files.load((RECORDS, 1))):.0f} MB/s", end="")
    print(f", served at {mb / timed(serve):.0f} MB/s")
    log.close()


def fsyncs(directory: Path) -> float:
    """Return how many small writes a second can be made durable, the upper bound of flushes."""
    fd = os.open(directory / "fsync", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    count = 300

    def work() -> None:
        for _ in range(count):
            os.write(fd, b"x" * 1200)
            os.fsync(fd)

    seconds = timed(work)
    os.close(fd)
    return count / seconds


def main() -> None:
    """Print the rates."""
    parent = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory(dir=parent) as name:
        root = Path(name)
        print(f"write and fsync of 1200 bytes: {fsyncs(root):.0f} a second")
        for text, flush_every in (("each flushed", 1), ("20 a flush", 20), ("not flushed", 0)):
            for mode, media in (("plain", PLAIN), ("write-loss", WriteLossMedia())):
                directory = root / f"{mode}-{flush_every}"
                directory.mkdir()
                rate = appends(directory, flush_every, media)
                print(f"appends of 10 records, {text}, {mode}: {rate:.0f} batches a second")
        (root / "snapshots").mkdir()
        snapshots(root / "snapshots")


if __name__ == "__main__":
    main()

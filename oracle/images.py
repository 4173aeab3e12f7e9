"""The metadata image in a controller's files, of either kind, as we read them."""

from __future__ import annotations

from pathlib import Path

from kraftwreck.nodes.log.batch import parse_header, split_batches
from kraftwreck.nodes.log.snapshots import parse_snapshot_name, verify
from kraftwreck.nodes.metadata.image import MetadataImage
from kraftwreck.nodes.metadata.loader import Loader
from kraftwreck.oracle.release import OracleError


def snapshots(log: Path) -> dict[int, Path]:
    """Return the complete snapshots in a log's directory by end offset; no bootstrap snapshot."""
    found = {}
    for path in sorted(log.glob("*.checkpoint")):
        identity = parse_snapshot_name(path.name)
        if identity is not None and identity[0] > 0:
            found[identity[0]] = path
    return found


def snapshot_image(path: Path) -> MetadataImage:
    """Load a snapshot. Raises SnapshotCorruptError or FatalError."""
    identity = parse_snapshot_name(path.name)
    if identity is None:
        raise OracleError(f"{path}: not the name of a snapshot")
    content = path.read_bytes()
    verify(content, str(path))
    loader = Loader(MetadataImage())
    loader.load(content, *identity)
    _finish(loader)
    return loader.image


def log_image(log: Path, end: int, start: Path | None = None) -> MetadataImage:
    """Load snapshot ``start`` (None: begin empty), then the log from there up to ``end``.

    Raises :class:`OracleError` when a batch is missing in between.
    """
    image = MetadataImage() if start is None else snapshot_image(start)
    loader = Loader(image)
    for segment in sorted(log.glob("*.log")):
        for batch in split_batches(segment.read_bytes()):
            header = parse_header(batch)
            if image.committed_offset < header.last_offset < end:
                loader.committed(batch)
                _finish(loader)
    if image.committed_offset != end - 1:
        raise OracleError(f"{log} ends at {image.committed_offset + 1}, no batch ends at {end}")
    return image


def first_offset(log: Path) -> int:
    """Return where the log's segments begin, 0 while it has none."""
    return min((int(path.stem) for path in log.glob("*.log")), default=0)


def _finish(loader: Loader) -> None:
    while loader.work():
        pass

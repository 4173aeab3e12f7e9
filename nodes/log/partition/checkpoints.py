"""Small text files beside the partitions: an offset of each of them, and a partition's topic id.

``replication-offset-checkpoint`` has high watermarks, ``recovery-point-offset-checkpoint`` offsets
below which all is durable, ``log-start-offset-checkpoint`` log starts that lie inside of a segment.
A crash leaves the old file or the new one; anything else is damage and is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kraftwreck.nodes.log.media import Media
from kraftwreck.nodes.log.uuids import from_text, to_text

HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"

TopicPartition = tuple[str, int]


class CheckpointError(ValueError):
    """A file cannot be read; the text names it and gives the reason."""


def write_offsets(path: Path, offsets: Mapping[TopicPartition, int], media: Media) -> None:
    """Replace the file durably. Raises OSError with the file unchanged."""
    lines = [f"{topic} {partition} {at}" for (topic, partition), at in sorted(offsets.items())]
    media.replace(path, "\n".join(("0", str(len(lines)), *lines, "")).encode())


def read_offsets(path: Path, media: Media) -> dict[TopicPartition, int]:
    """Return the offsets, none if there is no file.

    Raises :class:`CheckpointError` unless the file is whole, and OSError.
    """
    try:
        data = media.read(path)
    except FileNotFoundError:
        return {}
    try:
        version, count, *lines = data.decode("ascii").split("\n")
        if version != "0":
            raise ValueError(f"version {version!r}, not '0'")
        if lines.pop() != "" or len(lines) != int(count):
            raise ValueError(f"{count} lines said, {len(lines)} found")
        offsets = {}
        for line in lines:
            topic, partition, offset = line.split(" ")
            offsets[topic, int(partition)] = int(offset)
        if len(offsets) != len(lines) or min(offsets.values(), default=0) < 0:
            raise ValueError("a partition twice, or an offset below 0")
    except (ValueError, IndexError) as error:
        raise CheckpointError(f"{path}: {error}") from error
    return offsets


def write_topic_id(directory: Path, topic_id: bytes, media: Media) -> None:
    """Store the topic id of the partition in ``directory``, durably. Raises OSError."""
    text = f"version: 0\ntopic_id: {to_text(topic_id)}\n"
    media.replace(directory / PARTITION_METADATA, text.encode())


def read_topic_id(directory: Path, media: Media) -> bytes | None:
    """Return the topic id of the partition in ``directory``, None if it has no such file.

    Raises :class:`CheckpointError` unless the file is whole, and OSError.
    """
    path = directory / PARTITION_METADATA
    try:
        data = media.read(path)
    except FileNotFoundError:
        return None
    try:
        version, topic_id = data.decode("ascii").removesuffix("\n").split("\n")
        if version != "version: 0" or not topic_id.startswith("topic_id: "):
            raise ValueError(f"not version and topic id: {data[:80]!r}")
        return from_text(topic_id.removeprefix("topic_id: "))
    except ValueError as error:
        raise CheckpointError(f"{path}: {error}") from error

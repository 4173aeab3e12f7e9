"""The log directory of a broker: a folder for each partition, and the checkpoints of offsets.

A partition has the folder ``<topic>-<number>`` with its topic id in ``partition.metadata``, as in
Kafka. The file with the id is the first one written and the first one removed, so a folder without
it, or with the id of another topic, holds nothing of use.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from threading import Lock

from kraftwreck.nodes.log.media import NO_ROOM, Media
from kraftwreck.nodes.log.partition.checkpoints import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    TopicPartition,
    read_offsets,
    read_topic_id,
    write_offsets,
    write_topic_id,
)
from kraftwreck.nodes.replication.headers import PartitionKey


class LogDirectory:
    """The folders below ``path``, and the offsets that its checkpoints have.

    All methods raise OSError. The constructor raises CheckpointError, and so does each method that
    reads the id of a topic.
    """

    def __init__(self, path: Path, media: Media) -> None:
        self._path = path
        self._media = media
        self._locks = {name: Lock() for name in (HIGH_WATERMARKS, RECOVERY_POINTS, LOG_STARTS)}
        self.high_watermarks = self._read(HIGH_WATERMARKS)
        self.recovery_points = self._read(RECOVERY_POINTS)
        self.log_starts = self._read(LOG_STARTS)

    def _read(self, name: str) -> dict[TopicPartition, int]:
        return read_offsets(self._path / name, self._media)

    # --- folders ----------------------------------------------------------------------------

    def folder(self, name: TopicPartition) -> Path:
        """Return the folder of a partition, which may not exist."""
        return self._path / f"{name[0]}-{name[1]}"

    def has(self, topic_id: bytes, name: TopicPartition) -> bool:
        """Whether the folder of a partition belongs to the topic with this id."""
        return read_topic_id(self.folder(name), self._media) == topic_id

    def prepare(self, name: TopicPartition, topic_id: bytes) -> None:
        """Let the folder exist with the id of the topic; what another topic left there goes."""
        folder = self.folder(name)
        self._media.make_directory(folder)
        if read_topic_id(folder, self._media) == topic_id:
            return
        self.empty(name)
        write_topic_id(folder, topic_id, self._media)

    def empty(self, name: TopicPartition) -> None:
        """Forget the offsets of a partition, durably, and remove its files, that of its id first.

        The offsets go before the files: they must never be those of another log.
        """
        for file, offsets in (
            (RECOVERY_POINTS, self.recovery_points),
            (LOG_STARTS, self.log_starts),
            (HIGH_WATERMARKS, self.high_watermarks),
        ):
            if offsets.pop(name, None) is not None:
                self._write(file, offsets)
        folder = self.folder(name)
        self._media.unlink(folder / PARTITION_METADATA)
        self._media.fsync_directory(folder)
        for entry in self._media.names(folder):
            self._media.unlink(folder / entry)
        self._media.fsync_directory(folder)

    def remove(self, topic_id: bytes, name: TopicPartition) -> None:
        """Remove the files of a partition, unless a new topic of the same name has its folder."""
        if self.has(topic_id, name):
            self.empty(name)

    def remove_others(self, keys: Collection[PartitionKey]) -> None:
        """Remove the files of all partitions that are not among ``keys``."""
        for folder in self._media.names(self._path):
            topic, _, number = folder.rpartition("-")
            if not topic or not (number.isascii() and number.isdecimal()):
                continue
            topic_id = read_topic_id(self._path / folder, self._media)
            if topic_id is not None and (topic_id, int(number)) not in keys:
                self.empty((topic, int(number)))

    # --- checkpoints ------------------------------------------------------------------------

    def set_log_start(self, name: TopicPartition, offset: int) -> None:
        """Let a log begin at ``offset``, durably."""
        if self.log_starts.get(name, 0) != offset:
            self.log_starts[name] = offset
            self._write(LOG_STARTS, self.log_starts)

    def lower_recovery_point(self, name: TopicPartition, offset: int) -> None:
        """Let the stored recovery point be at most ``offset``, durably."""
        if self.recovery_points.get(name, 0) > offset:
            self.recovery_points[name] = offset
            self._write(RECOVERY_POINTS, self.recovery_points)

    def lower_high_watermark(self, name: TopicPartition, offset: int) -> None:
        """Let the stored high watermark be at most ``offset``, durably if the disk has room.

        A log that is shorter has lost committed records. Others that come there are not committed.
        """
        if self.high_watermarks.get(name, 0) > offset:
            self.high_watermarks[name] = offset
            self.write_high_watermarks()

    def write_recovery_points(self) -> None:
        """Write the recovery points, unless the disk is full: the old ones are true, too."""
        self._write_if_room(RECOVERY_POINTS, self.recovery_points)

    def write_high_watermarks(self) -> None:
        """Write the high watermarks, unless the disk is full: the old ones are true, too."""
        self._write_if_room(HIGH_WATERMARKS, self.high_watermarks)

    def close(self) -> None:
        """Write the recovery points of logs that were made durable up to their ends.

        And the high watermarks, whose last write may not have begun yet.
        """
        self.write_high_watermarks()
        self._write(RECOVERY_POINTS, self.recovery_points)

    def _write(self, name: str, offsets: dict[TopicPartition, int]) -> None:
        """Replace a checkpoint by what the offsets are once no other thread writes it."""
        with self._locks[name]:
            write_offsets(self._path / name, offsets.copy(), self._media)

    def _write_if_room(self, name: str, offsets: dict[TopicPartition, int]) -> None:
        try:
            self._write(name, offsets)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise

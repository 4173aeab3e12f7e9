"""DescribeLogDirs (35) and AlterReplicaLogDirs (34): what the one data directory holds.

They are about this process's disk, so they are answered here, without the node.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from kraftwreck.nodes.metadata.image_values import ImageView
from kraftwreck.nodes.protocol.errors import (
    LOG_DIR_NOT_FOUND,
    NONE,
    NOT_LEADER_OR_FOLLOWER,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from kraftwreck.nodes.replication.headers import PartitionKey

Body = dict[str, Any]

DESCRIBE: Final = "DescribeLogDirs"
ALTER: Final = "AlterReplicaLogDirs"
APIS: Final = frozenset((DESCRIBE, ALTER))


class LogDirs:
    """The data directory of ``broker``; ``sizes`` returns the bytes of each log in it."""

    def __init__(
        self,
        broker: int,
        directory: Path,
        image: Callable[[], ImageView],
        sizes: Callable[[], Mapping[PartitionKey, int]],
    ) -> None:
        self._broker = broker
        self._directory = directory
        self._path = str(directory.absolute())
        self._image, self._sizes = image, sizes

    def body(self, api: str, request: Body) -> Body:
        """Return the answer to one of :data:`APIS`."""
        return self._describe(request) if api == DESCRIBE else self._alter(request)

    def _describe(self, request: Body) -> Body:
        image = self._image()
        wanted: set[tuple[str, int]] | None = None
        if request["topics"] is not None:
            wanted = {(t["topic"], number) for t in request["topics"] for number in t["partitions"]}
        topics: dict[str, list[Body]] = {}
        for (topic_id, number), size in sorted(self._sizes().items()):
            name = image.names.get(topic_id)
            if name is None or (wanted is not None and (name, number) not in wanted):
                continue
            part = {"partition_index": number, "partition_size": size, "offset_lag": 0}
            topics.setdefault(name, []).append(part | {"is_future_key": False})
        room = shutil.disk_usage(self._directory)
        result = {
            "error_code": NONE,
            "log_dir": self._path,
            "topics": [{"name": name, "partitions": parts} for name, parts in topics.items()],
            "total_bytes": room.total,
            "usable_bytes": room.free,
            "is_cordoned": False,
        }
        return {"throttle_time_ms": 0, "error_code": NONE, "results": [result]}

    def _alter(self, request: Body) -> Body:
        """A replica of this broker has been moved, also if its log will only now be made."""
        found: dict[str, list[Body]] = {}
        for directory in request["dirs"]:
            for topic in directory["topics"]:
                for number in topic["partitions"]:
                    code = LOG_DIR_NOT_FOUND
                    if directory["path"] == self._path:
                        code = self._moved(topic["name"], number)
                    entry = {"partition_index": number, "error_code": code}
                    found.setdefault(topic["name"], []).append(entry)
        results = [{"topic_name": name, "partitions": parts} for name, parts in found.items()]
        return {"throttle_time_ms": 0, "results": results}

    def _moved(self, name: str, number: int) -> int:
        image = self._image()
        topic = image.topics.get(name)
        partition = None if topic is None else image.partitions.get((topic.topic_id, number))
        if partition is None:
            return UNKNOWN_TOPIC_OR_PARTITION
        return NONE if self._broker in partition.replicas else NOT_LEADER_OR_FOLLOWER

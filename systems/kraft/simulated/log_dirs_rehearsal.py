"""Asks brokers for their log directory, as no client of the simulator does (F20).

A broker describes the logs that it has, with the bytes of their segments. It moves none, since it
has one directory: a request to move a replica says whether the replica is there already.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.nodes.metadata.image_values import ImageView
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.protocol.errors import (
    LOG_DIR_NOT_FOUND,
    NONE,
    NOT_LEADER_OR_FOLLOWER,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from kraftwreck.nodes.replication.headers import PartitionKey
from kraftwreck.nodes.server.log_dirs import ALTER, DESCRIBE, LogDirs
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.data_disk import DataDisk
from kraftwreck.systems.kraft.simulated.record_logs import replicas_on

DIRECTORY: Final = Path("/")
"""Any directory: only its room is read."""
ELSEWHERE: Final = "/elsewhere"
LEAST: Final = 2
"""Logs of the broker that is asked."""
UNKNOWN: Final = "unknown-topic"
STRANGER: Final = -2
"""A broker without replicas: in most runs each one has all of them."""
Sizes = Mapping[tuple[str, int], int]
"""Bytes by topic and partition."""


class LogDirsRehearsal:
    """Asks the first broker of ``world`` that has written to enough logs, once."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._waits = True
        world.on_emit.append(self._on_emit)

    @rule(
        "F20",
        "LogDirsDescribed",
        "A broker describes the logs that a client asks for, all if it names none, with the bytes "
        "of their segments. A request to move a replica fails if the broker has none, or has no "
        "such directory.",
        simulated=True,
    )
    def _on_emit(self, host: Host) -> None:
        node, disk = host.node, host.disk
        if not self._waits or not isinstance(node, Node) or not isinstance(disk, DataDisk):
            return
        logs = [key for key in replicas_on(host) if disk.logs.extents(key)]
        if len(logs) < LEAST or not all(disk.logs.end_of(key) for key in logs[:LEAST]):
            return
        self._waits = False
        image = node.image.stable
        sizes = {
            key: sum(extent.length for extent in disk.logs.extents(key))
            for key in disk.logs.sizes()
        }
        for own in (host.id, STRANGER):
            asked = LogDirs(own, DIRECTORY, lambda: image, disk.logs.sizes)
            for wrong in wrong_answers(asked, own, image, sizes):
                self._failures.add("F20", self._world.now, f"{host.name} {wrong}")


def wrong_answers(
    asked: LogDirs, own: int, image: ImageView, sizes: Mapping[PartitionKey, int]
) -> Iterator[str]:
    """Yield the wrong answers of the broker ``own``, whose logs have these ``sizes``."""
    names = image.names
    logs = {(names[key[0]], key[1]): size for key, size in sizes.items() if key[0] in names}
    some = dict(list(logs.items())[:1])
    for topics, right in ((None, logs), (_named(some), some), (_named({(UNKNOWN, 0): 0}), {})):
        (result,) = asked.body(DESCRIBE, {"topics": topics})["results"]
        found = {
            (topic["name"], part["partition_index"]): part["partition_size"]
            for topic in result["topics"]
            for part in topic["partitions"]
        }
        if (result["error_code"], found) != (NONE, right):
            yield f"would describe the logs {found}, not {right}, if asked for {topics}"
    at = str(DIRECTORY.absolute())
    for key, partition in sorted(image.partitions.items()):
        there = NONE if own in partition.replicas else NOT_LEADER_OR_FOLLOWER
        wanted = names[key[0]], key[1]
        yield from _wrong_move(asked, at, wanted, there)
        yield from _wrong_move(asked, ELSEWHERE, wanted, LOG_DIR_NOT_FOUND)
    yield from _wrong_move(asked, at, (UNKNOWN, 0), UNKNOWN_TOPIC_OR_PARTITION)


def _wrong_move(asked: LogDirs, path: str, log: tuple[str, int], right: int) -> Iterator[str]:
    name, number = log
    topics = [{"name": name, "partitions": [number]}]
    body: dict[str, Any] = asked.body(ALTER, {"dirs": [{"path": path, "topics": topics}]})
    found = [
        (topic["topic_name"], part["partition_index"], part["error_code"])
        for topic in body["results"]
        for part in topic["partitions"]
    ]
    if found != [(name, number, right)]:
        yield f"would answer {found} to a move of {name}-{number} to {path}, not {right}"


def _named(logs: Sizes) -> list[dict[str, Any]]:
    return [{"topic": name, "partitions": [number]} for name, number in logs]

"""The data directory of a broker, described to clients."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kraftwreck.nodes.metadata.image_values import ImageView
from kraftwreck.nodes.protocol.codec import decode, encode
from kraftwreck.nodes.server.log_dirs import ALTER, DESCRIBE, LogDirs

A, B, GONE = b"a" * 16, b"b" * 16, b"g" * 16
MOVED, UNKNOWN_TOPIC, ELSEWHERE, NO_DIRECTORY = 0, 3, 6, 57


@pytest.fixture
def logs(tmp_path: Path) -> LogDirs:
    topics = {
        "a": SimpleNamespace(topic_id=A, partitions=3),
        "b": SimpleNamespace(topic_id=B, partitions=1),
    }
    replicas = {(A, 0): (1,), (A, 1): (2, 3), (A, 2): (2, 1), (B, 0): (1,)}
    partitions = {key: SimpleNamespace(replicas=each) for key, each in replicas.items()}
    image = SimpleNamespace(topics=topics, names={A: "a", B: "b"}, partitions=partitions)
    sizes = {(A, 0): 10, (A, 2): 30, (GONE, 0): 5}
    return LogDirs(1, tmp_path, lambda: cast(ImageView, image), lambda: sizes)


def described(logs: LogDirs, version: int, topics: Any) -> dict[str, Any]:
    body = logs.body(DESCRIBE, {"topics": topics})
    found: dict[str, Any] = decode(
        f"{DESCRIBE}Response", version, encode(f"{DESCRIBE}Response", version, body)
    )[0]
    assert found.get("error_code", 0) == 0
    [directory] = found["results"]
    return cast("dict[str, Any]", directory)


@pytest.mark.parametrize("version", range(1, 6))
def test_a_directory_has_the_logs_of_topics_that_exist(
    logs: LogDirs, tmp_path: Path, version: int
) -> None:
    found = described(logs, version, None)
    assert (found["log_dir"], found["error_code"]) == (str(tmp_path), 0)
    sizes = {
        (topic["name"], part["partition_index"]): part["partition_size"]
        for topic in found["topics"]
        for part in topic["partitions"]
    }
    assert sizes == {("a", 0): 10, ("a", 2): 30}
    if version >= 4:
        assert 0 <= found["usable_bytes"] <= found["total_bytes"]
    assert not found.get("is_cordoned", False)


def test_only_named_partitions_are_described(logs: LogDirs) -> None:
    wanted = [{"topic": "a", "partitions": [0, 1]}, {"topic": "missing", "partitions": [0]}]
    [topic] = described(logs, 4, wanted)["topics"]
    assert [part["partition_index"] for part in topic["partitions"]] == [0]
    assert described(logs, 4, [])["topics"] == []


def test_a_replica_can_only_stay_where_it_is(logs: LogDirs, tmp_path: Path) -> None:
    """Broker 1 has a replica of b, whose log is not made yet."""
    topics = [{"name": "a", "partitions": [0, 1, 3]}, {"name": "missing", "partitions": [0]}]
    topics += [{"name": "b", "partitions": [0]}]
    here = {"path": str(tmp_path), "topics": topics}
    there = {"path": "/elsewhere", "topics": [{"name": "b", "partitions": [0]}]}
    answer = logs.body(ALTER, {"dirs": [here, there]})
    assert encode(f"{ALTER}Response", 2, answer)
    assert [
        (topic["topic_name"], [part["error_code"] for part in topic["partitions"]])
        for topic in answer["results"]
    ] == [
        ("a", [MOVED, ELSEWHERE, UNKNOWN_TOPIC]),
        ("missing", [UNKNOWN_TOPIC]),
        ("b", [MOVED, NO_DIRECTORY]),
    ]

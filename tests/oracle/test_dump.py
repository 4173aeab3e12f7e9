"""Apache Kafka's DumpLogSegments and metadata shell read what our controllers write as we do."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kraftwreck.nodes.log.uuids import to_text
from kraftwreck.oracle.dump import difference, kafka_dump, our_dump, re_encoded
from kraftwreck.oracle.images import snapshot_image
from kraftwreck.oracle.java import Ran
from kraftwreck.oracle.quorum import OURS, Quorum, wait_until
from kraftwreck.oracle.release import OracleError

pytestmark = pytest.mark.oracle
Tool = Callable[..., Ran]
SHELL = "org.apache.kafka.shell.MetadataShell"


@pytest.fixture(scope="module")
def logs(make_quorum: Callable[..., Quorum]) -> list[Path]:
    """Segments and snapshots of three of ours: topics, configs, deletions, two leaders."""
    often = {"metadata.log.max.record.bytes.between.snapshots": 1000}
    quorum = make_quorum(OURS, OURS, OURS, properties=often)
    quorum.start()
    leader = quorum.leader()
    for number in range(5):
        assert quorum.create_topic(f"before-{number}", num_partitions=3) == 0
    assert quorum.create_topic("set", configs=[{"name": "retention.ms", "value": "1234"}]) == 0
    change = {"name": "max.message.bytes", "config_operation": 0, "value": "99999"}
    resource = {"resource_type": 2, "resource_name": "set", "configs": [change]}
    answer = quorum.call(leader, "IncrementalAlterConfigs", 1, {"resources": [resource]})
    assert answer is not None
    assert answer["responses"][0]["error_code"] == 0
    topics = [{"name": "before-0", "topic_id": bytes(16)}]
    answer = quorum.call(leader, "DeleteTopics", 6, {"topics": topics, "timeout_ms": 5000})
    assert answer is not None
    assert answer["responses"][0]["error_code"] == 0
    quorum.kill(leader)
    assert quorum.create_topic("after") == 0
    quorum.close()
    found = [
        path
        for controller in quorum.controllers.values()
        for pattern in ("*.log", "*.checkpoint")
        for path in sorted(controller.log.glob(pattern))
    ]
    assert {path.suffix for path in found} == {".log", ".checkpoint"}
    return found


def test_every_batch_and_record_is_read_as_we_read_it(logs: list[Path]) -> None:
    names: set[str] = set()
    for path in logs:
        data = path.read_bytes()
        ours = our_dump(data)
        assert difference(kafka_dump(path), ours) is None
        assert re_encoded(data) == data
        names |= {record.name for batch in ours for record in batch.records}
    assert names >= {
        "LeaderChange",
        "SnapshotHeader",
        "SnapshotFooter",
        "FeatureLevelRecord",
        "TopicRecord",
        "PartitionRecord",
        "ConfigRecord",
        "RemoveTopicRecord",
        "RegisterControllerRecord",
    }


def test_a_snapshot_is_an_image_in_the_metadata_shell(logs: list[Path], tool: Tool) -> None:
    path = [path for path in logs if path.suffix == ".checkpoint"][-1]
    ours = snapshot_image(path)
    assert ours.topics

    def tree() -> str | None:
        said = tool(SHELL, "--snapshot", str(path), "tree", "/image/topics/byName").stdout
        return said if "PartitionRegistration(" in said else None

    # On a busy machine the shell answers before it has loaded the image.
    lines = [line.strip() for line in wait_until("topics in the shell", tree).splitlines()]
    topics = {line.removesuffix(":") for line in lines if re.fullmatch(r"[a-z]+(-\d)?:", line)}
    assert topics - {"id", "name"} == set(ours.topics)
    assert {to_text(topic.topic_id) for topic in ours.topics.values()} <= set(lines)
    partitions = [line for line in lines if line.startswith("PartitionRegistration(")]
    assert len(partitions) == len(ours.partitions)
    for partition in ours.partitions.values():
        told = f"replicas={list(partition.replicas)}", f"isr={list(partition.isr)}"
        assert any(all(part in line for part in told) for line in partitions), partition


def test_a_damaged_log_is_complained_of(logs: list[Path], tmp_path: Path) -> None:
    damaged = tmp_path / logs[0].name
    shutil.copyfile(logs[0], damaged)
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    with pytest.raises(OracleError):
        kafka_dump(damaged)

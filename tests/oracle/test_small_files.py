"""Apache Kafka reads our quorum-state and meta.properties; it ignores their checksums."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kraftwreck.nodes.log import quorum_state
from kraftwreck.nodes.log.format import format_directory
from kraftwreck.nodes.log.quorum_state import QuorumState
from kraftwreck.nodes.log.uuids import ZERO, from_halves
from kraftwreck.oracle.java import find_java
from kraftwreck.oracle.release import class_path

pytestmark = pytest.mark.oracle

READER = Path(__file__).with_name("SmallFiles.java")
CLUSTER = "kVZ8mbkSQPqA1sGPRxwYkg"
STATES = {
    "static": QuorumState(2, 1, -1, ZERO, (1, 2, 3)),
    "dynamic": QuorumState(3, -1, 2, from_halves(7, 8), (), 1),
}


def test_checksums_are_ignored(apache_kafka: None, tmp_path: Path) -> None:
    for name, state in STATES.items():
        format_directory(tmp_path / name, CLUSTER, 3, from_halves(1 << 40, 8))
        quorum_state.write(tmp_path / name, state)
    command = [find_java(), "-cp", class_path(), str(READER), *(str(tmp_path / n) for n in STATES)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert said.returncode == 0, said.stderr
    static, meta, dynamic, same = said.stdout.splitlines()
    assert static.startswith("Election(epoch=2, leaderId=OptionalInt[1], votedKey=Optional.empty")
    assert "epoch=3" in dynamic
    assert "id=2, directoryId=AAAAAAAAAAcAAAAAAAAACA" in dynamic
    assert meta == same
    assert f"clusterId={CLUSTER}, nodeId=3, directoryId=AAABAAAAAAAAAAAAAAAACA" in meta

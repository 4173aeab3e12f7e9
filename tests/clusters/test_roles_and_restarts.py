"""Restarts of leaders and brokers, versions that run together, and pauses by roles."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from kraftwreck.harness.archive import PROJECT_TREE
from kraftwreck.harness.clusters.netns import NetnsCluster
from kraftwreck.harness.options import RunOptions
from kraftwreck.histories.reading import read_faults
from kraftwreck.nemesis.inject import Injector
from kraftwreck.systems.kraft.client import KafkaClient
from kraftwreck.systems.kraft.remote.environment import RemoteEnvironment
from kraftwreck.systems.kraft.remote.settings import CODE
from kraftwreck.systems.kraft.system import SYSTEM, KraftDeployment
from tests.clusters.whole_run import another_version, assert_valid_and_replayed, carry_out, fault
from tests.waiting import wait_until

pytestmark = pytest.mark.cluster

PATIENCE_S = 60.0


@pytest.mark.whole_run
def test_a_leader_that_shuts_down_hands_over_first(
    netns_possible: None, own_state_directories: Path, tmp_path: Path
) -> None:
    schedule = [
        fault(1, "terminate", "leader", 2),
        fault(4, "terminate", "one", 2, "n5"),
        fault(7, "terminate", "all", 1),
    ]
    options = RunOptions(
        faults=("terminate",),
        time_limit_s=9,
        nodes=3,
        seed=1,
        system_options=("brokers=2",),
        store=tmp_path / "store",
    )
    folder = carry_out(options, schedule)
    assert_valid_and_replayed(folder, 5)
    *ends, last = [e for e in read_faults(folder) if e.phase == "stop"]
    for end in ends:
        (told,) = end.evidence.values()
        assert told["signal"] == "SIGTERM"
    assert set(last.evidence) >= {"n1", "n2", "n3"}
    # What the nodes themselves say: who leads resigns for it, and nobody else is first to know.
    told = {}
    for node in ("n1", "n2", "n3", "n5"):
        text = (folder / "nodes" / node / "trace.jsonl").read_text()
        told[node] = [json.loads(line) for line in text.splitlines()]
    (leader,) = ends[0].targets
    assert "shutdown" in [e["detail"].get("reason") for e in told[leader] if e["kind"] == "resign"]
    lives = [e["detail"]["state"] for e in told["n5"] if e["kind"] == "broker"]
    assert "pending-controlled-shutdown" in lives
    assert sum(e["kind"] == "start" for e in told["n5"]) >= 2
    assert "stop" in [e["kind"] for e in told["n5"]]


def lead(up: KraftDeployment, leaders: dict[int, int]) -> int:
    """Create a topic whose partitions these brokers lead; return the error code."""
    topic = {
        "name": "led",
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": [
            {"partition_index": index, "broker_ids": [broker]} for index, broker in leaders.items()
        ],
        "configs": [],
    }
    client = KafkaClient(*up.deployment.address("n1"), "test")
    body = {"topics": [topic], "timeout_ms": 5000, "validate_only": False}
    answer = client.call("CreateTopics", 7, body, 15_000)
    client.close()
    return int(answer.response["topics"][0]["error_code"])


def stopped_by_roles(env: RemoteEnvironment) -> dict[str, str]:
    """Pause the leader and the busiest broker; return what each host's kernel says of its node."""
    pids = {node: env.deployment.status(node)["pid"] for node in env.nodes}
    injector = Injector(env.offered(), time.monotonic_ns)
    pause = fault(0, "roles-pause", "leader-and-busiest", 1)
    assert injector.start(0, pause).targets == ["n1", "n3"]
    found = {}
    for node, pid in pids.items():
        status = env.deployment.remotes[node].run(["cat", f"/proc/{pid}/stat"]).text
        found[node] = status.rpartition(")")[2].split()[0].replace("R", "S")
    assert injector.stop(0).error is None
    return found


def test_versions_run_together_and_roles_are_known(
    netns_possible: None, own_state_directories: Path, tmp_path: Path
) -> None:
    cluster = NetnsCluster(3)
    options = RunOptions(
        nodes=1,
        system_options=("brokers=2",),
        seed=3,
        faults=("restart",),
        other=another_version(tmp_path),
    )
    try:
        up = SYSTEM.deploy(cluster.up(), options, PROJECT_TREE)
        assert isinstance(up, KraftDeployment)
        env = up.remote
        assert isinstance(env, RemoteEnvironment)
        up.ready(PATIENCE_S)

        def code(node: str) -> str:
            return env.deployment.remotes[node].run(["sha256sum", CODE]).stdout.decode()

        before = code("n2")
        env.stop("n2")
        told = env.upgrade("n2")["n2"]
        env.start("n2")
        up.ready(PATIENCE_S)
        assert before.startswith(told["code_before"])
        assert code("n2").startswith(told["code"])
        assert code("n1") == code("n3") == before
        assert lead(up, {0: 3, 1: 3, 2: 2}) == 0
        wait_until(lambda: env.busiest() == "n3")
        assert stopped_by_roles(env) == {"n1": "T", "n2": "S", "n3": "T"}
        up.ready(PATIENCE_S)
        env.stop("n2")
        env.upgrade("n2")
        env.start("n2")
        assert code("n2") == before
        up.stop()
        up.close()
    finally:
        cluster.down()

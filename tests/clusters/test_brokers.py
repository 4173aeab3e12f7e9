"""Three controllers with three brokers, and five combined nodes, on namespace hosts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.harness.archive import PROJECT_TREE
from kraftwreck.harness.clusters.netns import NetnsCluster
from kraftwreck.harness.options import RunOptions
from kraftwreck.harness.remote.session import on_all
from kraftwreck.systems.kraft.client import KafkaClient
from kraftwreck.systems.kraft.system import SYSTEM, KraftDeployment
from tests.clusters.whole_run import assert_valid_and_replayed, carry_out, fault

pytestmark = pytest.mark.cluster
READY_S = 300.0
TOPIC = {"name": "t", "num_partitions": 6, "replication_factor": 3}


@pytest.fixture
def deploy(
    netns_possible: None, own_state_directories: Path
) -> Iterator[Callable[..., KraftDeployment]]:
    """Deploys the system on as many hosts as its options ask for; all is gone afterwards."""
    started: list[Callable[[], object]] = []

    def up(**shape: Any) -> KraftDeployment:
        options = RunOptions(seed=7, **shape)
        cluster = NetnsCluster(len(SYSTEM.layout(options).roles))
        started.append(cluster.down)
        deployed = SYSTEM.deploy(cluster.up(), options, PROJECT_TREE)
        assert isinstance(deployed, KraftDeployment)
        started.extend([deployed.close, deployed.stop])
        deployed.ready(READY_S)
        return deployed

    yield up
    for step in reversed(started):
        step()


def ask(deployed: KraftDeployment, node: str, api: str, body: dict[str, Any]) -> dict[str, Any]:
    """Ask the broker of a node."""
    client = KafkaClient(*deployed.deployment.broker_address(node))
    try:
        answer = client.call(api, {"CreateTopics": 7, "Metadata": 12}[api], body, 15_000)
    finally:
        client.close()
    assert answer.status == "ok", answer
    response: dict[str, Any] = answer.response
    return response


def states(run: Path, node: str) -> list[str]:
    lines = (run / "nodes" / node / "trace.jsonl").read_text().splitlines()
    traces = [json.loads(line) for line in lines]
    return [t["detail"]["state"] for t in traces if t["kind"] == "broker"]


def test_three_controllers_and_three_brokers(
    deploy: Callable[..., KraftDeployment], tmp_path: Path
) -> None:
    deployed = deploy(nodes=3, system_options=("brokers=3",))
    env = deployed.remote
    assert (env.nodes, env.controllers) == (
        ("n1", "n2", "n3", "n4", "n5", "n6"),
        ("n1", "n2", "n3"),
    )
    made = ask(deployed, "n5", "CreateTopics", {"topics": [TOPIC], "timeout_ms": 5000})
    assert made["topics"][0]["error_code"] == 0
    env.kill("n6")
    env.start("n6")
    leader = env.leader()
    assert leader is not None
    assert leader in env.controllers
    env.kill(leader)
    env.start(leader)
    deployed.ready(READY_S)
    for node in ("n4", "n5", "n6"):
        told = ask(deployed, node, "Metadata", {"topics": None})
        assert [broker["node_id"] for broker in told["brokers"]] == [4, 5, 6]
        assert [topic["name"] for topic in told["topics"]] == ["t"]
    # The brokers have more time than in a run: on a busy machine they may need it.
    on_all(deployed.deployment.brokers, lambda node: deployed.deployment.stop(node, 120.0))
    deployed.stop()
    deployed.collect(tmp_path)
    assert states(tmp_path, "n4")[-2:] == ["pending-controlled-shutdown", "stopped"]
    assert (tmp_path / "nodes/n4/images/final/.kafka_cleanshutdown").is_file()
    assert states(tmp_path, "n1") == []


@pytest.mark.whole_run
def test_five_combined_nodes(deploy: Callable[..., KraftDeployment]) -> None:
    deployed = deploy(nodes=5, system_options=("combined=yes",))
    made = ask(deployed, "n2", "CreateTopics", {"topics": [TOPIC], "timeout_ms": 5000})
    assert made["topics"][0]["error_code"] == 0
    leader = deployed.remote.leader()
    assert leader is not None
    deployed.remote.kill(leader)
    deployed.remote.start(leader)
    deployed.ready(READY_S)
    told = ask(deployed, leader, "Metadata", {"topics": None})
    assert [broker["node_id"] for broker in told["brokers"]] == [1, 2, 3, 4, 5]
    assert len(told["topics"][0]["partitions"]) == 6


@pytest.mark.whole_run
def test_a_run_with_records_is_valid_and_replays(
    netns_possible: None, own_state_directories: Path, tmp_path: Path
) -> None:
    """This seed sends writes of other workloads to controllers."""
    options = RunOptions(
        workload="produce", faults=("kill",), time_limit_s=8, nodes=3, seed=3, store=tmp_path
    )
    folder = carry_out(options, [fault(2.0, "kill", "one", 1.5, "n5")])
    assert_valid_and_replayed(folder, 6)
    history = (folder / "history.jsonl").read_text()
    assert history.count('"f":"send"') > 20


def test_a_run_through_librdkafka_names_the_properties(
    netns_possible: None, own_state_directories: Path, tmp_path: Path
) -> None:
    file = tmp_path / "safe.properties"
    file.write_text("acks=all\nenable.idempotence=true\n")
    own = ("client=librdkafka", f"properties={file}", "min-insync=2")
    options = RunOptions(
        workload="produce",
        faults=("kill",),
        time_limit_s=4,
        nodes=1,
        seed=3,
        store=tmp_path,
        system_options=own,
    )
    folder = carry_out(
        options, [fault(1.5, "kill", "one", 1.0, "n3")], system=SYSTEM.configured(own)
    )
    assert_valid_and_replayed(folder, 4)
    results = json.loads((folder / "results.json").read_text())
    told = results["checkers"]["produced"]["stats"]["client"]
    assert told["file"] == str(file)
    assert told["properties"] == {"acks": "all", "enable.idempotence": "true"}
    assert told["topics"] == {"min.insync.replicas": "2"}

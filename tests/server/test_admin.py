"""The commands of nodes.admin against node processes, also killed at any moment and repeated."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.nodes.admin.client import Client
from kraftwreck.nodes.admin.main import main
from tests.killed import kill_early
from tests.waiting import wait_until

Run = Callable[..., dict[str, Any]]
ADMIN = [sys.executable, "-m", "kraftwreck.nodes.admin"]


def server(cluster: Any, *brokers: int) -> list[str]:
    ports = [cluster.broker_ports[broker] for broker in brokers]
    return ["--bootstrap-server", ",".join(f"127.0.0.1:{port}" for port in ports)]


def replicas(cluster: Any, broker: int, topic: str) -> dict[int, list[int]]:
    answer = cluster.ask_broker(broker, "Metadata", 12, {"topics": [{"name": topic}]})
    return {
        part["partition_index"]: part["replica_nodes"] for part in answer["topics"][0]["partitions"]
    }


def loads(placed: dict[int, list[int]]) -> tuple[Counter[int], Counter[int]]:
    """Replicas and preferred leaders by broker."""
    return (
        Counter(broker for each in placed.values() for broker in each),
        Counter(each[0] for each in placed.values()),
    )


def registered(cluster: Any, broker: int) -> list[int]:
    body = {"include_fenced_brokers": True}
    answer = cluster.ask_broker(broker, "DescribeCluster", 2, body)
    return sorted(each["broker_id"] for each in answer["brokers"])


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """Run a command in this process; it must end with ``status``."""

    def call(*arguments: str, status: int = 0) -> dict[str, Any]:
        found = main([*arguments, "--json"])
        said = capfd.readouterr()
        assert found == status, said.err
        if status:
            assert said.out == ""
            return {"error": said.err.splitlines()[-1]}
        result: dict[str, Any] = json.loads(said.out)
        return result

    return call


@pytest.fixture
def cluster(make_cluster: Callable[..., Any]) -> Any:
    """One controller and four brokers, of which 2, 3 and 4 run."""
    cluster = make_cluster(1, brokers=4)
    cluster.start(1, 2, 3, 4)
    cluster.serving()
    return cluster


def test_a_topic_is_created_once_and_must_fit_afterwards(shared_brokers: Any, run: Run) -> None:
    shape = ("--partitions", "6", "--replicas", "2", "--config", "retention.ms=777")
    at = server(shared_brokers, 4)
    created = run("create-topic", "t", *at, *shape)
    assert (created["created"], created["partitions"], created["replicas"]) == (True, 6, 2)
    again = run("create-topic", "t", *server(shared_brokers, 5), *shape)
    assert again == created | {"created": False}
    assert run("create-topic", "t", *at)["created"] is False
    for changed, said in (
        (("--partitions", "7"), "6 partitions, not 7"),
        (("--replicas", "3"), "2 replicas, not 3"),
        (("--config", "retention.ms=8"), "retention.ms=777, not 8"),
    ):
        error = run("create-topic", "t", *at, *changed, status=254)["error"]
        assert f"topic t exists with {said}" in error


def test_features_are_described_and_upgraded(shared_brokers: Any, run: Run) -> None:
    at = server(shared_brokers, 4)
    before = run("describe-features", *at)
    assert before["levels"]["commit.mode.version"] == 0
    assert before["supported"]["commit.mode.version"] == "0 to 1"
    wanted = ("commit.mode.version=1", "eligible.leader.replicas.version=1")
    assert run("upgrade-features", *wanted, *at, "--dry-run") == {
        "possible": {"commit.mode.version": 1, "eligible.leader.replicas.version": 1}
    }
    error = run("upgrade-features", "commit.mode.version=1", "a=1", *at, status=254)["error"]
    assert "INVALID_UPDATE_VERSION" in error
    assert run("describe-features", *at) == before
    for _ in range(2):
        done = run("upgrade-features", "commit.mode.version=1", *at)
        assert done == {"levels": {"commit.mode.version": 1}}
    levels = {**before["levels"], "commit.mode.version": 1}
    wait_until(lambda: run("describe-features", *at)["levels"] == levels)
    error = run("upgrade-features", "commit.mode.version=0", *at, status=254)["error"]
    assert "INVALID_UPDATE_VERSION" in error


def test_the_rotated_placement_is_that_of_the_design(shared_brokers: Any, run: Run) -> None:
    shape = ("--partitions", "9", "--replicas", "2", "--placement", "rotated")
    result = run("create-topic", "rotated", *server(shared_brokers, 4), *shape)
    assert result["assignment"] == {
        "0": [4, 5], "1": [5, 6], "2": [6, 4],
        "3": [4, 6], "4": [5, 4], "5": [6, 5],
        "6": [4, 5], "7": [5, 6], "8": [6, 4],
    }  # fmt: skip


def test_mistakes_are_one_line_with_what_to_do(shared_brokers: Any, run: Run) -> None:
    at = server(shared_brokers, 4)
    for arguments, status, said in (
        (("create-topic", "a b", *at), 254, "topic a b: INVALID_TOPIC_EXCEPTION"),
        (("create-topic", "u", *at, "--replicas", "9"), 254, "INVALID_REPLICATION_FACTOR"),
        (("create-topic", "u", *at, "--config", "nosuch=1"), 254, "INVALID_CONFIG"),
        (("create-topic", "u", *at, "--config", "nosuch"), 254, "is not NAME=VALUE"),
        (("create-topic", "t", "--bootstrap-server", "here"), 254, "'here' is not host:port"),
        (("upgrade-features", "a=x", *at), 254, "'a=x' is not NAME=LEVEL"),
        (("add-brokers", "x", *at), 254, "'x' is not a list of node ids"),
        (("add-brokers", "9", *at, "--patience", "0.3"), 1, "brokers [9] did not register"),
        (("remove-brokers", "4,5,6", *at, "--dry-run"), 254, "leave one at least"),
        (
            ("remove-brokers", "4", *at, "--data-dir", str(shared_brokers.path(5, "data"))),
            254,
            "belongs to node 5, which is not among the brokers to remove [4]",
        ),
    ):
        error = run(*arguments, status=status)["error"]
        assert error.startswith("kraftwreck-admin: ")
        assert said in error


def test_a_cluster_that_is_down_is_reported(run: Run, make_cluster: Callable[..., Any]) -> None:
    cluster = make_cluster(1, brokers=1)
    at = server(cluster, 2)
    error = run("create-topic", "t", *at, "--patience", "0.3", status=1)["error"]
    assert "Connection refused" in error
    assert "repeat the command" in error


def test_an_added_broker_gets_its_share_and_nothing_else_moves(cluster: Any, run: Run) -> None:
    at = server(cluster, 2)
    run("create-topic", "t", *at, "--partitions", "12", "--replicas", "2")
    before = replicas(cluster, 2, "t")
    cluster.start(5)
    cluster.serving()
    plan = run("add-brokers", "5", *at, "--dry-run")
    assert replicas(cluster, 2, "t") == before
    assert plan["replicas_to_copy"] == 6
    result = run("add-brokers", "5", *at, "--batch", "4")
    assert result["replicas_copied"] == 6
    after = replicas(cluster, 2, "t")
    assert loads(after) == (Counter({2: 6, 3: 6, 4: 6, 5: 6}), Counter({2: 3, 3: 3, 4: 3, 5: 3}))
    assert sum(len(set(after[n]) - set(before[n])) for n in before) == 6
    leaders = cluster.ask_broker(2, "Metadata", 12, {"topics": [{"name": "t"}]})
    for part in leaders["topics"][0]["partitions"]:
        assert part["leader_id"] == part["replica_nodes"][0]
    again = run("add-brokers", "5", *at)
    assert (again["replicas_copied"], again["partitions_changed"]) == (0, 0)


def test_a_removed_broker_is_drained_stopped_unregistered_and_deleted(
    cluster: Any, run: Run
) -> None:
    run("create-topic", "t", *server(cluster, 4), "--partitions", "12", "--replicas", "2")
    data = cluster.path(4, "data")
    options = ("--data-dir", str(data))
    result = run("remove-brokers", "4", *server(cluster, 4), *options)
    assert cluster.processes.pop(4).wait() == 0
    assert (result["unregistered"], result["deleted"], result["to_delete"]) == (
        [4],
        [str(data)],
        [],
    )
    assert not data.exists()
    assert registered(cluster, 2) == [2, 3]
    assert loads(replicas(cluster, 2, "t"))[0] == Counter({2: 12, 3: 12})
    again = run("remove-brokers", "4", *server(cluster, 4, 2), *options)
    assert (again["unregistered"], again["deleted"], again["replicas_copied"]) == ([], [], 0)


def test_a_broker_elsewhere_is_waited_for_and_its_data_is_named(cluster: Any, run: Run) -> None:
    run("create-topic", "t", *server(cluster, 2), "--partitions", "4", "--replicas", "2")
    at = (*server(cluster, 2), "--timeout", "0.5")
    error = "no partition was completed"
    while "no partition was completed" in error:  # copies may take longer on a busy machine
        error = run("remove-brokers", "4", *at, status=1)["error"]
    assert "still run after 0.5 s" in error
    assert cluster.stop(4) == 0
    result = run("remove-brokers", "4", *server(cluster, 2))
    where = f"127.0.0.1:{cluster.broker_ports[4]}"
    assert result["to_delete"] == [f"log.dirs of broker 4 at {where}"]
    assert registered(cluster, 2) == [2, 3]


def test_a_dead_broker_with_the_only_copy_is_not_removed(cluster: Any, run: Run) -> None:
    run("create-topic", "t", *server(cluster, 2), "--partitions", "3", "--replicas", "1")
    [lost] = [n for n, brokers in replicas(cluster, 2, "t").items() if brokers == [4]]
    cluster.stop(4)
    error = run("remove-brokers", "4", *server(cluster, 2), status=1)["error"]
    assert f"t-{lost}: no broker that runs is in sync" in error
    assert 4 in registered(cluster, 2)


class Killed(BaseException):
    """The end of a process in the middle of a command, which keeps nothing but the cluster."""


WRITES = {"CreateTopics", "AlterPartitionReassignments", "ElectLeaders", "UnregisterBroker"}


def repeat_until_done(
    monkeypatch: pytest.MonkeyPatch, seed: int, *arguments: str
) -> tuple[int, set[str]]:
    """Run a command until it is done; runs end right before or after one of their writes.

    Return the number of runs that ended early, and the APIs at which they did: each at least once.
    """
    draw = random.Random(seed)
    once = Client._once
    apis: set[str] = set()

    def end_at_some_writes(client: Client, at: Any, api: str, body: Any, limit: float) -> Any:
        fatal = api in WRITES and (api not in apis or draw.random() < 0.5)
        if not fatal:
            return once(client, at, api, body, limit)
        apis.add(api)
        if draw.random() < 0.7:
            once(client, at, api, body, limit)
        raise Killed

    kills = 0
    with monkeypatch.context() as patch:
        patch.setattr(Client, "_once", end_at_some_writes)
        while True:
            try:
                assert main(list(arguments)) == 0
            except Killed:
                kills += 1
            else:
                return kills, apis


def test_an_addition_that_is_killed_at_any_request_moves_no_more_in_the_end(
    cluster: Any, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = server(cluster, 2, 3)
    shape = ("--partitions", "24", "--replicas", "2")
    kills, _ = repeat_until_done(monkeypatch, 1, "create-topic", "t", *at, *shape)
    assert kills > 0
    before = replicas(cluster, 2, "t")
    cluster.start(5)
    cluster.serving()
    kills, apis = repeat_until_done(monkeypatch, 2, "add-brokers", "5", *at, "--batch", "4")
    assert kills >= len(apis)
    assert "AlterPartitionReassignments" in apis
    after = replicas(cluster, 2, "t")
    assert set(loads(after)[0].values()) == {12}
    assert sum(len(set(after[n]) - set(before[n])) for n in before) == 12


def test_a_removal_that_is_killed_at_any_request_ends_right(
    cluster: Any, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = server(cluster, 2, 3)
    run("create-topic", "t", *at, "--partitions", "12", "--replicas", "2")
    before = replicas(cluster, 2, "t")
    data = cluster.path(4, "data")
    options = ("--batch", "3", "--data-dir", str(data))
    kills, apis = repeat_until_done(monkeypatch, 5, "remove-brokers", "4", *at, *options)
    assert kills >= len(apis)
    assert {"AlterPartitionReassignments", "UnregisterBroker"} <= apis
    assert not data.exists()
    assert registered(cluster, 2) == [2, 3]
    after = replicas(cluster, 2, "t")
    assert set(loads(after)[0].values()) == {12}
    assert sum(len(set(after[n]) - set(before[n])) for n in before) == 8


def test_a_command_killed_with_kill_9_is_repeated(cluster: Any, run: Run) -> None:
    at = server(cluster, 2, 3)
    run("create-topic", "t", *at, "--partitions", "12", "--replicas", "2")
    data = str(cluster.path(4, "data"))
    options = ["4", *at, "--batch", "2", "--data-dir", data]
    kill_early([*ADMIN, "remove-brokers", *options], seed=3)
    run("remove-brokers", *options)
    assert not Path(data).exists()
    assert registered(cluster, 2) == [2, 3]
    assert set(loads(replicas(cluster, 2, "t"))[0].values()) == {12}


def configs(folder: Path, cluster: Any, nodes: list[int]) -> list[str]:
    """Copy configuration files of nodes, with data directories of their own."""
    paths = []
    for node in nodes:
        path = folder / f"new{node}.properties"
        text = cluster.properties(node)
        path.write_text(text.replace(str(cluster.path(node, "data")), str(folder / f"new{node}")))
        paths.append(str(path))
    return paths


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_cluster_is_created_from_files_also_by_a_command_that_is_killed(
    make_cluster: Callable[..., Any], tmp_path: Path, run: Run, dynamic: bool
) -> None:
    cluster = make_cluster(2, brokers=2, dynamic=dynamic)
    files = configs(tmp_path, cluster, [1, 2, 3, 4])
    command = ["create-cluster", *files, "--start", "--wait"]
    try:
        kill_early([*ADMIN, *command], seed=dynamic)
        run(*command)
        result = run(*command)
        assert (result["formatted"], result["started"]) == ([], [])
        assert registered(cluster, 3) == [3, 4]
        quorum = {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{}]}]}
        described = cluster.ask_broker(3, "DescribeQuorum", 2, quorum)
        [partition] = described["topics"][0]["partitions"]
        assert sorted(v["replica_id"] for v in partition["current_voters"]) == [1, 2]
    finally:
        stop_all(tmp_path)


def stop_all(folder: Path) -> None:
    """Kill the nodes whose configuration is in a folder, also those that have no lock yet."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"{folder}/".encode() in (process / "cmdline").read_bytes():
                os.kill(int(process.name), signal.SIGKILL)


def test_files_that_do_not_fit_together_are_refused(
    make_cluster: Callable[..., Any], tmp_path: Path, run: Run
) -> None:
    cluster = make_cluster(2, brokers=2)
    files = configs(tmp_path, cluster, [1, 2, 3, 4])

    def changed(number: int, old: str, new: str) -> list[str]:
        path = tmp_path / f"changed{len(list(tmp_path.iterdir()))}.properties"
        path.write_text(Path(files[number]).read_text().replace(old, new))
        return [*files[:number], str(path), *files[number + 1 :]]

    for wrong, said in (
        (files[1:], "controller.quorum.voters does not name the controllers of the files"),
        (files[2:], "none of the files has process.roles with controller"),
        ([*files, files[3]], "node.id 4 is that of"),
        (changed(3, "loopback-cluster", "other"), "cluster.id other is not that of"),
        (changed(3, str(tmp_path / "new4"), str(tmp_path / "new3")), "is that of node 3, too"),
        (changed(3, "node.id=4", "node.id=1x"), "node.id"),
        (
            changed(3, str(cluster.broker_ports[4]), str(cluster.broker_ports[3])),
            "is an address of node 3, too",
        ),
    ):
        assert said in run("create-cluster", *wrong, status=254)["error"]
    assert not any(path.is_dir() for path in tmp_path.glob("new*"))
    assert "--only 9" in run("create-cluster", *files, "--only", "9", status=254)["error"]


def test_hosts_format_the_same_quorum_by_themselves(
    make_cluster: Callable[..., Any], tmp_path: Path, run: Run
) -> None:
    cluster = make_cluster(2, brokers=1, dynamic=True)
    files = configs(tmp_path, cluster, [1, 2, 3])
    for node in (1, 2, 3):
        assert run("create-cluster", *files, "--only", str(node))["formatted"] == [node]
    name = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
    assert (tmp_path / "new1" / name).read_bytes() == (tmp_path / "new2" / name).read_bytes()

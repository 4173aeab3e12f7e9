"""Nodes on hosts that get too little CPU, memory or files, by what the kernel says of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.harness.archive import PROJECT_TREE
from kraftwreck.harness.capabilities import Resource
from kraftwreck.harness.clusters import cgroups
from kraftwreck.harness.clusters.healing import heal_hosts
from kraftwreck.harness.clusters.netns import NetnsCluster
from kraftwreck.harness.options import RunOptions
from kraftwreck.harness.remote.host_faults import left
from kraftwreck.harness.remote.session import RemoteError
from kraftwreck.histories.reading import read_faults
from kraftwreck.systems.kraft.remote.environment import RemoteEnvironment
from kraftwreck.systems.kraft.system import SYSTEM, KraftDeployment
from tests.clusters.whole_run import assert_valid_and_replayed, carry_out, fault
from tests.waiting import wait_until

pytestmark = pytest.mark.cluster

PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def cluster(netns_possible: None, own_state_directories: Path) -> Iterator[NetnsCluster]:
    cluster = NetnsCluster(3)
    yield cluster
    cluster.down()


@pytest.fixture(scope="module")
def deployed(cluster: NetnsCluster) -> Iterator[KraftDeployment]:
    """Three nodes that can be squeezed."""
    up = SYSTEM.deploy(cluster.up(), RunOptions(nodes=3, seed=4, faults=("squeeze",)), PROJECT_TREE)
    assert isinstance(up, KraftDeployment)
    up.ready(PATIENCE_S)
    yield up
    up.stop()
    up.close()


@pytest.fixture
def env(deployed: KraftDeployment) -> Iterator[RemoteEnvironment]:
    assert isinstance(deployed.remote, RemoteEnvironment)
    yield deployed.remote
    assert deployed.remote.restore() == []
    deployed.ready(PATIENCE_S)


def draw_for(resource: Resource, amount: int) -> int:
    """Return a draw by which so much is left."""
    return next(number for number in range(1000) if left(resource, number) == amount)


def run(env: RemoteEnvironment, node: str, *argv: str) -> str:
    return env.deployment.remotes[node].run(list(argv)).stdout.decode()


def pid_of(env: RemoteEnvironment, node: str) -> int:
    return int(env.deployment.status(node)["pid"])


needs_groups = pytest.mark.skipif(
    not all((cgroups.ROOT / c / "cgroup.procs").exists() for c in cgroups.SUBSYSTEMS),
    reason="no control groups of version 1 here",
)


@needs_groups
def test_a_node_is_in_the_groups_of_its_host_and_can_burn_no_more_than_it_is_left(
    env: RemoteEnvironment,
) -> None:
    told = env.squeeze("n2", "cpu", draw_for("cpu", 10))["n2"]
    assert told["means"] == "cgroup v1"
    groups = run(env, "n2", "cat", f"/proc/{pid_of(env, 'n2')}/cgroup")
    for subsystem in cgroups.SUBSYSTEMS:
        assert f":{subsystem}:/kraftwreck-" in groups
    # A program that would use all it gets, in the same group.
    script = """
import os, subprocess, sys, time
open("/run/kraftwreck-cgroups/cpu/main/cgroup.procs", "w").write(str(os.getpid()))
began, used = time.monotonic(), time.process_time()
while time.monotonic() - began < 2: pass
print((time.process_time() - used) / (time.monotonic() - began))
"""
    share = float(run(env, "n2", "/usr/bin/python3", "-c", script))
    assert share < 0.2
    ended = env.release("n2")["n2"]
    if share > 0.09:  # Else the machine itself had left it no more.
        assert ended["throttled"] > told["throttled"]
        assert ended["throttled_us"] > told["throttled_us"]
    again = run(env, "n2", "cat", "/run/kraftwreck-cgroups/cpu/main/cpu.cfs_quota_us")
    assert again.strip() == "-1"


def test_without_a_group_a_node_is_stopped_most_of_the_time(env: RemoteEnvironment) -> None:
    service = env.deployment.services["n3"]
    agent = env.deployment.agents["n3"]
    agent.ask("squeeze", service=service, what="duty", amount=10)
    pid = pid_of(env, "n3")
    seen = [state(env, "n3", pid) for _ in range(100)]
    assert seen.count("T") > 50
    told = agent.ask("release", service=service)
    assert "stopped_by" in told
    assert "T" not in {state(env, "n3", pid) for _ in range(20)}


@pytest.mark.wall_clock("looks again and again whether a process is stopped for 90 % of the time")
def state(env: RemoteEnvironment, node: str, pid: int) -> str:
    time.sleep(0.007)
    return str(env.deployment.status(node)["state"])


def test_a_helper_that_stops_a_node_lets_it_go_when_its_agent_ends(
    env: RemoteEnvironment,
) -> None:
    agent = env.deployment.agents["n3"]
    agent.ask("squeeze", service=env.deployment.services["n3"], what="duty", amount=5)
    agent.close()  # As when the control node is killed.
    wait_until(lambda: "T" not in {state(env, "n3", 0) for _ in range(30)})


def test_a_node_without_files_to_open_takes_no_connection_until_it_has_some(
    deployed: KraftDeployment, env: RemoteEnvironment
) -> None:
    told = env.squeeze("n1", "files", draw_for("files", 0))["n1"]
    limits = run(env, "n1", "cat", f"/proc/{told['pid']}/limits")
    (line,) = (line for line in limits.splitlines() if line.startswith("Max open files"))
    assert int(line.split()[3]) == told["limit"] == told["used"]
    ended = env.release("n1")["n1"]
    assert ended.get("ended") or ended["limit"] == told["limit"]
    env.start("n1")
    deployed.ready(PATIENCE_S)


@needs_groups
def test_the_oom_killer_kills_only_the_node(
    env: RemoteEnvironment,
) -> None:
    others = {node: pid_of(env, node) for node in ("n1", "n3")}
    told = env.squeeze("n2", "oom", 1)["n2"]
    assert told["means"] == "cgroup v1"
    assert told["oom_kills"] >= 1
    assert told["image"].startswith("kill-")
    assert not env.deployment.status("n2")["running"]
    kills = run(env, "n2", "cat", "/run/kraftwreck-cgroups/memory/main/memory.oom_control")
    assert int(kills.split("oom_kill ")[1]) >= 1
    assert {node: pid_of(env, node) for node in ("n1", "n3")} == others
    env.release("n2")
    env.start("n2")


@needs_groups
def test_memory_is_limited_to_the_present_use_and_a_margin(env: RemoteEnvironment) -> None:
    told = env.squeeze("n2", "memory", draw_for("memory", 2 << 20))["n2"]
    limit = int(run(env, "n2", "cat", "/run/kraftwreck-cgroups/memory/main/memory.limit_in_bytes"))
    assert limit == told["limit"] <= told["used"] + (2 << 20)
    ended = env.release("n2")["n2"]
    assert ended["met"] >= 0
    limit = int(run(env, "n2", "cat", "/run/kraftwreck-cgroups/memory/main/memory.limit_in_bytes"))
    assert limit > 1 << 50


def test_healing_from_outside_gives_everything_back(
    env: RemoteEnvironment, deployed: KraftDeployment
) -> None:
    env.squeeze("n1", "cpu", draw_for("cpu", 40))
    env.squeeze("n2", "files", draw_for("files", 3))
    healed = heal_hosts(list(deployed.deployment.hosts.values()))
    assert {name for name, told in healed.items() if "released" in told} == {"n1", "n2"}


def test_hosts_deployed_without_squeezes_refuse_them(
    env: RemoteEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = replace(env.deployment.settings, squeezable=False)
    monkeypatch.setattr(env.deployment, "settings", plain)
    with pytest.raises(RemoteError, match="-n squeeze"):
        env.squeeze("n1", "cpu", 1)
    monkeypatch.undo()


@needs_groups
def test_no_group_outlives_a_cluster(netns_possible: None, own_state_directories: Path) -> None:
    cluster = NetnsCluster(1)
    cluster.up()
    assert cluster.directory is not None
    groups = [cgroups.ROOT / c / f"kraftwreck-{cluster.directory.name}" for c in ("cpu", "memory")]
    assert all((group / "n1").is_dir() for group in groups)
    cluster.down()
    assert not any(group.exists() for group in groups)


@pytest.mark.whole_run
def test_a_whole_run_with_squeezed_nodes_is_valid_and_replays(
    netns_possible: None, own_state_directories: Path, tmp_path: Path
) -> None:
    schedule = [
        fault(1, "squeeze", "cpu-leader", 3),
        fault(5, "squeeze", "oom-leader", 2),
        fault(8, "squeeze", "files-leader", 2),
        fault(11, "squeeze", "slow-start", 2),
        fault(14, "squeeze", "memory", 2),
    ]
    options = RunOptions(faults=("squeeze",), time_limit_s=18, nodes=3, seed=1, store=tmp_path)
    folder = carry_out(options, schedule)
    assert_valid_and_replayed(folder, 3)
    events = read_faults(folder)
    starts: dict[str, Any] = {e.shape: e.evidence for e in events if e.phase == "start"}
    (killed,) = starts["oom-leader"].values()
    assert killed.get("oom_kills", 1) >= 1
    (slow,) = starts["slow-start"].values()
    assert slow["launched"]

"""Deploying, killing, pausing and collecting, each proved by what the host's kernel says."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.harness.clusters.cluster import Host
from kraftwreck.harness.clusters.netns import NetnsCluster
from kraftwreck.harness.remote.agent import Agent
from kraftwreck.harness.remote.session import Remote, RemoteError
from kraftwreck.systems.kraft.remote.deployment import Deployment
from kraftwreck.systems.kraft.remote.environment import RemoteEnvironment
from kraftwreck.systems.kraft.remote.settings import DATA, IMAGES, LOGS, Settings
from tests.waiting import wait_until

pytestmark = pytest.mark.cluster


def test_starting_twice_starts_once(environment: RemoteEnvironment) -> None:
    again = environment.start("n1")["n1"]
    assert again["started"] is False
    assert again["running"] is True


def test_kill_leaves_no_process_and_keeps_an_image(
    environment: RemoteEnvironment, remotes: dict[str, Remote]
) -> None:
    evidence = environment.kill("n2")["n2"]
    assert evidence["before"] in "SR"
    assert evidence["after"] == "ESRCH"
    assert remotes["n2"].run(["kill", "-0", str(evidence["pid"])], check=False).status == 1
    assert evidence["image"] == "kill-1"
    assert evidence["files"] == 1
    started = environment.start("n2")["n2"]
    assert started["started"] is True
    assert started["pid"] != evidence["pid"]
    assert (
        remotes["n2"].get(f"{DATA}/written")
        == remotes["n2"].get(f"{IMAGES}/kill-1/written") + b"start\n"
    )
    assert environment.kill("n2")["n2"]["image"] == "kill-2"


def test_command_runs_on_the_host_with_the_pid_of_the_process(
    environment: RemoteEnvironment, remotes: dict[str, Remote]
) -> None:
    evidence = environment.run_command("n1", ["renice", "-n", "7", "-p", "{pid}"])["n1"]
    pid = evidence["command"][-1]
    assert "new priority 7" in evidence["output"]
    assert remotes["n1"].get(f"/proc/{pid}/stat").rpartition(b")")[2].split()[16] == b"7"


def test_command_that_fails_and_pid_of_a_killed_process_are_errors(
    environment: RemoteEnvironment,
) -> None:
    with pytest.raises(RemoteError, match="n1: `false`"):
        environment.run_command("n1", ["false"])
    environment.kill("n1")
    assert environment.run_command("n1", ["echo", "up"])["n1"]["output"] == "up"
    with pytest.raises(RemoteError, match="n1: the process does not run"):
        environment.run_command("n1", ["renice", "-n", "7", "-p", "{pid}"])


def test_a_killed_nodes_port_is_closed_and_the_started_ones_open(
    environment: RemoteEnvironment, five: list[Host], remotes: dict[str, Remote]
) -> None:
    probe = ["bash", "-c", f"exec 3<>/dev/tcp/{five[2].ip}/9093 && head -c5 <&3"]
    environment.kill("n3")
    assert remotes["n1"].run(probe, check=False).status != 0
    environment.start("n3")
    assert remotes["n1"].run(probe).text == "hello"


def test_a_paused_node_can_be_killed(environment: RemoteEnvironment) -> None:
    environment.pause("n4")
    assert environment.kill("n4")["n4"]["before"] == "T"


def test_pause_and_resume_show_in_the_process_state(
    environment: RemoteEnvironment, remotes: dict[str, Remote]
) -> None:
    paused = environment.pause("n5")["n5"]
    assert paused["after"] == "T"
    stat = remotes["n5"].run(["cat", f"/proc/{paused['pid']}/stat"]).text
    assert stat.rpartition(")")[2].split()[0] == "T"
    resumed = environment.resume("n5")["n5"]
    assert resumed["before"] == "T"
    assert resumed["after"] in "SR"


def test_faults_on_a_node_that_is_down_are_errors(environment: RemoteEnvironment) -> None:
    environment.kill("n1")
    for fault in (environment.kill, environment.pause, environment.resume):
        with pytest.raises(RemoteError, match=r"^n1: \w+: the service does not run$"):
            fault("n1")


def test_a_signal_never_goes_to_a_process_that_is_not_ours(
    environment: RemoteEnvironment, remotes: dict[str, Remote]
) -> None:
    """Another process has the pid of the pid file now, with another start time."""
    environment.kill("n1")
    with remotes["n1"].channel(["sh", "-c", "echo $$; exec sleep 60"]) as channel:
        pid = int(channel.recv(20))
        remotes["n1"].put(f"{pid} 1\n".encode(), environment.deployment.services["n1"]["pid_file"])
        with pytest.raises(RemoteError, match="does not run"):
            environment.kill("n1")
        assert remotes["n1"].run(["kill", "-0", str(pid)]).status == 0


def test_a_taken_port_is_one_clear_line(
    environment: RemoteEnvironment, five: list[Host], remotes: dict[str, Remote]
) -> None:
    environment.kill("n3")
    server = (
        f"import socket,sys; s=socket.create_server(('{five[2].ip}', 9093));"
        "print('up',flush=True); sys.stdin.read()"
    )
    with remotes["n3"].channel(["/usr/bin/python3", "-c", server]) as channel:
        channel.recv(10)
        with pytest.raises(RemoteError, match=r"^n3: \w+: port 10\.77\.\d+\.3:9093 .*is taken"):
            environment.start("n3")

    def starts() -> bool:
        with contextlib.suppress(RemoteError):
            environment.start("n3")
            return True
        return False

    wait_until(starts, "the holder of the port ends")


def test_a_service_that_ends_at_once_says_why(
    environment: RemoteEnvironment, remotes: dict[str, Remote]
) -> None:
    environment.kill("n3")
    remotes["n3"].put(b"", "/etc/kraftwreck/broken")
    with pytest.raises(
        RemoteError, match=r"ended with status 1 .*its last line: the configuration is broken$"
    ):
        environment.start("n3")
    remotes["n3"].run(["rm", "/etc/kraftwreck/broken"])


def test_restoring_repairs_everything_at_once(environment: RemoteEnvironment) -> None:
    environment.drop({"n1": frozenset({"n2"})})
    environment.pause("n2")
    environment.kill("n3")
    assert environment.restore() == []
    deployment = environment.deployment
    assert {deployment.status(name)["running"] for name in environment.nodes} == {True}
    assert deployment.status("n2")["state"] in "SR"
    assert environment.heal()["n1"]["packets"] == 0


def test_there_is_no_leader_if_no_node_speaks_its_protocol(environment: RemoteEnvironment) -> None:
    assert environment.leader() is None


def test_files_of_nodes_are_collected(environment: RemoteEnvironment, tmp_path: Path) -> None:
    environment.kill("n2")
    environment.start("n2")
    environment.deployment.stop_all()
    environment.deployment.collect(tmp_path)
    for name in environment.nodes:
        node = tmp_path / "nodes" / name
        events = [json.loads(line) for line in (node / "trace.jsonl").read_text().splitlines()]
        assert {event["node"] for event in events} == {name}
        assert "listening" in (node / "stdout.log").read_text()
        assert (node / "inputs.log").exists()
        assert (node / "images/final/written").read_text().startswith("start\n")
    assert (tmp_path / "nodes/n2/images/kill-1/written").exists()


def test_installing_again_starts_from_nothing(
    five: list[Host], environment: RemoteEnvironment, service_tree: Path
) -> None:
    before = environment.deployment.status("n1")["pid"]
    again = Deployment(five, Settings(seed=7, tree=service_tree))
    again.install()
    assert again.status("n1")["running"] is False
    remote = again.remotes["n1"]
    assert remote.run(["kill", "-0", str(before)], check=False).status == 1
    assert remote.run(["find", DATA, LOGS, IMAGES, "-type", "f"]).text == ""
    again.close()


def requests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what all agents are asked from now on, in order."""
    asked: list[str] = []
    ask = Agent.ask

    def seen(agent: Agent, do: str, *arguments: Any, **fields: Any) -> Any:
        asked.append(do)
        return ask(agent, do, *arguments, **fields)

    monkeypatch.setattr(Agent, "ask", seen)
    return asked


def test_only_the_first_deployment_on_new_hosts_looks_for_no_earlier_one(
    netns_possible: None, service_tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = requests(monkeypatch)
    cluster = NetnsCluster(2)
    hosts = cluster.up()
    try:
        for number in range(3):
            known = [Host.from_json(host.as_json()) for host in hosts] if number == 2 else hosts
            asked.clear()
            deployment = Deployment(known, Settings(seed=7, tree=service_tree))
            deployment.install()
            deployment.close()
            assert ("end_services" in asked, "heal" in asked) == (number > 0, number > 0), number
    finally:
        cluster.down()


def test_earlier_runs_end_on_all_hosts_before_anything_starts(
    five: list[Host], service_tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node of an earlier run would reach the new ones: it has their addresses."""
    first = Deployment(five, Settings(seed=7, tree=service_tree))
    first.install()  # The hosts are no longer as they came up.
    first.close()
    asked = requests(monkeypatch)
    again = Deployment(five, Settings(seed=7, tree=service_tree))
    again.install_and_start()
    last_end = max(at for at, do in enumerate(asked) if do == "end_services")
    assert asked.count("end_services") == 5
    assert last_end < asked.index("open_service")
    again.stop_all(0.0)
    again.close()

"""Faults on a foreign system's hosts, measured by other programs than the harness."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraftwreck.harness.capabilities import ClockSetting, host_of
from kraftwreck.harness.clusters import cgroups
from kraftwreck.harness.clusters.netns import NetnsCluster
from kraftwreck.harness.deploy.cache import ArtefactCache
from kraftwreck.harness.deploy.declaration import OutputLine, Place, Process
from kraftwreck.harness.deploy.deployment import PlainDeployment
from kraftwreck.harness.deploy.environment import PlainEnvironment
from kraftwreck.harness.remote.session import RemoteError
from kraftwreck.histories.disturbance import Disturbance
from kraftwreck.histories.fault import Fault
from kraftwreck.nemesis.inject import Injector
from tests.waiting import wait_until

pytestmark = pytest.mark.cluster
TICKS = (
    "import time\nwhile True:\n    print('wall', time.time_ns(), flush=True)\n    time.sleep(0.05)"
)
LOG = "/var/log/kraftwreck/main/stdout.log"


@pytest.fixture(scope="module")
def cluster(netns_possible: None, own_state_directories: Path) -> Iterator[NetnsCluster]:
    made = NetnsCluster(2, disks=True)
    made.up()
    yield made
    made.down()


@pytest.fixture
def environment(cluster: NetnsCluster, tmp_path: Path) -> Iterator[PlainEnvironment]:
    """Return two hosts whose main process prints the time, and that have a second process."""
    hosts = cluster.hosts
    places = {host.name: Place.of(host, "node") for host in hosts}
    ticking = Process(
        argv=("/usr/bin/python3", "-c", TICKS),
        ready=OutputLine("^wall"),
        folders=("/var/lib/kraftwreck/main",),
    )
    second = Process(
        name="second",
        argv=("/bin/sleep", "1000"),
        folders=("/var/lib/kraftwreck/second",),
        images=True,
    )
    deployment = PlainDeployment(
        hosts,
        places,
        {host.name: (ticking, second) for host in hosts},
        ArtefactCache(tmp_path).fetch_all([]),
        squeezable=True,
        own_clocks=True,
    )
    deployment.install_and_start()
    made = PlainEnvironment(deployment, 1, lambda: None)
    made.machines = cluster
    yield made
    assert made.restore(start=True) == []
    deployment.stop_all(0.0)
    deployment.close()


def ping(environment: PlainEnvironment, host: str, peer: str) -> tuple[bool, float]:
    """Return whether ``peer`` answers, and after how many milliseconds."""
    ip = environment.deployment.hosts[peer].ip
    script = "import socket,sys,time\ns=socket.socket(socket.AF_INET,socket.SOCK_STREAM)\n"
    script += "s.settimeout(1)\nb=time.monotonic()\ntry: s.connect((sys.argv[1],22))\n"
    script += "except OSError: sys.exit(1)\nprint((time.monotonic()-b)*1000)"
    argv = ["/usr/bin/python3", "-c", script, ip]
    done = environment.deployment.remotes[host].run(argv, check=False)
    return done.status == 0, float(done.text or "0")


def last_wall_ns(environment: PlainEnvironment, host: str) -> int:
    text = environment.deployment.remotes[host].run(["tail", "-n", "1", LOG]).text
    return int(text.split()[1])


def test_partitions_and_slow_packets_hit_the_hosts_that_are_named(
    environment: PlainEnvironment,
) -> None:
    assert ping(environment, "n1", "n2")[0]
    environment.drop({"n2": frozenset({"n1"})})
    assert not ping(environment, "n1", "n2")[0]
    assert environment.heal()["n2"]["dropped"]["n1"] > 0
    slow = Disturbance(senders=("n1",), receivers=("n2",), delay=300_000)
    environment.disturb([slow])
    reached, took_ms = ping(environment, "n1", "n2")
    assert reached and took_ms >= 280
    assert "n1" in environment.disturb([])
    with pytest.raises(RemoteError, match="messages cannot be disturbed"):
        environment.disturb(
            [Disturbance(senders=("n1",), receivers=("n2",), apis=("Vote",), drop=50)]
        )


@pytest.mark.wall_clock("compares clocks that its processes have written")
def test_the_clock_of_one_host_jumps_for_its_processes_only(environment: PlainEnvironment) -> None:
    evidence = environment.set_clock("n1", ClockSetting(wall_us=50_000_000))["n1"]
    assert abs(evidence["measured"]["wall_ahead_us"]) < 5_000_000
    assert 45_000_000 < evidence["wall_ahead_us"] < 55_000_000
    time.sleep(0.3)
    ahead_s = (last_wall_ns(environment, "n1") - last_wall_ns(environment, "n2")) / 1e9
    assert 40 < ahead_s < 60
    environment.set_clock("n1", ClockSetting())
    time.sleep(0.3)
    ahead_s = (last_wall_ns(environment, "n1") - last_wall_ns(environment, "n2")) / 1e9
    assert abs(ahead_s) < 5


def test_a_process_that_ended_by_itself_is_noted_and_started_again(
    environment: PlainEnvironment,
) -> None:
    pid = environment.deployment.status("n2/second")["pid"]
    environment.deployment.remotes["n2"].run(["kill", "-SEGV", str(pid)])
    wait_until(lambda: not environment.deployment.status("n2/second")["running"])
    told = environment.kill("n2/second")["n2/second"]
    assert (told["killed"], told["ended"], told["status"]) == (False, "by itself", -11)
    assert environment.deployment.notes == ["n2/second ended by itself: signal 11"]
    assert environment.start("n2/second")["n2/second"]["started"]


def test_a_process_that_ended_by_itself_is_not_squeezed(environment: PlainEnvironment) -> None:
    pid = environment.deployment.status("n2/second")["pid"]
    environment.deployment.remotes["n2"].run(["kill", "-SEGV", str(pid)])
    wait_until(lambda: not environment.deployment.status("n2/second")["running"])
    told = environment.squeeze("n2/second", "files", 3)["n2/second"]
    assert (told["squeezed"], told["ended"], told["status"]) == (False, "by itself", -11)
    assert environment.start("n2/second")["n2/second"]["started"]


def test_a_squeezed_process_gets_less_of_the_processor_and_may_run_out_of_memory(
    environment: PlainEnvironment,
) -> None:
    assert environment.squeeze("n1", "cpu", 3)["n1"]["percent"] <= 40
    environment.release("n1")
    killed = environment.squeeze("n1", "oom", 1)["n1"]
    assert killed["pid"]
    environment.release("n1")
    assert environment.start("n1")["n1"]["started"]
    assert environment.deployment.notes == []


def test_a_crashed_host_comes_back_with_its_processes_down_and_its_files(
    environment: PlainEnvironment, cluster: NetnsCluster
) -> None:
    if cluster.no_disks:
        pytest.skip("hosts have no disks of their own here")
    remote = environment.deployment.remotes["n2"]
    folder = "/var/lib/kraftwreck/main"
    remote.run(["sh", "-c", 'echo kept > "$1/kept"; sync "$1/kept"', "sh", folder])
    remote.run(["sh", "-c", 'echo lost > "$1/lost"', "sh", folder])
    environment.crash_host("n2")
    assert environment.boot_host("n2")["n2"]["host"] == "booted"
    assert environment.deployment.status("n2")["running"] is False
    assert environment.start("n2")["n2"]["started"]
    there = environment.deployment.remotes["n2"].run(["ls", folder]).text.split()
    assert "kept" in there
    assert "lost" not in there


def limits(environment: PlainEnvironment, process: str) -> str:
    """Return the quota of a process's own group, by another program; "" without groups."""
    short = process.partition("/")[2] or "main"
    path = f"/run/kraftwreck-cgroups/cpu/{short}/cpu.cfs_quota_us"
    done = environment.deployment.remotes[host_of(process)].run(["cat", path], check=False)
    return done.text


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        ("kill", "one"),
        ("terminate", "one"),
        ("pause", "one"),
        ("restart", "rolling"),
        ("restart", "rolling-kill"),
        ("squeeze", "cpu"),
        ("squeeze", "files"),
        ("squeeze", "memory"),
        ("squeeze", "oom"),
        ("squeeze", "slow-start"),
    ],
)
def test_faults_hit_one_of_two_processes_of_a_host(
    environment: PlainEnvironment, kind: str, shape: str
) -> None:
    hit, spared = "n2/second", "n2"
    deployment = environment.deployment
    if shape == "memory" and not cgroups.can_be_made("memory"):
        pytest.skip("no control group for memory is available")
    before = {name: deployment.status(name)["pid"] for name in environment.processes}
    injector = Injector(environment.offered(), time.monotonic_ns)
    fault = Fault(at=0, kind=kind, shape=shape, duration=0, draw=1, targets=(hit,))
    started = injector.start(0, fault)
    assert (started.error, started.targets) == (None, [hit])
    if shape == "cpu":
        assert int(limits(environment, hit) or "1") > 0
    if kind == "pause":
        assert deployment.status(hit)["state"] == "T"
    assert limits(environment, spared).strip() in ("", "-1")
    assert deployment.status(spared)["state"] != "T"
    stopped = injector.stop(0)
    assert stopped.error is None
    after = {name: deployment.status(name)["pid"] for name in environment.processes}
    same = kind == "pause" or shape in ("cpu", "files", "memory")
    assert {name for name in after if after[name] != before[name]} == (set() if same else {hit})
    assert limits(environment, hit).strip() in ("", "-1")
    folders = deployment.remotes["n2"].run(["ls", "/var/log/kraftwreck-images/second"]).text.split()
    assert bool(folders) is (kind == "kill" or shape in ("rolling-kill", "oom", "slow-start"))

"""Hosts that crash and are booted again, and what stays of it all: nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraftwreck.harness.clusters import cgroups
from kraftwreck.harness.clusters import state as states
from kraftwreck.harness.clusters.cluster import ClusterError
from kraftwreck.harness.clusters.netns import NetnsCluster
from kraftwreck.harness.options import RunOptions
from kraftwreck.harness.remote.session import Remote, RemoteError
from kraftwreck.histories.reading import read_faults
from kraftwreck.systems.kraft.remote.deployment import Deployment
from kraftwreck.systems.kraft.remote.environment import RemoteEnvironment
from kraftwreck.systems.kraft.remote.settings import Settings
from tests.clusters.whole_run import assert_valid_and_replayed, carry_out, fault
from tests.waiting import wait_until

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 60.0


@pytest.fixture
def cluster(netns_possible: None, own_state_directories: Path) -> Iterator[NetnsCluster]:
    cluster = NetnsCluster(3)
    cluster.up()
    yield cluster
    cluster.down()


def answers(ip: str) -> bool:
    """Whether another host gets any answer from there, be it a refusal."""
    asked = subprocess.run(
        ["/usr/bin/python3", "-c", "import socket, sys\n"
         "s = socket.socket(); s.settimeout(2)\n"
         f"sys.exit(0 if s.connect_ex(('{ip}', 9)) == 111 else 1)"],
        check=False,
    )  # fmt: skip
    return asked.returncode == 0


def test_a_host_that_crashes_is_silent_and_has_its_files_when_it_is_back(
    cluster: NetnsCluster,
) -> None:
    host, other = cluster.hosts[1], cluster.hosts[2]
    remote = Remote(host)
    sleep = f"sleep 9{os.getpid()}.17"  # of this very test: others may run it, too
    remote.run(
        [
            "sh",
            "-c",
            f"echo kept > /var/kept; echo gone > /run/gone; setsid {sleep} >/dev/null 2>&1 &",
        ]
    )
    assert answers(host.ip)
    evidence = cluster.crash(host.name)
    assert evidence["gone_after_us"] > 0
    listed = subprocess.run(["ps", "ax"], capture_output=True, text=True, check=True).stdout
    assert sleep not in listed
    assert not answers(host.ip)
    assert answers(other.ip), "nobody else was meant"
    remote.close()
    with pytest.raises(ClusterError, match="off already"):
        cluster.crash(host.name)
    cluster.boot(host.name)
    with pytest.raises(ClusterError, match="runs already"):
        cluster.boot(host.name)
    assert remote.run(["cat", "/var/kept"]).text == "kept"
    assert remote.run(["sh", "-c", "cat /run/gone || echo no"]).text == "no"
    assert answers(host.ip)
    for _ in range(2):  # It can be done again and again.
        cluster.crash(host.name)
        cluster.boot(host.name)
    remote.close()
    assert Remote(host).run(["hostname"]).text == host.name
    with pytest.raises(ClusterError, match="no host n9"):
        cluster.crash("n9")


@pytest.mark.whole_run
def test_a_whole_run_with_crashed_hosts_is_valid_and_replays(
    netns_possible: None, own_state_directories: Path, tmp_path: Path
) -> None:
    schedule = [
        fault(1, "host", "leader", 4),
        fault(2, "partition", "one", 6, "n1"),
        fault(3, "clock", "jump", 4, "n2"),
        fault(9, "host", "all", 3),
        fault(10, "pause", "one", 1),
        fault(14, "kill", "leader", 1),
    ]
    options = RunOptions(
        faults=("host", "partition", "clock", "pause", "kill"),
        time_limit_s=18,
        nodes=3,
        seed=1,
        store=tmp_path,
    )
    folder = carry_out(options, schedule, disks=True)
    assert_valid_and_replayed(folder, 3)
    events = sorted((e for e in read_faults(folder) if e.kind == "host"), key=lambda e: e.time)
    ends = {e.id: e for e in events if e.phase == "stop"}
    begun = [e for e in events if e.phase == "start"]
    assert len(begun) == len(ends) == 2
    crashed = [node for event in begun for node in event.targets]
    for event in begun:
        assert event.targets
        for node in event.targets:
            assert event.evidence[node]["host"] == "crashed"
            assert ends[event.id].evidence[node]["host"] == "booted"
    # What the nodes themselves say: each crash ended a process, and another one started.
    for node in set(crashed):
        text = (folder / "nodes" / node / "trace.jsonl").read_text()
        starts = sum(json.loads(line)["kind"] == "start" for line in text.splitlines())
        assert starts >= 1 + crashed.count(node)


WRITE = """
import os
os.makedirs("/var/lib/kraftwreck/data", exist_ok=True)
os.chdir("/var/lib/kraftwreck/data")
def put(name, text, sync):
    file = os.open(name, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.write(file, text)
    if sync:
        os.fsync(file)
        os.fsync(os.open(".", os.O_RDONLY))
put("synced", b"a" * 5000, True)
put("synced", b"b" * 3000, False)
put("never", b"c" * 100, False)
os.rename("synced", "renamed")
"""


def test_a_crashed_host_keeps_only_fsynced_data(
    netns_possible: None, own_state_directories: Path
) -> None:
    cluster = NetnsCluster(2, disks=True)
    try:
        host, other = cluster.up()
        if cluster.no_disks:
            pytest.skip(f"no disks in files here: {cluster.no_disks}")
        for each in (host, other):
            Remote(each).run(["/usr/bin/python3", "-c", WRITE])
        assert cluster.crash(host.name)["disk"] == "FS_IOC_SHUTDOWN"
        cluster.boot(host.name)
        data = "/var/lib/kraftwreck/data"
        listed = Remote(host).run(["ls", "-l", data]).text.split("\n")[1:]
        assert [(line.split()[4], line.split()[-1]) for line in listed] == [("5000", "synced")]
        kept = Remote(other).run(["ls", data]).text.split()
        assert kept == ["never", "renamed"], "only the one that crashed lost anything"
    finally:
        directory = cluster.directory
        cluster.down()
    assert directory is not None
    wait_until(lambda: directory.name not in loops())


CONTROL = """
import sys, time
from pathlib import Path
from kraftwreck.harness.archive import PROJECT_TREE
from kraftwreck.harness.clusters.netns import NetnsCluster
from kraftwreck.harness.options import RunOptions
from kraftwreck.systems.kraft.system import SYSTEM
cluster = NetnsCluster(2, disks=True)
options = RunOptions(nodes=2, faults=("disk", "storage", "squeeze", "host", "clock"))
up = SYSTEM.deploy(cluster.up(), options, PROJECT_TREE)
up.ready(60)
up.use(cluster)
env = up.remote
print(cluster.directory, flush=True)
env.trouble_disk("n1", "slow", 1)
env.squeeze("n1", "cpu", 1)
env.squeeze("n1", "memory", 1)
env.deployment.agents["n1"].ask(
    "squeeze", service=env.deployment.services["n1"], what="duty", amount=10)
env.kill("n2")
env.damage_disk("n2", 1)
env.mend_disk("n2")
env.crash_host("n2")
print("broken", flush=True)
time.sleep(600)
"""


def loops() -> str:
    return subprocess.run(["losetup", "-a"], capture_output=True, text=True, check=False).stdout


def left_of(directory: Path) -> list[str]:
    """Return the machine's leftovers of a cluster: groups, mounts, processes, links, files."""
    found = [
        str(group)
        for subsystem in cgroups.SUBSYSTEMS
        if (group := cgroups.ROOT / subsystem / f"kraftwreck-{directory.name}").exists()
    ]
    found += [line for line in Path("/proc/mounts").read_text().splitlines()
              if str(directory) in line]  # fmt: skip
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                if f"{directory}/" in (process / "mountinfo").read_text():
                    found.append(str(process))
            except OSError:
                continue
    return found


def test_nothing_is_left_when_the_control_process_is_killed_amid_all_of_it(
    netns_possible: None, own_state_directories: Path
) -> None:
    control = subprocess.Popen(
        [sys.executable, "-c", CONTROL], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert control.stdout is not None
    directory = Path(control.stdout.readline().strip())
    assert left_of(directory), "there is something to look for"
    assert control.stdout.readline().strip() == "broken"
    control.kill()
    control.wait()
    control.stdout.close()
    wait_until(lambda: left_of(directory) == [])
    wait_until(lambda: not directory.exists())
    states.sweep()
    # A loop device goes away with the last mount of it, which the kernel takes its time for.
    wait_until(lambda: directory.name not in loops())


def test_without_machines_to_crash_it_is_said_in_one_line(cluster: NetnsCluster) -> None:
    env = RemoteEnvironment(Deployment(cluster.hosts, Settings(seed=1)))
    with pytest.raises(RemoteError, match="cannot be crashed; use -c netns"):
        env.crash_host("n1")
    env.close()
    env.deployment.close()

"""However the control process ends, nothing of its cluster stays on the machine."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from kraftwreck.harness.clusters import rootless
from kraftwreck.harness.clusters import state as states
from kraftwreck.harness.clusters.cluster import ClusterError, ClusterUnavailable
from kraftwreck.harness.clusters.netns import NetnsCluster
from kraftwreck.harness.clusters.state import ProcessIdentity, State
from kraftwreck.harness.remote.session import Remote
from tests.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.whole_machine]

ROOT = Path(__file__).resolve().parents[2]

CONTROL = """
import signal, sys, time
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whoever runs the tests may ignore it
from kraftwreck.harness.clusters.netns import NetnsCluster
from kraftwreck.harness.remote.session import Remote
cluster = NetnsCluster(3)
hosts = cluster.up()
for host in hosts:
    Remote(host).run(["nft", "add", "table", "inet", "kraftwreck"])
    Remote(host).run(["sh", "-c", "setsid sleep 97.31 >/dev/null 2>&1 &"])
print(cluster.directory, hosts[0].ip, flush=True)
time.sleep(600)
"""


def processes(directory: Path) -> dict[int, str]:
    """Processes of a cluster: those of its supervisor, and those that live in its hosts."""
    found = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                words = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                mounts = (path / "mountinfo").read_text()
            except (OSError, UnicodeDecodeError):
                continue
            if str(directory) in words or f"{directory}/nodes" in mounts:
                found[int(path.name)] = words
    return found


def namespaces(pids: Collection[int]) -> set[str]:
    """The namespaces these processes are in and this one is not."""
    found: set[str] = set()
    for kind in ("net", "mnt", "uts", "ipc", "pid"):
        ours = Path(f"/proc/self/ns/{kind}").readlink()
        for pid in pids:
            with contextlib.suppress(OSError):
                theirs = Path(f"/proc/{pid}/ns/{kind}").readlink()
                if theirs != ours:
                    found.add(str(theirs).partition("[")[2].rstrip("]"))
    return found


def living_namespaces() -> set[str]:
    listed = subprocess.run(["lsns", "-nro", "NS"], capture_output=True, text=True, check=True)
    return set(listed.stdout.split())


CONTROLS: list[subprocess.Popen[str]] = []
"""The processes of one test."""


@pytest.fixture(autouse=True)
def no_control_process_stays() -> Iterator[None]:
    """End the processes of a test that failed: otherwise their warning fails a later test."""
    yield
    while CONTROLS:
        control = CONTROLS.pop()
        control.kill()
        control.wait()


def start_control() -> tuple[subprocess.Popen[str], Path, str]:
    """Start a process that brings a cluster up; return it, its directory and a host's ip."""
    control = subprocess.Popen(
        [sys.executable, "-c", CONTROL], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    CONTROLS.append(control)
    assert control.stdout is not None
    with control.stdout as printed:
        directory, ip = printed.readline().split()
    return control, Path(directory), ip


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_killing_the_control_process_leaves_nothing(
    netns_possible: None, number: signal.Signals
) -> None:
    control, directory, _ = start_control()
    state = State.read(directory)
    assert state is not None
    uplink = Path("/sys/class/net") / state.uplink
    assert uplink.exists()
    wait_until(lambda: len(processes(directory)) >= 8, "supervisor, three sshds, three programs")
    own = namespaces(processes(directory))
    assert len(own & living_namespaces()) >= 15, "five namespaces for each host"
    control.send_signal(number)
    control.wait()
    wait_until(lambda: not directory.exists() and not processes(directory))
    wait_until(lambda: not uplink.exists() and not own & living_namespaces())
    assert str(directory) not in Path("/proc/self/mountinfo").read_text()
    rules = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=True)
    assert "kraftwreck" not in rules.stdout


def test_killing_the_supervisor_ends_every_host(netns_possible: None) -> None:
    control, directory, _ = start_control()
    state = State.read(directory)
    assert state is not None
    outer, inner = state.supervisor
    assert outer.kill()
    wait_until(lambda: not processes(directory) and not inner.alive())
    control.kill()
    control.wait()
    assert directory.exists(), "nobody was left to remove it"
    assert directory in states.sweep()
    assert not directory.exists()


def test_leftovers_of_a_dead_cluster_are_removed_by_the_next_start(
    netns_possible: None, own_state_directories: Path
) -> None:
    stale = own_state_directories / "100-dead"
    (stale / "nodes/n1/upper/etc").mkdir(parents=True)
    (stale / "nodes/n1/upper/etc/hosts").touch()
    cluster = NetnsCluster(1)
    cluster.up()
    try:
        assert not stale.exists()
    finally:
        cluster.down()


def test_sweeping_kills_only_the_very_processes(own_state_directories: Path) -> None:
    """The pid in a stale state now belongs to a later process: it is let alone."""
    innocent = subprocess.Popen(["sleep", "300"])
    victim = subprocess.Popen(["sleep", "300"])
    try:
        named = ProcessIdentity.of(victim.pid)
        other = ProcessIdentity(innocent.pid, ProcessIdentity.of(innocent.pid).start - 1)
        directory, lock = states.create("101-dead")
        State("101-dead", states.boot_id(), True, other, [other, named]).write(directory)
        os.close(lock)
        assert states.sweep() == [directory]
        assert victim.wait(timeout=300) == -signal.SIGKILL
        assert innocent.poll() is None
    finally:
        innocent.kill()
        innocent.wait()
        victim.kill()
        victim.wait()


SUPERVISOR = """
import shutil, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (shutil.rmtree(sys.argv[1]), time.sleep(0.5), sys.exit()))
print(flush=True)
time.sleep(600)
"""
"""Removes its directory and needs some more time to end."""


def test_the_end_of_a_cluster_is_the_end_of_its_supervisor(own_state_directories: Path) -> None:
    directory, lock = states.create("103-slow")
    supervisor = subprocess.Popen(
        [sys.executable, "-c", SUPERVISOR, directory], stdout=subprocess.PIPE, pass_fds=[lock]
    )
    try:
        assert supervisor.stdout is not None
        supervisor.stdout.readline()
        named = ProcessIdentity.of(supervisor.pid)
        State("103-slow", states.boot_id(), True, named, [named]).write(directory)
        os.close(lock)
        states.end(directory)
        assert not directory.exists()
        assert not named.alive()
    finally:
        supervisor.kill()
        supervisor.communicate()


def test_a_live_cluster_is_never_swept(netns_possible: None) -> None:
    cluster = NetnsCluster(1)
    (host,) = cluster.up()
    directory = cluster.directory
    assert directory not in states.sweep()
    assert Remote(host).run(["hostname"]).text == "n1"
    cluster.down()
    assert directory is not None
    assert not directory.exists()


def test_two_clusters_at_once_do_not_meet(netns_possible: None) -> None:
    first, second = NetnsCluster(2), NetnsCluster(2)
    (one, _), (other, _) = first.up(), second.up()
    try:
        assert one.ip.rpartition(".")[0] != other.ip.rpartition(".")[0]
        assert Remote(one).run(["hostname"]).text == Remote(other).run(["hostname"]).text == "n1"
        reach = ["bash", "-c", f"exec 3<>/dev/tcp/{other.ip}/22"]
        assert Remote(one).run(reach, check=False).status != 0
        first.down()
        assert Remote(other).run(["hostname"]).text == "n1"
    finally:
        first.down()
        second.down()


def test_a_subnet_this_machine_routes_is_not_taken(
    netns_possible: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ipaddress import IPv4Network

    from kraftwreck.harness.clusters import switch

    monkeypatch.setattr(
        switch, "taken_networks", lambda: [IPv4Network("10.77.0.0/23"), IPv4Network("10.77.3.7/32")]
    )
    assert [subnet.number for subnet in switch.free_subnets()][:2] == [2, 4]


@pytest.mark.wall_clock("holds hosts to their time limits")
def test_up_and_down_are_fast(netns_possible: None) -> None:
    """The limits are 5 s and 3 s for five hosts, once of three times; bench/cluster.py measures."""
    took = []
    for _ in range(3):
        cluster = NetnsCluster(5)
        began = time.monotonic()
        cluster.up()
        up = time.monotonic()
        cluster.down()
        took.append((up - began, time.monotonic() - up))
        if took[-1][0] < 5 and took[-1][1] < 3:
            return
    pytest.fail(f"up and down took {took} s")


def test_down_twice_and_without_up_is_harmless(netns_possible: None) -> None:
    cluster = NetnsCluster(1)
    cluster.down()
    cluster.up()
    with pytest.raises(ClusterError, match="is up already"):
        cluster.up()
    cluster.down()
    cluster.down()


class TestRefusals:
    """A machine that lacks something gets one line of error and no leftovers."""

    def reason(self) -> str:
        before = states.directories()
        with pytest.raises(ClusterUnavailable) as caught:
            NetnsCluster(1).up()
        assert "\n" not in str(caught.value)
        assert caught.value.exit_code == 254
        assert states.directories() == before
        return str(caught.value)

    def test_a_plain_user_without_permitted_namespaces_is_refused(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        why = "unshare: Operation not permitted"
        monkeypatch.setattr(rootless, "needed", lambda: True)
        monkeypatch.setattr(rootless, "examine", lambda: {"refused": why})
        assert self.reason() == f"a plain user's namespaces are refused here: {why}"

    def test_a_missing_tool(self, monkeypatch: pytest.MonkeyPatch) -> None:
        known = {"nft": None}
        monkeypatch.setattr(shutil, "which", lambda tool, path: known.get(tool, f"/bin/{tool}"))
        assert self.reason() == "nft is missing: apt-get install nftables"

    def test_namespaces_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        fake = tmp_path / "unshare"
        fake.write_text("#!/bin/sh\necho 'unshare failed: Operation not permitted' >&2\nexit 1\n")
        fake.chmod(0o755)
        monkeypatch.setattr(rootless, "needed", lambda: False)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        assert "namespaces are refused here: unshare failed" in self.reason()

    def test_a_mount_refused_on_the_way(
        self, netns_possible: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Real refusal: the supervisor runs without the capability to mount."""
        bounded = ["setpriv", "--bounding-set", "-sys_admin", sys.executable]
        wrapper = Path(states.state_root()).parent / "python-without-mount"
        wrapper.write_text(f'#!/bin/sh\nexec {" ".join(bounded)} "$@"\n')
        wrapper.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(wrapper))
        assert "unshare: Operation not permitted" in self.reason()

    @pytest.mark.parametrize("nodes", [0, -1, 201])
    def test_an_impossible_number_of_hosts(self, nodes: int) -> None:
        with pytest.raises(ClusterError, match=f"^{nodes} hosts requested; give 1 to 200"):
            NetnsCluster(nodes)


class TestByHand:
    """``kraftwreck cluster``: a detached cluster outlives its command."""

    @pytest.fixture(autouse=True)
    def alone(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """No other cluster is in sight."""
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))

    def command(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "kraftwreck", "cluster", *words],
            cwd=ROOT, text=True, capture_output=True, check=check,
        )  # fmt: skip

    def test_up_status_heal_down(self, netns_possible: None) -> None:
        up = json.loads(self.command("up", "--nodes", "2", "--json").stdout)
        inventory = Path(up["inventory"])
        identifier = inventory.parent.name
        (row,) = json.loads(self.command("status", "--json").stdout)["clusters"]
        assert (row["id"], row["condition"], row["hosts"]) == (identifier, "up", ["n1", "n2"])
        # The inventory is one that ``-c hosts:FILE`` takes.
        again = json.loads(self.command("up", "-c", f"hosts:{inventory}", "--json").stdout)
        assert again["hosts"] == up["hosts"]
        healed = json.loads(self.command("heal", identifier, "--json").stdout)
        assert healed[identifier]["n2"]["packets"] == 0
        down = self.command("down", identifier)
        assert down.stderr == f"{identifier}  down\n"
        assert not inventory.parent.exists()
        assert not processes(inventory.parent)

    def test_down_cleans_a_stale_directory(self) -> None:
        stale = states.state_root() / "102-dead"
        (stale / "nodes/n1/upper").mkdir(parents=True)
        assert "102-dead  removed" in self.command("down").stderr
        assert not stale.exists()

    def test_down_ends_a_running_test_only_by_name(self, netns_possible: None) -> None:
        control, directory, _ = start_control()
        assert "nothing to take down" in self.command("down").stderr
        assert "in use" in self.command("status").stderr
        assert directory.exists()
        self.command("down", directory.name)
        wait_until(lambda: not processes(directory))
        assert not directory.exists()
        control.kill()
        control.wait()

    @pytest.mark.parametrize(
        ("words", "status", "line"),
        [
            (["down", "nosuch"], 254, "cluster 'nosuch' not found on this machine; clusters: none"),
            (["up", "-c", "cloud"], 254, "cluster 'cloud' is unknown; use netns, vagrant, "),
            (["up", "-c", "hosts:/nosuch"], 254, "/nosuch: cannot be read: No such file"),
            (["down", "-c", "netns"], 254, "only netns and vagrant hosts can be taken down"),
        ],
    )
    def test_mistakes_are_one_line(self, words: list[str], status: int, line: str) -> None:
        done = self.command(*words, check=False)
        assert done.returncode == status
        assert done.stderr.startswith(f"kraftwreck cluster {words[0]}: {line}")
        assert done.stderr.count("\n") == 1

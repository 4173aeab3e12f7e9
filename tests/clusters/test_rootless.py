"""Namespace hosts of a plain user: no root, no helper; the faults bite, and nothing is left."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.harness.archive import IMPORT_ROOT
from kraftwreck.harness.options import RunOptions
from kraftwreck.histories.fault import Fault
from kraftwreck.nemesis.plan import plan_faults
from tests.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.whole_machine]

PROJECT = IMPORT_ROOT
PYTHON = PROJECT / ".venv/bin/python"
NOBODY = 65534
FAULTS = ("partition", "kill", "pause", "clock")
TIME_S = 7
INTERVAL_S = 4.0
PATH = "/usr/local/bin:/usr/bin:/bin"
"""The path of a plain user of Debian: nft is not on it."""


@dataclass(frozen=True)
class PlainUser:
    """A user without any rights, who has a folder."""

    uid: int
    gid: int
    home: Path

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a command of ours as this user."""
        return self.program(str(PYTHON), "-m", "kraftwreck", *words)

    def program(self, *argv: str) -> subprocess.Popen[str]:
        """Start a program as this user."""
        return subprocess.Popen(
            argv,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.home,
            env={"PATH": PATH, "HOME": str(self.home), "LOGNAME": "plain",
                 "PYTHONPATH": str(PROJECT), "XDG_RUNTIME_DIR": str(self.home / "run")},
            user=self.uid,
            group=self.gid,
            extra_groups=[] if os.geteuid() == 0 else None,
        )  # fmt: skip

    def run(self, *words: str, status: int = 0) -> tuple[str, str]:
        """Run a command of ours as this user; return what it prints."""
        process = self.start(*words)
        out, err = process.communicate(timeout=300)
        assert process.returncode == status, err
        return out, err

    def processes(self) -> set[str]:
        """Return all processes of this user, by pid and name."""
        found = set()
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and entry.stat().st_uid == self.uid:
                    found.add(f"{entry.name} {(entry / 'comm').read_text().strip()}")
            except OSError:
                continue
        return found


@pytest.fixture(scope="module")
def plain() -> Iterator[PlainUser]:
    """A plain user, where the kernel lets one have namespaces."""
    uid, gid = (os.geteuid(), os.getegid()) if os.geteuid() else (NOBODY, NOBODY)
    # Not below the tests' own folder, which nobody else may enter.
    home = Path(tempfile.mkdtemp(prefix="kraftwreck-plain-"))
    os.chown(home, uid, gid)
    home.chmod(0o755)
    user = PlainUser(uid, gid, home)
    (home / "run").mkdir(mode=0o700)
    os.chown(home / "run", uid, gid)
    try:
        try:
            process = user.start("cluster", "doctor", "--json")
        except PermissionError as error:
            pytest.skip(f"a plain user cannot enter this checkout: {error}")
        out, err = process.communicate(timeout=300)
        if "a plain user's namespaces are refused here" in err:
            pytest.skip(err.strip())
        assert process.returncode == 0, err
        (home / "doctor.json").write_text(out)
        yield user
    finally:
        shutil.rmtree(home)


def links() -> set[str]:
    """Return the network interfaces of this machine."""
    return {path.name for path in Path("/sys/class/net").iterdir()}


def wait_until_gone(user: PlainUser, before: set[str]) -> set[str]:
    """Return which processes of the user are there that were not, after some patience."""
    wait_until(lambda: not user.processes() - before)
    return user.processes() - before


def suits(schedule: Sequence[Fault]) -> bool:
    """Whether each fault is there once, and lasts, and the node to be paused runs."""
    by_kind = {fault.kind: fault for fault in schedule}
    if set(by_kind) != set(FAULTS) or len(schedule) != len(FAULTS):
        return False
    pause, kill = by_kind["pause"], by_kind["kill"]
    long = all(fault.duration > 1_000_000_000 for fault in schedule)
    return long and pause.at + pause.duration < kill.at


def seed_of(time_limit_s: float, nodes: int) -> int:
    """Return the first seed whose plan has all the faults and is easy to judge."""
    for seed in count():
        options = RunOptions(
            faults=FAULTS, time_limit_s=time_limit_s, nodes=nodes, seed=seed, style="timed",
            interval_s=INTERVAL_S,
        )  # fmt: skip
        if suits(plan_faults(options, 0)):
            return seed
    raise AssertionError


@pytest.fixture(scope="module")
def told(plain: PlainUser) -> dict[str, Any]:
    """Return the output and the leftovers of a whole run with four families of faults."""
    before = plain.processes(), links()
    seed = str(seed_of(TIME_S, 3))
    words = [
        "run",
        "kraft",
        "-c",
        "netns",
        "--nodes",
        "3",
        "-n",
        ",".join(FAULTS),
        "-t",
        str(TIME_S),
        "--style",
        "timed",
        "--interval",
        str(INTERVAL_S),
    ]
    out, _ = plain.run(*words, "--seed", seed, "--no-tables", "--json", "--store", "store")
    told: dict[str, Any] = json.loads(out)
    told["left"] = sorted(wait_until_gone(plain, before[0]))
    told["new links"] = sorted(links() - before[1])
    folder = plain.home / told["run"]
    told["faults"] = [
        json.loads(line) for line in (folder / "faults.jsonl").read_text().splitlines()
    ]
    told["test"] = json.loads((folder / "test.json").read_text())
    return told


def evidence(told: dict[str, Any], kind: str, phase: str) -> list[dict[str, Any]]:
    """Return the evidence of all faults of a family when they started or stopped."""
    found = [f for f in told["faults"] if f["kind"] == kind and f["phase"] == phase]
    assert all(f.get("error") is None for f in found)
    return [f["evidence"] for f in found]


@pytest.mark.whole_run
def test_a_run_of_a_plain_user_is_valid_on_namespace_hosts(told: dict[str, Any]) -> None:
    assert told["errors"] == []
    assert told["valid"] is True
    assert told["test"]["cluster"] == "netns"  # and not the simulator instead


@pytest.mark.whole_run
def test_its_faults_have_their_evidence(told: dict[str, Any]) -> None:
    """As on root's hosts: packets dropped, processes gone, processes stopped, clocks wrong."""
    rules = evidence(told, "partition", "start")
    assert all("ip saddr @dropped counter" in json.dumps(each) for each in rules)
    dropped = [int(n) for n in re.findall(r'"packets": (\d+)', json.dumps(told["faults"]))]
    assert max(dropped) > 0
    assert all("ESRCH" in json.dumps(each) for each in evidence(told, "kill", "start"))
    assert all('"after": "T"' in json.dumps(each) for each in evidence(told, "pause", "start"))
    assert all('"measured"' in json.dumps(each) for each in evidence(told, "clock", "stop"))


@pytest.mark.whole_run
def test_it_leaves_nothing_behind(told: dict[str, Any], plain: PlainUser) -> None:
    assert told["left"] == []
    assert told["new links"] == []
    assert list((plain.home / "run/kraftwreck").glob("[0-9]*")) == []


def test_a_plain_user_gets_no_right_over_the_machine(plain: PlainUser) -> None:
    """A host's root-like user can cut its own network, and can neither set the machine's clock
    nor write where the machine's programs are."""
    out, _ = plain.run("cluster", "up", "--nodes", "1", "--json")
    try:
        inventory = json.loads(out)["inventory"]
        script = (
            "import json, sys; sys.path.insert(0, sys.argv[1]);"
            "from pathlib import Path;"
            "from kraftwreck.harness.clusters.hosts import load_inventory;"
            "from kraftwreck.harness.remote.session import Remote;"
            "r = Remote(load_inventory(Path(sys.argv[2]))[0]);"
            "print(json.dumps([r.run(['sh', '-c', c], check=False).status for c in sys.argv[3:]]))"
        )
        commands = {
            "nft add table inet mine && nft list table inet mine": 0,
            "date -s @$(date +%s)": 1,
            "touch /usr/bin/x": 1,
            "touch /etc/own /var/lib/own": 0,
        }
        # The machine's clock would stay as it is even if somebody could set it.
        process = plain.program(str(PYTHON), "-c", script, str(PROJECT), inventory, *commands)
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        assert json.loads(out) == list(commands.values())
        healed = json.loads(plain.run("cluster", "heal", "--json")[0])
        assert [list(hosts) for hosts in healed.values()] == [["n1"]]
    finally:
        plain.run("cluster", "down")
    assert list((plain.home / "run/kraftwreck").glob("[0-9]*")) == []


def test_an_unavailable_feature_is_refused_in_one_line(plain: PlainUser) -> None:
    means = json.loads((plain.home / "doctor.json").read_text())["netns"]["n1"]["means"]
    assert means["drops"] == "nftables"
    if means["packets"] is not None:
        pytest.skip(f"packets can be disturbed by {means['packets']} here, by a plain user too")
    _, err = plain.run("run", "-c", "netns", "-n", "roles-slow", "--brokers", "1", status=254)
    (line,) = [line for line in err.splitlines() if "roles-slow" in line]
    assert "-c netns does not support the fault" in line
    assert "/dev/net/tun" in line


FORBIDDEN = """
echo 0 > /proc/sys/user/max_user_namespaces
exec setpriv --inh-caps=-all --ambient-caps=-all --bounding-set=-all "$@"
"""


def test_a_kernel_that_forbids_namespaces_gives_one_line_with_a_remedy(plain: PlainUser) -> None:
    """In a namespace of its own the plain user is one who may have no further ones."""
    alone = ["unshare", "--user", "--map-current-user", "--keep-caps", "sh", "-c", FORBIDDEN, "sh"]
    process = plain.program(*alone, str(PYTHON), "-m", "kraftwreck", "cluster", "up")
    _, err = process.communicate(timeout=300)
    assert process.returncode == 254
    assert err == (
        "kraftwreck cluster up: a plain user's namespaces are refused here: unshare: No space left"
        " on device (sysctl user.max_user_namespaces is 0)\n"
    )


def test_a_killed_control_process_takes_everything_with_it(plain: PlainUser) -> None:
    before = plain.processes(), links()
    words = ["run", "kraft", "-c", "netns", "--nodes", "2", "-n", "none", "-t", "60"]
    with plain.start(*words, "--no-tables", "--store", "store") as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "hosts are up" in line:
                break
        assert "sshd" in " ".join(plain.processes() - before[0])
        process.send_signal(signal.SIGKILL)
    assert wait_until_gone(plain, before[0]) == set()
    assert links() == before[1]
    plain.run("cluster", "down")  # sweeps what dead ones left: files
    assert list((plain.home / "run/kraftwreck").glob("[0-9]*")) == []

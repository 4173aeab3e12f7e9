"""Vagrant for real, from ``up`` to ``destroy``: machines are containers of a daemon of our own.

``make vagrant-test`` runs this. Nothing but the Debian archive is needed, and what is made on
the way (containers, bridges, rules, files) is gone afterwards. The machines share this kernel
and so its clock, which nobody in there may set: the fault ``clock`` is that of the preloaded
library.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.options import RunOptions
from kraftwreck.campaign import plan_faults
from nemesis.clocks import CLOCKS
from nemesis.generator import style_of
from tests.vagrant.apart import CAP_SYS_TIME, Apart, ApartError, networks, sweep
from tests.vagrant.leftovers import ROOT, clock_offset, seen

pytestmark = [pytest.mark.vagrant, pytest.mark.slow]

BUILD = ROOT / "build" / "vagrant"
IMAGE = "kraftwreck/debian12"
PROVIDER = "docker"
COMMAND = "ssh-keygen -A && mkdir -p /run/sshd && exec /usr/sbin/sshd -D"
KRAFTWRECK = (str(ROOT / ".venv/bin/python"), "-m", "kraftwreck")
FAULTS = ("partition", "kill", "clock")
SECONDS = 60
JUMP_US, JUMP_NS, RESTART_NS = 5_000_000, 1_500_000_000, 4_000_000_000
WRONG_US = 100_000
TOOLS = {"vagrant": "vagrant", "dockerd": "docker.io", "mmdebstrap": "mmdebstrap"}


@pytest.fixture(scope="module")
def box() -> Path:
    """The image of the machines, made when there is none or the recipe has changed."""
    if os.environ.get("PROVIDER", PROVIDER) != PROVIDER:
        pytest.fail(
            f"PROVIDER={os.environ['PROVIDER']}: this test brings up machines by {PROVIDER} only, "
            "see docs/vagrant.md",
            pytrace=False,
        )
    if os.geteuid() != 0:
        pytest.skip("containers need root")
    for tool, package in TOOLS.items():
        if shutil.which(tool, path="/usr/sbin:/usr/bin:/sbin:/bin") is None:
            pytest.skip(f"{tool} is missing: scripts/setup --vagrant, or apt-get install {package}")
    recipe = [ROOT / "vagrant" / name for name in ("rehearsal/box.sh", "provision.sh")]
    recipe.append(ROOT / "vagrant/docker/vagrant.pub")
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in recipe)).hexdigest()[:12]
    target = BUILD / f"docker-{digest}.tar"
    if not target.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        for old in BUILD.glob("docker-*.tar"):
            old.unlink()
        with Step("box made of Debian's packages"):
            made = subprocess.run(
                [recipe[0], target], capture_output=True, text=True, timeout=1800, check=False
            )
        if made.returncode != 0:
            pytest.skip(f"no box can be made here: {last_line(made)}")
    return target


@contextlib.contextmanager
def daemon(directory: Path, box: Path) -> Iterator[Apart]:
    """A daemon that has the image; nothing of it stays. Skips where containers are refused."""
    sweep(BUILD)
    there = Apart(directory)
    try:
        with Step("daemon started, image read"):
            there.start()
            change = [
                option
                for text in (f"CMD {json.dumps(['/bin/sh', '-c', COMMAND])}", "EXPOSE 22")
                for option in ("--change", text)
            ]
            read = there.run(["docker", "import", *change, box, IMAGE])
        if read.returncode != 0:
            pytest.skip(f"containers are refused here: {last_line(read)}")
        yield there
    except ApartError as error:
        pytest.skip(f"containers are refused here: {error}")
    finally:
        there.stop()
        shutil.rmtree(there.directory, ignore_errors=True)


class Step:
    """Shows how long something took."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        self._began = time.monotonic()

    def __exit__(self, *_: object) -> None:
        print(f"vagrant-test: {self._what}: {time.monotonic() - self._began:.1f} s", flush=True)


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    return ((done.stderr or "") + (done.stdout or "")).strip().splitlines()[-1]


class User:
    """Somebody with Vagrant and kraftwreck, apart; every command must succeed."""

    def __init__(self, apart: Apart) -> None:
        self._apart = apart
        self.store = BUILD / "store"
        self._environment = {
            "VAGRANT_DEFAULT_PROVIDER": "docker",
            "VAGRANT_DOTFILE_PATH": str(apart.directory / "dot"),
            "VAGRANT_HOME": str(apart.directory / "vagrant.d"),
            "VAGRANT_CHECKPOINT_DISABLE": "1",
            "KRAFTWRECK_IMAGE": IMAGE,
            # Vagrant is what is tried, on few processors: no Spark beside it.
            "JAVA_HOME": str(apart.directory / "none"),
        }

    def does(self, *command: str) -> str:
        shown = " ".join(command)
        with Step(f"{shown[:60]} …" if len(shown) > 60 else shown):
            done = self._apart.run(command, environment=self._environment, timeout_s=900, show=True)
        assert done.returncode == 0, f"`{shown}` gave status {done.returncode}"
        return done.stdout

    def kraftwreck(self, *words: str) -> dict[str, Any]:
        said: dict[str, Any] = json.loads(self.does(*KRAFTWRECK, *words, "--json"))
        return said


class Clock:
    """Watches this machine's clock: how far it was put at most, in seconds."""

    def __init__(self) -> None:
        self._first = clock_offset()
        self._most = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._over.wait(0.2):
            self._most = max(self._most, abs(clock_offset() - self._first))

    def moved(self) -> float:
        self._over.set()
        self._thread.join()
        return max(self._most, abs(clock_offset() - self._first))


def telling_seed() -> int:
    """The first seed by which every family strikes at times of its own, and clocks are put far
    ahead or back while nobody is down, nor still coming up on a slow machine."""
    for seed in range(10_000):
        if style_of(seed) != "timed":
            continue
        options = RunOptions(faults=FAULTS, nodes=3, seed=seed, time_limit_s=SECONDS)
        planned = plan_faults(options, 0)
        away = [(f.at, f.at + f.duration + RESTART_NS) for f in planned if f.kind == "kill"]
        jumps = [
            fault
            for fault in planned
            if fault.kind == "clock"
            and fault.shape == "jump"
            and abs(CLOCKS["jump"].setting(fault.draw).wall_us) >= JUMP_US
            and fault.duration >= JUMP_NS
            and not any(fault.at < end and begin < fault.at + JUMP_NS for begin, end in away)
        ]
        if {fault.kind for fault in planned} == set(FAULTS) and jumps:
            return seed
    raise AssertionError("no seed plans all faults")


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def check_that_faults_bit(run: Path) -> None:
    """By what the machines' kernels and the nodes say, not by what was asked of them."""
    faults = lines(run / "faults.jsonl")
    assert not [fault["error"] for fault in faults if fault["error"]]
    by_kind: dict[str, list[dict[str, Any]]] = {kind: [] for kind in FAULTS}
    for fault in faults:
        by_kind[fault["kind"]].append(fault)
    dropped = sum(
        host.get("packets", 0) for fault in by_kind["partition"]
        for host in fault["evidence"].values()
    )  # fmt: skip
    assert dropped > 0, "no packet was dropped by a partition"
    traces = {node.name: lines(node / "trace.jsonl") for node in sorted((run / "nodes").iterdir())}
    killed = {
        name for fault in by_kind["kill"] if fault["phase"] == "start"
        for name, host in fault["evidence"].items() if host["after"] == "ESRCH"
    }  # fmt: skip
    assert killed, "no process was killed"
    for name in killed:
        assert traces[name][-1]["incarnation"] > 0, f"{name} was not started again"
    put = 0
    for name, trace in traces.items():
        ahead = [line["wall"] - line["mono"] for line in trace]
        put = max(put, max(ahead) - min(ahead))
        print(f"vagrant-test: clock of {name} moved by {(max(ahead) - min(ahead)) / 1e6:.3f} s")
    assert put >= WRONG_US, "no node saw another time"
    print(f"vagrant-test: {dropped} packets dropped, killed: {', '.join(sorted(killed))}")


def test_from_up_to_destroy(box: Path) -> None:
    """Two machines are brought up by hand, the run starts the third and halts it again."""
    directory = BUILD / f"apart-{os.getpid()}"
    before, clock = seen(directory), Clock()
    began = time.monotonic()
    with daemon(directory, box) as apart:
        user = User(apart)
        up = user.kraftwreck("cluster", "up", "-c", "vagrant", "--nodes", "2")
        assert [host["name"] for host in up["hosts"]] == ["n1", "n2"]
        assert all(host["host_key"].startswith("ssh-ed25519 ") for host in up["hosts"])

        verdict = user.kraftwreck(
            "run", "-c", "vagrant", "--nodes", "3", "-n", ",".join(FAULTS),
            "-t", str(SECONDS), "--seed", str(telling_seed()), "--store", str(user.store),
        )  # fmt: skip
        assert verdict["valid"] is True
        assert not verdict["errors"]
        run = Path(verdict["run"])
        check_that_faults_bit(run)
        assert (run / "report.html").stat().st_size > 0
        print(f"vagrant-test: report: {run / 'report.html'}")

        # Started by the run, halted by it; the others were there before.
        expected = {"n1": "running", "n2": "running", "n3": "stopped"}
        machines = user.kraftwreck("cluster", "status", "-c", "vagrant")["hosts"]
        assert {name: machines[name] for name in expected} == expected
        assert set(user.kraftwreck("cluster", "heal", "-c", "vagrant")["vagrant"]) == {"n1", "n2"}

        unbound = [pid for pid, may in apart.capabilities().items() if may >> CAP_SYS_TIME & 1]
        assert not unbound, "a process of a container might set the machine's clock"
        networks_there = apart.namespaces()
        assert len(networks_there) >= 3, "the daemon's and those of two machines"

        user.does(*KRAFTWRECK, "cluster", "down", "-c", "vagrant")
        user.does("vagrant", "destroy", "--force")
        assert not apart.run(["docker", "ps", "--all", "--quiet"]).stdout
        assert "vagrant" not in apart.run(["docker", "network", "ls"]).stdout
    print(f"vagrant-test: all of it: {time.monotonic() - began:.1f} s, without making the box")

    assert seen(directory) - before == set()
    everybody = {int(entry.name) for entry in Path("/proc").glob("[0-9]*")}
    assert not networks(everybody) & networks_there
    assert clock.moved() < 0.5, "this machine's clock was set"

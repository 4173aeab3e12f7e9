"""Common parts of rehearsals of Vagrant: a user, timed steps, and the evidence of faults."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.harness.options import RunOptions
from kraftwreck.nemesis.families.clocks import CLOCKS
from kraftwreck.nemesis.plan import plan_faults
from tests.vagrant.apart import CAP_SYS_TIME, Apart, ApartError, Daemon, networks, sweep
from tests.vagrant.leftovers import ROOT, clock_offset, seen

BUILD = ROOT / "build" / "vagrant"
KRAFTWRECK = (str(ROOT / ".venv/bin/python"), "-m", "kraftwreck")
FAULTS = ("partition", "kill", "clock")
SECONDS = 60
JUMP_US = 5_000_000
WRONG_US = 100_000


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


def made_box(provider: str, tools: Mapping[str, str], scripts: Sequence[str], kind: str) -> Path:
    """Return the provider's box, made by the first of ``scripts`` (of vagrant/rehearsal) when there
    is none or the recipe has changed, which is all of them.

    ``tools`` are what it takes, with their packages; skips where one is missing or nothing can
    be made.
    """
    if os.geteuid() != 0:
        pytest.skip("a daemon of our own needs root")
    for tool, package in tools.items():
        if shutil.which(tool, path="/usr/sbin:/usr/bin:/sbin:/bin") is None:
            pytest.skip(
                f"{tool} is missing: scripts/setup --{provider}, or apt-get install {package}"
            )
    files = [ROOT / "vagrant/rehearsal" / name for name in scripts]
    packages = re.search(
        r"^packages=.*$", (ROOT / "vagrant/provision.sh").read_text(), re.MULTILINE
    )
    assert packages is not None
    recipe = packages[0].encode() + b"".join(
        file.read_bytes() for file in [*files, ROOT / "vagrant/docker/vagrant.pub"]
    )
    target = BUILD / f"{provider}-{hashlib.sha256(recipe).hexdigest()[:12]}.{kind}"
    if not target.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        for old in BUILD.glob(f"{provider}-*.{kind}"):
            old.unlink()
        with Step("box made of Debian's packages"):
            made = subprocess.run(
                [files[0], target], capture_output=True, text=True, timeout=1800, check=False
            )
        if made.returncode != 0:
            pytest.skip(f"no box can be made here: {last_line(made)}")
    return target


@contextlib.contextmanager
def started(daemon: Daemon) -> Iterator[Apart]:
    """The daemon; nothing of it, nor of what is done with it, stays. Skips where it is refused."""
    directory = BUILD / f"apart-{os.getpid()}"
    sweep(BUILD)
    before, clock = seen(directory), Clock()
    began = time.monotonic()
    apart = Apart(directory, daemon)
    try:
        with Step("daemon started"):
            apart.start()
        yield apart
    except ApartError as error:
        pytest.skip(f"{daemon.machines} are refused here: {error}")
    finally:
        networks_there = apart.known
        apart.stop()
        shutil.rmtree(directory, ignore_errors=True)
    print(f"vagrant-test: all of it: {time.monotonic() - began:.1f} s, without making the box")
    assert networks_there, "nobody looked while machines were running"
    assert seen(directory) - before == set()
    everybody = {int(entry.name) for entry in Path("/proc").glob("[0-9]*")}
    assert not networks(everybody) & networks_there
    assert clock.moved() < 0.5, "this machine's clock was set"


class User:
    """Somebody with Vagrant and kraftwreck, apart; every command must succeed."""

    def __init__(self, apart: Apart, environment: Mapping[str, str], patience_s: float) -> None:
        self._apart = apart
        self._patience_s = patience_s
        self.store = BUILD / "store"
        self._environment = {
            "VAGRANT_DOTFILE_PATH": str(apart.directory / "dot"),
            "VAGRANT_HOME": str(apart.directory / "vagrant.d"),
            "VAGRANT_CHECKPOINT_DISABLE": "1",
            # Vagrant is what is tried, on few processors: no Spark beside it.
            "JAVA_HOME": str(apart.directory / "none"),
            **environment,
        }

    def does(self, *command: str) -> str:
        shown = " ".join(command)
        with Step(f"{shown[:60]} …" if len(shown) > 60 else shown):
            done = self._apart.run(
                command, environment=self._environment, timeout_s=self._patience_s, show=True
            )
        assert done.returncode == 0, f"`{shown}` gave status {done.returncode}"
        return done.stdout

    def kraftwreck(self, *words: str) -> dict[str, Any]:
        said: dict[str, Any] = json.loads(self.does(*KRAFTWRECK, *words, "--json"))
        return said

    def add_box(self, name: str, box: Path) -> None:
        self.does("vagrant", "box", "add", "--name", name, str(box))

    def run_with_faults(self, seed: int) -> Path:
        """A run of three machines: its verdict is valid, and faults have left their traces."""
        run = self.run_of(FAULTS, seed)
        check_that_faults_bit(run)
        return run

    def run_of(self, faults: Sequence[str], seed: int) -> Path:
        """A run of three machines, whose verdict is valid."""
        verdict = self.kraftwreck(
            "run", "-c", "vagrant", "--nodes", "3", "-n", ",".join(faults),
            "-t", str(SECONDS), "--style", "timed", "--seed", str(seed), "--store", str(self.store),
        )  # fmt: skip
        assert verdict["valid"] is True
        assert not verdict["errors"]
        run = Path(verdict["run"])
        assert (run / "report.html").stat().st_size > 0
        print(f"vagrant-test: report: {run / 'report.html'}")
        return run

    def two_and_one_more(self) -> None:
        """Containers: two are brought up by hand, the run starts the third and halts it again."""
        up = self.kraftwreck("cluster", "up", "-c", "vagrant", "--nodes", "2")
        assert [host["name"] for host in up["hosts"]] == ["n1", "n2"]
        assert all(host["host_key"].startswith("ssh-ed25519 ") for host in up["hosts"])
        self.run_with_faults(telling_seed(1.5, 4))
        # Started by the run, halted by it; the others were there before.
        expected = {"n1": "running", "n2": "running", "n3": "stopped"}
        machines = self.kraftwreck("cluster", "status", "-c", "vagrant")["hosts"]
        assert {name: machines[name] for name in expected} == expected
        assert set(self.kraftwreck("cluster", "heal", "-c", "vagrant")["vagrant"]) == {"n1", "n2"}

    def looks_around(self, least: int) -> None:
        """While machines run: nobody may set this machine's clock; they have ``least`` networks."""
        unbound = [
            pid for pid, may in self._apart.capabilities().items() if may >> CAP_SYS_TIME & 1
        ]
        assert not unbound, "a process in there might set this machine's clock"
        assert len(self._apart.namespaces()) >= least

    def takes_down(self) -> None:
        self.does(*KRAFTWRECK, "cluster", "down", "-c", "vagrant")
        self.does("vagrant", "destroy", "--force")


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


def telling_seed(jump_s: float, restart_s: float) -> int:
    """The first seed by which every family strikes at times of its own, and clocks are put far
    ahead or back, for ``jump_s``, while nobody is down, nor still coming up for ``restart_s``."""
    jump_ns, restart_ns = int(jump_s * 1e9), int(restart_s * 1e9)
    for seed in range(10_000):
        options = RunOptions(faults=FAULTS, nodes=3, seed=seed, time_limit_s=SECONDS, style="timed")
        planned = plan_faults(options, 0)
        away = [(f.at, f.at + f.duration + restart_ns) for f in planned if f.kind == "kill"]
        jumps = [
            fault
            for fault in planned
            if fault.kind == "clock"
            and fault.shape == "jump"
            and abs(CLOCKS["jump"].setting(fault.draw).wall_us) >= JUMP_US
            and fault.duration >= jump_ns
            and not any(fault.at < end and begin < fault.at + jump_ns for begin, end in away)
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

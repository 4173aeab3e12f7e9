"""However a run ends, the machine is as it was: interfaces, mounts, rules, namespaces."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest


def output(*command: str) -> list[str]:
    """The sorted lines a command prints."""
    return sorted(subprocess.run(command, capture_output=True, text=True).stdout.splitlines())


def mentions(path: Path) -> list[int]:
    """Processes whose command line or environment names ``path``."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            told = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
        except OSError:
            continue
        if os.fsencode(path) in told:
            found.append(int(entry.name))
    return found


def machine() -> dict[str, list[str]]:
    """What a cluster adds to a machine."""
    return {
        "interfaces": output("ip", "-o", "link"),
        "mounts": sorted(Path("/proc/mounts").read_text().splitlines()),
        "rules": output("nft", "list", "ruleset"),
    }


def namespaces_of(processes: list[int]) -> set[str]:
    """The network namespaces of ``processes`` and what they started, but for the machine's own."""
    family = set(processes)
    while young := {int(pid) for pid in children(family)} - family:
        family |= young
    found = set()
    for pid in family:
        with contextlib.suppress(OSError):
            found.add(str(Path(f"/proc/{pid}/ns/net").stat().st_ino))
    return found - {str(Path("/proc/self/ns/net").stat().st_ino)}


def children(family: set[int]) -> list[str]:
    """The processes that ``family`` has started and that run."""
    return output("ps", "-o", "pid=", "--ppid", ",".join(map(str, family)))


def living(namespaces: set[str]) -> set[str]:
    """Those of ``namespaces`` that are still there; browsers beside us have theirs, too."""
    return namespaces & {line.strip() for line in output("lsns", "-n", "-t", "net", "-o", "NS")}


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "status", "faults"),
    [
        (signal.SIGINT, 130, "partition,kill"),
        (signal.SIGKILL, -9, "partition,kill"),
        (signal.SIGKILL, -9, "network"),
        (signal.SIGKILL, -9, "wire"),
    ],
)
def test_an_ended_run_leaves_nothing_behind(
    how: signal.Signals, status: int, faults: str, tmp_path: Path, netns_possible: None
) -> None:
    before = machine()
    command = [sys.executable, "-m", "kraftwreck", "run", "-t", "600", "--seed", "3", "-n", faults]
    with subprocess.Popen(
        [*command, "--store", str(tmp_path)],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
    ) as run:
        assert run.stderr is not None
        for line in run.stderr:
            if any(f"{family}/" in line for family in faults.split(",")):
                break
        assert machine()["interfaces"] != before["interfaces"]
        namespaces = namespaces_of(mentions(tmp_path))
        assert len(living(namespaces)) > 1
        run.send_signal(how)
        run.stderr.read()
    assert run.returncode == status
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and (
        machine() != before or mentions(tmp_path) or living(namespaces)
    ):
        time.sleep(0.2)
    assert machine() == before
    assert mentions(tmp_path) == []
    assert not living(namespaces)

"""However a run ends, nothing that it added to the machine stays: links, mounts, rules, groups,
loop devices, processes, namespaces. Additions by other programs do not count."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.waiting import wait_until


def output(*command: str) -> list[str]:
    """The lines a command prints."""
    return subprocess.run(command, capture_output=True, text=True).stdout.splitlines()


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


def added(runtime: Path, cluster: str, uplink: str, subnet: str) -> list[str]:
    """Return the machine's leftovers of a cluster with its state in ``runtime``, a line each."""
    words = (str(runtime), cluster, uplink, subnet.removesuffix("0/24"))
    seen = [
        *output("ip", "-o", "link"),
        *output("ip", "-o", "-4", "addr"),
        *output("ip", "-4", "route", "show", "table", "all"),
        *output("ip", "neigh"),
        *output("nft", "list", "ruleset"),
        *output("losetup", "-a"),
        *Path("/proc/mounts").read_text().splitlines(),
        *map(str, Path("/sys/fs/cgroup").glob("*/kraftwreck-*")),
    ]
    found = [line for line in seen if set(_words(line)) & {uplink} or _names(line, words)]
    return found + [f"process {pid}" for pid in mentions(runtime)]


def _words(line: str) -> list[str]:
    """An interface is called ``kw1@if3:`` or ``kw1`` or ``"kw1"``."""
    return [word.strip('":,').partition("@")[0] for word in line.split()]


def _names(line: str, words: tuple[str, ...]) -> bool:
    runtime, cluster, _, prefix = words
    return (
        runtime in line
        or cluster in line
        or any(word.strip('"').startswith(prefix) for word in line.split())
    )


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


def wait_until_empty(what: Callable[[], object]) -> None:
    """Wait until ``what`` returns something empty; the kernel takes its time for namespaces."""
    try:
        wait_until(lambda: not what())
    except AssertionError:
        assert not what()
        raise


@pytest.mark.cluster
@pytest.mark.whole_machine
@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "status", "faults"),
    [
        (signal.SIGINT, 130, "partition,kill"),
        pytest.param(signal.SIGKILL, -9, "partition,kill", marks=pytest.mark.whole_run),
        (signal.SIGKILL, -9, "network"),
        (signal.SIGKILL, -9, "wire"),
    ],
)
def test_an_ended_run_leaves_nothing_behind(
    how: signal.Signals, status: int, faults: str, tmp_path: Path, netns_possible: None
) -> None:
    runtime, store = tmp_path / "runtime", tmp_path / "store"
    runtime.mkdir()
    command = [sys.executable, "-m", "kraftwreck", "run", "-t", "600", "--seed", "3", "-n", faults]
    command += ["--nodes", "3", *([] if status < 0 else ["--no-tables"])]
    with subprocess.Popen(
        [*command, "--store", str(store)],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "XDG_RUNTIME_DIR": str(runtime)},
    ) as run:
        assert run.stderr is not None
        for line in run.stderr:
            if any(f"{family}/" in line for family in faults.split(",")):
                break
        (file,) = (runtime / "kraftwreck").glob("*/state.json")
        state = json.loads(file.read_text())

        def left() -> list[str]:
            return added(runtime, state["id"], state["uplink"], state["subnet"])

        there = " ".join(left())
        for expected in (f"{state['uplink']}@", "scope global", "PERMANENT", "process"):
            assert expected in there, "or nothing is looked for"
        namespaces = namespaces_of(mentions(runtime))
        assert len(living(namespaces)) > 1
        run.send_signal(how)
        run.stderr.read()
    assert run.returncode == status
    wait_until_empty(left)
    wait_until_empty(lambda: living(namespaces))

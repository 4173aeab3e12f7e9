"""The control process killed with -9 amid all faults: points of bench/hygiene.py, and its eyes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.whole_machine]

WHOLE = pytest.mark.whole_run

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "bench/hygiene.py"

LOOK = """
import json, os, subprocess, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import hygiene
run = lambda *command: subprocess.run(command, check=True)
run("mount", "-t", "tmpfs", "tmpfs", "/tmp")
before = hygiene.machine({"here"}, nodes_go_on=False)
assert hygiene.different(before, hygiene.machine({"here"}, nodes_go_on=False)) == []
run("ip", "link", "set", "lo", "up")
run("ip", "link", "add", "kw7", "type", "veth")
run("tc", "qdisc", "add", "dev", "kw7", "root", "tbf", "rate", "1mbit", "burst", "9k",
    "latency", "9ms")
run("nft", "add", "table", "inet", "kraftwreck")
Path("/tmp/runtime").mkdir()
run("mount", "-t", "tmpfs", "tmpfs", "/tmp/runtime")
left = subprocess.Popen(["unshare", "--net", "sleep", "300"])
group = Path("/sys/fs/cgroup/cpu/kraftwreck-here")
grouped = group.parent.joinpath("cgroup.procs").exists()
grouped and group.mkdir()
try:
    found = hygiene.different(before, hygiene.machine({"here"}, nodes_go_on=False))
finally:
    grouped and group.rmdir()
    left.kill()
assert not grouped or any(line.startswith("groups + ") for line in found)
print(json.dumps([line for line in found if not line.startswith("groups")]))
"""


def test_every_leftover_is_detected(netns_possible: None) -> None:
    own = ["unshare", "--net", "--mount", "--pid", "--ipc", "--fork", "--mount-proc"]
    done = subprocess.run(
        [*own, "--kill-child", sys.executable, "-c", LOOK, str(SCRIPT.parent)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = [line.split(" ", 2)[:2] for line in json.loads(done.stdout)]
    assert {kind for kind, sign in found if sign == "+"} == {
        *("interfaces", "addresses", "routes", "rules", "queues", "mounts", "namespaces"),
        *("processes", "files"),
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("point", "way"),
    [(0, "alone"), pytest.param(1, "heal", marks=WHOLE), pytest.param(2, "next", marks=WHOLE)],
)
def test_nothing_stays_when_the_control_process_is_killed(
    netns_possible: None, tmp_path: Path, point: int, way: str
) -> None:
    """A point for each way back; 200 are for bench/hygiene.py."""
    if ROOT.is_relative_to("/tmp"):
        pytest.skip("points have an empty /tmp, and this checkout is there")
    results = tmp_path / "points.jsonl"
    points = ["--points", "1", "--first", str(point), "--families-first", "3"]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *points, "--results", str(results)],
        capture_output=True,
        text=True,
        check=False,
    )
    (row,) = [json.loads(line) for line in results.read_text().splitlines()]
    assert (row["way"], row["left"]) == (way, [])
    assert done.returncode == 0
    assert row["killed"] == "killed"
    assert len(row["faults_seen"]) >= 3, "or nothing was tried"

"""A real server that nobody here wrote, as a package outside of the tree, under faults."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.harness.capabilities import CLOCKS
from kraftwreck.harness.deploy.cache import cache_folder
from kraftwreck.harness.deploy.environment import LACKING, NO_CLOCK
from kraftwreck.harness.options import RunOptions
from kraftwreck.histories.exit_codes import BAD_ARGUMENTS, FAILED, UNKNOWN, VALID
from kraftwreck.histories.fault import Fault
from kraftwreck.histories.operation import Op
from kraftwreck.histories.reading import read_lines
from kraftwreck.nemesis.plan import plan_faults
from kraftwreck.nemesis.possible import adapt, unsupported
from kraftwreck.nemesis.registry import families
from kraftwreck.nodes.draw import draw_below
from tests import tutorial

PLUGIN = Path(__file__).resolve().parent / "plugin"
ENTRY_POINTS = """\
[kraftwreck.systems]
etcd = my_etcd:SYSTEM
crashing = odd_systems:CRASHING
unfetched = odd_systems:UNFETCHED
pinned = odd_systems:PINNED
moody = odd_systems:MOODY
lost = there_is_no_such_module:SYSTEM
unnamed = my_etcd:CLIENTS
[kraftwreck.workloads]
moody-writes = odd_systems:MOODY_WRITES
broken = broken_module:WORKLOAD
[kraftwreck.nemeses]
broken-fault = broken_module:FAULT
[kraftwreck.checkers]
broken-checker = broken_module:check
"""


@dataclass
class Ended:
    code: int
    out: str
    err: str

    @property
    def said(self) -> dict[str, Any]:
        printed: dict[str, Any] = json.loads(self.out)
        return printed


class Installed:
    """The package as if it was installed in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for file in PLUGIN.glob("*.py"):
            shutil.copy2(file, folder)
        shutil.copy2(tutorial.write(folder) / "my_etcd.py", folder)
        (folder / "broken_module.py").write_text("import os\n\nos.no_such_function()\n")
        facts = folder / "etcd_plugin-1.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: etcd-plugin\nVersion: 1\n")
        (facts / "entry_points.txt").write_text(ENTRY_POINTS)

    def __call__(self, *arguments: str) -> Ended:
        return self.python("-m", "kraftwreck", *arguments)

    def python(self, *arguments: str, given: str = "") -> Ended:
        path = os.pathsep.join(filter(None, [str(self.folder), os.environ.get("PYTHONPATH")]))
        done = subprocess.run(
            [sys.executable, *arguments],
            input=given,
            env={**os.environ, "PYTHONPATH": path},
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Ended(done.returncode, done.stdout, done.stderr)

    def run(self, *arguments: str) -> Ended:
        store = str(self.folder / "store")
        return self("run", *arguments, "--json", "--no-tables", "--store", store)


@pytest.fixture
def package(tmp_path: Path) -> Installed:
    return Installed(tmp_path)


@pytest.mark.whole_run
@pytest.mark.cluster
@pytest.mark.usefixtures("netns_possible")
def test_etcd_is_linearizable_under_kills_partitions_and_pauses(package: Installed) -> None:
    if shutil.which("apt-get") is None:
        pytest.skip("Debian's packages are needed")
    ended = package.run(
        "etcd", "--nodes", "3", "-t", "15", "--seed", "1", "-n", "kill,partition,pause"
    )
    said = ended.said
    assert (said["valid"], said["errors"]) == (True, []), ended.err
    assert said["checkers"]["model/register"] is True
    assert sum(said["strength"]["faults"].values()) >= 3
    assert "note: etcd shows no transitions" in ended.err
    assert ended.err.count("no transitions") == 1
    run = Path(said["run"])
    for node in ("n1", "n2", "n3"):
        assert b"etcd Version: 3.4.23" in (run / "nodes" / node / "stdout.log").read_bytes()
    assert list(cache_folder().glob("etcd-*/content.tar"))
    assert "leader" not in ended.err.replace("rules about leaders", "").replace("/leader", "")
    judged_by_what_there_is(package, run)


def judged_by_what_there_is(package: Installed, run: Path) -> None:
    """Commands say once what the run of a foreign system lacks, and fail for nothing of it."""
    replayed = package("replay", str(run))
    assert replayed.code == UNKNOWN
    (line,) = replayed.err.splitlines()
    assert "there is no replay: nodes of etcd record no inputs; to repeat the test: " in line
    assert package("check", str(run / "history.jsonl"), "-m", "register").code == VALID
    assert package("report", str(run)).code == VALID
    page = (run / "report.html").read_text()
    assert page.count("There are no node traces") == 1
    assert 'id="h-leaders"' not in page and 'id="nodes-chart"' not in page
    assert 'failures="0" errors="0"' in (run / "junit.xml").read_text()
    assert "| etcd | register |" in package("table", str(run.parents[1])).out
    shrunk = package("shrink", str(run))
    assert shrunk.code == UNKNOWN and len(shrunk.err.splitlines()) == 1


@pytest.mark.cluster
@pytest.mark.usefixtures("netns_possible")
def test_a_server_that_ends_at_once_is_one_line_and_its_output_is_kept(package: Installed) -> None:
    ended = package.run("crashing", "--nodes", "2", "-t", "5", "-n", "none")
    assert ended.code == FAILED
    (error,) = [line for line in ended.said["errors"] if "set-up" in line]
    assert "n1: " in error
    assert "ended with status 4 before it was ready; its last line: cannot read" in error
    assert len(ended.said["errors"]) == 1, ended.said["errors"]
    log = Path(ended.said["run"]) / "nodes/n1/stdout.log"
    assert log.read_text() == "cannot read my settings\n"


@pytest.mark.cluster
@pytest.mark.usefixtures("netns_possible")
def test_a_moody_client_costs_operations_and_no_run(package: Installed) -> None:
    ended = package.run("moody", "--nodes", "1", "-t", "6", "-n", "none", "--floor", "none")
    assert (ended.said["valid"], ended.said["errors"]) == (True, []), ended.err
    ops = read_lines(Path(ended.said["run"]) / "history.jsonl", Op)
    told = {str(op.error).split(": ", 1)[1] for op in ops if op.type == "info"}
    assert told >= {
        "ValueError: not today",
        "write did not return in 0.5 s",
        "invoke('write') returned 'done', which is no Completion",
    }
    assert all("odd_systems.py" in str(op.error) for op in ops if op.type == "info")
    acknowledged = [op for op in ops if op.type == "ok"]
    assert acknowledged and all(int(op.value) % 4 == 3 for op in acknowledged)


BAD: tuple[tuple[tuple[str, ...], str], ...] = (
    (("etcd", "-n", "kill,clock"), "etcd does not support the fault 'clock': "),
    (("etcd", "-n", "power"), "-n host loses those that were not fsynced"),
    (("etcd", "-n", "roles"), "does not support the fault 'roles': it is a fault of other systems"),
    (("etcd", "--option", "speed=high"), "no option 'speed'; its options: serializable, version"),
    (("etcd", "--option", "version"), "'version' must be NAME=VALUE"),
    (
        ("etcd", "--option", "version=9"),
        "version=9: version must be one of 3.4.23, 3.5.0, 3.5.2, 3.5.9",
    ),
    (
        ("etcd", "--option", "version=3.5.0", "--option", "version=3.5.2"),
        "--option version is given twice",
    ),
    (("kraft", "--option", "a=b"), "kraft has no option 'a'; its options: "),
    (("lost",), "No module named 'there_is_no_such_module'"),
    (("unnamed",), "the entry point 'unnamed' is a int that has no name"),
    (("etcd", "-w", "broken"), "broken_module.py:3)"),
    (("etcd", "-n", "broken-fault"), "of the package etcd-plugin cannot be"),
)
"""Arguments, and a part of the line that refuses them."""

EACH = """
import contextlib, io, json, sys
from kraftwreck.cli.main import status
ended = []
for words in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = status(words)
    ended.append([code, err.getvalue()])
print(json.dumps(ended))
"""
"""One process for many commands: it takes a second to start."""


def test_bad_arguments_are_one_line_before_hosts_are_up(package: Installed) -> None:
    common = ["--nodes", "2", "-t", "5", "--json", "--no-tables", "--store", "store"]
    commands = [["run", *arguments, *common] for arguments, _ in BAD]
    done = package.python("-c", EACH, given=json.dumps(commands))
    assert done.code == 0, done.err
    for (arguments, line), (code, err) in zip(BAD, json.loads(done.out), strict=True):
        assert code == BAD_ARGUMENTS, (arguments, err)
        assert line in err.splitlines()[-1], (arguments, err)
        assert "hosts are up" not in err
        assert "Traceback" not in err


@pytest.mark.usefixtures("netns_possible")
@pytest.mark.parametrize(
    ("system", "line"),
    [
        ("unfetched", "none: `apt-get` failed: E: "),
        ("pinned", "here: wrong checksum: odd_systems.py has SHA-256"),
    ],
)
def test_artefacts_that_cannot_be_had_are_one_line_before_hosts_are_up(
    package: Installed, system: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    apt = package.folder / "apt.conf"  # Without archives nothing is downloaded.
    apt.write_text('Dir::Etc::sourcelist "/dev/null";\nDir::Etc::sourceparts "/dev/null";\n')
    monkeypatch.setenv("APT_CONFIG", str(apt))
    ended = package.run(system, "--nodes", "2", "-t", "5")
    assert ended.code == FAILED
    assert line in ended.err
    assert "hosts are up" not in ended.err


def test_a_plug_in_that_cannot_be_imported_hides_no_other(package: Installed) -> None:
    listed = json.loads(package("list", "--json").out)
    names = {entry["name"] for entry in listed["systems"]}
    assert {"etcd", "kraft", "crashing"} <= names
    broken = {entry["name"]: entry["about"] for entry in listed["broken"]}
    assert set(broken) == {"lost", "unnamed", "broken", "broken-fault", "broken-checker"}
    assert "AttributeError: module 'os' has no attribute 'no_such_function'" in broken["broken"]


@pytest.mark.parametrize("style", ["storms", "swarm"])
@pytest.mark.parametrize("governed", [True, False])
def test_no_fault_waits_for_transitions_that_no_node_shows(style: Any, governed: bool) -> None:
    faults = ("partition", "kill", "pause")

    def planned(system: str, seed: int) -> list[Fault]:
        options = RunOptions(
            system=system, seed=seed, faults=faults, style=style, governed=governed
        )
        return plan_faults(options, 0)

    assert any(fault.trigger is not None for seed in range(20) for fault in planned("kraft", seed))
    for seed in range(300):
        mine = planned("etcd", seed)
        assert mine, seed
        assert all(fault.trigger is None for fault in mine), seed
        assert not any(target.startswith("@") for fault in mine for target in fault.targets), seed


@pytest.mark.parametrize("nodes", [1, 2, 3, 5])
@pytest.mark.parametrize("style", ["storms", "swarm", "timed"])
def test_every_schedule_of_a_plain_server_can_be_drawn(style: Any, nodes: int) -> None:
    """Whatever its families and the number of its nodes."""
    known = families("etcd")
    lacks = {**LACKING, CLOCKS.name: NO_CLOCK}
    names = sorted(name for name in known if unsupported(name, known, lacks) is None)
    assert {"partition", "kill", "pause", "terminate", "restart", "squeeze", "host"} <= set(names)
    for seed in range(250):
        few = [name for name in names if draw_below(3, seed, name)] or names
        for governed in (True, False):
            options = RunOptions(
                system="etcd", seed=seed, faults=tuple(few), style=style, governed=governed,
                nodes=nodes, time_limit_s=30.0,
            )  # fmt: skip
            for fault in adapt(plan_faults(options, 0), known, lacks, nodes, 0):
                assert fault.trigger is None, (seed, fault)
                assert known[fault.kind].features(fault.shape).isdisjoint(lacks), (seed, fault)
                assert not any(target.startswith("@") for target in fault.targets), (seed, fault)

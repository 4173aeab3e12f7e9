"""The package in CONTRIBUTING.md is complete, and does what the page says."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from kraftwreck import api
from kraftwreck.histories.exit_codes import BAD_ARGUMENTS
from kraftwreck.histories.fault import FaultEvent
from kraftwreck.histories.reading import read_lines

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text()


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """Return a folder with the package as if it was installed there."""
    for name, code in re.findall(r"```python\n# (my_plugin/\w+\.py)\n(.*?)```", PAGE, re.S):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(code)
    (configuration,) = re.findall(r"```toml\n# pyproject.toml\n(.*?)```", PAGE, re.S)
    project = tomllib.loads(configuration)["project"]
    facts = tmp_path / "my_plugin-1.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: my-plugin\nVersion: 1\n")
    lines = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {place}" for name, place in points.items())]
    (facts / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return tmp_path


def run(plugin: Path, *arguments: str) -> dict[str, Any]:
    """Run ``kraftwreck run`` with the package; return what ``--json`` prints."""
    done = started(plugin, *arguments)
    assert done.stdout, done.stderr
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed


def started(plugin: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``kraftwreck run`` with the package."""
    path = os.pathsep.join(filter(None, [str(plugin), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "kraftwreck", "run", *arguments, "--json", "--no-tables"]
    return subprocess.run(
        [*command, "--store", str(plugin / "store")],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def test_package_imports_the_public_interface_and_nothing_else(plugin: Path) -> None:
    imported = {
        (node.module, alias.name)
        for file in (plugin / "my_plugin").glob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module and "kraftwreck" in node.module
        for alias in node.names
    }
    assert {module for module, _ in imported} == {"kraftwreck.api"}
    assert {name for _, name in imported} <= set(api.__all__)


def test_faults_of_the_package_work_in_the_simulator(plugin: Path) -> None:
    said = run(plugin, "-c", "sim", "-w", "register", "-n", "kill-first", "-t", "20", "--seed", "1")
    assert said["valid"] is True
    assert said["strength"]["faults"]["kill-first"] > 0


def test_package_can_be_built(plugin: Path) -> None:
    assert (plugin / "my_plugin/__init__.py").is_file(), "hatchling finds no other folder"


def test_fault_that_runs_programs_is_refused_by_the_simulator(plugin: Path) -> None:
    done = started(plugin, "-c", "sim", "-n", "nice", "-t", "5")
    assert done.returncode == BAD_ARGUMENTS
    assert "does not support the fault 'nice': it needs real hosts" in done.stderr


def test_workload_with_verbs_runs_on_another_system_in_the_simulator(plugin: Path) -> None:
    said = run(plugin, "raft", "-c", "sim", "-w", "memory-register", "-n", "kill", "--nodes", "3",
               "-t", "10", "--seed", "1")  # fmt: skip
    assert said["valid"] is True
    assert said["checkers"]["linearizable"] is True


def test_installed_workload_does_not_change_campaigns(plugin: Path) -> None:
    code = "from kraftwreck.systems.kraft.simulated.campaign import drawn; print(*drawn())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(plugin)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "memory-register" not in done.stdout.split()


def test_workload_of_kraft_in_the_docs_runs_in_the_simulator(plugin: Path) -> None:
    page = (ROOT / "docs/workloads.md").read_text()
    (code,) = re.findall(r"```python\n(from [^`]*KraftWorkload.*?)```", page, re.S)
    faces = ("kraftwreck.api", "kraftwreck.systems.kraft.api")
    assert tuple(re.findall(r"^from (\S+)", code, re.M)) == faces
    (plugin / "my_plugin/versions.py").write_text(code)
    points = plugin / "my_plugin-1.dist-info/entry_points.txt"
    group = "[kraftwreck.workloads]\n"
    entry = f"{group}versions = my_plugin.versions:WORKLOAD\n"
    points.write_text(points.read_text().replace(group, entry))
    said = run(plugin, "-c", "sim", "-w", "versions", "-n", "kill", "-t", "10", "--seed", "1")
    assert said["valid"] is True


@pytest.mark.cluster
@pytest.mark.usefixtures("netns_possible")
def test_fault_that_runs_programs_leaves_evidence_on_hosts(plugin: Path) -> None:
    said = run(plugin, "memory", "-n", "nice", "--nodes", "2", "-t", "12", "--seed", "5",
               "-c", "netns")  # fmt: skip
    assert said["errors"] == []
    events = read_lines(Path(said["run"]) / "faults.jsonl", FaultEvent)
    measured = [told["priority"] for event in events for told in event.evidence.values()]
    assert measured == [19, 0] * (len(events) // 2) != []


@pytest.mark.cluster
@pytest.mark.usefixtures("netns_possible")
@pytest.mark.whole_run
def test_system_runs_on_hosts_and_its_lost_value_is_found(plugin: Path) -> None:
    said = run(plugin, "memory", "-n", "kill-first", "--nodes", "3", "-t", "25", "--rate", "60",
               "--seed", "5", "-c", "netns")  # fmt: skip
    assert said["checkers"]["linearizable"] is False
    assert said["checkers"]["slow-operations"] is True
    assert said["errors"] == []

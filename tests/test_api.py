"""The public interface: everything is documented, typed, and enough for a package of one's own."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, get_args, get_origin

import pytest

from kraftwreck import api
from kraftwreck.systems.kraft import api as kraft_api

ROOT = Path(__file__).resolve().parent.parent
PAGE, _, OF_KRAFT = (ROOT / "docs/api.md").read_text().partition("\n## Workloads of KRaft\n")
FACES = [(api, PAGE), (kraft_api, OF_KRAFT)]
"""The public modules, and the text that lists the names of each."""
CORE = ROOT / "examples/two_phase_commit.py"
PLUGINS = [*sorted((ROOT / "tests/deploy/plugin").glob("*.py")), CORE]


@pytest.mark.parametrize("face", [api, kraft_api], ids=lambda face: face.__name__)
def test_all_names_are_sorted_and_there(face: ModuleType) -> None:
    assert face.__all__ == sorted(face.__all__)
    public = {name for name in vars(face) if not name.startswith("_") and name != "annotations"}
    assert public == set(face.__all__)


@pytest.mark.parametrize(("face", "page"), FACES, ids=["api", "kraft"])
def test_the_page_lists_every_name_and_no_other(face: ModuleType, page: str) -> None:
    rows = re.findall(r"^\| (`.*?) \|", page, re.M)
    listed = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(listed) == face.__all__


def has_docstring(name: str) -> bool:
    """Return whether a public name has a docstring of its own."""
    value = getattr(api, name, None) or getattr(kraft_api, name)
    if get_origin(value) is not None or get_args(value):
        return True  # A type such as a union: the page describes it.
    text = value.__doc__ or ""
    generated = text.startswith((f"{name}(", f"{getattr(value, '__name__', name)}("))
    return bool(text.strip()) and not generated


def test_every_name_has_a_docstring() -> None:
    names = [*api.__all__, *kraft_api.__all__]
    assert [name for name in names if not has_docstring(name)] == []


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda path: path.stem)
def test_a_package_imports_the_public_interface_and_nothing_else(plugin: Path) -> None:
    modules = set()
    for node in ast.walk(ast.parse(plugin.read_text())):
        if isinstance(node, ast.ImportFrom):
            whole = node.module == "kraftwreck"
            named = [f"kraftwreck.{alias.name}" for alias in node.names]
            modules.update(named if whole else [node.module or ""])
        elif isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
    assert {module for module in modules if module.startswith("kraftwreck")} == {"kraftwreck.api"}


def test_a_core_outside_of_the_tree_is_simulated_by_the_public_interface(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(CORE.read_text())
    said = simulated("mine:SYSTEM", tmp_path)
    assert [failed["seed"] for failed in said["failed"]] == [5], "the planted bug is found"
    assert simulated("mine:FIXED", tmp_path)["failed"] == []


def simulated(spec: str, folder: Path) -> dict[str, Any]:
    """Return what ``kraftwreck sim`` reports on seeds 4 and 5 from a process in ``folder``."""
    argv = [sys.executable, "-m", "kraftwreck", "sim", spec, "--seeds", "4..5", "-t", "20"]
    argv += ["--jobs", "1", "--no-shrink", "--json"]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said

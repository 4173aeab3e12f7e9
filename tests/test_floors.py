"""Dependencies point one way: a module imports its own package and lower floors only."""

from __future__ import annotations

import ast
from pathlib import Path

import networkx
import pytest

ROOT = Path(__file__).resolve().parent.parent

FLOORS: list[set[str]] = [
    {"histories", "nodes"},
    {"checkers", "simulation"},
    {"harness", "examples"},
    {"nemesis", "oracle", "systems", "workloads"},
    {"nightly", "pipeline", "reports"},
    {"kraftwreck"},
]
PACKAGES = set().union(*FLOORS)
FLOOR = {package: level for level, packages in enumerate(FLOORS) for package in packages}
MODULES = sorted(p for package in PACKAGES for p in (ROOT / package).rglob("*.py"))


def imported_names(source: str) -> set[str]:
    """Top-level names of everything ``source`` imports, wherever in the file."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names.add((node.module or "").split(".")[0])
    return names


def forbidden(package: str, imported: set[str]) -> set[str]:
    """The project packages that ``package`` may not import."""
    ours = imported & PACKAGES - {package}
    bad = {name for name in ours if FLOOR[name] >= FLOOR[package]}
    if package == "nodes":
        bad |= ours
    return bad


@pytest.mark.parametrize("module", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_only_go_down(module: Path) -> None:
    package = module.relative_to(ROOT).parts[0]
    assert not forbidden(package, imported_names(module.read_text()))


def test_the_rule_itself_refuses_an_upward_import() -> None:
    assert forbidden("nodes", {"histories"}) == {"histories"}
    assert forbidden("checkers", {"harness"}) == {"harness"}
    assert forbidden("nemesis", {"workloads"}) == {"workloads"}
    assert forbidden("kraftwreck", {"nodes", "reports"}) == set()


def test_nodes_need_only_the_standard_library() -> None:
    import sys

    allowed = set(sys.stdlib_module_names) | {"nodes", "crc32c"}
    used = {
        name
        for module in (ROOT / "nodes").rglob("*.py")
        for name in imported_names(module.read_text())
    }
    assert used <= allowed


TIED = [
    {"nodes.consensus.kraft.fetches", "nodes.consensus.kraft.replication"},
    {"nodes.consensus.kraft.membership", "nodes.consensus.kraft.replica"},
    {"nodes.metadata.image", "nodes.metadata.image_records"},
]
"""Files that name each other's types, and are one thing in two files each."""


def files_imported(source: str, known: set[str]) -> set[str]:
    """The modules of ``known`` that ``source`` imports, for types alone or not."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= inner & known or {node.module}
    return found & known


def test_no_files_import_each_other_in_a_circle() -> None:
    names = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in MODULES
    }
    graph = networkx.DiGraph(
        (name, other)
        for name, path in names.items()
        for other in files_imported(path.read_text(), set(names))
        if other != name
    )
    circles = [c for c in networkx.strongly_connected_components(graph) if len(c) > 1]
    assert sorted(map(sorted, circles)) == sorted(map(sorted, TIED))

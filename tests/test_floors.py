"""Dependencies point one way: a module imports its own package and lower floors only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import networkx
import pytest

ROOT = Path(__file__).resolve().parent.parent

FLOORS: list[set[str]] = [
    {"histories", "nodes"},
    {"checkers", "simulation"},
    {"harness"},
    {"mutants", "nemesis", "workloads"},
    {"systems"},
    {"oracle", "runs"},
    {"campaigns"},
    {"nightly", "pipeline", "reports"},
    {"kraftwreck"},
    {"examples"},
]
PACKAGES = set().union(*FLOORS)
FLOOR = {package: level for level, packages in enumerate(FLOORS) for package in packages}
MODULES = sorted(p for package in PACKAGES for p in (ROOT / package).rglob("*.py"))


RELATIVE = "."


@cache
def imports_in(source: str) -> tuple[ast.Import | ast.ImportFrom, ...]:
    """The import statements of ``source``, wherever in the file."""
    return tuple(_imports_below(ast.parse(source)))


def _imports_below(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif not isinstance(child, ast.expr):
            yield from _imports_below(child)


def imported_names(source: str) -> set[str]:
    """The top-level packages that ``source`` imports, wherever in the file; of our own the floor's
    package below ``kraftwreck``. ``kraftwreck`` alone is the command line."""
    names: set[str] = set()
    for node in imports_in(source):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        else:
            if node.level:
                names.add(RELATIVE)
                continue
            module = node.module or ""
            inner = [f"{module}.{alias.name}" for alias in node.names]
            names.update(inner if module == "kraftwreck" else [module])
    return {_floor_of(name.split(".")) for name in names}


def _floor_of(parts: list[str]) -> str:
    below = parts[1] if parts[0] == "kraftwreck" and len(parts) > 1 else parts[0]
    if parts[0] != "kraftwreck":
        assert parts[0] not in PACKAGES, f"import kraftwreck.{parts[0]}: it hides others' packages"
    return below if below in PACKAGES else parts[0]


def forbidden(package: str, imported: set[str]) -> set[str]:
    """The project packages that ``package`` may not import."""
    assert RELATIVE not in imported, "imports are absolute"
    ours = imported & PACKAGES - {package}
    bad = {name for name in ours if FLOOR[name] >= FLOOR[package]}
    if package == "nodes":
        bad |= ours
    return bad


def test_imports_only_go_down() -> None:
    upward = {
        str(module.relative_to(ROOT)): bad
        for module in MODULES
        if (bad := forbidden(module.relative_to(ROOT).parts[0], imported_names(module.read_text())))
    }
    assert upward == {}


def test_every_folder_of_ours_is_imported_from_the_one_package() -> None:
    for folder in ("tests", "bench"):
        for module in (ROOT / folder).rglob("*.py"):
            imported_names(module.read_text())
    with pytest.raises(AssertionError, match=r"import kraftwreck\.nodes: it hides others"):
        imported_names("from nodes.draw import draw")


def test_every_floor_is_linked_below_the_package() -> None:
    for package in PACKAGES - {"kraftwreck"}:
        assert (ROOT / "kraftwreck" / package).readlink() == Path("..") / package


def test_the_rule_itself_refuses_an_upward_import() -> None:
    assert forbidden("nodes", {"histories"}) == {"histories"}
    assert forbidden("checkers", {"harness"}) == {"harness"}
    assert forbidden("nemesis", {"workloads"}) == {"workloads"}
    assert forbidden("kraftwreck", {"nodes", "reports"}) == set()


def test_a_command_s_file_is_short() -> None:
    """Options, a call, and what is printed; the rest is below the command line."""
    long = {
        path.name: count
        for path in (ROOT / "kraftwreck" / "cli").glob("*.py")
        if (count := len(path.read_text().splitlines())) > 200
    }
    assert long == {}


_GUESTS = ("nodes.consensus.kraft", "nodes.metadata", "nodes.broker", "systems")


def test_the_simulator_knows_no_protocol() -> None:
    """No module of the world, or of what runs any core in it, imports a system's own code."""
    ruled = [*(ROOT / "simulation").rglob("*.py"), *(ROOT / "harness" / "simulated").rglob("*.py")]
    known = {module_name(path) for path in MODULES}
    guests = tuple(f"kraftwreck.{guest}" for guest in _GUESTS)
    found = {
        module_name(path): bad
        for path in ruled
        if (bad := {n for n in files_imported(path.read_text(), known) if n.startswith(guests)})
    }
    assert found == {}


def test_nodes_need_only_the_standard_library() -> None:
    import sys

    allowed = set(sys.stdlib_module_names) | {"nodes", "crc32c"}
    used = {
        name
        for module in (ROOT / "nodes").rglob("*.py")
        for name in imported_names(module.read_text())
    }
    assert used <= allowed


def files_imported(source: str, known: set[str]) -> set[str]:
    """The modules of ``known`` that ``source`` imports, for types alone or not."""
    found: set[str] = set()
    for node in imports_in(source):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= inner & known or {node.module}
    return found & known


def module_name(path: Path) -> str:
    """The dotted name of a module: folders at the root are links below ``kraftwreck``."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts if parts[0] == "kraftwreck" else ("kraftwreck", *parts)
    return ".".join(parts).removesuffix(".__init__")


def test_no_files_import_each_other_in_a_circle() -> None:
    names = {module_name(path): path for path in MODULES}
    graph = networkx.DiGraph(
        (name, other)
        for name, path in names.items()
        for other in files_imported(path.read_text(), set(names))
        if other != name
    )
    circles = [c for c in networkx.strongly_connected_components(graph) if len(c) > 1]
    assert [sorted(circle) for circle in circles] == []

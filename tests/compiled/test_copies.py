"""Copies of the project with compiled modules: what is compiled, and for which sources."""

from __future__ import annotations

import ast
import fcntl
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.cli.main import status
from kraftwreck.harness.archive import PACKAGE
from kraftwreck.harness.compiled import tree as compiled_tree
from kraftwreck.harness.compiled.constructors import spelled_out
from kraftwreck.harness.compiled.modules import COMPILED, INTERPRETED, chosen
from kraftwreck.harness.compiled.tree import PACKAGES, made, make, sources
from kraftwreck.harness.options import OptionError


@cache
def modules() -> list[str]:
    """The modules to compile, read when a test needs them and not when tests are collected."""
    return list(chosen(PACKAGE))


def test_listed_modules_exist() -> None:
    assert all((PACKAGE / name).exists() for name in (*COMPILED, *INTERPRETED))
    assert all(name.split("/")[0] in PACKAGES for name in COMPILED)


def test_nodes_and_simulator_are_compiled_except_unsupported_modules() -> None:
    named = {"nodes/node.py", "simulation/world.py", "checkers/kraft/recorded/disk_log.py"}
    assert named <= set(modules())
    assert not set(INTERPRETED) & set(modules())
    assert "simulation/knobs.py" not in modules(), "it has a msgspec.Struct"


def test_no_name_is_bound_to_errors_of_two_kinds() -> None:
    """mypyc gives a name the first kind, and raises TypeError for the second."""
    for module in modules():
        for function in ast.walk(ast.parse((PACKAGE / module).read_text())):
            if isinstance(function, ast.FunctionDef):
                kinds: dict[str, str] = {}
                for each in ast.walk(function):
                    if isinstance(each, ast.ExceptHandler) and each.name and each.type:
                        kind = ast.unparse(each.type)
                        known = kinds.setdefault(each.name, kind)
                        assert known == kind, f"{module}:{each.lineno}"


PLAIN = """
from __future__ import annotations
from dataclasses import dataclass, field

@dataclass(slots=True)
class Plain:
    \"\"\"It has fields.\"\"\"

    first: int
    second: set[int] = field(default_factory=set)
    third: str | None = None

    @property
    def twice(self) -> int:
        return 2 * self.first

@dataclass(slots=True, frozen=True)
class Frozen:
    first: int

@dataclass(slots=True)
class Own:
    first: int

    def __post_init__(self) -> None:
        self.first += 1
"""


def test_constructors_that_are_spelled_out_do_the_same() -> None:
    told = spelled_out(PLAIN)
    assert told.count("def __init__(self, first: int, second: (set[int]) | None = None") == 1
    assert told.count("init=False") == 1
    before: dict[str, Any] = {"__name__": __name__}
    after: dict[str, Any] = {"__name__": __name__}
    exec(PLAIN, before)  # noqa: S102
    exec(told, after)  # noqa: S102
    for arguments in ((1,), (1, {2}), (1, {2}, "x")):
        assert repr(after["Plain"](*arguments)) == repr(before["Plain"](*arguments))
    assert after["Plain"](3) == after["Plain"](first=3)
    assert after["Plain"](3).second is not after["Plain"](3).second
    assert after["Plain"](3).twice == 6
    with pytest.raises(TypeError):
        after["Plain"]()
    assert after["Own"](1).first == 2


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A tree with all packages and one module."""
    for name in PACKAGES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    (tmp_path / "nodes" / "node.py").write_text("NUMBER = 1\n")
    return tmp_path


def test_a_copy_is_of_one_state_of_the_sources(small: Path) -> None:
    build = small / "build"
    before = sources(small)
    folder = build / before[:16]
    folder.mkdir(parents=True)
    assert made(small, build) is None, "it is not whole"
    (folder / "compiled-from").write_text(before)
    assert made(small, build) == folder
    assert make(pytest.fail, small, build) == folder
    (small / "nodes" / "node.py").write_text("NUMBER = 2\n")
    assert sources(small) != before
    assert made(small, build) is None
    (small / "nodes" / "node.py").write_text("NUMBER = 1\n")
    assert sources(small) == before
    (small / "nodes" / "more.py").touch()
    assert made(small, build) is None


def test_a_copy_in_use_is_kept(small: Path) -> None:
    build = small / "build"
    for name in ("used", "unused"):
        (build / name).mkdir(parents=True)
        (build / name / "compiled-from").touch()
    with (build / "used" / "compiled-from").open() as mark:
        fcntl.flock(mark, fcntl.LOCK_SH)
        compiled_tree._remove_unused(build, build / "making")
        assert [path.name for path in build.iterdir()] == ["used"]
    compiled_tree._remove_unused(build, build / "making")
    assert not list(build.iterdir())


def test_missing_headers_are_one_line(
    small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("sysconfig.get_path", lambda _: "/nowhere")
        with pytest.raises(OptionError, match=r"needs /nowhere/Python\.h: .*scripts/setup"):
            make(pytest.fail, small, small / "build")
        # Modules made before would be run in this process, and end it.
        patch.setattr(compiled_tree, "made", lambda *_: None)
        assert status(["sim", "--compiled", "--seeds", "0..1"]) == 254
        assert capsys.readouterr().err.count("\n") == 1
    monkeypatch.setattr(compiled_tree, "_version_of", lambda _: "")
    with pytest.raises(OptionError, match="needs mypy: pip install mypy"):
        make(pytest.fail, small, small / "build")


def test_mistakes_are_reported_before_compilation(capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["sim", "--compiled", "--seeds", "5..1"]) == 254
    assert "1 is before 5" in capsys.readouterr().err


def test_shells_are_not_compiled(capsys: pytest.CaptureFixture[str]) -> None:
    """Seed 1700071 of 10 s: the compiled shell refused its node, and all nodes were dead."""
    assert status(["sim", "--compiled", "--shells", "--seeds", "1700071..1700071"]) == 254
    assert "--shells and --compiled cannot be combined" in capsys.readouterr().err


def test_the_project_itself_is_never_compiled() -> None:
    """Its sources would be changed."""
    command = [sys.executable, "-m", "kraftwreck.harness.compiled.modules"]
    done = subprocess.run(command, cwd=PACKAGE.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "works in a copy only" in done.stderr

"""The zip of the node code: the same bytes for the same sources, and it runs, compiled or not."""

from __future__ import annotations

import importlib.util
import io
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from kraftwreck.harness.archive import build_archive, digest, with_bytecode


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "nodes"
    (tree / "below").mkdir(parents=True)
    (tree / "__init__.py").touch()
    (tree / "below/__init__.py").write_text("WORD = 'from below'\n")
    (tree / "__main__.py").write_text(
        "import sys, kraftwreck.nodes.below as b; print(b.WORD, sys.argv[1:])\n"
    )
    return tree


def output_of(archive: bytes, tmp_path: Path, python: str = sys.executable) -> str:
    file = tmp_path / "x.pyz"
    file.write_bytes(archive)
    return subprocess.run(
        [python, "-I", file, "--config", "f"],
        capture_output=True, text=True, check=True, cwd="/",
    ).stdout  # fmt: skip


def with_other_sources(archive: bytes, magic: bytes) -> bytes:
    """Let the sources print another word than the compiled forms, which begin with ``magic``."""
    changed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as before, zipfile.ZipFile(changed, "w") as after:
        for name in before.namelist():
            content = before.read(name)
            if name.endswith(".pyc"):
                content = magic + content[len(magic) :]
            after.writestr(name, content.replace(b"'from below'", b"'from source'"))
    return changed.getvalue()


def test_it_runs_on_a_bare_python(tree: Path, tmp_path: Path) -> None:
    output = output_of(build_archive(tree), tmp_path, "/usr/bin/python3")
    assert output == "from below ['--config', 'f']\n"


def test_times_caches_and_patch_leftovers_do_not_change_it(tree: Path, tmp_path: Path) -> None:
    first = build_archive(tree)
    copy = tmp_path / "copy" / "nodes"
    shutil.copytree(tree, copy)
    (copy / "__pycache__").mkdir()
    (copy / "__pycache__/x.cpython-311.pyc").write_bytes(b"x")
    (copy / "below/__init__.py.orig").write_text("")
    os.utime(copy / "__main__.py", (1, 1))
    (copy / "__main__.py").chmod(0o600)
    assert build_archive(copy) == first


def test_another_source_is_another_archive(tree: Path) -> None:
    first = digest(build_archive(tree))
    (tree / "below/__init__.py").write_text("WORD = 'mutated'\n")
    assert digest(build_archive(tree)) != first


def test_a_folder_without_node_code_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"__main__\.py is missing"):
        build_archive(tmp_path)


def test_compiled_modules_run_instead_of_their_sources(tree: Path, tmp_path: Path) -> None:
    both = with_bytecode(build_archive(tree))
    changed = with_other_sources(both, importlib.util.MAGIC_NUMBER)
    assert output_of(changed, tmp_path) == "from below ['--config', 'f']\n"


def test_another_version_of_python_runs_the_sources(tree: Path, tmp_path: Path) -> None:
    both = with_bytecode(build_archive(tree))
    changed = with_other_sources(both, b"\0\0\r\n")
    assert output_of(changed, tmp_path) == "from source ['--config', 'f']\n"


def test_the_sources_stay_as_they_are_beside_the_compiled_modules(tree: Path) -> None:
    archive = build_archive(tree)
    with (
        zipfile.ZipFile(io.BytesIO(archive)) as sources,
        zipfile.ZipFile(io.BytesIO(with_bytecode(archive))) as both,
    ):
        names = sources.namelist()
        assert [both.read(name) for name in names] == [sources.read(name) for name in names]
        compiled = {name.removesuffix("c") for name in both.namelist() if name.endswith(".pyc")}
        assert compiled == {name for name in names if name.endswith(".py")}


def test_a_source_that_this_python_cannot_read_is_left_to_the_hosts(tree: Path) -> None:
    (tree / "newer.py").write_text("a syntax to come\n")
    with zipfile.ZipFile(io.BytesIO(with_bytecode(build_archive(tree)))) as both:
        names = set(both.namelist())
    assert "kraftwreck/nodes/newer.py" in names
    assert "kraftwreck/nodes/newer.pyc" not in names

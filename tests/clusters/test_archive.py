"""The zip of the node code: the same bytes for the same sources, and it runs."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.archive import build_archive, digest


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "nodes"
    (tree / "below").mkdir(parents=True)
    (tree / "__init__.py").touch()
    (tree / "below/__init__.py").write_text("WORD = 'from below'\n")
    (tree / "__main__.py").write_text("import sys, nodes.below as b; print(b.WORD, sys.argv[1:])\n")
    return tree


def test_it_runs_on_a_bare_python(tree: Path, tmp_path: Path) -> None:
    archive = tmp_path / "x.pyz"
    archive.write_bytes(build_archive(tree))
    output = subprocess.run(
        ["/usr/bin/python3", "-I", archive, "--config", "f"],
        capture_output=True, text=True, check=True, cwd="/",
    ).stdout  # fmt: skip
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
    with pytest.raises(FileNotFoundError, match=r"it has no __main__\.py"):
        build_archive(tmp_path)

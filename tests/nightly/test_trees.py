"""The builds under test are frozen when a night begins."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kraftwreck.harness.archive import PROJECT_TREE
from kraftwreck.harness.options import OptionError
from kraftwreck.harness.patched_nodes import MUTANTS
from kraftwreck.nightly.trees import Trees, difference


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """Another version of the node code: a file changed, one added, one removed."""
    tree = tmp_path / "other" / "nodes"
    shutil.copytree(PROJECT_TREE, tree, ignore=shutil.ignore_patterns("__pycache__"))
    (tree / "draw.py").write_text("changed = 1\n\x0c\nno_newline = 2")
    (tree / "added.py").write_text("added = 1\n")
    (tree / "__init__.py").write_text('"""Another one."""\n')
    return tree


def test_a_folder_becomes_a_patch_that_makes_it_again(other: Path, tmp_path: Path) -> None:
    trees = Trees(tmp_path / "trees")
    name = f"tree:{other}"
    trees.prepare(["clean", name])
    made = trees.nodes(name)
    for path in other.rglob("*.py"):
        assert (made / path.relative_to(other)).read_text() == path.read_text()
    assert trees.patch(name).is_file()


def test_a_frozen_tree_stays_when_the_source_changes(tmp_path: Path) -> None:
    patch = tmp_path / "mine.patch"
    shutil.copyfile(MUTANTS / "R02.patch", patch)
    trees = Trees(tmp_path / "trees")
    trees.prepare([f"patch:{patch}", "mutant:R02"])
    before = (trees.nodes("mutant:R02") / "__init__.py").stat().st_mtime_ns
    patch.write_text("nonsense")
    trees.prepare([f"patch:{patch}", "mutant:R02"])
    assert (trees.nodes("mutant:R02") / "__init__.py").stat().st_mtime_ns == before
    trees.clear()
    assert not trees.nodes("mutant:R02").exists()
    assert trees.patch("mutant:R02").exists()


def test_the_clean_build_is_the_projects_own(tmp_path: Path) -> None:
    assert Trees(tmp_path).nodes("clean") == PROJECT_TREE


def test_a_patch_that_does_not_apply_is_named(tmp_path: Path) -> None:
    patch = tmp_path / "bad.patch"
    patch.write_text("--- a/nodes/draw.py\n+++ b/nodes/draw.py\n@@ -1 +1 @@\n-nothing\n+else\n")
    with pytest.raises(OptionError, match=r"patch:.*bad\.patch"):
        Trees(tmp_path / "trees").prepare([f"patch:{patch}"])


def test_the_same_code_is_no_other_build() -> None:
    with pytest.raises(OptionError, match="the same node code"):
        difference(PROJECT_TREE, PROJECT_TREE)

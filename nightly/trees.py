"""The builds under test, frozen when the night begins: patches and patched node code."""

from __future__ import annotations

import difflib
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from kraftwreck.harness.archive import PROJECT_TREE
from kraftwreck.harness.options import OptionError
from kraftwreck.harness.patched_nodes import overlay, patched_tree
from kraftwreck.nightly.cells import tree_source
from kraftwreck.nightly.config import CLEAN

_NO_NEWLINE = "\\ No newline at end of file\n"


class Trees:
    """Patches and patched trees below ``folder``, created once per night."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()

    def prepare(self, trees: Iterable[str]) -> None:
        """Freeze every tree that is not frozen yet.

        Raises :class:`OptionError`, one line, for a patch that does not apply.
        """
        for tree in dict.fromkeys(trees):
            if tree == CLEAN or self.nodes(tree).is_dir():
                continue
            source = tree_source(tree)
            assert source is not None
            patch = self.patch(tree)
            patch.parent.mkdir(parents=True, exist_ok=True)
            if not patch.exists():
                if source.is_dir():
                    patch.write_text(difference(PROJECT_TREE, source), "utf-8")
                else:
                    shutil.copyfile(source, patch)
            try:
                with patched_tree(patch) as patched:
                    folder = self._folder / _name(tree)
                    part = folder.with_suffix(".part")
                    shutil.rmtree(part, ignore_errors=True)
                    part.mkdir()
                    shutil.copytree(patched, overlay(part) / "nodes")
                    part.rename(folder)
            except OptionError as error:
                patch.unlink()
                raise OptionError(f"{tree}: {error}") from error

    def patch(self, tree: str) -> Path:
        """Return the patch of ``tree``, which must not be the clean build."""
        return self._folder / f"{_name(tree)}.patch"

    def nodes(self, tree: str) -> Path:
        """Return the node code of ``tree``, in its folder ``nodes``."""
        return (
            PROJECT_TREE if tree == CLEAN else self._folder / _name(tree) / "kraftwreck" / "nodes"
        )

    def clear(self) -> None:
        """Remove the copies of the node code; keep the patches."""
        if self._folder.is_dir():
            for path in self._folder.iterdir():
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path, ignore_errors=True)


def _name(tree: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in tree)


def difference(old: Path, new: Path) -> str:
    """Return the unified diff from the node code in ``old`` to that in ``new``.

    Raises :class:`OptionError` if both are equal.
    """
    names = sorted({_relative(path, root) for root in (old, new) for path in root.rglob("*.py")})
    text = "".join(_file(old / name, new / name, name) for name in names)
    if not text:
        raise OptionError(f"{new}: the same node code as {old}")
    return text


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()


def _file(old: Path, new: Path, name: str) -> str:
    before, after = _lines(old), _lines(new)
    if before == after:
        return ""
    first = f"a/nodes/{name}" if old.exists() else "/dev/null"
    second = f"b/nodes/{name}" if new.exists() else "/dev/null"
    lines = difflib.unified_diff(before, after, first, second)
    return "".join(line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}" for line in lines)


def _lines(path: Path) -> list[str]:
    if not path.is_file():
        return []
    # Not splitlines: a form feed does not end a line in a diff.
    return re.findall(r"[^\n]*\n|[^\n]+", path.read_text("utf-8"))

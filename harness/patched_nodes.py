"""A copy of the node code with a planted bug, for ``--mutant`` and ``--patch``."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from kraftwreck.harness.archive import IMPORT_ROOT, PACKAGE, PROJECT_TREE
from kraftwreck.harness.options import OptionError, RunOptions

MUTANTS = PACKAGE / "mutants"
OVERLAY = """from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
"""
"""``kraftwreck/__init__.py`` of a folder whose few subpackages hide those of the project."""


def patch_of(mutant: str) -> Path:
    """Return the patch file of a planted bug.

    Raises :class:`OptionError`, which lists the known ones.
    """
    known = sorted(path.stem for path in MUTANTS.glob("*.patch"))
    if mutant not in known:
        raise OptionError(f"unknown mutant {mutant!r}; known mutants: {', '.join(known) or 'none'}")
    return MUTANTS / f"{mutant}.patch"


def chosen_patch(options: RunOptions) -> Path | None:
    """Return the patch of the run's planted bug, None for unpatched node code.

    Raises :class:`OptionError` for an unknown mutant.
    """
    return options.patch if options.mutant is None else patch_of(options.mutant)


@contextmanager
def tested_tree(patch: Path | None) -> Iterator[Path]:
    """Yield the node code to test: the project's, or a copy with ``patch`` applied."""
    if patch is None:
        yield PROJECT_TREE
    else:
        with patched_tree(patch) as tree:
            yield tree


@contextmanager
def patched_tree(patch: Path, *, whole: bool = True) -> Iterator[Path]:
    """Yield a ``nodes`` folder with ``patch`` applied; it is removed afterwards.

    Without ``whole`` it has only the files that the patch names: enough to look at the change.
    ``patch`` is a unified diff (``-p1``, relative to the project) that changes only ``nodes/``.
    Raises :class:`OptionError`, one line, if it cannot be used.
    """
    try:
        text = patch.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise OptionError(f"{patch}: {reason}; pass a unified diff") from error
    targets = _targets(patch, text)
    with tempfile.TemporaryDirectory(prefix="kraftwreck-nodes-") as folder:
        tree = overlay(Path(folder)) / "nodes"
        if whole:
            shutil.copytree(PROJECT_TREE, tree, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            _copy(targets, tree)
        _apply(patch, tree.parent)
        yield tree


def overlay(folder: Path) -> Path:
    """Make ``folder/kraftwreck``, a package that is completed by the project's; return it."""
    package = folder / "kraftwreck"
    package.mkdir()
    (package / "__init__.py").write_text(OVERLAY)
    return package


def environment(tree: Path) -> dict[str, str]:
    """Return the environment of a process that imports ``kraftwreck.nodes`` from ``tree``: the
    ``nodes`` folder of an :func:`overlay`, or the project's."""
    return importing_from(tree.parents[1])


def importing_from(folder: Path) -> dict[str, str]:
    """Return the environment of a process that imports from the :func:`overlay` in ``folder``
    first, and from the project what is not there."""
    path = os.pathsep.join([str(folder), str(IMPORT_ROOT)])
    return {**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}


def _copy(names: Iterable[PurePosixPath], tree: Path) -> None:
    for name in names:
        if (PROJECT_TREE / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(PROJECT_TREE / name, tree / name)


def _targets(patch: Path, text: str) -> set[PurePosixPath]:
    """Return the files of ``nodes`` that a patch names, by their paths there."""
    targets = [
        line[4:].split("\t")[0].strip()
        for line in text.splitlines()
        if line.startswith(("+++ ", "--- ", "rename from ", "rename to "))
    ]
    named = [target for target in targets if target != "/dev/null"]
    if not named:
        raise OptionError(f"{patch}: not a unified diff")
    found = set()
    for target in named:
        parts = PurePosixPath(target).parts
        if len(parts) < 3 or parts[1] != "nodes" or ".." in parts or parts[0] == "/":
            raise OptionError(f"{patch}: changes {target}, but only nodes/ may be patched")
        found.add(PurePosixPath(*parts[2:]))
    return found


def _apply(patch: Path, folder: Path) -> None:
    """Apply with git, or with patch(1) if git is missing."""
    if shutil.which("git"):
        # The folder is not a repository; the ceiling keeps git from using one above it.
        command = ["git", "apply", "-p1", str(patch.resolve())]
        environment = {"GIT_CEILING_DIRECTORIES": str(folder.parent), "LC_ALL": "C"}
    elif shutil.which("patch"):
        command = ["patch", "-p1", "--batch", "--fuzz=0", "-i", str(patch.resolve())]
        environment = {"LC_ALL": "C"}
    else:
        raise OptionError("neither git nor patch is installed: apt-get install git")
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        env={"PATH": path, **environment},
    )
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise OptionError(f"{patch}: does not apply: {said[0] if said else 'no reason given'}")

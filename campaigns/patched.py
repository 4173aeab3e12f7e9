"""A campaign with a patched copy of the node code, in a process that imports it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from kraftwreck import nodes as nodes_package
from kraftwreck.harness.archive import PROJECT_TREE
from kraftwreck.harness.patched_nodes import environment, patched_tree


def unpatched() -> bool:
    """Return whether this process imports the project's node code, and no patched copy."""
    return Path(nodes_package.__file__ or "").resolve().parent == PROJECT_TREE.resolve()


def with_patch(patch: Path, arguments: Sequence[str]) -> int:
    """Run the campaign in a process that imports the patched node code; return its exit code."""
    with patched_tree(patch) as tree:
        command = [sys.executable, "-P", "-m", "kraftwreck", "sim", *arguments]
        return subprocess.run(command, env=environment(tree), check=False).returncode

"""Start :mod:`campaigns.hunt` so that it counts executions of the statements a patch changes.

``python -m kraftwreck.campaigns.counted_hunt TREE ...`` hunts the bug in the ``nodes`` folder TREE;
the other arguments are those of the hunt. Counters must be in place before any node code is
imported, and the hunt imports it at once.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from kraftwreck.campaigns import executed
from kraftwreck.harness.archive import PROJECT_TREE


def main() -> None:
    """Install the counters, if TREE is not the project's own, and hunt."""
    tree = sys.argv[1]
    if Path(tree).resolve() != PROJECT_TREE.resolve():
        executed.count(Path(tree), PROJECT_TREE)
    sys.argv[1:2] = ["--tree", tree]
    runpy.run_module("kraftwreck.campaigns.hunt", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()

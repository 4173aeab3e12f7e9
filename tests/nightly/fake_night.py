"""``python fake_night.py CONFIG [--new]``: a night in a process of its own, its runs faked."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from kraftwreck.nightly.cells import load
from kraftwreck.nightly.night import Work, open_night
from kraftwreck.nightly.request import Tools

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def tools(rules: Path) -> Tools:
    """Return what stands for the commands of the top floor."""

    def environment(tree: Path) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(ROOT), "FAKE_RULES": str(rules)}

    return Tools(
        worker=(sys.executable, str(HERE / "fake_worker.py")),
        shrink=(sys.executable, str(HERE / "fake_shrink.py")),
        environment=environment,
    )


def make_night(path: Path, new: bool, say: Callable[[str], None]) -> int:
    """Begin or continue the night of the configuration ``path``; return its exit code."""
    config, found = load(path)
    folder = open_night(config, found, new=new)
    try:
        return Work(config, found, folder, tools(path.with_name("rules.json")), say).go()
    finally:
        folder.close()


def main() -> int:
    return make_night(Path(sys.argv[1]), "--new" in sys.argv, partial(print, flush=True))


if __name__ == "__main__":
    sys.exit(main())

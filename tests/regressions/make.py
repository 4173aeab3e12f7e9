"""``python -m tests.regressions.make NAME...``: hunt bugs, shrink what finds them, keep it.

A name is that of a mutant, or of a patch in this folder that brings back a bug the nodes once
had. For a case that went stale, because what a run does was changed on purpose, and for new
ones. A case that passes with its bug, or fails without it, is not written.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from kraftwreck.campaigns.case_file import write_case
from kraftwreck.campaigns.case_run import run_case
from kraftwreck.campaigns.case_sources import case_of_seed
from kraftwreck.campaigns.hunting import HuntError, hunt_patch
from kraftwreck.campaigns.shrinking import PassesError, ShrinkError, shrink_anywhere
from kraftwreck.harness.options import OptionError
from kraftwreck.harness.patched_nodes import patch_of

FOLDER = Path(__file__).resolve().parent
HUNT_S = 40.0
SHRINK_S = 30.0


def make(name: str) -> str:
    """Write the case of a mutant, or of a patch in this folder; return the result."""
    patch = FOLDER / f"{name}.patch"
    if patch.is_file():
        planted = {"patch": str(patch), "about": reason(patch)}
    else:
        patch = patch_of(name)
        planted = {"mutant": name}
    hunted = hunt_patch(patch, HUNT_S)
    if hunted.seed is None:
        return "not found"
    saved = msgspec.structs.replace(case_of_seed(hunted.seed), **planted)
    shrunk = shrink_anywhere(saved, SHRINK_S, lambda line: print(line, file=sys.stderr))
    failures = run_case(shrunk.case).failures
    if failures:
        return f"not kept: fails without the bug, too: {failures[0]}"
    write_case(FOLDER / f"{name}.json", shrunk)
    return f"{shrunk.failure}: {shrunk.before} -> {shrunk.case.size}"


def reason(patch: Path) -> str:
    """Return the text above the diff in ``patch``: the description of the bug."""
    return " ".join(patch.read_text("utf-8").partition("diff --git")[0].split())


def main() -> None:
    """Make the cases that are named on the command line."""
    for name in sys.argv[1:]:
        try:
            print(f"{name}: {make(name)}", flush=True)
        except (OptionError, HuntError, PassesError, ShrinkError) as error:
            print(f"{name}: {error}", flush=True)


if __name__ == "__main__":
    main()

"""After a campaign, shrink the first failure of each kind beside its run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kraftwreck.campaigns.campaign import Tested
from kraftwreck.campaigns.case_file import write_case
from kraftwreck.campaigns.case_sources import SHRUNK_FILE, case_of_run
from kraftwreck.campaigns.case_text import describe
from kraftwreck.campaigns.shrinking import PassesError, Say, shrink_case
from kraftwreck.harness.command_line import command_line
from kraftwreck.harness.options import OptionError

BUDGET_S = 30.0
"""CPU seconds for each kind of failure; use kraftwreck shrink to spend more."""


def shrink_kept(
    kinds: Mapping[tuple[str, str], Tested], say: Say, budget_s: float = BUDGET_S
) -> list[Path]:
    """Shrink the saved run of each of ``kinds`` and print the cases; return the case files.

    The first kind of a run is ``shrunk.json`` in its folder; other files are named by kind.
    """
    written: list[Path] = []
    for (checker, kind), tested in kinds.items():
        if tested.run is None:
            continue
        path = Path(tested.run) / SHRUNK_FILE
        if path in written:
            path = path.with_name(f"shrunk-{checker}-{kind}.json")
        try:
            shrunk = shrink_case(case_of_run(path.parent), budget_s, say, f"{checker}:{kind}")
            write_case(path, shrunk)
        except (OptionError, PassesError) as error:
            say(f"{path.parent}: {checker}: {kind} could not be shrunk: {error}")
            continue
        for line in describe(shrunk.case):
            say(f"  {line}")
        say(f"  shrunk: {command_line('replay', path)}")
        written.append(path)
    return written

"""The case of a seed, of a simulated run, or with the schedule of a run on real hosts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from kraftwreck.campaigns.case import Case
from kraftwreck.campaigns.case_file import SavedCase
from kraftwreck.harness.layout import layout_of
from kraftwreck.harness.options import OptionError
from kraftwreck.harness.simulated.store import options_of
from kraftwreck.histories.fault import Fault
from kraftwreck.systems.registry import configured
from kraftwreck.systems.simulators import everything, load, simulator

SHRUNK_FILE = "shrunk.json"
"""The file in a run folder with the shrunk case of the run."""
SEEDS = 20
"""How many seeds are tried in the simulator with the schedule of a run on real hosts."""


def case_of_run(folder: Path) -> SavedCase:
    """Return the case of the simulated run in ``folder``, with its planted bug, if any.

    Raises :class:`OptionError` when it is not a simulated run.
    """
    options, schedule, knobs, digest = load(folder)
    patch = None if options.patch is None else str(options.patch)
    case = Case.of(options, knobs, schedule)
    return SavedCase(case=case, digest=digest, mutant=options.mutant, patch=patch)


def case_of_seed(seed: int) -> SavedCase:
    """Return the case of ``seed`` in a campaign with the default options."""
    campaign = everything()
    options, knobs = campaign.options(seed), campaign.knobs(seed)
    return SavedCase(case=Case.of(options, knobs, campaign.schedule(seed)))


def cases_like(folder: Path, test: dict[str, Any]) -> Iterator[SavedCase]:
    """Return simulated cases with the schedule of the run on real hosts in ``folder``.

    Raises :class:`OptionError`, one line, for a folder that is not a run folder.
    """
    try:
        options = options_of(test["options"])
        schedule = msgspec.convert(test["schedule"], list[Fault])
    except (KeyError, TypeError, msgspec.ValidationError) as error:
        raise OptionError(
            f"{folder / 'test.json'}: cannot read options and schedule: {error}"
        ) from error
    patch = None if options.patch is None else str(options.patch)
    others = layout_of(configured(options), options).others
    names = {f"n{options.nodes + i}": f"b{i}" for i in range(1, others + 1)}
    renamed = [
        msgspec.structs.replace(fault, targets=tuple(names.get(t, t) for t in fault.targets))
        for fault in schedule
    ]

    def saved(seed: int) -> SavedCase:
        seeded = replace(options, seed=seed)
        case = Case.of(seeded, simulator(options.system).draw(seeded), renamed)
        return SavedCase(case=case, mutant=options.mutant, patch=patch)

    return map(saved, range(options.seed, options.seed + SEEDS))


def file_name(shrunk: SavedCase) -> str:
    """Return a file name for a case: its planted bug, or its failure."""
    assert shrunk.failure is not None
    failure = f"{shrunk.failure.checker}-{shrunk.failure.type}"
    if shrunk.mutant is not None:
        return shrunk.mutant
    return failure if shrunk.patch is None else f"{Path(shrunk.patch).stem}-{failure}"

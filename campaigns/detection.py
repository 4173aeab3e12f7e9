"""The detection campaign: hunts for planted bugs, and a table of how soon each is found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from kraftwreck.campaigns.case import Size
from kraftwreck.campaigns.hunt import Hunted, Progress
from kraftwreck.campaigns.hunting import hunt_patch, shrink_found
from kraftwreck.harness.options import Style

FAR_APART = 10_000
"""Distance between the first seeds of several hunts for one bug, so that they share no test."""


class Row(msgspec.Struct, kw_only=True):
    """A planted bug and the results of its hunts. ``hunted`` is the first hunt that found it,
    otherwise the first. ``shrunk`` is the size of the shrunk test that finds it."""

    id: str
    title: str
    hunted: Hunted
    all: list[Hunted] = []
    shrunk: Size | None = None

    @property
    def times(self) -> list[float]:
        """CPU seconds to detection, of the hunts that found the bug."""
        return sorted(each.cpu_s for each in self.all or [self.hunted] if each.found)


Entry = tuple[str, str, Path]
"""Id, title and patch."""


def hunt_all(
    patches: list[Entry],
    budget_s: float,
    jobs: int,
    on_row: Callable[[Row], None],
    *,
    repeats: int = 1,
    style: Style = "swarm",
    shrink_s: float = 0.0,
    first_seed: int = 0,
    on_progress: Callable[[str, Progress], None] = lambda name, progress: None,
) -> list[Row]:
    """Hunt all ``patches``, ``jobs`` at a time; return the rows in the same order.

    Each is hunted ``repeats`` times, from different first seeds, the lowest of which is
    ``first_seed``. With ``shrink_s`` the first test that finds a bug is shrunk for that many CPU
    seconds. ``on_progress`` gets the id of each bug that is being hunted, now and then.
    """

    def one(entry: Entry) -> Row:
        name, title, patch = entry
        hunts = [
            hunt_patch(
                patch,
                budget_s,
                first_seed=first_seed + number * FAR_APART,
                style=style,
                on_progress=partial(on_progress, name),
            )
            for number in range(repeats)
        ]
        first = next((hunted for hunted in hunts if hunted.found), hunts[0])
        row = Row(id=name, title=title, hunted=first, all=hunts)
        if shrink_s > 0 and first.seed is not None:
            row.shrunk = shrink_found(patch, first, style, shrink_s)
        return row

    rows = []
    with ThreadPoolExecutor(jobs) as pool:
        for row in pool.map(one, patches):
            rows.append(row)
            on_row(row)
    return rows


def table(rows: list[Row]) -> Iterator[str]:
    """Yield the lines of a Markdown table of ``rows``."""
    repeated = any(len(row.all) > 1 for row in rows)
    shrunk = any(row.shrunk is not None for row in rows)
    names = ["id", "bug", "found by", "seed", "runs", "simulated s", "CPU s"]
    names += ["found", "median CPU s", "worst"] if repeated else []
    names += ["smallest"] if shrunk else []
    yield f"| {' | '.join(names)} |"
    yield "|---" * len(names) + "|"
    for row in rows:
        hunted = row.hunted
        by = f"{hunted.checker}: {hunted.anomaly}" if hunted.found else "**missed**"
        seed = "" if hunted.seed is None else str(hunted.seed)
        cells = [row.id, row.title, by, seed, str(hunted.runs)]
        cells += [f"{hunted.sim_s:.0f}", f"{hunted.cpu_s:.2f}"]
        if repeated:
            times = row.times
            cells += [f"{len(times)}/{len(row.all)}"]
            cells += [f"{median(times):.2f}", f"{times[-1]:.2f}"] if times else ["", ""]
        if shrunk:
            cells += ["" if row.shrunk is None else str(row.shrunk)]
        yield f"| {' | '.join(cells)} |"


def as_json(row: Row) -> dict[str, Any]:
    """Return a row as plain values: the first hunt, and all hunts if there were several."""
    plain: dict[str, Any] = {"id": row.id, "title": row.title, **msgspec.to_builtins(row.hunted)}
    times = row.times
    if len(row.all) > 1:
        plain["cpu_s"] = round(median(times), 3) if times else plain["cpu_s"]
        plain["worst_cpu_s"] = times[-1] if times else None
        plain["found_in"], plain["repeats"] = len(times), len(row.all)
        plain["hunts"] = [msgspec.to_builtins(each) for each in row.all]
    if row.shrunk is not None:
        plain["shrunk"] = msgspec.to_builtins(row.shrunk)
    return plain


def summary(rows: list[Row], total_s: float) -> str:
    """Return one line about all hunts; ``total_s`` is their CPU time in seconds."""
    times = [median(row.times) for row in rows if row.times]
    text = f"{len(times)} of {len(rows)} found, {total_s:.1f} CPU s"
    if len(times) > 1:
        text += f"; CPU s to find: median {median(times):.2f}, slowest {max(times):.2f}"
    return text

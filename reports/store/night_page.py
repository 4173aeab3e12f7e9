"""The report of a night: its breaks, the matrix of tests and faults, and all runs."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from kraftwreck.campaigns.case_file import read_case
from kraftwreck.campaigns.case_text import describe
from kraftwreck.harness.command_line import command_line
from kraftwreck.harness.options import OptionError
from kraftwreck.reports.store.breaks import Break, night_banner
from kraftwreck.reports.store.entries import StoreReader
from kraftwreck.reports.store.figures import reason
from kraftwreck.reports.store.index import NIGHTS, RunSummary, clip, stamp
from kraftwreck.reports.store.links import Links, Pairs
from kraftwreck.reports.store.nights import Night, NightRun
from kraftwreck.reports.store.shell import Page, render
from kraftwreck.reports.tables import size_text

MAX_BREAKS, MAX_RUNS, MAX_ROWS, MAX_COLUMNS = 50, 2000, 200, 40
MAX_CASE_LINES = 60
LARGEST_CASE = 1 << 20


@dataclass
class MatrixCell:
    """The verdict counts of a test under a set of faults."""

    valid: int = 0
    invalid: int = 0
    unknown: int = 0

    @property
    def runs(self) -> int:
        """The number of runs."""
        return self.valid + self.invalid + self.unknown

    @property
    def css(self) -> str:
        """The worst verdict."""
        if self.invalid:
            return "invalid"
        if self.unknown:
            return "unknown"
        return "valid" if self.valid else "none"


@dataclass
class Matrix:
    """Tests by sets of faults; ``hidden`` rows and columns are left out."""

    rows: list[str]
    columns: list[str]
    cells: list[list[MatrixCell]]
    hidden: int


@dataclass
class Build:
    """A build with a planted bug: its runs, its red runs, and the first of these."""

    name: str
    runs: int = 0
    reds: int = 0
    first: RunSummary | None = None


@dataclass
class SmallCase:
    """A shrunk case: its file, the command that runs it, and its steps in plain words."""

    file: str
    href: str = ""
    command: str = ""
    lines: list[str] = field(default_factory=list)
    note: str = ""


def render_night(
    reader: StoreReader, name: str, copied: frozenset[str] | None = None, pairs: Pairs | None = None
) -> Page | None:
    """Return the page of night ``name``; None when there is no such night."""
    found = reader.night(name)
    if found is None:
        return None
    night, runs = found
    links = Links("../../", copied, pairs)
    kept = reader.index.runs()
    banner = night_banner(night, runs, links)
    shown: list[Break] = (banner["real"] + banner["other"])[:MAX_BREAKS]
    planted: list[Break] = banner["planted"][:MAX_BREAKS]
    numbered = dict(enumerate(shown + planted, 1))
    listed = _listed(runs)
    given_up = night.facts.get("given_up")
    return render(
        "night.html.j2",
        title=f"{banner['title']} · {banner['name']}",
        links=links,
        scripts=("store_copy.js",),
        store=reader.store.name,
        banner=banner,
        notes=night.notes,
        given_up=[(clip(k, 100), clip(v, 300)) for k, v in given_up.items()]
        if isinstance(given_up, dict)
        else [],
        limit=MAX_BREAKS,
        planted=[(number, numbered[number]) for number in numbered if number > len(shown)],
        cases=_cases(reader.store, night, numbered, links),
        good={number: _good(item, runs, kept, links) for number, item in numbered.items()},
        matrix=matrix(runs),
        builds=builds(runs),
        runs=listed,
        hidden_runs=len(runs) - len(listed),
        reason=reason,
        text=night.text,
        facts=night.facts,
        files=_files(reader.store, night, links),
    )


def _listed(runs: list[NightRun]) -> list[NightRun]:
    """Return all runs in order; if there are too many, the red ones and the first others."""
    if len(runs) <= MAX_RUNS:
        return runs
    reds = [i for i, run in enumerate(runs) if run.summary.red or run.summary.valid is not True]
    chosen = set(reds[:MAX_RUNS])
    for i in range(len(runs)):
        if len(chosen) >= MAX_RUNS:
            break
        chosen.add(i)
    return [runs[i] for i in sorted(chosen)]


def matrix(runs: list[NightRun]) -> Matrix:
    """Return the verdict counts of each test by its set of faults."""
    cells: dict[tuple[str, str], MatrixCell] = {}
    rows: dict[str, tuple[bool, str]] = {}
    columns: dict[str, tuple[int, str]] = {}
    for run in runs:
        r = run.summary
        row = " · ".join(
            (r.system or "unknown", r.workload or "unknown", r.mutant or "clean", r.cluster or "?")
        )
        column = " + ".join(r.faults) or "none"
        rows.setdefault(row, (run.planted, row))
        columns.setdefault(column, (len(r.faults), column))
        cell = cells.setdefault((row, column), MatrixCell())
        cell.valid += r.valid is True
        cell.invalid += r.valid is False
        cell.unknown += r.valid not in (True, False)
    names = sorted(rows, key=lambda name: rows[name])
    heads = sorted(columns, key=lambda name: columns[name])
    hidden = max(0, len(names) - MAX_ROWS) + max(0, len(heads) - MAX_COLUMNS)
    names, heads = names[:MAX_ROWS], heads[:MAX_COLUMNS]
    grid = [[cells.get((row, column), MatrixCell()) for column in heads] for row in names]
    return Matrix(names, heads, grid, hidden)


def builds(runs: list[NightRun]) -> list[Build]:
    """Return the builds with a planted bug, the undetected ones first."""
    found: dict[str, Build] = {}
    for run in runs:
        if not run.planted:
            continue
        name = run.summary.mutant or "unnamed"
        build = found.setdefault(name, Build(name))
        build.runs += 1
        if run.summary.red == "system":
            build.reds += 1
            build.first = build.first or run.summary
    return sorted(found.values(), key=lambda build: (build.first is not None, build.name))


def _good(broken: Break, runs: list[NightRun], kept: list[RunSummary], links: Links) -> str:
    """Return the page that compares a break with a valid run of the same test: one of this night,
    otherwise the latest earlier one in ``kept``. Empty if there is none."""
    bad = broken.first.summary
    before = [run for run in kept if run.run < bad.run]  # newest first
    for other in [run.summary for run in runs] + before:
        if (
            other.valid is True
            and other.path
            and (other.system, other.workload, other.cluster)
            == (bad.system, bad.workload, bad.cluster)
        ):
            return links.compare(bad.path, other.path)
    return ""


def _cases(
    store: Path, night: Night, broken: dict[int, Break], links: Links
) -> dict[int, SmallCase]:
    cases = {}
    for number, item in broken.items():
        run = item.shrunk
        if run is not None:
            cases[number] = small_case(store, night.id, str(run.line.shrunk), links)
    return cases


def small_case(store: Path, night: str, file: str, links: Links) -> SmallCase:
    """Return the steps of the case in ``file``, relative to the night's folder, in plain words."""
    parts = PurePosixPath(file).parts
    root = store / NIGHTS / night
    path = root.joinpath(*parts)
    shown = clip(file, 200)
    if ".." in parts or file.startswith("/") or path.resolve() != path.absolute():
        return SmallCase(shown, note="The case is not shown: it is outside of the night's folder.")
    size = stamp(str(path))
    if size is None:
        return SmallCase(shown, note="The case file is missing.")
    if size[1] > LARGEST_CASE:
        return SmallCase(shown, note="The case file is too large to be shown.")
    href = f"{links.root}nights/{quote(night)}/{quote(file)}" if links.live else ""
    place = shlex.quote(f"{store.name}/{NIGHTS}/{night}/{file}")
    case = SmallCase(shown, href, command_line("replay", place))
    try:
        case.lines = [clip_line(line) for line in describe(read_case(path).case)][:MAX_CASE_LINES]
    except (OptionError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        case.note, case.command = "The file is not a readable case.", ""
    return case


def clip_line(line: str) -> str:
    """Return ``line`` shortened to fit a page; its indentation stays."""
    return line if len(line) <= 200 else line[:199] + "…"


def _files(store: Path, night: Night, links: Links) -> list[tuple[str, str, str]]:
    if not links.live:
        return []
    folder = store / NIGHTS / night.id
    found: list[tuple[str, str, str]] = []
    for path in sorted(folder.iterdir()):
        size: Any = stamp(str(path))
        if size is not None and not path.name.startswith("."):
            found.append((path.name, links.night_file(night.id, path.name), size_text(size[1])))
    return found[:100]

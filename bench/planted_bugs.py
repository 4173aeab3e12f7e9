"""Hunts for all planted bugs of the catalogue, and the table of docs/mutants.md made from them.

    .venv/bin/python -m bench.planted_bugs hunt [--repeats 3] [--budget 120] [--jobs 2] [ID ...]
    .venv/bin/python -m bench.planted_bugs page

``hunt`` adds a line to ``bench/results/hunted.jsonl`` for each bug of the catalogue that has none
(or for those named, whose lines are replaced), so it may be interrupted and continued. ``page``
writes the table and the sentence of README.md.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import click
import msgspec

from kraftwreck.campaigns.detection import Row, hunt_all
from kraftwreck.mutants import Mutant, catalogue

ROOT = Path(__file__).parent.parent
RECORDS = ROOT / "bench/results/hunted.jsonl"
PAGE, FRONT = ROOT / "docs/mutants.md", ROOT / "README.md"
BEGIN, END = "<!-- hunts -->", "<!-- end of hunts -->"
FRONT_ROWS = (
    "How many planted bugs does it find?",
    "Of those that break a core promise (★)?",
    "Which bugs are planted?",
)
KINDS = {
    "R": "in elections and replication",
    "S": "in logs and snapshots",
    "V": "in changes of voters",
    "C": "in controllers",
    "D": "in brokers that store records",
    "M": "others",
}


class Hunt(msgspec.Struct, kw_only=True):
    """One hunt for a bug, of ``cpu_s`` CPU seconds."""

    found: bool
    cpu_s: float
    checker: str | None = None
    anomaly: str | None = None
    seed: int | None = None


class Record(msgspec.Struct, kw_only=True):
    """The hunts for one bug, all on the sources of ``commit``."""

    id: str
    day: str
    commit: str
    budget_s: float
    hunts: list[Hunt]

    @property
    def times(self) -> list[float]:
        """CPU seconds of the hunts that found the bug."""
        return sorted(hunt.cpu_s for hunt in self.hunts if hunt.found)


def read(path: Path = RECORDS) -> dict[str, Record]:
    """Return the records of a file by the ids of their bugs, the last one of each."""
    lines = path.read_bytes().splitlines() if path.exists() else []
    records = (msgspec.json.decode(line, type=Record) for line in lines)
    return {record.id: record for record in records}


def write(records: dict[str, Record], path: Path = RECORDS) -> None:
    """Write a file of records, in the order of the catalogue."""
    lines = [msgspec.json.encode(records[name]) for name in catalogue() if name in records]
    path.write_bytes(b"".join(line + b"\n" for line in lines))


def record_of(row: Row, commit: str, budget_s: float) -> Record:
    """Return the record of the hunts in ``row``."""
    return Record(
        id=row.id,
        day=f"{datetime.now(UTC):%Y-%m-%d}",
        commit=commit,
        budget_s=budget_s,
        hunts=[
            Hunt(
                found=each.found,
                cpu_s=round(each.cpu_s, 1),
                checker=each.checker,
                anomaly=each.anomaly,
                seed=each.seed,
            )
            for each in row.all
        ],
    )


def table(bugs: dict[str, Mutant], records: dict[str, Record]) -> Iterator[str]:
    """Yield the lines of the table. *Found by* and *seed* are those of the first find."""
    yield "| id | bug | found by | seed | found | CPU s, median | worst |"
    yield "|---|---|---|--:|--:|--:|--:|"
    for name, bug in bugs.items():
        record = records.get(name)
        if record is None:
            continue
        first = next((hunt for hunt in record.hunts if hunt.found), None)
        by, seed = (f"{first.checker}: {first.anomaly}", str(first.seed)) if first else ("", "")
        times = record.times
        cells = [f"{name} ★" if bug.core else name, bug.title, by, seed]
        cells += [f"{len(times)} of {len(record.hunts)}"]
        cells += [f"{median(times):.1f}", f"{times[-1]:.1f}"] if times else ["", ""]
        yield f"| {' | '.join(cells)} |"


def figure(records: Sequence[Record]) -> str:
    """Return in words how many of the bugs are found, and how soon."""
    found = [record for record in records if record.times]
    always = sum(all(hunt.found for hunt in record.hunts) for record in records)
    repeats = max((len(record.hunts) for record in records), default=0)
    middle = median(median(record.times) for record in found) if found else 0.0
    return (
        f"{len(found)} of {len(records)}, and {always} of them in each of {repeats} hunts; "
        f"median {middle:.1f} CPU seconds"
    )


def figures(bugs: dict[str, Mutant], records: dict[str, Record]) -> tuple[str, str, str]:
    """Return the figures of README.md: of all bugs, of those with a star, and by kind."""
    hunted = [records[name] for name in bugs if name in records]
    counts = Counter(name[0] for name in bugs)
    kinds = ", ".join(f"{counts[letter]} {words}" for letter, words in KINDS.items())
    return (
        figure(hunted),
        figure([each for each in hunted if bugs[each.id].core]),
        f"{kinds}. Most are real defects of Kafka or of other implementations of Raft.",
    )


def paged(page: str, bugs: dict[str, Mutant], records: dict[str, Record]) -> str:
    """Return docs/mutants.md with the table."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    lines = "\n".join(table(bugs, records))
    return f"{before}{BEGIN}\n{lines}\n{END}{after}"


def fronted(front: str, bugs: dict[str, Mutant], records: dict[str, Record]) -> str:
    """Return README.md with the figures."""
    lines = front.splitlines(keepends=True)
    for question, words in zip(FRONT_ROWS, figures(bugs, records), strict=True):
        [at] = [n for n, line in enumerate(lines) if line.startswith(f"| {question} |")]
        source = lines[at].rstrip().removesuffix("|").rpartition("|")[2]
        lines[at] = f"| {question} | {words} |{source}|\n"
    return "".join(lines)


@click.group()
def cli() -> None:
    """Hunt all planted bugs; write the table of docs/mutants.md."""


@cli.command()
@click.argument("ids", nargs=-1)
@click.option("--repeats", default=3)
@click.option("--budget", default=120.0)
@click.option("--jobs", default=2)
def hunt(ids: tuple[str, ...], repeats: int, budget: float, jobs: int) -> None:
    """Hunt the bugs that have no record, or those named."""
    records, bugs = read(), catalogue()
    wanted: list[Any] = [
        (bug.id, bug.title, bug.patch)
        for name, bug in bugs.items()
        if (name in ids if ids else name not in records)
    ]
    command = ["git", "-C", str(ROOT), "rev-parse", "--short=8", "HEAD"]
    commit = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def keep(row: Row) -> None:
        records[row.id] = record_of(row, commit, budget)
        write(records)
        times = records[row.id].times
        click.echo(f"{row.id}: {len(times)} of {repeats}, {times} CPU s")

    hunt_all(wanted, budget, jobs, keep, repeats=repeats)


@cli.command()
def page() -> None:
    """Write the table of docs/mutants.md, and the figures of README.md."""
    bugs, records = catalogue(), read()
    PAGE.write_text(paged(PAGE.read_text(), bugs, records))
    FRONT.write_text(fronted(FRONT.read_text(), bugs, records))


if __name__ == "__main__":
    cli()

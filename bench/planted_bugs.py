"""Hunts for all planted bugs of the catalogue, and the table of docs/mutants.md made from them.

    .venv/bin/python -m bench.planted_bugs hunt [--repeats 3] [--budget 120] [--again] [ID ...]
    .venv/bin/python -m bench.planted_bugs page

``hunt`` hunts each bug of the catalogue (or those named) until ``bench/results/hunted.jsonl`` has
that many hunts for it, so it may be interrupted and continued. ``--again`` drops the earlier hunts.
``page`` writes the table, and the figures of README.md.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import click
import msgspec

from kraftwreck.campaigns.detection import FAR_APART, Entry, Row, hunt_all
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
    """One hunt for a bug, of ``cpu_s`` CPU seconds, on the sources of ``commit``."""

    day: str
    commit: str
    found: bool
    cpu_s: float
    checker: str | None = None
    anomaly: str | None = None
    seed: int | None = None


class Record(msgspec.Struct, kw_only=True):
    """The hunts for one bug."""

    id: str
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


def hunts_of(row: Row, commit: str) -> list[Hunt]:
    """Return the hunts in ``row``, of today."""
    return [
        Hunt(
            day=f"{datetime.now(UTC):%Y-%m-%d}",
            commit=commit,
            found=each.found,
            cpu_s=round(each.cpu_s, 1),
            checker=each.checker,
            anomaly=each.anomaly,
            seed=each.seed,
        )
        for each in row.all
    ]


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
    finds = sum(len(record.times) for record in records)
    hunts = sum(len(record.hunts) for record in records)
    middle = median(median(record.times) for record in found) if found else 0.0
    by = "one hunt each" if hunts == len(records) else f"{finds} of {hunts} hunts"
    return (
        f"{len(found)} of {len(records)}, by {by} of at most 120 CPU seconds; "
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
@click.option("--repeats", default=3, help="Hunts of each bug.")
@click.option("--budget", default=120.0, help="CPU seconds of a hunt.")
@click.option("--jobs", default=2)
@click.option("--again", is_flag=True, help="Drop the recorded hunts of these bugs first.")
def hunt(ids: tuple[str, ...], repeats: int, budget: float, jobs: int, again: bool) -> None:
    """Hunt the bugs of the catalogue, or those named, that have fewer hunts."""
    records, bugs = read(), catalogue()
    unknown = sorted(set(ids) - bugs.keys())
    if unknown:
        raise click.UsageError(f"no planted bug {', '.join(unknown)}: see mutants/catalogue.toml")
    command = ["git", "-C", str(ROOT), "rev-parse", "--short=8", "HEAD"]
    commit = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    wanted: dict[int, list[Entry]] = {}
    for name, bug in bugs.items():
        if not ids or name in ids:
            record = records.setdefault(name, Record(id=name, hunts=[]))
            record.hunts = [] if again else record.hunts
            wanted.setdefault(len(record.hunts), []).append((bug.id, bug.title, bug.patch))

    def keep(row: Row) -> None:
        record = records[row.id]
        record.hunts += hunts_of(row, commit)
        write({name: each for name, each in records.items() if each.hunts})
        click.echo(f"{row.id}: {len(record.times)} of {len(record.hunts)}, {record.times} CPU s")

    for done in range(repeats):
        hunt_all(
            wanted.get(done, []),
            budget,
            jobs,
            keep,
            repeats=repeats - done,
            first_seed=done * FAR_APART,
        )


@cli.command()
def page() -> None:
    """Write the table of docs/mutants.md, and the figures of README.md."""
    bugs, records = catalogue(), read()
    PAGE.write_text(paged(PAGE.read_text(), bugs, records))
    FRONT.write_text(fronted(FRONT.read_text(), bugs, records))


if __name__ == "__main__":
    cli()

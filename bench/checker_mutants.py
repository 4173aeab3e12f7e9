"""Mutation of the constants and comparisons in ``checkers/``: which of them no test pins.

    python -m bench.checker_mutants [--only PREFIX] [--kind KIND] [--survivors] [--limit SECONDS]

Constants, bounds, factors and comparisons (:mod:`bench.mutation.places`) are changed one at a time.
The tests are those of checkers and of the simulator's rules, without those of hosts, browsers,
Spark and whole runs. Tests that reach the changed line run until one fails, which kills the mutant
(:mod:`bench.mutation.session`). Some mutants take effect only when their module is imported: they
get a process that imports everything again (:mod:`bench.mutation.fresh`).

``bench/results/checker-mutants.toml`` lists mutants that change nothing a test could observe, with
the reason. They do not count, and are tried only with ``--equivalents``: it is an error if one is
killed. ``--survivors`` leaves out mutants that were killed before. Results are collected in
``build/mutation``; ``bench/results/checker-mutants.md`` is made from them. Rows of the page for
which fewer mutants were tried here than before stay as they are.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench.mutation import fresh, session
from bench.mutation.places import KINDS, ROOT, Mutant, mutants_of
from bench.mutation.reach import read_reached

RECORD = ROOT / "build/mutation/killed.json"
REACH = ROOT / "build/mutation/reach.json"
PAGE = ROOT / "bench/results/checker-mutants.md"
EQUIVALENTS = ROOT / "bench/results/checker-mutants.toml"
WATCHED = "from tests.simulation.watched import"
"""Tests of the simulator's rules have this line; other tests beside them simulate whole runs."""
PROGRAMS = ("checkers/elle/lifeline.py",)
"""Run as programs of their own, where no mutant can be put in."""
LEFT_OUT = ("test_checker_mutants.py", "test_check_command.py", "test_mutation.py")

Record = dict[str, bool | None]
"""Whether each mutant was killed, by its key; None if that is not known yet."""


def read_record() -> Record:
    """Return what was collected before."""
    return msgspec.json.decode(RECORD.read_bytes(), type=Record) if RECORD.exists() else {}


def all_mutants() -> list[Mutant]:
    """Return the mutants of all checkers."""
    paths = sorted((ROOT / "checkers").rglob("*.py"))
    found = [mutant for path in paths for mutant in mutants_of(path)]
    return [mutant for mutant in found if mutant.path not in PROGRAMS]


def test_files() -> list[str]:
    """Return the test files that run."""
    of_checkers = (ROOT / "tests/checkers").rglob("test_*.py")
    of_rules = (ROOT / "tests/simulation").glob("test_*.py")
    found = [path for path in of_checkers if path.name not in LEFT_OUT]
    found += [path for path in of_rules if WATCHED in path.read_text()]
    return sorted(str(path.relative_to(ROOT)) for path in found)


def equivalents() -> dict[str, str]:
    """Return the reasons of equivalent mutants by key. Raises ValueError for an unknown mutant."""
    known = {mutant.key for mutant in all_mutants()}
    found: dict[str, str] = {}
    for group in tomllib.loads(EQUIVALENTS.read_text())["equivalent"]:
        for key in group["mutants"]:
            if key not in known:
                raise ValueError(f"{EQUIVALENTS.name}: there is no mutant {key}")
            found[key] = group["reason"]
    return found


def folder_of(path: str) -> str:
    """Return the row of the table for a file: its folder, or the file itself."""
    return path if path.count("/") == 1 else f"{Path(path).parent}/"


class Row(NamedTuple):
    """A row of the table: numbers of mutants."""

    mutants: int
    tried: int
    equivalent: int
    killed: int

    def text(self, folder: str, kind: str) -> str:
        """Return the row as Markdown."""
        counted = self.tried - self.equivalent
        score = f"{100 * self.killed / counted:.0f} %" if counted else "–"
        return f"| {folder} | {kind} | {' | '.join(map(str, self))} | {score} |"


Group = tuple[str, str]
"""A folder, or a file, and a kind."""


def page(
    record: Record, equivalent: Mapping[str, str], existing: Iterable[str], before: str = ""
) -> str:
    """Return the Markdown page of the results; ``existing`` are the keys of all mutants.

    ``before`` is the page as it was: where more was tried, its lines stay.
    """
    existing = list(existing)
    whole = _groups(existing)
    known = {key: killed for key, killed in record.items() if killed is not None}
    groups = _groups(known)
    old, lines_before = _read(before)
    counted = {_line(key) for key in existing if key not in equivalent}
    lines_before = [(group, line) for group, line in lines_before if line in counted]
    rows: dict[Group, Row] = {}
    for group, keys in whole.items():
        same = sum(key in equivalent for key in keys)
        mine = {key for key in groups.get(group, ()) if key not in equivalent}
        row = Row(len(keys), len(mine) + same, same, sum(known[key] is True for key in mine))
        last = old.get(group)
        alive = sum(other == group for other, _ in lines_before)
        enough = 1 if last is None else min(len(keys) - same, last.killed + alive)
        if len(mine) >= max(enough, 1):
            rows[group] = row
        elif last is not None:
            rows[group] = last
            groups.pop(group, None)
    survivors = [
        (key, _line(key))
        for group in rows
        for key in groups.get(group, ())
        if not known[key] and key not in equivalent
    ]
    survivors += [
        (line, line) for group, line in lines_before if group in rows and group not in groups
    ]
    lines = [
        "# Mutated constants and comparisons of the checkers",
        "",
        "`python -m bench.checker_mutants` writes this page; its module docstring says what is",
        "mutated, and which tests run. Folders and kinds that are not listed were not tried.",
        "The score is that of the mutants that were tried, without equivalent ones: no history",
        "and no trace distinguishes them, or they change what is shown but no verdict.",
        "",
        "| folder | kind | mutants | tried | equivalent | killed | score |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    order = sorted(rows, key=lambda group: (KINDS.index(group[1]), group[0]))
    lines += [rows[group].text(*group) for group in order]
    for kind in KINDS:
        if every := [row for group, row in rows.items() if group[1] == kind]:
            lines.append(Row(*map(sum, zip(*every, strict=True))).text("**all**", kind))
    lines += ["", "## Survivors", ""]
    lines += [f"- {line}" for _, line in sorted(survivors, key=lambda each: each[1])]
    lines += ["", "## Equivalent mutants", ""]
    reasons: dict[str, list[str]] = {}
    for key in sorted(equivalent):
        if _group_of(key) in rows:
            reasons.setdefault(equivalent[key], []).append(key)
    for reason, keys in reasons.items():
        lines += [f"- {reason}", *(f"  - {_line(key)}" for key in keys)]
    return "\n".join(lines) + "\n"


def _read(before: str) -> tuple[dict[Group, Row], list[tuple[Group, str]]]:
    """Return the rows and the survivors of a page."""
    rows: dict[Group, Row] = {}
    survivors: list[tuple[Group, str]] = []
    table, _, rest = before.partition("## Survivors")
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 7 and cells[1] in KINDS and cells[0] != "**all**":
            rows[cells[0], cells[1]] = Row(*map(int, cells[2:6]))
    for line in rest.partition("## Equivalent")[0].splitlines():
        if line.startswith("- `"):
            path, kind = line[3:].partition("`")[0], line.partition(": ")[0].rpartition(", ")[2]
            survivors.append(((folder_of(path), kind), line[2:]))
    return rows, survivors


def _group_of(key: str) -> Group:
    path, _, kind, *_ = key.split(" :: ")
    return folder_of(path), kind


def _groups(keys: Iterable[str]) -> dict[Group, list[str]]:
    """Return the mutants of each row of the table: folder and kind."""
    groups: dict[Group, list[str]] = {}
    for key in keys:
        groups.setdefault(_group_of(key), []).append(key)
    return groups


def _line(key: str) -> str:
    path, scope, kind, text, change, _ = key.split(" :: ")
    return f"`{path}` {scope or 'module'}, {kind}: `{' '.join(text.split())}` {change}"


def chosen_of(
    options: argparse.Namespace, record: Record, equivalent: Collection[str]
) -> list[Mutant]:
    """Return the mutants to try."""
    chosen = tuple(f"checkers/{each}" for each in options.only or ("",))
    kinds = options.kind or KINDS
    found = [m for m in all_mutants() if m.path.startswith(chosen) and m.kind in kinds]
    found = [m for m in found if (m.key in equivalent) is options.equivalents]
    return [m for m in found if not (options.survivors and record.get(m.key))]


def note(record: Record, mutant: Mutant, killed: bool | None) -> None:
    """Record an outcome and print it, unless it is not known yet."""
    record[mutant.key] = killed
    RECORD.write_bytes(msgspec.json.encode(record))
    if killed is not None:
        print(f"{'killed  ' if killed else 'SURVIVED'} {mutant.path}:{mutant.line} {mutant.key}")
        sys.stdout.flush()


def until(mutants: Iterable[Mutant], end: float) -> Iterator[Mutant]:
    """Yield ``mutants`` until the time is over."""
    for mutant in mutants:
        if time.monotonic() > end:
            print("the time is over", flush=True)
            return
        yield mutant


def main(arguments: Sequence[str] | None = None) -> None:
    """Mutate, test, record and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", action="append", help="a path below checkers/; may be repeated")
    parser.add_argument("--kind", action="append", choices=KINDS)
    parser.add_argument("--survivors", action="store_true", help="not what was killed before")
    parser.add_argument("--equivalents", action="store_true", help="only what is listed as such")
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds in all")
    options = parser.parse_args(arguments)
    end = time.monotonic() + options.limit
    RECORD.parent.mkdir(parents=True, exist_ok=True)
    current = {mutant.key for mutant in all_mutants()}
    record = {key: killed for key, killed in read_record().items() if key in current}
    equivalent = equivalents()
    chosen = chosen_of(options, record, equivalent)
    fresh.prepare()
    child = os.fork()  # Checkers are imported there and not here.
    if child == 0:
        session.run(test_files(), until(chosen, end), REACH, partial(note, record))
        return
    if os.waitpid(child, 0)[1]:
        raise SystemExit("the tests were not run")
    record |= read_record()
    outside = [mutant for mutant in chosen if record.get(mutant.key, False) is None]
    reached = read_reached(REACH)
    for mutant in until(outside, end):
        note(record, mutant, fresh.killed(mutant, reached))
    PAGE.write_text(page(record, equivalent, current, PAGE.read_text() if PAGE.exists() else ""))
    if wrong := [key for key in equivalent if record.get(key)]:
        raise SystemExit("\n".join(["not equivalent, as a test fails:", *wrong]))


if __name__ == "__main__":
    main()

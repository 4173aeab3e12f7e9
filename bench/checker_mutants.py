"""Mutation of the constants and comparisons in ``checkers/``: which of them no test pins.

    python -m bench.checker_mutants [--only PREFIX] [--kind KIND] [--again] [--limit SECONDS]
    python -m bench.checker_mutants --watches [--sample NUMBER] [--tests PREFIX] [--most SECONDS]

Constants, bounds, factors and comparisons (:mod:`bench.mutation.places`) are changed one at a time.
The tests are those of checkers and of the simulator's rules, without those of hosts, browsers,
Spark and whole runs. Tests that reach the changed line run until one fails, which kills the mutant
(:mod:`bench.mutation.session`). Some mutants take effect only when their module is imported: they
get a process that imports everything again (:mod:`bench.mutation.fresh`).

``bench/results/checker-mutants.txt`` has the outcomes. They hold while the function around a mutant
stays the same (:mod:`bench.mutation.outcomes`): what was killed is tried only with ``--again``.
``bench/results/checker-mutants.md`` is made from them. ``bench/results/checker-mutants.toml`` lists
mutants that change nothing a test could observe, with the reason. They do not count, and are tried
only with ``--equivalents``: it is an error if one is killed.

``--watches`` tries the files of the simulator that report failures or have the evidence for them,
by the tests of ``tests/simulation`` without many runs. ``--sample`` draws some of the mutants,
always the same. ``--most`` leaves out tests that take more CPU seconds, which simulate whole runs:
a rule is pinned by a test at its edge, not by the luck of a run.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
import time
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench.mutation import fresh, session
from bench.mutation.outcomes import Outcomes, digest
from bench.mutation.places import KINDS, ROOT, Mutant, mutants_of
from bench.mutation.reach import read_reached

OUTCOMES = ROOT / "bench/results/checker-mutants.txt"
OUTSIDE = ROOT / "build/mutation/outside.json"
"""The mutants that only a new import puts in, of the session that runs."""
REACH = ROOT / "build/mutation/reach.json"
PAGE = ROOT / "bench/results/checker-mutants.md"
EQUIVALENTS = ROOT / "bench/results/checker-mutants.toml"
WATCHES = ROOT / "systems/kraft/simulated"
REPORTS = re.compile(r"self\._?failures\.add\(|-> Iterator\[tuple\[str, str\]\]:")
"""Files of the simulator that judge have this text: they report, or yield rules and faults."""
EVIDENCE = (
    "durable_logs.py",
    "per_second.py",
    "replica_positions.py",
    "snapshot_rehearsal.py",
    "step_logs.py",
)
"""Files of the simulator whose results decide what those report."""
WATCHED = "from tests.simulation.watched import"
"""Tests of the simulator's rules have this line; other tests beside them simulate whole runs."""
PROGRAMS = ("checkers/elle/lifeline.py",)
"""Run as programs of their own, where no mutant can be put in."""
LEFT_OUT = ("test_checker_mutants.py", "test_check_command.py", "test_mutation.py")


def all_mutants() -> list[Mutant]:
    """Return the mutants of all checkers, then those of the simulator's watches."""
    paths = sorted((ROOT / "checkers").rglob("*.py"))
    of_simulator = sorted(WATCHES.glob("*.py"))
    paths += [path for path in of_simulator if judges(path)]
    found = [mutant for path in paths for mutant in mutants_of(path)]
    return [mutant for mutant in found if mutant.path not in PROGRAMS]


def judges(path: Path) -> bool:
    """Whether a file of the simulator reports failures, or has the evidence for them."""
    return path.name in EVIDENCE or bool(REPORTS.search(path.read_text()))


def is_watch(path: str) -> bool:
    """Whether a file belongs to the simulator."""
    return path.startswith(f"{WATCHES.relative_to(ROOT)}/")


def test_files(below: Sequence[str], *, watches: bool) -> list[str]:
    """Return the test files that run: those ``below`` some folders, or all."""
    found = list((ROOT / "tests/simulation").glob("test_*.py"))
    if not watches:
        found = [path for path in found if WATCHED in path.read_text()]
        of_checkers = (ROOT / "tests/checkers").rglob("test_*.py")
        found += [path for path in of_checkers if path.name not in LEFT_OUT]
    names = sorted(str(path.relative_to(ROOT)) for path in found)
    return [name for name in names if name.startswith(tuple(below) or "")]


def equivalents(mutants: Iterable[Mutant]) -> dict[str, str]:
    """Return the reasons of equivalent mutants by key. Raises ValueError for an unknown mutant."""
    known = {mutant.key for mutant in mutants}
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


def page(outcomes: Mapping[str, bool | None], equivalent: Mapping[str, str]) -> str:
    """Return the Markdown page of the results; ``outcomes`` are those of all mutants that exist."""
    lines = [
        "# Mutated constants and comparisons of the checkers",
        "",
        "`python -m bench.checker_mutants` writes this page; its module docstring says what is",
        "mutated, and which tests run. Folders and kinds that are not listed were not tried.",
        "The score is that of the mutants that were tried, without equivalent ones: no history",
        "and no trace distinguishes them, or they change what is shown but no verdict.",
        "",
    ]
    mine = {key: killed for key, killed in outcomes.items() if not is_watch(key)}
    lines += _table(mine, equivalent)
    watches = {key: killed for key, killed in outcomes.items() if is_watch(key)}
    if any(killed is not None for killed in watches.values()):
        lines += [
            "",
            "## The watches of the simulator",
            "",
            "The mutants of the files that report failures or have the evidence for them. The",
            "tests are those of `tests/simulation` that need less than a second, without whole",
            "runs (`--most 1`).",
            "",
            *_table(watches, equivalent),
        ]
    lines += ["", "## Survivors", ""]
    alive = [key for key, killed in outcomes.items() if killed is False and key not in equivalent]
    lines += sorted(f"- {_line(key)}" for key in alive)
    lines += ["", "## Equivalent mutants", ""]
    reasons: dict[str, list[str]] = {}
    for key in sorted(equivalent):
        reasons.setdefault(equivalent[key], []).append(key)
    for reason, keys in reasons.items():
        lines += [f"- {reason}", *(f"  - {_line(key)}" for key in keys)]
    return "\n".join(lines) + "\n"


def _table(outcomes: Mapping[str, bool | None], equivalent: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of a table: a row for each folder and kind of which something was tried."""
    rows: dict[Group, Row] = {}
    for group, keys in _groups(outcomes).items():
        same = sum(key in equivalent for key in keys)
        tried = [outcomes[key] for key in keys if key not in equivalent]
        killed, alive = tried.count(True), tried.count(False)
        if killed + alive:
            rows[group] = Row(len(keys), killed + alive + same, same, killed)
    yield "| folder | kind | mutants | tried | equivalent | killed | score |"
    yield "|---|---|--:|--:|--:|--:|--:|"
    for group in sorted(rows, key=lambda group: (KINDS.index(group[1]), group[0])):
        yield rows[group].text(*group)
    for kind in KINDS:
        if every := [row for group, row in rows.items() if group[1] == kind]:
            yield Row(*map(sum, zip(*every, strict=True))).text("**all**", kind)


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
    options: argparse.Namespace,
    mutants: Iterable[Mutant],
    outcomes: Outcomes,
    equivalent: Collection[str],
) -> list[Mutant]:
    """Return those of ``mutants`` to try."""
    folder = "" if options.watches else "checkers/"
    chosen = tuple(f"{folder}{each}" for each in options.only or ("",))
    kinds = options.kind or KINDS
    found = [m for m in mutants if is_watch(m.path) is options.watches and m.kind in kinds]
    found = [m for m in found if m.path.startswith(chosen)]
    found = [m for m in found if (m.key in equivalent) is options.equivalents]
    if options.sample:
        found = sorted(found, key=lambda m: digest(f"sample {m.key}"))[: options.sample]
    return [m for m in found if options.again or not outcomes.of(m.key)]


class Notes:
    """Writes outcomes down and prints them; ``outside`` are mutants that need a new import."""

    def __init__(self, outcomes: Outcomes) -> None:
        self.outside: list[str] = []
        self._outcomes = outcomes

    def note(self, mutant: Mutant, killed: bool | None) -> None:
        """Take the outcome of a mutant, None if it is not known yet."""
        if killed is None:
            self.outside.append(mutant.key)
            OUTSIDE.write_bytes(msgspec.json.encode(self.outside))
            return
        self._outcomes.note(mutant.key, killed)
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
    parser.add_argument("--again", action="store_true", help="also what was killed before")
    parser.add_argument("--equivalents", action="store_true", help="only what is listed as such")
    parser.add_argument("--watches", action="store_true", help="the rules of the simulator")
    parser.add_argument("--sample", type=int, default=0, help="draw so many of the mutants")
    parser.add_argument("--tests", action="append", help="a path of tests; may be repeated")
    parser.add_argument("--most", type=float, default=math.inf, help="CPU seconds of a test")
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds in all")
    options = parser.parse_args(arguments)
    end = time.monotonic() + options.limit
    OUTSIDE.parent.mkdir(parents=True, exist_ok=True)
    OUTSIDE.write_bytes(b"[]")
    every = all_mutants()
    equivalent = equivalents(every)
    chosen = chosen_of(options, every, Outcomes(OUTCOMES, every), equivalent)
    files = test_files(options.tests or (), watches=options.watches)
    print(f"{len(chosen)} mutants", flush=True)
    fresh.prepare()
    child = os.fork() if chosen else 0  # Checkers are imported there and not here.
    if child == 0 and chosen:
        note = Notes(Outcomes(OUTCOMES, every)).note
        session.run(files, until(chosen, end), REACH, note, most_s=options.most)
        return
    if chosen and os.waitpid(child, 0)[1]:
        raise SystemExit("the tests were not run")
    outcomes = Outcomes(OUTCOMES, every)
    outside = set(msgspec.json.decode(OUTSIDE.read_bytes(), type=list[str]))
    reached = {
        name: test
        for name, test in read_reached(REACH).items()
        if name.partition("::")[0] in files and test.seconds <= options.most
    }
    for mutant in until([mutant for mutant in chosen if mutant.key in outside], end):
        Notes(outcomes).note(mutant, fresh.killed(mutant, reached))
    outcomes = Outcomes(OUTCOMES, every)
    outcomes.write()
    PAGE.write_text(page({mutant.key: outcomes.of(mutant.key) for mutant in every}, equivalent))
    if wrong := [key for key in equivalent if outcomes.of(key)]:
        raise SystemExit("\n".join(["not equivalent, as a test fails:", *wrong]))


if __name__ == "__main__":
    main()

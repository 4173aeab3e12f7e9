"""Coverage of a store's runs: ordered pairs of faults, and node states that faults hit.

The numbers count runs. Nights count all their runs, also those without a folder. Other runs are
counted by the analysis, or else from their own ``coverage.json``. Counters are kept per
:class:`Asked`, so that the page can show the coverage of some tests only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from kraftwreck.histories.undecodable import UNDECODABLE
from kraftwreck.reports.store.gold import Gold
from kraftwreck.reports.store.index import NAME_LENGTH, NIGHTS, RunSummary, clip, stamp

MAX_FILES = 2000
LARGEST = 64 << 20
LEVELS = 5
STATES = ("leader", "follower", "candidate", "prospective", "unattached", "resigned", "voted")


class _Counters(msgspec.Struct):
    """The part of a ``coverage.json`` that is shown; values count runs."""

    runs: int = 0
    follows: dict[str, int] = {}
    struck: dict[str, int] = {}


class _OfTest(_Counters):
    """An entry of a night's ``coverage_by_test.json`` (docs/nightly.md)."""

    system: str = ""
    workload: str = ""
    faults: list[str] = []
    cluster: str = ""
    tree: str = ""


class Asked(NamedTuple):
    """The properties of a test by which the page filters; ``planted``: not the clean build."""

    system: str
    workload: str
    faults: tuple[str, ...]
    cluster: str
    planted: bool

    @classmethod
    def of(cls, run: RunSummary) -> Asked:
        """Return the properties of ``run``."""
        return cls(run.system, run.workload, run.faults, run.cluster, bool(run.mutant))


@dataclass
class Part:
    """The coverage of one test: pairs of faults, and node states that faults hit."""

    runs: int = 0
    pairs: set[tuple[str, str]] = field(default_factory=set)
    struck: set[tuple[str, str]] = field(default_factory=set)


@dataclass
class Reached:
    """Runs per ordered pair ``(first, second)`` and per ``(state, fault)``; faults are
    ``kind/shape``. ``parts`` are the same per test; None stands for unknown tests."""

    runs: int = 0
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)
    struck: Counter[tuple[str, str]] = field(default_factory=Counter)
    sources: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    parts: dict[Asked | None, Part] = field(default_factory=dict)

    def add(self, follows: dict[str, int], struck: dict[str, int]) -> None:
        """Add counters named as in docs/simulator.md; ignore other names."""
        for pair, count in _named(follows, " > "):
            self.pairs[pair] += count
        for pair, count in _named(struck, " "):
            self.struck[pair] += count

    def add_part(
        self, test: Asked | None, runs: int, follows: dict[str, int], struck: dict[str, int]
    ) -> None:
        """Add counters to the part of ``test``."""
        part = self.parts.setdefault(test, Part())
        part.runs += runs
        part.pairs.update(pair for pair, _ in _named(follows, " > "))
        part.struck.update(pair for pair, _ in _named(struck, " "))


def _named(counts: dict[str, int], sign: str) -> list[tuple[tuple[str, str], int]]:
    split = ((name.partition(sign), count) for name, count in counts.items())
    return [((first, second), count) for (first, found, second), count in split if found]


@dataclass(slots=True)
class Cell:
    """A cell of a heat map: ``met`` of ``possible``; ``level`` 0 to 5 is its darkness."""

    met: int
    possible: int
    level: int


@dataclass
class HeatMap:
    """Rows and columns with their names, and a cell for each."""

    rows: list[str]
    columns: list[str]
    cells: list[list[Cell]]
    met: int
    possible: int
    never: list[str]


@dataclass
class CoverageReader:
    """Reads the coverage of ``store``; files that did not change are not read again."""

    store: Path
    _known: dict[str, tuple[object, list[_Counters]]] = field(default_factory=dict)
    _known_tests: dict[str, tuple[object, list[_OfTest]]] = field(default_factory=dict)

    def reached(self, runs: Iterable[RunSummary], nights: Iterable[str], gold: Gold) -> Reached:
        """Return the coverage of ``runs`` and ``nights``."""
        result = Reached()
        counted: set[str] = set()
        for night in nights:
            found = self._file(f"{NIGHTS}/{night}/coverage.json", by_cluster=True)
            if found:
                counted.add(night)
                for counters in found:
                    result.runs += counters.runs
                    result.add(counters.follows, counters.struck)
                self._by_test(night, found, result)
        if counted:
            result.sources.append(f"{len(counted)} night{'s' * (len(counted) > 1)}")
        others = [r for r in runs if r.path and r.night not in counted]
        tabled = self._from_gold(others, gold, result)
        left = [r for r in others if r.has_coverage and r.path not in tabled]
        for run in left[:MAX_FILES]:
            for counters in self._file(f"{run.path}/coverage.json"):
                result.runs += 1
                result.add(counters.follows, counters.struck)
                result.add_part(Asked.of(run), 1, counters.follows, counters.struck)
        if left:
            result.sources.append(f"coverage.json of {min(len(left), MAX_FILES):,} runs")
        if len(left) > MAX_FILES:
            result.notes.append(
                f"{len(left) - MAX_FILES:,} older runs are not counted; "
                "kraftwreck analyze counts all."
            )
        return result

    def _by_test(self, night: str, whole: list[_Counters], result: Reached) -> None:
        """Add a night's coverage per test, as far as the night recorded it."""
        told = 0
        for each in self._tests(f"{NIGHTS}/{night}/coverage_by_test.json"):
            names = (clip(name, NAME_LENGTH) for name in each.faults[:50])
            test = Asked(
                clip(each.system, NAME_LENGTH), clip(each.workload, NAME_LENGTH), tuple(names),
                clip(each.cluster, NAME_LENGTH), each.tree != "clean",
            )  # fmt: skip
            result.add_part(test, each.runs, each.follows, each.struck)
            told += each.runs
        runs = sum(counters.runs for counters in whole)
        if told < runs:
            for counters in whole:
                result.add_part(None, 0, counters.follows, counters.struck)
            result.parts[None].runs += runs - told

    def _tests(self, path: str) -> list[_OfTest]:
        full = f"{self.store}/{path}"
        now = stamp(full)
        if now is None or now[1] > LARGEST:
            return []
        known = self._known_tests.get(path)
        if known is None or known[0] != now:
            try:
                found = msgspec.json.decode(Path(full).read_bytes(), type=list[_OfTest])
            except (OSError, *UNDECODABLE):
                found = []
            known = self._known_tests[path] = (now, found)
        return known[1]

    def _from_gold(self, runs: list[RunSummary], gold: Gold, result: Reached) -> frozenset[str]:
        analyzed = gold.analyzed & {run.path for run in runs}
        if not analyzed:
            return frozenset()
        kinds = pc.field("counter").isin(["follows", "struck"])
        table = gold.table("coverage", ["run", "counter", "item"], kinds)
        if table is None:
            return frozenset()
        tests = list(dict.fromkeys(Asked.of(run) for run in runs if run.path in analyzed))
        place = {test: number for number, test in enumerate(tests)}
        of = {run.path: place[Asked.of(run)] for run in runs if run.path in analyzed}
        which = pc.index_in(table["run"], pa.array(list(of), pa.string()))
        chosen = table.append_column("at", which).filter(pc.is_valid(which))
        numbers = pa.array(list(of.values()), pa.int64())
        chosen = chosen.append_column("test", pc.take(numbers, chosen["at"]))
        grouped = chosen.group_by(["test", "counter", "item"]).aggregate(
            [("run", "count_distinct")]
        )
        names: list[dict[str, dict[str, int]]] = [{"follows": {}, "struck": {}} for _ in tests]
        for row in grouped.to_pylist():
            names[row["test"]][row["counter"]][row["item"]] = row["run_count_distinct"]
        counts = Counter(of.values())
        for number, found in enumerate(names):
            result.add(found["follows"], found["struck"])
            result.add_part(tests[number], counts[number], found["follows"], found["struck"])
        result.runs += len(analyzed)
        result.sources.append(f"the analysis of {len(analyzed):,} runs")
        return analyzed

    def _file(self, path: str, *, by_cluster: bool = False) -> list[_Counters]:
        full = f"{self.store}/{path}"
        now = stamp(full)
        if now is None or now[1] > LARGEST:
            return []
        known = self._known.get(path)
        if known is None or known[0] != now:
            known = (now, _decode(Path(full), by_cluster))
            self._known[path] = known
        return known[1]


def _decode(path: Path, by_cluster: bool) -> list[_Counters]:
    try:
        data = path.read_bytes()
        if by_cluster:
            return list(msgspec.json.decode(data, type=dict[str, _Counters]).values())
        return [msgspec.json.decode(data, type=_Counters)]
    except (OSError, *UNDECODABLE):
        return []


def pairs_map(reached: Reached, classes: Iterable[str]) -> HeatMap:
    """Return family x family: how many ordered pairs of their shapes occurred."""
    names = _known_classes(classes, (name for pair in reached.pairs for name in pair))
    families = _families(names)
    cells = [
        [
            _cell(
                sum(1 for a in shapes for b in others if (a, b) in reached.pairs),
                len(shapes) * len(others),
            )
            for others in families.values()
        ]
        for shapes in families.values()
    ]
    never = [
        f"{first} then {second}"
        for first, row in zip(families, cells, strict=True)
        for second, cell in zip(families, row, strict=True)
        if not cell.met
    ]
    return _heat_map(list(families), list(families), cells, never)


def struck_map(reached: Reached, classes: Iterable[str]) -> HeatMap:
    """Return family x state: how many of the family's shapes hit a node in that state."""
    names = _known_classes(classes, (fault for _, fault in reached.struck))
    states = states_of(reached)
    families = _families(names)
    cells = [
        [
            _cell(sum(1 for shape in shapes if (state, shape) in reached.struck), len(shapes))
            for state in states
        ]
        for shapes in families.values()
    ]
    never = [
        f"{family} on {state}"
        for family, row in zip(families, cells, strict=True)
        for state, cell in zip(states, row, strict=True)
        if not cell.met
    ]
    return _heat_map(list(families), states, cells, never)


def _heat_map(
    rows: list[str], columns: list[str], cells: list[list[Cell]], never: list[str]
) -> HeatMap:
    flat = [cell for row in cells for cell in row]
    met, possible = sum(c.met for c in flat), sum(c.possible for c in flat)
    return HeatMap(rows, columns, cells, met, possible, never)


def states_of(reached: Reached) -> list[str]:
    """Return the states in which nodes were hit, the well-known ones first."""
    seen = {state for state, _ in reached.struck}
    return [s for s in STATES if s in seen] + sorted(seen.difference(STATES))


def all_classes(reached: Reached, classes: Iterable[str]) -> list[str]:
    """Return ``classes`` and all classes that occurred, sorted."""
    pairs = (name for pair in reached.pairs for name in pair)
    return _known_classes(classes, [*pairs, *(fault for _, fault in reached.struck)])


def _known_classes(classes: Iterable[str], seen: Iterable[str]) -> list[str]:
    return sorted({*classes, *seen})


def _families(classes: list[str]) -> dict[str, list[str]]:
    families: dict[str, list[str]] = {}
    for name in classes:
        families.setdefault(name.partition("/")[0], []).append(name)
    return families


def _cell(met: int, possible: int) -> Cell:
    level = 0 if not met else max(1, -(-met * LEVELS // possible))
    return Cell(met, possible, min(level, LEVELS))

"""A night in numbers: the contents of ``night.json``, from which all other outputs are made."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, Literal

import msgspec

from kraftwreck.histories.exit_codes import FAILED, INVALID, UNKNOWN, VALID
from kraftwreck.nemesis.coverage import Coverage
from kraftwreck.nightly.record import Record

FORMAT = 1
CLASSES = ("system", "harness", "environment", "flake")

State = Literal["running", "interrupted", "complete"]


class Kind(msgspec.Struct, kw_only=True):
    """One way in which a build failed, and how often; ``first`` is the run that shows it."""

    tree: str
    checker: str
    type: str
    explanation: str
    count: int
    first: int
    case: str | None = None
    shrunk: str | None = None
    repeat: str = ""


class PlantedBug(msgspec.Struct, kw_only=True):
    """A build other than the clean one: how many of its runs found something."""

    tree: str
    runs: int
    found: int


class Night(msgspec.Struct, kw_only=True):
    """``night.json``; the fields are explained in ``docs/nightly.md``."""

    format: int = FORMAT
    id: str
    name: str
    seed: int
    state: State
    reason: str | None = None
    began: str
    ended: str | None = None
    spent_s: float = 0.0
    sessions: int = 1
    interrupted_runs: int = 0
    planned: int | None = None
    exit_code: int | None = None
    counts: dict[str, int] = {}
    sim_s: float = 0.0
    cpu_s: float = 0.0
    kinds: list[Kind] = []
    planted: list[PlantedBug] = []
    coverage: dict[str, Any] = {}
    given_up: dict[str, str] = {}
    versions: dict[str, str] = {}


def total(night: Night, records: Sequence[Record], coverage: Mapping[str, Coverage]) -> None:
    """Update the numbers of ``night``."""
    night.counts = counts(records)
    night.sim_s = round(sum(record.sim_s for record in records), 3)
    night.cpu_s = round(sum(record.cpu_s for record in records), 3)
    night.kinds = kinds(records)
    planted: dict[str, PlantedBug] = {}
    for record in records:
        if record.planted:
            bug = planted.setdefault(record.tree, PlantedBug(tree=record.tree, runs=0, found=0))
            bug.runs += 1
            bug.found += record.klass == "system"
    night.planted = [planted[tree] for tree in sorted(planted)]
    night.coverage = {kind: counted.summary() for kind, counted in coverage.items()}
    night.versions = {"kraftwreck": version("kraftwreck"), "python": platform.python_version()}


def counts(records: Sequence[Record]) -> dict[str, int]:
    """Return the number of runs by verdict, by class, and with suspicions."""
    told = {
        "runs": len(records),
        "valid": sum(record.valid is True for record in records),
        "invalid": sum(record.valid is False for record in records),
        "unknown": sum(record.valid == "unknown" for record in records),
    }
    told["suspected"] = sum(bool(record.suspicions) for record in records)
    told["raised"] = sum(bool(r.raised) and not r.planted for r in records)
    return told | {name: sum(record.klass == name for record in records) for name in CLASSES}


def kinds(records: Sequence[Record]) -> list[Kind]:
    """Return the ways in which builds failed: of the clean build first, then by frequency."""
    found: dict[tuple[str, str, str], Kind] = {}
    for record in sorted(records, key=lambda record: record.n):
        if record.klass != "system" or not record.failures:
            continue
        failure = record.failures[0]
        key = (record.tree, failure.checker, failure.type)
        kind = found.get(key)
        if kind is not None:
            kind.count += 1
            if record.shrunk is None or kind.shrunk is not None:
                continue
            # A different run was shrunk.
            kind.first = record.n
        else:
            kind = found[key] = Kind(
                tree=record.tree, checker=failure.checker, type=failure.type,
                explanation=failure.explanation, count=1, first=record.n,
            )  # fmt: skip
        kind.case, kind.shrunk, kind.repeat = record.case, record.shrunk, record.repeat
    return sorted(
        found.values(), key=lambda kind: (kind.tree != "clean", -kind.count, kind.tree, kind.first)
    )


def exit_code(records: Sequence[Record], *, planted_fail: bool, failed: bool = False) -> int:
    """Return the exit code of a finished night, by its runs.

    Proven anomalies outrank harness failures, and these outrank unknown verdicts and suspicions
    that came back. Without
    ``planted_fail``, anomalies in builds with planted bugs are expected. ``failed`` is set for a
    harness failure outside of any run.
    """
    asked = [
        record
        for record in records
        if planted_fail or not (record.planted and record.klass == "system")
    ]
    if any(record.klass == "system" for record in asked):
        return INVALID
    if failed or any(record.klass in ("harness", "environment") for record in asked):
        return FAILED
    if any(record.valid == "unknown" or record.klass == "flake" for record in asked):
        return UNKNOWN
    if any(record.raised for record in asked if planted_fail or not record.planted):
        return UNKNOWN
    return VALID

"""The nights of a store: the runs that ``nights/<id>`` records.

A run of a night may have kept its folder. If so, the folder's verdict, reason and report override
those of the night's line, which adds class, cost and shrunk case.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from kraftwreck.histories.undecodable import UNDECODABLE
from kraftwreck.histories.verdict import Validity
from kraftwreck.reports.store.index import (
    COMMAND_LENGTH,
    NAME_LENGTH,
    NIGHTS,
    TEXT_LENGTH,
    RunSummary,
    clip,
    number,
    stamp,
)

FILES = ("night.json", "runs.jsonl", "summary.md")
LARGEST = 128 << 20
MAX_SUMMARY = 100_000
UNDECIDED = "undecided"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:+-]{0,99}")


class NightLine(msgspec.Struct, rename={"red": "class"}):
    """One line of ``runs.jsonl`` (docs/nightly.md); its values may have any type."""

    n: Any = None
    kind: Any = None
    run: Any = None
    system: Any = None
    workload: Any = None
    faults: Any = None
    cluster: Any = None
    tree: Any = None
    planted: Any = None
    seed: Any = None
    valid: Any = None
    red: Any = None
    was: Any = None
    why: Any = None
    failures: Any = None
    case: Any = None
    shrunk: Any = None
    like: Any = None
    repeat: Any = None
    started: Any = None
    seconds: Any = None
    cpu_s: Any = None
    sim_s: Any = None
    attempts: Any = None
    at_s: Any = None


@dataclass(slots=True)
class NightRun:
    """One run of a night: its line, and its summary for lists."""

    line: NightLine
    summary: RunSummary

    @property
    def number(self) -> int:
        """Position in the night's order, -1 if the line has none."""
        return self.line.n if isinstance(self.line.n, int) else -1

    @property
    def planted(self) -> bool:
        """Whether the build is not the clean one."""
        return self.line.planted is True or bool(self.summary.mutant)

    @property
    def minutes(self) -> float | None:
        """When the run ended, in minutes of the night's time."""
        at = number(self.line.at_s)
        return None if at is None else at / 60


@dataclass
class Night:
    """A night: the contents of ``night.json``, its runs in order, and notes about errors."""

    id: str
    facts: dict[str, Any] = field(default_factory=dict)
    lines: list[NightLine] = field(default_factory=list)
    text: str = ""
    notes: list[str] = field(default_factory=list)

    @property
    def day(self) -> str:
        """The UTC day on which it began, ``2026-11-21``, or empty."""
        found = re.search(r"\d{4}-\d\d-\d\d", str(self.facts.get("began", "")))
        if found:
            return found.group()
        found = re.match(r"(\d{4})-?(\d\d)-?(\d\d)", self.id)
        return "-".join(found.groups()) if found else ""


@dataclass
class Nights:
    """The nights of ``store``, read again only when their files change."""

    store: Path
    _known: dict[str, tuple[tuple[Any, ...], Night]] = field(default_factory=dict)

    def all(self) -> list[Night]:
        """Return the nights, newest first."""
        folder = self.store / NIGHTS
        if folder.is_symlink() or not folder.is_dir():
            return []
        seen: dict[str, tuple[tuple[Any, ...], Night]] = {}
        for place in folder.iterdir():
            if place.is_symlink() or not place.is_dir() or not _ID.fullmatch(place.name):
                continue
            stamps = tuple(stamp(f"{place}/{name}") for name in FILES)
            if stamps[0] is None and stamps[1] is None:
                continue
            known = self._known.get(place.name)
            if known is None or known[0] != stamps:
                known = (stamps, _read(place))
            seen[place.name] = known
        self._known = seen
        return sorted((night for _, night in seen.values()), key=_order, reverse=True)

    def get(self, name: str) -> Night | None:
        """Return the night ``name``, None when there is none."""
        return next((night for night in self.all() if night.id == name), None)


def _order(night: Night) -> tuple[str, str]:
    return (str(night.facts.get("began") or night.id), night.id)


def _read(folder: Path) -> Night:
    night = Night(folder.name)
    try:
        facts = msgspec.json.decode(_bytes(folder / "night.json"))
        if isinstance(facts, dict):
            night.facts = facts
        else:
            night.notes.append("night.json is not a JSON object.")
    except (OSError, *UNDECODABLE) as error:
        night.notes.append(f"night.json cannot be read ({clip(error, 80)}).")
    try:
        night.lines = _lines(_bytes(folder / "runs.jsonl"), night.notes)
    except OSError as error:
        night.notes.append(f"runs.jsonl cannot be read ({clip(error, 80)}).")
    try:
        text = _bytes(folder / "summary.md").decode("utf-8", "replace")
        night.text = text[:MAX_SUMMARY]
    except OSError:
        night.notes.append("There is no summary.md.")
    return night


def _bytes(path: Path) -> bytes:
    if stamp(str(path)) is None:
        raise OSError("no such file, or a link")
    with path.open("rb") as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise OSError(f"larger than {LARGEST >> 20} MiB")
    return data


def _lines(data: bytes, notes: list[str]) -> list[NightLine]:
    decoder = msgspec.json.Decoder(NightLine)
    rows: list[NightLine] = []
    bad = 0
    for line in data.splitlines():
        if not line.strip():
            continue
        try:
            rows.append(decoder.decode(line))
        except UNDECODABLE:
            bad += 1
    if bad:
        notes.append(f"runs.jsonl: {bad} unreadable line{'s' if bad > 1 else ''} left out.")
    return rows


def night_runs(night: Night, known: Mapping[str, RunSummary]) -> list[NightRun]:
    """Return the runs of ``night`` in order; ``known`` are the store's runs by path."""
    return [NightRun(line, _summary(night, line, known)) for line in night.lines]


def _summary(night: Night, line: NightLine, known: Mapping[str, RunSummary]) -> RunSummary:
    place = _folder(line.run)
    found = known.get(place)
    valid: Validity | None = line.valid if line.valid in (True, False, "unknown") else None
    if found is None:
        system, workload = _name(line.system), _name(line.workload)
        summary = RunSummary(
            path="",
            name=f"{system}-{workload}",
            run=place.rpartition("/")[2],
            system=system,
            workload=workload,
            faults=_faults(line.faults),
            cluster=_name(line.cluster),
            valid=valid,
            seed=_name(line.seed),
            why="" if valid is True or not place else "its folder is gone",
        )
    else:
        summary = replace(found)
        if summary.valid is None:
            summary.valid = valid
    summary.day = summary.day or night.day
    summary.mutant = summary.mutant or _tree(line)
    summary.repeat = clip(line.repeat, COMMAND_LENGTH) or summary.repeat
    _add_failure(summary, line)
    if summary.seconds is None:
        summary.seconds = number(line.sim_s) or number(line.seconds)
    summary.night, summary.red = night.id, _red(line, valid)
    return summary


def _add_failure(summary: RunSummary, line: NightLine) -> None:
    first = line.failures[0] if isinstance(line.failures, list) and line.failures else None
    if isinstance(first, dict) and not summary.kind:
        summary.checker = _name(first.get("checker"))
        summary.kind = _name(first.get("type"))
        summary.first = clip(first.get("explanation"), TEXT_LENGTH)
    summary.first = summary.first or clip(line.why, TEXT_LENGTH)


def _tree(line: NightLine) -> str:
    """Return the planted bug or patch; empty for the clean build."""
    tree = _name(line.tree)
    return "" if tree == "clean" else tree.removeprefix("mutant:").removeprefix("patch:")


def _red(line: NightLine, valid: Validity | None) -> str:
    """Return the class of a failed run: the night's own, otherwise ``system`` for an invalid run
    and undecided for an unknown one."""
    if isinstance(line.red, str) and line.red:
        return _name(line.red)
    if valid is True:
        return ""
    return "system" if valid is False else UNDECIDED


def _name(value: Any) -> str:
    return clip(value, NAME_LENGTH)


def _faults(faults: Any) -> tuple[str, ...]:
    return tuple(map(_name, faults[:50])) if isinstance(faults, list) else ()


def _folder(run: Any) -> str:
    """Return the run's path in the store, as in the index."""
    return "/".join(PurePosixPath(run).parts[-2:]) if isinstance(run, str) and run else ""

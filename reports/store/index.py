"""The runs of a store, read again only when their files change.

Only the parts of each run's ``test.json`` and ``results.json`` that lists need are decoded. A
change is detected by modification time and size, so 10,000 unchanged runs cost only their
``stat`` calls. Links are never followed.
"""

from __future__ import annotations

import os
import re
import stat
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from kraftwreck.histories.store import RUNNING
from kraftwreck.histories.undecodable import UNDECODABLE
from kraftwreck.histories.verdict import Validity
from kraftwreck.reports import words
from kraftwreck.reports.run_folder import RunFolderError

ANALYSIS, NIGHTS = "analysis", "nights"
NOT_RUNS = frozenset({ANALYSIS, NIGHTS})
LARGEST_TEST, LARGEST_RESULTS = 16 << 20, 64 << 20
"""Bytes. A larger file is not read for a list, and the list says so."""
NAME_LENGTH, TEXT_LENGTH, COMMAND_LENGTH = 120, 300, 4000
_STAMP = re.compile(r"(\d{4})(\d\d)(\d\d)T")
Stamp = tuple[int, int]
T = TypeVar("T")


class _Test(msgspec.Struct):
    """The parts of ``test.json`` that a list needs, whatever their types."""

    system: Any = None
    workload: Any = None
    name: Any = None
    faults: Any = None
    system_options: Any = None
    cluster: Any = None
    seed: Any = None
    mutant: Any = None
    patch: Any = None
    repeat: Any = None
    healed: Any = None
    sim_s: Any = None
    recovered_s: Any = None
    errors: Any = None
    interrupted: Any = None
    started_wall: Any = None


class _Anomaly(msgspec.Struct):
    type: str = ""
    explanation: str = ""


class _Result(msgspec.Struct):
    valid: Validity
    anomalies: list[_Anomaly] = []
    suspicions: list[_Anomaly] = []
    error: str | None = None


class _Head(msgspec.Struct):
    """The parts of ``results.json`` that a list needs."""

    valid: Validity
    checkers: dict[str, _Result] = {}


@dataclass(slots=True)
class RunSummary:
    """One run in a list. ``path`` is relative to the store, with ``/``; texts are shortened.

    ``seconds`` is the duration of the test by its own clock, ``recovered_s`` how long the healed
    cluster took to elect a leader. ``kind`` and ``first`` are the type and explanation of the first
    anomaly; ``why`` lists all checkers that did not return valid, and those with suspicions.
    ``kinds`` are the types of all anomalies, ``options`` those of the system itself.
    ``availability`` (share of seconds with service) and ``p99_ms`` come from the analysis.
    ``night`` is the night that made it, ``red`` its class in that night if something broke.
    """

    path: str
    name: str
    run: str
    system: str = ""
    workload: str = ""
    options: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    cluster: str = ""
    valid: Validity | None = None
    seed: str = ""
    day: str = ""
    mutant: str = ""
    repeat: str = ""
    seconds: float | None = None
    recovered_s: float | None = None
    availability: float | None = None
    p99_ms: float | None = None
    why: str = ""
    checker: str = ""
    kind: str = ""
    kinds: tuple[str, ...] = ()
    first: str = ""
    harness: str = ""
    night: str = ""
    red: str = ""
    finished: bool = True
    has_report: bool = False
    has_coverage: bool = False

    @property
    def label(self) -> str:
        return words.LABELS[self.valid] if self.finished else "unfinished"

    @property
    def css(self) -> str:
        return words.CLASSES[self.valid]

    @property
    def sign(self) -> str:
        return words.SIGNS[self.valid] if self.finished else "…"

    @property
    def href(self) -> str:
        """The address of its report if there is one, otherwise of its folder."""
        return quote(self.path) + ("/report.html" if self.has_report else "/")


@dataclass
class _Cached:
    stamps: tuple[Stamp | None, ...]
    summary: RunSummary


@dataclass
class StoreIndex:
    """The runs below ``store``. Safe to use from several threads; writes nothing."""

    store: Path
    _known: dict[str, _Cached] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def runs(self) -> list[RunSummary]:
        """Return all runs, newest first.

        Raises :class:`~reports.run_folder.RunFolderError` when the folder does not exist.
        """
        if not self.store.is_dir():
            raise RunFolderError(f"{self.store}: no such folder; pass a store such as ./store")
        with self._lock:
            seen: dict[str, _Cached] = {}
            for path, stamps in _folders(str(self.store)):
                known = self._known.get(path)
                if known is None or known.stamps != stamps:
                    known = _Cached(stamps, _summary(str(self.store), path, stamps))
                seen[path] = known
            self._known = seen
            found = [known.summary for known in seen.values()]
        found.sort(key=lambda run: (run.run, run.path), reverse=True)
        return found


def is_run(folder: Path) -> bool:
    """Return whether ``folder`` is a run: its ``test.json`` must be a file and not a link."""
    return stamp(f"{folder}/test.json") is not None


def _folders(store: str) -> Iterator[tuple[str, tuple[Stamp | None, ...]]]:
    """Yield every run folder, relative to the store, with the stamps of its files."""
    for group in _subfolders(store):
        if group in NOT_RUNS:
            continue
        stamps = _stamps(f"{store}/{group}")
        if stamps[0] is not None:
            yield group, stamps
            continue
        for run in _subfolders(f"{store}/{group}"):
            stamps = _stamps(f"{store}/{group}/{run}")
            if stamps[0] is not None:
                yield f"{group}/{run}", stamps


def _subfolders(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [
                entry.name
                for entry in entries
                if not entry.name.startswith(".")
                and entry.is_dir(follow_symlinks=False)
                and _is_text(entry.name)
            ]
    except OSError:
        return []


def _is_text(name: str) -> bool:
    """Return whether ``name`` is valid Unicode; no page could link to it otherwise."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _stamps(folder: str) -> tuple[Stamp | None, ...]:
    test = stamp(f"{folder}/test.json")
    if test is None:
        return (None,)
    return (test, *(stamp(f"{folder}/{name}") for name in FILES))


FILES = ("results.json", "report.html", "coverage.json")


def stamp(path: str) -> Stamp | None:
    """Return modification time (ns) and size of a regular file; None for links of any kind."""
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        return None
    return found.st_mtime_ns, found.st_size


def _summary(store: str, path: str, stamps: tuple[Stamp | None, ...]) -> RunSummary:
    _, results, report, coverage = stamps
    group, _, name = path.rpartition("/")
    summary = RunSummary(
        path=path,
        name=group or store.rpartition("/")[2],
        run=name,
        finished=not name.endswith(RUNNING),
        has_report=report is not None,
        has_coverage=coverage is not None,
    )
    try:
        test = _decode(f"{store}/{path}/test.json", LARGEST_TEST, _Test)
    except _UnreadableError as error:
        summary.why = str(error)
        summary.day = _day(name, None)
        return summary
    _add_test(summary, test)
    if results is None:
        summary.why = "no results.json"
        return summary
    try:
        _add_verdict(summary, _decode(f"{store}/{path}/results.json", LARGEST_RESULTS, _Head))
    except _UnreadableError as error:
        summary.why = str(error)
    return summary


def _add_test(summary: RunSummary, test: _Test) -> None:
    summary.system, summary.workload = _text(test.system), _text(test.workload)
    summary.name = _text(test.name) or f"{summary.system}-{summary.workload}"
    if isinstance(test.faults, list):
        summary.faults = tuple(_text(fault) for fault in test.faults[:50])
    if isinstance(test.system_options, list):
        summary.options = tuple(_text(option) for option in test.system_options[:50])
    summary.cluster, summary.seed = _text(test.cluster), _text(test.seed)
    summary.mutant = _text(test.mutant) or _text(test.patch)
    summary.repeat = clip(test.repeat, COMMAND_LENGTH) if isinstance(test.repeat, str) else ""
    summary.day = _day(summary.run, test.started_wall)
    healed = number(test.healed)
    summary.seconds = number(test.sim_s) or (None if healed is None else healed / 1e9)
    summary.recovered_s = number(test.recovered_s)
    errors = test.errors if isinstance(test.errors, list) else []
    summary.harness = clip(errors[0], TEXT_LENGTH) if errors else ""
    if test.interrupted is True and not summary.harness:
        summary.harness = "interrupted before its time limit"


def _add_verdict(summary: RunSummary, head: _Head) -> None:
    summary.valid = head.valid
    parts = []
    found = (anomaly.type for result in head.checkers.values() for anomaly in result.anomalies)
    summary.kinds = tuple(dict.fromkeys(clip(kind, NAME_LENGTH) for kind in found))
    for name, result in head.checkers.items():
        if result.suspicions:
            parts.append(f"{name}: {words.plural(len(result.suspicions), 'suspicion')}")
        if result.valid is True:
            continue
        if result.valid is False:
            count = words.plural(len(result.anomalies), "anomaly", "anomalies")
            parts.append(f"{name}: {count}")
        else:
            parts.append(f"{name}: undecided")
        worse = result.valid is False and not summary.kind
        if not summary.checker or worse:
            summary.checker = clip(name, NAME_LENGTH)
            summary.first = clip(result.error, TEXT_LENGTH)
            if result.anomalies:
                summary.kind = clip(result.anomalies[0].type, NAME_LENGTH)
                summary.first = clip(result.anomalies[0].explanation, TEXT_LENGTH)
    summary.why = clip(", ".join(parts), TEXT_LENGTH)


class _UnreadableError(Exception):
    """A file cannot be read; the message is a few words with its name and the problem."""


def _decode(path: str, largest: int, kind: type[T]) -> T:
    name = path.rpartition("/")[2]
    try:
        # Twice as fast as a file object; lists read tens of thousands of files.
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            data = os.read(file, largest + 1)
        finally:
            os.close(file)
        if len(data) > largest:
            raise _UnreadableError(f"{name} is too large to be listed")
        return msgspec.json.decode(data, type=kind)
    except (OSError, *UNDECODABLE) as error:
        raise _UnreadableError(f"{name} cannot be read") from error


def clip(value: Any, length: int) -> str:
    """Return ``value`` as one line of at most ``length`` characters, without surrogates."""
    if value is None:
        return ""
    if isinstance(value, str) and len(value) <= length and value.isascii() and value.isprintable():
        return value
    text = " ".join(str(value)[: 2 * length].split())
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= length else text[: length - 1] + "…"


def number(value: Any) -> float | None:
    """Return ``value`` if it is a finite, non-negative number, otherwise None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 1e300 else None


def _text(value: Any) -> str:
    return clip(value, NAME_LENGTH)


def _day(name: str, started: Any) -> str:
    """Return the UTC day, ``2026-11-21``, from the folder's name or else from ``started``."""
    named = _STAMP.match(name)
    if named:
        return "-".join(named.groups())
    text = str(started)[:10]
    return text if re.fullmatch(r"\d{4}-\d\d-\d\d", text) else ""

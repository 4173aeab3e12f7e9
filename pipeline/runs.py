"""Run folders for the pipeline: find them, describe them, detect changes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from kraftwreck.harness.own_options import in_present_shape
from kraftwreck.histories.store import RUNNING
from kraftwreck.histories.tables import HistoryError
from kraftwreck.histories.undecodable import UNDECODABLE
from kraftwreck.pipeline.java import PipelineError

_READ = ("test.json", "results.json", "coverage.json", "faults.jsonl", "history.jsonl",
         "trace.parquet", "history.parquet/*", "nodes/*/trace.jsonl", "nodes/*/images")  # fmt: skip
"""The files of a run that an analysis reads; other files may change."""


def find_runs(store: Path) -> list[Path]:
    """Return the complete run folders of ``store``, oldest name first."""
    return sorted(
        path.parent
        for path in store.glob("*/*/test.json")
        if not path.parent.is_symlink()
        and not path.parent.parent.is_symlink()
        and path.parent.suffix != RUNNING
    )


def check_store(store: Path) -> None:
    """Raise :class:`~pipeline.java.PipelineError` if there is nothing to analyze."""
    if not store.is_dir():
        raise PipelineError(f"{store}: not a directory; pass a store, such as ./store")
    if not find_runs(store) and not any(store.glob("nights/*/runs.jsonl")):
        raise PipelineError(f"{store}: contains no complete run (no */*/test.json)")


def run_id(folder: Path) -> str:
    """Return the name of a run in all tables: the last two components of its path."""
    return "/".join(folder.parts[-2:])


def fingerprint(folder: Path) -> str:
    """Return a digest of name, size and modification time of all files that are read."""
    digest = blake2b(digest_size=12)
    for path in _files(folder):
        status = path.stat()
        name = path.relative_to(folder).as_posix()
        digest.update(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    for pattern in _READ:
        if "*" in pattern:
            yield from sorted(folder.glob(pattern))
        elif (path := folder / pattern).exists():
            yield path


def read_test(folder: Path) -> dict[str, Any]:
    """Return ``test.json``. Raises :class:`~histories.tables.HistoryError`."""
    return _read_json(folder / "test.json")


def recorded_verdict(folder: Path) -> dict[str, Any]:
    """Return the checkers in ``results.json``; empty if it is missing.

    Raises :class:`~histories.tables.HistoryError`.
    """
    path = folder / "results.json"
    if not path.exists():
        return {}
    checkers = _read_json(path).get("checkers")
    return checkers if isinstance(checkers, dict) else {}


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except OSError as error:
        raise HistoryError(f"{path}: {error.strerror}") from error
    except UNDECODABLE as error:
        raise HistoryError(f"{path}: {error}") from error


def describe(folder: Path, test: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of the table ``runs`` that come from ``test.json`` and the name.

    Raises :class:`~histories.tables.HistoryError` for a value of a wrong type.
    """
    try:
        return _described(folder, test)
    except (TypeError, ValueError, AttributeError) as error:
        raise HistoryError(f"{folder / 'test.json'}: {error}") from error


def _described(folder: Path, test: dict[str, Any]) -> dict[str, Any]:
    started = started_at(folder.name, test)
    versions = test.get("versions") or {}
    mutant, patch = test.get("mutant"), test.get("patch")
    tree = f"mutant:{mutant}" if mutant else f"patch:{patch}" if patch else "clean"
    return {
        "run": run_id(folder),
        "test": folder.parent.name,
        "system": _text(test.get("system")),
        "workload": _text(test.get("workload")),
        "faults": sorted(map(str, test.get("faults") or ())),
        "cluster": _text(test.get("cluster")),
        "simulated": bool(test.get("simulated")),
        "nodes": len(test.get("nodes") or ()),
        "system_options": list(map(str, _options(test).get("system_options", ()))),
        "seed": _whole(test.get("seed")),
        "rate": _real(test.get("rate")),
        "concurrency": _whole(test.get("concurrency")),
        "time_limit_s": _real(test.get("time_limit_s")),
        "mutant": _text(mutant),
        "patch": _text(patch),
        "tree": tree,
        "code": _text(versions.get("nodes")),
        "test_key": test_key(test),
        "started": started,
        "day": None if started is None else started.date().isoformat(),
        "repeat": _text(test.get("repeat")),
        "recovered_s": _real(test.get("recovered_s")),
        "interrupted": bool(test.get("interrupted")),
        "harness_errors": [str(line) for line in test.get("errors") or ()],
    }


def _options(test: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a run, empty if it has none."""
    options = dict(test.get("options") or {})
    return in_present_shape(options, str(test.get("system"))) if options else {}


def test_key(test: dict[str, Any]) -> str:
    """Return a digest of the options, equal for runs of the same test.

    It includes the planned faults and the simulator's knobs: these differ if a schedule was mutated
    or shrunk, although the options are the same.
    """
    options = _options(test) or {
        name: test.get(name)
        for name in ("system", "workload", "faults", "time_limit_s", "cluster", "seed", "rate")
    }
    options.pop("store", None)
    asked = [options, test.get("schedule"), test.get("knobs"), test.get("nodes")]
    text = msgspec.json.encode(asked, order="deterministic")
    return blake2b(text, digest_size=8).hexdigest()


def started_at(name: str, test: dict[str, Any]) -> datetime | None:
    """Return when a run began, from its folder's name; None for virtual time."""
    stamp, _, _ = name.rpartition("-")
    for form in ("%Y%m%dT%H%M%S.%fZ", "%Y%m%dT%H%M%SZ"):
        try:
            return datetime.strptime(stamp, form).replace(tzinfo=UTC)
        except ValueError:
            continue
    wall = test.get("started_wall")
    return moment(wall) if isinstance(wall, str) else None


def moment(text: Any) -> datetime | None:
    """Return an ISO 8601 time, in UTC; None for any other value."""
    if not isinstance(text, str):
        return None
    try:
        told = datetime.fromisoformat(text)
    except ValueError:
        return None
    return told.replace(tzinfo=UTC) if told.tzinfo is None else told.astimezone(UTC)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _whole(value: Any) -> int | None:
    if value is None:
        return None
    number = int(value)
    # Seeds may be unsigned 64-bit numbers; values that do not fit into the column become null.
    return number if -(1 << 63) <= number < 1 << 63 else None


def _real(value: Any) -> float | None:
    return None if value is None else float(value)

"""The lists of runs in nights, as rows: ``<store>/nights/<id>/runs.jsonl``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from kraftwreck.histories.store import whole_lines
from kraftwreck.histories.tables import HistoryError, to_text
from kraftwreck.histories.undecodable import UNDECODABLE
from kraftwreck.pipeline.runs import moment
from kraftwreck.pipeline.schemas import FLEET

_WORDS = {True: "true", False: "false"}


def find_nights(store: Path) -> list[Path]:
    """Return the folders of all nights, oldest name first."""
    return sorted(path.parent for path in store.glob("nights/*/runs.jsonl"))


def read_night(folder: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the rows of ``night_runs`` and the row of ``nights``.

    Raises :class:`~histories.tables.HistoryError` with file and line. A torn last line, of a night
    that is running or was killed, is ignored.
    """
    path = folder / "runs.jsonl"
    try:
        content = path.read_bytes()
    except OSError as error:
        raise HistoryError(f"{path}: {error.strerror}") from error
    rows = []
    for number, line in enumerate(content[: whole_lines(content)].splitlines(), start=1):
        if line.strip():
            try:
                told = msgspec.json.decode(line, type=dict[str, Any])
                rows.append(_row(folder.name, told))
            except (*UNDECODABLE, TypeError, ValueError) as error:
                raise HistoryError(f"{path}:{number}: {error}") from error
    return rows, _night(folder, rows)


def _row(night: str, line: dict[str, Any]) -> dict[str, Any]:
    schema: pa.Schema = FLEET["night_runs"]
    row = {name: line.get(name) for name in schema.names}
    valid = line.get("valid")
    began = moment(line.get("started"))
    known = {*schema.names}
    run = line.get("run")
    row |= {
        "night": night,
        # A run is identified by test and name, wherever the store is.
        "run": None if run is None else "/".join(Path(str(run)).parts[-2:]),
        "faults": sorted(map(str, line.get("faults") or ())),
        "valid": _WORDS.get(valid, "unknown") if isinstance(valid, bool) else "unknown",
        "started": began,
        "day": None if began is None else began.date().isoformat(),
        "extra": to_text({name: line[name] for name in line if name not in known}),
    }
    pa.RecordBatch.from_pylist([row], schema=schema)  # Raises for a field of another type.
    return row


def _night(folder: Path, rows: list[dict[str, Any]]) -> dict[str, Any]:
    path = folder / "night.json"
    night: dict[str, Any] = {}
    if path.exists():
        try:
            night = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        except (OSError, *UNDECODABLE) as error:
            raise HistoryError(f"{path}: {error}") from error
    began, ended = moment(night.get("began")), moment(night.get("ended"))
    days = sorted(row["day"] for row in rows if row["day"] is not None)
    day = began.date().isoformat() if began is not None else days[0] if days else None
    words = [row["valid"] for row in rows]

    def total(name: str) -> float:
        return float(sum(row[name] or 0 for row in rows))

    return {
        "night": folder.name,
        "name": night.get("name"),
        "state": night.get("state"),
        "began": began,
        "ended": ended,
        "day": day,
        "runs": len(rows),
        "valid": words.count("true"),
        "invalid": words.count("false"),
        "unknown": words.count("unknown"),
        "seconds": total("seconds"),
        "cpu_s": total("cpu_s"),
        "sim_s": total("sim_s"),
        "night_json": to_text(night) if night else None,
    }

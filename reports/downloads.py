"""Files for other tools beside a run's report: EDN and JSON for Jepsen, a trace for Perfetto."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kraftwreck.histories.convert import to_edn, to_json
from kraftwreck.reports.perfetto import write_perfetto
from kraftwreck.reports.run_folder import Run
from kraftwreck.reports.tables import size_text

MANY = 20_000
"""With more events in the history or in all traces, the files are only written on request."""

EDN, JSON, PERFETTO = "history.edn", "history.json", "perfetto.json.gz"


def write_downloads(run: Run, *, always: bool = False) -> list[Path]:
    """Write the files into the run's folder and return them.

    A run with more than :data:`MANY` events, in history or traces, gets none unless ``always``:
    they would take longer to write, and more space, than the run's own files.
    """
    events = sum(len(rows) for rows in run.traces.values())
    if not always and max(len(run.ops), events) > MANY:
        return []
    return _write(run)


def _write(run: Run) -> list[Path]:
    edn, json = run.folder / EDN, run.folder / JSON
    for path, content in ((edn, to_edn(run.ops).encode()), (json, to_json(run.ops))):
        temporary = path.with_name(path.name + ".tmp")
        temporary.write_bytes(content)
        temporary.replace(path)
    return [edn, json, write_perfetto(run, run.folder / PERFETTO)]


@dataclass
class Download:
    """A file beside the report: description, relative address, size as text."""

    what: str
    href: str
    size: str


_KINDS = (
    ("operations, JSON lines", "history.jsonl"),
    ("operations, EDN (Jepsen)", EDN),
    ("operations, JSON (Jepsen)", JSON),
    ("operations, Parquet", "history.parquet"),
    ("node traces, Parquet", "trace.parquet"),
    ("everything, Perfetto trace", PERFETTO),
    ("verdict, JSON", "results.json"),
    ("faults, JSON lines", "faults.jsonl"),
)


def downloads(folder: Path) -> tuple[list[Download], list[str]]:
    """Return the files beside the report in ``folder``, and descriptions of the missing ones."""
    found, missing = [], []
    for what, name in _KINDS:
        path = folder / name
        if path.exists():
            parts = sorted(path.iterdir()) if path.is_dir() else [path]
            total = sum(part.stat().st_size for part in parts)
            href = f"{name}/" if path.is_dir() else name
            found.append(Download(what, href, size_text(total)))
        elif name in (EDN, JSON, PERFETTO):
            missing.append(what)
    return found, missing

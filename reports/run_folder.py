"""Read a run folder in any state.

A run may have been killed at any moment. A torn last line is cut off; a missing file is reported
in :attr:`Run.notes`. Only a folder without a readable ``test.json`` is rejected.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from kraftwreck.histories.exit_codes import BadInputError
from kraftwreck.histories.fault import FaultEvent
from kraftwreck.histories.operation import Op
from kraftwreck.histories.parquet import read_history_parquet, read_parquet
from kraftwreck.histories.tables import TRACE_SCHEMA, HistoryError, from_table
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.histories.undecodable import UNDECODABLE
from kraftwreck.histories.verdict import Verdict, stored_verdict
from kraftwreck.reports.long_traces import is_long, thinned

T = TypeVar("T")


class RunFolderError(BadInputError):
    """The folder cannot be read as a run; the message is one line for users."""


@dataclass
class Run:
    """One run, read into memory.

    ``traces`` maps a node's name to its events, ordered by (incarnation, seq). ``verdict`` is
    None when ``results.json`` is missing or unreadable. ``notes`` are sentences about missing,
    truncated or skipped data. ``bare`` is a history without a run: it has no folder, nodes or
    faults, and no times if its file has none (``timed``).
    """

    folder: Path
    test: dict[str, Any]
    ops: list[Op] = field(default_factory=list)
    faults: list[FaultEvent] = field(default_factory=list)
    traces: dict[str, list[TraceEvent]] = field(default_factory=dict)
    verdict: Verdict | None = None
    notes: list[str] = field(default_factory=list)
    bare: bool = False
    timed: bool = True

    @property
    def nodes(self) -> list[str]:
        """All node names: those in ``test.json``, in order, then others found in traces."""
        named = self.test.get("nodes")
        known = [str(n) for n in named] if isinstance(named, list) else []
        return known + [n for n in sorted(self.traces) if n not in known]


def read_lines(path: Path, kind: type[T], notes: list[str]) -> list[T]:
    """Decode the JSON lines of ``path``; append to ``notes`` how many could not be read.

    A last line that cannot be decoded is a torn write and is dropped; others are skipped. Both
    give a note.
    """
    decoder = msgspec.json.Decoder(kind)
    data = path.read_bytes()
    try:
        return decoder.decode_lines(data)
    except msgspec.DecodeError:
        pass
    except UnicodeDecodeError:
        pass
    rows: list[T] = []
    lines = data.split(b"\n")
    last = max((i for i, line in enumerate(lines) if line.strip()), default=-1)
    skipped = 0
    for i, line in enumerate(lines):
        if not line.strip():
            continue
        try:
            rows.append(decoder.decode(line))
        except UNDECODABLE:
            if i == last:
                notes.append(f"{path.name}: the last line is torn and was ignored.")
            else:
                skipped += 1
    if skipped:
        notes.append(f"{path.name}: {skipped} unreadable lines before the last were ignored.")
    return rows


def _read_history(run: Run) -> None:
    lines, table = run.folder / "history.jsonl", run.folder / "history.parquet"
    if lines.is_file():
        run.ops = read_lines(lines, Op, run.notes)
    elif table.exists():
        run.ops = from_table(read_history_parquet(table), Op)
    else:
        run.notes.append("There is no history: neither history.jsonl nor history.parquet.")


def _read_traces(run: Run) -> None:
    files = sorted(run.folder.glob("nodes/*/trace.jsonl"))
    table = run.folder / "trace.parquet"
    events: list[TraceEvent] = []
    if is_long(table):
        events, note = thinned(table)
        run.notes.append(note)
        files = []
    for path in files:
        notes: list[str] = []
        events += read_lines(path, TraceEvent, notes)
        run.notes += [f"nodes/{path.parent.name}/{note}" for note in notes]
    if not files and not events and table.exists():
        events = from_table(read_parquet(table, TRACE_SCHEMA), TraceEvent)
    if not events:
        run.notes.append("There are no node traces, so node states are not shown.")
    for event in events:
        run.traces.setdefault(event.node, []).append(event)
    for rows_of_node in run.traces.values():
        rows_of_node.sort(key=lambda e: (e.incarnation, e.seq))


def load_test(folder: Path) -> dict[str, Any]:
    """Return ``test.json`` of ``folder``; raises :class:`RunFolderError`."""
    path = folder / "test.json"
    if not folder.is_dir():
        raise RunFolderError(f"{folder}: no such folder; pass a run folder such as store/latest")
    if not path.is_file():
        raise RunFolderError(f"{folder}: not a run folder (test.json is missing)")
    try:
        test = msgspec.json.decode(path.read_bytes())
    except (OSError, *UNDECODABLE) as error:
        raise RunFolderError(f"{path}: cannot be read as JSON ({error})") from error
    if not isinstance(test, dict):
        raise RunFolderError(f"{path}: must hold a JSON object")
    return test


def load_verdict(folder: Path, notes: list[str]) -> Verdict | None:
    """Return ``results.json`` of ``folder``; if it is missing or unreadable, None with a note."""
    try:
        return stored_verdict(folder)
    except FileNotFoundError:
        notes.append("There is no results.json: the run was not checked completely.")
    except (OSError, *UNDECODABLE) as error:
        notes.append(f"results.json cannot be read ({error}).")
    return None


def load_run(folder: Path) -> Run:
    """Read the run in ``folder``, which may be a link.

    Raises :class:`RunFolderError` when it is not a run folder or a table in it is corrupt.
    """
    folder = folder.resolve()
    run = Run(folder=folder, test=load_test(folder))
    run.verdict = load_verdict(folder, run.notes)
    try:
        _read_history(run)
        if (folder / "faults.jsonl").is_file():
            run.faults = read_lines(folder / "faults.jsonl", FaultEvent, run.notes)
        else:
            run.notes.append("There is no faults.jsonl: no faults are shown.")
        _read_traces(run)
    except (OSError, HistoryError) as error:
        line = " ".join(str(error).split())
        raise RunFolderError(f"{folder}: cannot be read ({line})") from error
    return run

"""The tables of ``STORE/analysis``, by the manifest that lists their valid files.

They are read with Arrow alone: this module depends on docs/tables.md, not on the pipeline.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kraftwreck.histories.undecodable import UNDECODABLE
from kraftwreck.reports.store.index import ANALYSIS, Stamp, stamp

MAX_ROWS = 5_000_000
LARGEST_MANIFEST = 256 << 20
COMMAND = "kraftwreck analyze"
STAGING = "staging"


class _Manifest(msgspec.Struct):
    schema: int = 0
    generation: int = 0
    tables: dict[str, list[str]] = {}
    runs: dict[str, Any] = {}
    quarantined: dict[str, Any] = {}


@dataclass
class Gold:
    """The gold tables of ``store``. An unreadable one is None; :attr:`notes` has the reason."""

    store: Path
    notes: list[str] = field(default_factory=list)
    _stamp: Stamp | None = None
    _manifest: _Manifest | None = None

    @property
    def folder(self) -> Path:
        """The folder of the analysis."""
        return self.store / ANALYSIS

    def refresh(self) -> str:
        """Read the manifest again if it changed; return the identity of its state."""
        path = self.folder / "manifest.json"
        now = None if self.folder.is_symlink() else stamp(str(path))
        if now != self._stamp or now is None:
            self._stamp, self._manifest, self.notes = now, None, []
            if now is None:
                self.notes.append(
                    f"There is no analysis of this store: run {COMMAND} {self.store.name}. "
                    "Sections that need its tables say so."
                )
            else:
                self._read(path)
        return repr(now)

    def _read(self, path: Path) -> None:
        try:
            with path.open("rb") as file:
                data = file.read(LARGEST_MANIFEST)
            self._manifest = msgspec.json.decode(data, type=_Manifest)
        except (OSError, *UNDECODABLE):
            self.notes.append("analysis/manifest.json cannot be read, so its tables are not shown.")

    @property
    def analyzed(self) -> frozenset[str]:
        """The runs in the tables, by path in the store."""
        return frozenset(self._manifest.runs if self._manifest else ())

    @property
    def quarantined(self) -> dict[str, str]:
        """Runs that the analysis could not read, with the reason."""
        found = self._manifest.quarantined if self._manifest else {}
        return {
            run: str(entry.get("reason", "")) if isinstance(entry, dict) else ""
            for run, entry in found.items()
        }

    def table(
        self, name: str, columns: list[str], where: pc.Expression | None = None
    ) -> pa.Table | None:
        """Return ``columns`` of the rows of gold table ``name`` that match ``where``, or None."""
        if self._manifest is None:
            return None
        files = self._manifest.tables.get(f"gold/{name}")
        if files is None:
            self._note(f"The analysis has no table {name}.")
            return None
        try:
            paths = [self._place(file) for file in files]
            if not paths:
                return None
            rows = sum(pq.read_metadata(path).num_rows for path in paths)
            if where is None and rows > MAX_ROWS:
                self._note(f"Table {name} has {rows:,} rows, too many to show.")
                return None
            return pa.concat_tables(
                pq.read_table(path, columns=columns, filters=where) for path in paths
            )
        except (OSError, ValueError, pa.ArrowException) as error:
            self._note(f"Table {name} cannot be read ({' '.join(str(error).split())[:120]}).")
            return None

    def rows(
        self, name: str, columns: list[str], where: pc.Expression | None = None
    ) -> list[dict[str, Any]] | None:
        """Return the same as dicts."""
        if self._manifest is not None and self._manifest.tables.get(f"gold/{name}") == []:
            return []
        table = self.table(name, columns, where)
        return None if table is None else table.to_pylist()

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def _place(self, file: str) -> Path:
        """Return the path of ``file``; raise ValueError when it is outside of the analysis."""
        parts = PurePosixPath(file).parts
        root = self.folder.resolve()
        path = root.joinpath(*parts)
        if not path.exists():
            # Committed, and still to be moved to its place.
            path = root.joinpath(STAGING, *parts)
        if ".." in parts or file.startswith("/") or path.resolve() != path:
            raise ValueError(f"{file} is not in {ANALYSIS}")
        return path


def run_tables(run: Path, name: str) -> list[dict[str, Any]] | None:
    """Return gold table ``name`` from the folder of ``run`` itself, or None."""
    path = run / ANALYSIS / f"{name}.parquet"
    if stamp(str(path)) is None or path.parent.is_symlink():
        return None
    try:
        if pq.read_metadata(path).num_rows > MAX_ROWS:
            return None
        rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    except (OSError, ValueError, pa.ArrowException):
        return None
    return rows

"""A Parquet or Arrow file of a log whose values and offsets are columns of whole numbers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kraftwreck.histories.column_size import sized
from kraftwreck.histories.source import HistoryFile, Source
from kraftwreck.histories.tables import HistoryError

COLUMNS = ["index", "process", "type", "f", "value", "offset"]
_BATCH = 1 << 20


class TypedFile:
    """The columns of a file, whole or batch by batch. Raises :class:`HistoryError`."""

    def __init__(self, path: Path, kind: str, schema: pa.Schema, rows: int) -> None:
        self.path = path
        self.kind = kind
        self.rows = rows
        self._names = [name for name in COLUMNS if name in schema.names]
        for name in COLUMNS[1:]:
            if name not in schema.names:
                raise HistoryError(f"{path}: there is no column {name!r}")
        for name in ("value", "offset"):
            if not pa.types.is_integer(schema.field(name).type):
                raise HistoryError(f"{path}: column {name} must be of whole numbers")

    def table(self) -> pa.Table:
        """Return the events ordered by index."""
        try:
            if self.kind == "parquet":
                table = pq.ParquetFile(self.path, read_dictionary=["type", "f"]).read(self._names)
            else:
                table = _arrow(self.path).select(self._names)
        except (OSError, pa.ArrowException) as error:
            raise _refused(self.path, error) from error
        if "index" not in self._names:
            return table.append_column("index", pa.array(np.arange(len(table))))
        index = table.column("index").to_numpy()
        if bool((index[1:] <= index[:-1]).any()):
            table = table.sort_by("index")
        return table

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the events in the order of the file."""
        try:
            if self.kind == "parquet":
                file = pq.ParquetFile(self.path, read_dictionary=["type", "f"])
                yield from file.iter_batches(_BATCH, columns=self._names)
            else:
                yield from _arrow(self.path).select(self._names).to_batches(_BATCH)
        except (OSError, pa.ArrowException) as error:
            raise _refused(self.path, error) from error

    def head(self, events: int) -> pa.Table:
        """Return the first events in the order of the file, or a few more."""
        batches: list[pa.RecordBatch] = []
        for batch in self.batches():
            batches.append(batch)
            events -= len(batch)
            if events <= 0:
                break
        return pa.Table.from_batches(batches)


def typed_file(source: Source) -> TypedFile | None:
    """Return ``source`` if it is a file of one log with a column of offsets.

    Raises :class:`HistoryError`.
    """
    if not isinstance(source, HistoryFile) or source.kind not in ("parquet", "arrow"):
        return None
    if source.path.is_dir():
        return None
    try:
        if source.kind == "parquet":
            file = sized(pq.ParquetFile(source.path), source.path)
            schema, rows = file.schema_arrow, file.metadata.num_rows
        else:
            table = _arrow(source.path)
            schema, rows = table.schema, len(table)
    except (OSError, pa.ArrowException) as error:
        raise _refused(source.path, error) from error
    if "offset" not in schema.names or "key" in schema.names:
        return None
    return TypedFile(source.path, source.kind, schema, rows)


def _arrow(path: Path) -> pa.Table:
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


def _refused(path: Path, error: Exception) -> HistoryError:
    return HistoryError(f"{path}: {' '.join(str(error).split())}")

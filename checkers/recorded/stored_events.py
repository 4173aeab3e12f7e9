"""A trace too long to be held as objects: events are made on access.

Ten million events as objects take 7.5 GB; as columns, 1.4 GB. Every pass makes them again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import overload

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kraftwreck.histories.parquet import read_parquet
from kraftwreck.histories.tables import TRACE_SCHEMA, from_table
from kraftwreck.histories.trace import TraceEvent

MANY = 2_000_000
"""From this many events on they stay columns."""
_BATCH = 1 << 14


class StoredEvents(Sequence[TraceEvent]):
    """The events of a table of :data:`~histories.tables.TRACE_SCHEMA`, in its order: by node,
    incarnation and seq."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def by_node(self) -> list[StoredEvents]:
        """Return the events of each node; those of one node are adjacent in the table."""
        parts, first = [], 0
        for node in pc.value_counts(self._table["node"]):
            count = node["counts"].as_py()
            parts.append(StoredEvents(self._table.slice(first, count)))
            first += count
        return parts

    def __len__(self) -> int:
        return len(self._table)

    def __iter__(self) -> Iterator[TraceEvent]:
        for batch in self._table.to_batches(_BATCH):
            yield from from_table(pa.Table.from_batches([batch]), TraceEvent)

    @overload
    def __getitem__(self, at: int) -> TraceEvent: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[TraceEvent]: ...

    def __getitem__(self, at: int | slice) -> TraceEvent | Sequence[TraceEvent]:
        places = range(len(self))[at]
        rows = [places] if isinstance(places, int) else list(places)
        found = from_table(self._table.take(pa.array(rows, pa.int64())), TraceEvent)
        return found[0] if isinstance(at, int) else found


def stored_events(run: Path) -> StoredEvents | None:
    """Return the events of a run folder whose ``trace.parquet`` holds :data:`MANY` or more.

    They are ordered by node, incarnation and seq, as that file is. Raises
    :class:`~histories.tables.HistoryError`.
    """
    path = run / "trace.parquet"
    try:
        if pq.read_metadata(path).num_rows < MANY:
            return None
    except (OSError, pa.ArrowException):
        return None
    return StoredEvents(read_parquet(path, TRACE_SCHEMA))

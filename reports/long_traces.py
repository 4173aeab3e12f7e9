"""Thin out a trace that is too long to be held as objects.

Ten million events take 7.5 GB as objects. Nearly all of them are of the few kinds that come with
every batch of records. Elections, votes and crashes are rare, and all of them are kept.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kraftwreck.histories.tables import TRACE_SCHEMA, HistoryError, from_table
from kraftwreck.histories.trace import TraceEvent

MANY = 1_000_000
"""A trace with more events than this is thinned out."""
OF_A_KIND = 100_000
"""About this many events are kept of each more frequent kind."""
_BATCH = 1 << 17


def is_long(table: Path) -> bool:
    """Return whether the Parquet file ``table`` is a trace that must be thinned out."""
    try:
        return table.is_file() and pq.read_metadata(table).num_rows > MANY
    except (OSError, pa.ArrowException):
        return False


def thinned(table: Path) -> tuple[list[TraceEvent], str]:
    """Return events of the trace in ``table``, and a sentence about the omitted ones.

    Of a frequent kind, only every n-th event of a file is kept. Raises
    :class:`~histories.tables.HistoryError`.
    """
    try:
        return _thinned(pq.ParquetFile(table))
    except (OSError, ValueError, pa.ArrowException) as error:
        raise HistoryError(f"{table}: {error}") from error


def _thinned(file: pq.ParquetFile) -> tuple[list[TraceEvent], str]:
    counts: dict[str, int] = {}
    for batch in file.iter_batches(_BATCH, columns=["kind"]):
        for row in batch.column(0).cast(pa.string()).value_counts().to_pylist():
            counts[row["values"]] = counts.get(row["values"], 0) + row["counts"]
    steps = {kind: -(-count // OF_A_KIND) for kind, count in counts.items()}
    seen = dict.fromkeys(counts, 0)
    kept = []
    for batch in file.iter_batches(_BATCH, columns=TRACE_SCHEMA.names):
        keep = np.ones(len(batch), np.bool_)
        kinds = batch.column(batch.schema.get_field_index("kind")).cast(pa.string())
        for kind in pc.unique(kinds).to_pylist():
            mine = np.flatnonzero(pc.equal(kinds, kind).to_numpy(zero_copy_only=False))
            if steps[kind] > 1:
                keep[mine] = (seen[kind] + np.arange(len(mine))) % steps[kind] == 0
            seen[kind] += len(mine)
        kept.append(pa.Table.from_batches([batch.filter(pa.array(keep))]).cast(TRACE_SCHEMA))
    events: list[TraceEvent] = from_table(pa.concat_tables(kept), TraceEvent)
    frequent = ", ".join(sorted(kind for kind, step in steps.items() if step > 1))
    return events, (
        f"The trace has {sum(counts.values()):,} events. Of the frequent kinds ({frequent}) only "
        f"some are shown, {len(events):,} events in all."
    )

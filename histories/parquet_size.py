"""The memory that a Parquet file needs, computed from its metadata before it is read."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow.parquet as pq

from kraftwreck.histories.tables import HistoryError

_WIDTHS = {"BOOLEAN": 0.125, "INT32": 4.0, "FLOAT": 4.0, "BYTE_ARRAY": 4.0}
"""Least bytes in memory for one value, by physical type; others take eight."""


def most_bytes() -> int:
    """Return the limit of a file's unpacked size: half of this machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def unpacked_bytes(file: pq.ParquetFile) -> int:
    """Return the least that all columns of ``file`` need in memory, in bytes.

    Values that are equal take next to no space in the file, so both their number and the
    uncompressed size count.
    """
    metadata, total = file.metadata, 0.0
    for group in range(metadata.num_row_groups):
        rows = metadata.row_group(group)
        for number in range(rows.num_columns):
            column = rows.column(number)
            width = _WIDTHS.get(column.physical_type, 8.0)
            total += max(float(column.total_uncompressed_size), column.num_values * width)
    return int(total)


def sized(file: pq.ParquetFile, path: Path) -> pq.ParquetFile:
    """Return ``file``, which was opened from ``path``.

    Raises :class:`HistoryError`, one line, if it would not fit into memory.
    """
    need, most = unpacked_bytes(file), most_bytes()
    if need > most:
        raise HistoryError(
            f"{path}: unpacks to at least {need / 1e9:.1f} GB, more than the {most / 1e9:.1f} GB"
            " allowed here (half of the memory); split it, or use a larger machine"
        )
    return file

"""The memory that a file of columns needs, computed before its values are unpacked."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kraftwreck.histories import arrow_size
from kraftwreck.histories.tables import HistoryError

_WIDTHS = {"BOOLEAN": 0.125, "INT32": 4.0, "FLOAT": 4.0, "BYTE_ARRAY": 4.0}
"""Least bytes in memory for one value, by physical type; others take eight."""
_TEXT = "BYTE_ARRAY"
_BATCH = 1 << 16


def most_bytes() -> int:
    """Return the limit of a file's unpacked size: half of this machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def most_text_bytes() -> int:
    """Return the limit of a file's text, which is decoded later: an eighth of the memory."""
    return most_bytes() // 4


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
            if column.physical_type == "FIXED_LEN_BYTE_ARRAY":
                width = file.schema.column(number).length
            total += max(float(column.total_uncompressed_size), column.num_values * width)
    return int(total)


def text_bytes(path: Path, file: pq.ParquetFile) -> int:
    """Return an upper bound of the bytes of all text in the file; it is exact if it is large.

    A dictionary page stores a text once, however often it occurs.
    """
    total, most = 0, most_text_bytes()
    metadata = file.metadata
    for group in range(metadata.num_row_groups):
        rows = metadata.row_group(group)
        for number in range(rows.num_columns):
            column = rows.column(number)
            if column.physical_type != _TEXT:
                continue
            bound = int(column.total_uncompressed_size)
            if column.has_dictionary_page:
                bound *= max(column.num_values, 1)
                if bound > most // 4:
                    bound = _from_dictionary(path, group, column, most // 4)
            total += bound
            if total > most:
                return total
    return total


def _from_dictionary(path: Path, group: int, column: pq.ColumnChunkMetaData, most: int) -> int:
    """Return a bound of a column's text by its longest entry; exactly, if that is too much."""
    name = column.path_in_schema
    file = pq.ParquetFile(path, read_dictionary=[name])
    read = {"row_groups": [group], "columns": [name]}
    first = next(file.iter_batches(1, **read)).column(0)
    if pa.types.is_dictionary(first.type):
        longest = pc.max(pc.binary_length(first.dictionary)).as_py() or 0
        bound = int(column.total_uncompressed_size + longest * column.num_values)
        if bound <= most:
            return bound
    return sum(expanded_bytes(batch.column(0)) for batch in file.iter_batches(_BATCH, **read))


def expanded_bytes(array: pa.Array) -> int:
    """Return the bytes of the values of ``array``, with each text counted where it occurs."""
    if pa.types.is_dictionary(array.type):
        lengths = pc.binary_length(array.dictionary.cast(pa.large_binary()))
        return int(pc.sum(lengths.take(array.indices)).as_py() or 0)
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        return expanded_bytes(array.flatten())
    if pa.types.is_struct(array.type):
        return sum(expanded_bytes(field) for field in array.flatten())
    return int(array.nbytes)


def sized(file: pq.ParquetFile, path: Path) -> pq.ParquetFile:
    """Return ``file``, which was opened from ``path``.

    Raises :class:`HistoryError`, one line, if it would not fit into memory.
    """
    need, most = unpacked_bytes(file), most_bytes()
    if need > most:
        raise _too_large(path, "unpacks to", need, most, "half of the memory")
    text, most = text_bytes(path, file), most_text_bytes()
    if text > most:
        raise _too_large(path, "holds text of", text, most, "an eighth of the memory")
    return file


def unpackable(path: Path) -> Path:
    """Return ``path``, of an Arrow file.

    Raises :class:`HistoryError`, one line, if its compressed buffers would not fit into memory.
    """
    try:
        need, most = arrow_size.unpacked_bytes(path), most_bytes()
    except ValueError as error:
        raise HistoryError(f"{path}: {error}") from None
    if need > most:
        raise _too_large(path, "unpacks to", need, most, "half of the memory")
    return path


def expandable(table: pa.Table, path: Path) -> pa.Table:
    """Return ``table``, which was read from ``path``.

    Raises :class:`HistoryError`, one line, if the texts that its dictionaries hold once would not
    fit into memory where they occur.
    """
    text, most = 0, most_text_bytes()
    for column in table.columns:
        if pa.types.is_dictionary(column.type) and not pa.types.is_primitive(
            column.type.value_type
        ):
            text += sum(expanded_bytes(chunk) for chunk in column.chunks)
    if text > most:
        raise _too_large(path, "holds text of", text, most, "an eighth of the memory")
    return table


def _too_large(path: Path, what: str, need: int, most: int, share: str) -> HistoryError:
    return HistoryError(
        f"{path}: {what} at least {need / 1e9:.1f} GB, more than the {most / 1e9:.1f} GB"
        f" allowed here ({share}); split it, or use a larger machine"
    )

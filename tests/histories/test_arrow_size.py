"""The unpacked size of an Arrow file is known before it is unpacked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftwreck.histories.arrow_size import unpacked_bytes


def written(path: Path, table: pa.Table, compression: str | None, rows: int = 1000) -> Path:
    """Write ``table`` in batches of ``rows``."""
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_file(sink, table.schema, options=options) as out,
    ):
        out.write_table(table, rows)
    return path


def column(rows: int, *, dictionary: bool = False) -> pa.Table:
    """Return a table of equal numbers and of equal texts."""
    texts = pa.array(["a long text that is repeated"] * rows)
    numbers = pa.array([7] * rows, pa.int64())
    return pa.table({"n": numbers, "t": texts.dictionary_encode() if dictionary else texts})


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
@pytest.mark.parametrize("dictionary", [False, True])
def test_lengths_of_all_buffers_are_added(
    tmp_path: Path, compression: str, dictionary: bool
) -> None:
    path = written(tmp_path / "h.arrow", column(5000, dictionary=dictionary), compression)
    with pa.OSFile(str(path)) as source:
        table = pa.ipc.open_file(source).read_all()
    at_least = sum(chunk.nbytes for name in table.columns for chunk in name.chunks[:1])
    assert unpacked_bytes(path) >= 5000 * 8
    assert unpacked_bytes(path) >= at_least
    assert unpacked_bytes(path) <= 2 * table.nbytes + 10_000


def test_a_file_without_compression_needs_what_it_has(tmp_path: Path) -> None:
    assert unpacked_bytes(written(tmp_path / "h.arrow", column(5000), None)) == 0


def test_a_small_file_of_a_gigabyte_is_seen(tmp_path: Path) -> None:
    zeros = pa.table({"n": pa.array(np.zeros(1 << 24, np.int64))})
    path = written(tmp_path / "h.arrow", zeros, "zstd", rows=1 << 24)
    assert path.stat().st_size < 1 << 20
    assert unpacked_bytes(path) >= 8 << 24


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_a_damaged_file_is_refused_or_measured(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = written(tmp_path_factory.mktemp("arrow") / "h.arrow", column(50), "lz4")
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 5))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    try:
        unpacked_bytes(path)
    except ValueError as error:
        assert str(error).startswith("not an Arrow file")

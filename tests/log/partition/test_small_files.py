"""Checkpoints, topic ids and producer snapshots: what is written is read, anything else refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftwreck.nodes.log.media import PLAIN
from kraftwreck.nodes.log.partition.checkpoints import (
    HIGH_WATERMARKS,
    PARTITION_METADATA,
    CheckpointError,
    read_offsets,
    read_topic_id,
    write_offsets,
    write_topic_id,
)
from kraftwreck.nodes.log.partition.index import offset_index, time_index
from kraftwreck.nodes.log.partition.producer_snapshot import (
    ProducerEntry,
    ProducerSnapshotError,
    decode_snapshot,
    encode_snapshot,
)
from kraftwreck.nodes.log.uuids import from_halves


def above(bound: int) -> Callable[[tuple[int, int]], bool]:
    """Whether an entry begins at ``bound`` or above."""
    return lambda entry: entry[0] >= bound


ENTRIES = [
    ProducerEntry(4000, 1, 9, 25, 4, 1_700_000_000_000),
    ProducerEntry(4001, 0, 2**31 - 1, 30, 0, -1, 3, 28),
]


def test_offsets_come_back_and_a_cut_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / HIGH_WATERMARKS
    assert read_offsets(path, PLAIN) == {}
    offsets = {("orders", 1): 17, ("orders", 0): 3, ("a.b_c-d", 12): 0}
    write_offsets(path, offsets, PLAIN)
    assert path.read_text() == "0\n3\na.b_c-d 12 0\norders 0 3\norders 1 17\n"
    assert read_offsets(path, PLAIN) == offsets
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError, match=HIGH_WATERMARKS):
            read_offsets(path, PLAIN)
    for damaged in (b"1" + whole[1:], whole.replace(b" 17", b" -7"), whole.replace(b" 1 ", b" 0 ")):
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError):
            read_offsets(path, PLAIN)


def test_a_topic_id_comes_back_and_a_cut_one_is_refused(tmp_path: Path) -> None:
    assert read_topic_id(tmp_path, PLAIN) is None
    topic_id = from_halves(1 << 40, 77)
    write_topic_id(tmp_path, topic_id, PLAIN)
    assert read_topic_id(tmp_path, PLAIN) == topic_id
    path = tmp_path / PARTITION_METADATA
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])  # Some versions of Apache Kafka write no last line end.
    assert read_topic_id(tmp_path, PLAIN) == topic_id
    for length in range(len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError, match=PARTITION_METADATA):
            read_topic_id(tmp_path, PLAIN)


def test_any_change_of_a_producer_snapshot_is_noticed() -> None:
    data = encode_snapshot(ENTRIES)
    assert decode_snapshot(data) == ENTRIES
    assert decode_snapshot(encode_snapshot([])) == []
    for length in range(len(data)):
        with pytest.raises(ProducerSnapshotError):
            decode_snapshot(data[:length])
    for bit in range(len(data) * 8):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ProducerSnapshotError):
            decode_snapshot(bytes(changed))


@given(st.lists(st.integers(0, 50), max_size=80), st.integers(0, 80), st.integers(0, 80))
def test_an_index_finds_and_drops_as_a_list_does(
    tmp_path_factory: pytest.TempPathFactory, steps: list[int], written: int, dropped: int
) -> None:
    path = tmp_path_factory.mktemp("index") / "x.timeindex"
    index = time_index(path, PLAIN)
    model: list[tuple[int, int]] = []
    for number, step in enumerate(steps):
        model.append(((model[-1][0] if model else 0) + step, number))
        index.add(*model[-1])
        if number == written:
            index.write()
    if dropped < len(model):
        index.drop_from(dropped)
        del model[dropped:]
    for bound in range(0, 60, 7):
        assert index.count_below(above(bound)) == sum(first < bound for first, _ in model)
    assert index.last() == (model[-1] if model else None)
    index.write(durably=True)
    assert path.stat().st_size == len(model) * 12
    again = time_index(path, PLAIN, path.stat().st_size)
    assert [again.entry(n) for n in range(len(again))] == model


def test_a_long_index_is_searched_without_reading_all_of_it(tmp_path: Path) -> None:
    index = offset_index(tmp_path / "x.index", PLAIN)
    for number in range(20_000):
        index.add(number * 3 + 1, number)
        if index.is_full():
            index.write()
    for delta in (0, 1, 2, 3, 30_000, 59_998, 60_000):
        count = index.count_below(above(delta + 1))
        assert count == (delta + 2) // 3
    with pytest.raises(IndexError):
        index.entry(20_000)
    with pytest.raises(ValueError, match="no whole entries"):
        offset_index(tmp_path / "x.index", PLAIN, 9)

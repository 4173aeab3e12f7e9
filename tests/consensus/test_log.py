"""The in-memory log against a list of records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftwreck.nodes.consensus.effects import FatalError
from kraftwreck.nodes.consensus.log import ReplicatedLog
from kraftwreck.nodes.log.batch import encode_batch, parse_header


def batch(base: int, epoch: int, count: int) -> bytes:
    return encode_batch(base, epoch, 0, [(None, b"v")] * count, control=False)


def build(shape: list[tuple[int, int]]) -> tuple[ReplicatedLog, list[int]]:
    """A log of batches (epoch step, count) and the epoch of each offset."""
    log = ReplicatedLog()
    epochs: list[int] = []
    epoch = 1
    for step, count in shape:
        epoch += step
        encoded = batch(log.end_offset, epoch, count)
        log.append(encoded, parse_header(encoded))
        epochs += [epoch] * count
    return log, epochs


SHAPES = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), max_size=12)


@given(SHAPES, st.integers(0, 40))
def test_end_offset_for_epoch_is_the_end_of_the_floor_epoch(
    shape: list[tuple[int, int]], epoch: int
) -> None:
    log, epochs = build(shape)
    end, found = log.end_offset_for_epoch(epoch)
    if not epochs:
        assert (end, found) == (0, 0)
        return
    floor = [e for e in epochs if e <= epoch]
    if floor:
        assert (end, found) == (len(floor), floor[-1])
    else:
        assert (end, found) == (0, epoch)


@given(SHAPES, st.integers(0, 40))
def test_truncation_keeps_whole_batches_below_the_cut(
    shape: list[tuple[int, int]], cut: int
) -> None:
    log, epochs = build(shape)
    ends = [0]
    for _, count in shape:
        ends.append(ends[-1] + count)
    log.truncate(cut)
    assert log.end_offset == max(e for e in ends if e <= cut)
    assert log.last_epoch == (epochs[log.end_offset - 1] if log.end_offset else 0)
    assert log.end_offset_for_epoch(99) == (log.end_offset, log.last_epoch)


@given(SHAPES, st.integers(0, 40), st.integers(1, 400))
def test_read_returns_whole_batches_and_at_least_one(
    shape: list[tuple[int, int]], offset: int, limit: int
) -> None:
    log, epochs = build(shape)
    data = log.read(offset, limit)
    if offset >= len(epochs):
        assert data == b""
        return
    first = parse_header(data)
    assert first.base_offset <= offset <= first.last_offset
    assert len(data) <= limit or len(data) == first.length


def test_a_gap_or_an_older_epoch_is_refused() -> None:
    log, _ = build([(4, 2)])
    gap = batch(3, 9, 1)
    with pytest.raises(FatalError, match="begins at 3"):
        log.append(gap, parse_header(gap))
    old = batch(2, 1, 1)
    with pytest.raises(FatalError, match="epoch 1 after epoch 5"):
        log.append(old, parse_header(old))


@given(SHAPES, st.integers(0, 12), st.integers(0, 12))
def test_cleaning_and_truncating_forget_neither_offsets_nor_epochs(
    shape: list[tuple[int, int]], clean: int, cut: int
) -> None:
    """S12: a log that is emptied above its snapshot still ends in the snapshot's epoch."""
    log, epochs = build(shape)
    whole, _ = build(shape)
    ends = [h.last_offset + 1 for _, h in whole.batches_between(0, whole.end_offset)]
    if not ends:
        return
    start = ends[min(clean, len(ends) - 1)]
    end = ends[min(max(cut, clean), len(ends) - 1)]
    log.clean((start, epochs[start - 1]))
    log.truncate(end)
    whole.truncate(end)
    assert (log.start_offset, log.end_offset, log.last_epoch) == (start, end, whole.last_epoch)
    assert log.read(start, 1 << 20) == whole.read(start, 1 << 20)
    assert log.size == len(whole.read(start, 1 << 20))
    for epoch in range(epochs[start - 1], epochs[-1] + 2):
        expected = whole.end_offset_for_epoch(epoch)
        if expected[0] >= start and start < end:
            assert log.end_offset_for_epoch(epoch)[0] == max(expected[0], start)
    for offset in range(start, end):
        assert log.epoch_at(offset) == epochs[offset]
    assert log.epoch_at(start - 1) is None
    assert log.epoch_at(end) is None

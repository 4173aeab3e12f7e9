"""The view of a log: truncation leaves the state that the remaining headers make."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftwreck.nodes.replication import log_view
from kraftwreck.nodes.replication.epoch_cache import UNDEFINED, LeaderEpochs
from kraftwreck.nodes.replication.events import LogOpened, SegmentClosed, Settings
from kraftwreck.nodes.replication.headers import Batch
from kraftwreck.nodes.replication.log_view import LogView
from kraftwreck.nodes.replication.producers import Producers
from tests.replication.world import KEY, batch


def empty() -> LogView:
    return LogView(LogOpened(KEY, 0, 0, (), (), 0))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 12), st.integers(1, 3)), max_size=40))
def test_truncation_equals_a_log_without_the_rest(actions: list[tuple[int, int, int]]) -> None:
    log, batches, epoch = empty(), list[Batch](), 0
    for producer, back, count in actions:
        if producer == 0:
            end = max(0, log.end - back)
            assert log.truncate(end)
            while batches and batches[-1].next_offset > end:
                batches.pop()
            epoch += 1
        else:
            new = batch(0, producer=producer, sequence=log.end, count=count)
            batches.append(new.placed(log.end, epoch))
            log.append(batches[-1], 0)
    again, producers = empty(), Producers()
    for each in batches:
        again.append(each, 0)
        producers.append(each)
    assert (log.end, log.epochs.entries) == (again.end, again.epochs.entries)
    assert log.producers.state() == producers.state()
    assert log.size == again.size == sum(each.size for each in batches)


def test_a_truncation_below_the_tail_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_view, "TAIL", 2)
    log = empty()
    for offset in range(10):
        log.append(batch(0, producer=1, sequence=offset).placed(offset, 0), high_watermark=6)
    assert log.tail_start == 6
    assert not log.truncate(5)
    assert log.truncate(6)
    assert [each.base_offset for each in log.producers.state()[1][1]] == [1, 2, 3, 4, 5]


def test_a_truncation_ends_no_log_before_its_start() -> None:
    """Records up to the middle of the first batch were deleted: the disk keeps that start."""
    log = empty()
    for offset in (0, 3):
        log.append(batch(0, count=3).placed(offset, 1), high_watermark=6)
    log.delete_up_to(4)
    assert log.truncate(5)
    assert (log.start, log.end, log.tail_start, log.epochs.entries) == (4, 4, 4, [])
    assert log.size == 0
    log.append(batch(0).placed(4, 2), high_watermark=4)
    assert (log.end, log.epochs.entries) == (5, [(2, 4)])


@pytest.mark.parametrize(("limit", "start"), [(214, 0), (213, 4), (143, 4), (142, 7), (-1, 0)])
def test_retention_counts_the_whole_segment_that_is_written(
    limit: int, start: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also its batches from before the log was opened, and those below the tail.

    The closed segments have 100 and 71 bytes, that which is written 71 and 71.
    """
    monkeypatch.setattr(log_view, "TAIL", 1)
    log = LogView(LogOpened(KEY, 0, 8, (), (), 0, 8, 242))
    log.segments += (SegmentClosed(KEY, 0, 4, 100, 0), SegmentClosed(KEY, 4, 7, 71, 0))
    log.append(batch(0).placed(8, 1), high_watermark=9)
    assert log.retained_from(Settings(retention_ms=-1, retention_bytes=limit), 9, 0) == start


def test_a_log_that_begins_again_is_empty() -> None:
    log = LogView(LogOpened(KEY, 0, 8, (), (), 0, 8, 242))
    log.start_at(20)
    assert log.size == 0


def test_a_deletion_removes_the_bytes_of_whole_segments() -> None:
    log = LogView(LogOpened(KEY, 0, 8, (), (), 0, 8, 242))
    log.segments += (SegmentClosed(KEY, 0, 4, 100, 0), SegmentClosed(KEY, 4, 7, 71, 0))
    log.delete_up_to(6)
    assert log.size == 142


def test_a_gap_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot follow offset 0"):
        empty().append(batch(0).placed(1, 0), 0)


def test_bytes_between_offsets() -> None:
    log = empty()
    for offset in range(3):
        log.append(batch(0).placed(offset, 0), 0)
    assert [log.bytes_between(*each, 1000) for each in ((0, 3), (1, 3), (0, 2), (3, 3))] == [
        213, 142, 142, 0,
    ]  # fmt: skip
    assert log.bytes_between(0, 3, 100) == 100


def test_ends_of_epochs() -> None:
    epochs = LeaderEpochs(((2, 10), (4, 20)))
    asked = [epochs.end_of(epoch, 30) for epoch in (-1, 1, 2, 3, 4, 5)]
    assert asked == [UNDEFINED, (1, 10), (2, 20), (2, 20), (4, 30), UNDEFINED]
    assert [epochs.at(offset) for offset in (9, 10, 19, 20)] == [-1, 2, 2, 4]
    assert epochs.assign(6, 20)
    assert not epochs.assign(6, 25)
    assert epochs.entries == [(2, 10), (6, 20)]
    epochs.delete_below(15)
    assert epochs.entries == [(2, 15), (6, 20)]

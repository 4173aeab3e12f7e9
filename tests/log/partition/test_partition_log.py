"""Logs of user partitions: what is appended is found by offset and by time, after any operation."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest

from kraftwreck.nodes.log.batch import BatchHeader, parse_header
from kraftwreck.nodes.log.layout import segment_name
from kraftwreck.nodes.log.media import PLAIN, Media
from kraftwreck.nodes.log.partition.partition_log import PartitionLog
from kraftwreck.nodes.log.partition.producer_snapshot import ProducerEntry
from tests.log.partition.batches import SMALL, TIME, contents, data_batch, fill, open_log

LARGE = dataclasses.replace(SMALL, segment_bytes=1 << 20)


def test_batches_come_back_whole_across_segments(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    written = fill(log, 100)
    assert len(log.segments) > 3
    assert contents(log) == b"".join(written)
    assert [h.base_offset for h in log.batches(0)] == [parse_header(b).base_offset for b in written]
    assert log.epochs == ((1, 0),)


def test_every_offset_and_time_is_found_as_a_linear_scan_finds_it(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    headers = [parse_header(batch) for batch in fill(log, 120)]
    for offset in range(log.end_offset):
        expected = next(h for h in headers if h.last_offset >= offset)
        assert next(log.batches(offset)).base_offset == expected.base_offset
        found = log.find_time(TIME + offset)
        later = [h for h in headers if h.max_timestamp >= TIME + offset]
        assert (found[1][1].base_offset if found else None) == (
            later[0].base_offset if later else None
        )
    largest = log.largest_timestamp()
    assert largest is not None and largest[1][1].base_offset == headers[-1].base_offset


def test_times_that_go_back_are_found(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    times = [TIME + (i * 37) % 100 for i in range(120)]
    headers = []
    for time_ms in times:
        batch = data_batch(log.end_offset, time_ms=time_ms)
        headers.append(parse_header(batch))
        log.append(batch, headers[-1:])
    for time_ms in range(TIME - 1, TIME + 101):
        expected = next((h.base_offset for h in headers if h.max_timestamp >= time_ms), None)
        found = log.find_time(time_ms)
        assert (found[1][1].base_offset if found else None) == expected


def test_a_read_ends_before_the_batch_with_the_limit(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", dataclasses.replace(SMALL, segment_bytes=1 << 20))
    written = fill(log, 50)
    headers = [parse_header(batch) for batch in written]
    for limit in range(log.end_offset + 1):
        below = sum(h.length for h in headers if h.last_offset < limit)
        part = log.read(0, limit, 1 << 20)
        assert (part.length if part else 0) == below
    for most in range(0, 3000, 77):
        part = log.read(0, log.end_offset, most)
        total, fit = 0, headers[0].length
        for header in headers:
            total += header.length
            fit = max(fit, total) if total <= most else fit
        assert part is not None and part.length == fit
    small = log.read(5, log.end_offset, 1)
    assert small is not None
    batch = PLAIN.read_at(small.path, small.position, small.length)
    assert batch == next(b for b, h in zip(written, headers, strict=True) if h.last_offset >= 5)
    assert log.read(log.end_offset, log.end_offset, 100) is None
    with pytest.raises(ValueError, match="is not in 0 to"):
        log.read(log.end_offset + 1, log.end_offset, 100)


@pytest.mark.interpreted
def test_the_place_of_a_reader_that_continues_is_known_without_the_index(tmp_path: Path) -> None:
    files: list[str] = []

    class Watched(Media):
        def read_at(self, path: Path, position: int, size: int) -> bytes:
            files.append(path.suffix)
            return super().read_at(path, position, size)

    log = open_log(tmp_path / "t-0", LARGE, Watched())
    headers = [parse_header(batch) for batch in fill(log, 40)]
    log.roll()
    first = log.read(0, 40, 900)
    assert first is not None
    following = headers[len(within(headers, first.length))].base_offset
    for offset, file in ((following, ".log"), (following + 10, ".index")):
        files.clear()
        part = log.read(offset, 40, 1)
        assert part is not None
        assert files[0] == file
        assert part.position == sum(h.length for h in headers if h.last_offset < offset)


def test_a_reader_finds_its_place_again_after_a_truncation(tmp_path: Path) -> None:
    for most, target in itertools.product((300, 700, 1100), (2, 9, 16, 23)):
        log = open_log(tmp_path / f"t-{most}-{target}", LARGE)
        headers = [parse_header(batch) for batch in fill(log, 15)]
        first = log.read(0, log.end_offset, most)
        assert first is not None
        log.truncate(target)
        headers = [h for h in headers if h.last_offset < target]
        headers += [parse_header(batch) for batch in fill(log, 15, epoch=7)]
        for offset in range(log.end_offset):
            part = log.read(offset, log.end_offset, 1)
            before = [h for h in headers if h.last_offset < offset]
            assert part is not None
            assert part.position == sum(h.length for h in before)


def within(headers: Sequence[BatchHeader], length: int) -> list[BatchHeader]:
    """Return the headers of the batches in the first ``length`` bytes."""
    ends = itertools.accumulate(h.length for h in headers)
    return [header for header, end in zip(headers, ends, strict=True) if end <= length]


def test_the_content_of_a_slice_is_that_of_its_file_in_every_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    fill(log, 60)
    assert len(log.segments) > 1
    for _ in range(2):
        for offset in range(log.end_offset):
            part = log.read(offset, log.end_offset, 300)
            assert part is not None
            assert log.content(part) == PLAIN.read_at(part.path, part.position, part.length)
        log.truncate(log.end_offset - 5)
        fill(log, 10, epoch=2)
    log.restart(500)
    (batch, *_) = fill(log, 3, epoch=3)
    part = log.read(500, log.end_offset, 1)
    assert part is not None and log.content(part) == batch


@pytest.mark.parametrize("orderly", [True, False])
def test_a_start_finds_the_same_log(tmp_path: Path, orderly: bool) -> None:
    log = open_log(tmp_path / "t-0")
    written = fill(log, 60) + fill(log, 30, epoch=3)
    point = None
    if orderly:
        log.close()
    else:
        point = log.recovery_point
    again = open_log(tmp_path / "t-0", recovery_point=point)
    assert again.cut is None
    assert (again.end_offset, again.epochs, again.segments) == (
        log.end_offset, log.epochs, log.segments,
    )  # fmt: skip
    assert contents(again) == b"".join(written)
    written += fill(again, 30, epoch=4)
    assert contents(again) == b"".join(written)
    assert [h.base_offset for h in again.batches(0)] == [
        parse_header(b).base_offset for b in written
    ]


def test_a_start_after_a_flush_checks_the_last_segment_only(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    fill(log, 60)
    flush = log.flush()
    assert log.recovery_point == 0
    flush.run()
    log.flushed(flush)
    assert log.recovery_point == log.end_offset
    # A change of a byte in an older segment is not looked for.
    first = tmp_path / "t-0" / f"{0:020d}.log"
    data = bytearray(first.read_bytes())
    data[100] ^= 1
    first.write_bytes(data)
    again = open_log(tmp_path / "t-0", recovery_point=log.recovery_point)
    assert again.end_offset == log.end_offset
    fresh = open_log(tmp_path / "t-0", recovery_point=0)
    assert fresh.end_offset < log.end_offset
    assert fresh.cut is not None and "wrong checksum" in fresh.cut


def test_truncation_removes_batches_epochs_and_entries(tmp_path: Path) -> None:
    for target in range(0, 150, 7):
        directory = tmp_path / f"t-{target}"
        log = open_log(directory)
        written = fill(log, 40) + fill(log, 40, epoch=2)
        headers = [parse_header(batch) for batch in written]
        kept = [b for b, h in zip(written, headers, strict=True) if h.last_offset < target]
        end = log.truncated_end(min(target, log.end_offset))
        log.truncate(min(target, log.end_offset))
        assert log.end_offset == end
        assert contents(log) == b"".join(kept)
        assert log.end_offset <= target or target > headers[-1].last_offset
        kept += fill(log, 40, epoch=5)
        assert contents(log) == b"".join(kept)
        assert contents(open_log(directory)) == b"".join(kept)
        for offset in range(log.end_offset):
            assert next(log.batches(offset)).last_offset >= offset


def test_truncation_outside_of_the_log_is_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    fill(log, 3)
    with pytest.raises(ValueError, match="cannot truncate to 99: the log has 0 to"):
        log.truncate(99)


def test_deletion_from_the_front_leaves_the_rest(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    fill(log, 50)
    fill(log, 50, epoch=2)
    start = log.segments[2] + 3
    garbage = log.delete_below(start)
    assert log.start_offset == start and len(garbage) == 6
    assert all(path.exists() and path.name.endswith(".deleted") for path in garbage)
    again = open_log(tmp_path / "t-0", start_offset=start)
    assert not any(path.exists() for path in garbage)
    assert (again.start_offset, again.end_offset, again.epochs) == (
        start, log.end_offset, log.epochs,
    )  # fmt: skip
    with pytest.raises(ValueError, match="is not in"):
        again.read(start - 1, log.end_offset, 100)
    with pytest.raises(ValueError, match="the log ends at"):
        again.delete_below(log.end_offset + 1)
    again.restart(log.end_offset + 10)
    assert (again.size, again.start_offset) == (0, log.end_offset + 10)


@pytest.mark.parametrize("orderly", [False, True])
def test_segments_below_the_start_need_not_be_whole(tmp_path: Path, orderly: bool) -> None:
    """A process died before it removed them, and then the power was lost."""
    log = open_log(tmp_path / "t-0")
    fill(log, 50)
    start, end = log.segments[2], log.end_offset
    log.close()
    torn = tmp_path / "t-0" / segment_name(log.segments[1])
    torn.write_bytes(torn.read_bytes()[:35])
    point = None if orderly else start
    again = open_log(tmp_path / "t-0", start_offset=start, recovery_point=point)
    assert (again.start_offset, again.end_offset, again.segments[0]) == (start, end, start)
    assert not torn.exists()


def test_a_segment_ends_by_time(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", dataclasses.replace(SMALL, segment_ms=100))
    for time_ms in (0, 50, 100, 101, 102, 250):
        batch = data_batch(log.end_offset, count=1, time_ms=TIME + time_ms)
        log.append(batch, [parse_header(batch)])
    assert log.segments == (0, 3, 5)


def test_batches_that_do_not_continue_the_log_are_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    fill(log, 2, epoch=4)
    for batch, reason in (
        (data_batch(0, 4), "batch starts at 0"),
        (data_batch(log.end_offset + 1, 4), "log ends at"),
        (data_batch(log.end_offset, 3), "has epoch 3 after 4"),
    ):
        with pytest.raises(ValueError, match=reason):
            log.append(batch, [parse_header(batch)])
    batch = data_batch(log.end_offset, 4)
    with pytest.raises(ValueError, match="batches have"):
        log.append(batch + b"x", [parse_header(batch)])


def test_an_epoch_without_records_is_kept(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    fill(log, 3)
    log.write_epochs([*log.epochs, (7, log.end_offset)])
    assert log.epochs == ((1, 0), (7, log.end_offset))
    assert open_log(tmp_path / "t-0").epochs == log.epochs
    (tmp_path / "t-0" / "leader-epoch-checkpoint").unlink()
    assert open_log(tmp_path / "t-0").epochs == ((1, 0),)
    log.close()


def test_producers_are_stored_with_each_segment(tmp_path: Path) -> None:
    entries = [ProducerEntry(9, 0, 5, 7, 2, TIME)]
    log = PartitionLog(tmp_path / "t-0", lambda: entries, SMALL)
    assert log.stored_producers() == ([], 0)
    fill(log, 40)
    assert log.stored_producers() == (entries, log.segments[-1])
    last = tmp_path / "t-0" / f"{log.segments[-1]:020d}.snapshot"
    last.write_bytes(last.read_bytes()[:-1])
    assert log.stored_producers() == (entries, log.segments[-2])
    assert not last.exists()
    log.truncate(log.segments[-2] - 1)
    assert log.stored_producers() == (entries, log.segments[-1])
    log.close()

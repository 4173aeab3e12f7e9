"""The disk of a broker's data plane: random worlds of replication on files, and damage by name."""

from __future__ import annotations

import errno
import gc
import random
import shutil
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from struct import Struct
from typing import Any, cast

import pytest

from kraftwreck.nodes.log.batch import parse_header
from kraftwreck.nodes.log.crc import crc32c
from kraftwreck.nodes.log.partition.partition_log import PartitionLog
from kraftwreck.nodes.log.partition.settings import LogSettings
from kraftwreck.nodes.replication import effects as out
from kraftwreck.nodes.replication import events as come
from kraftwreck.nodes.replication.headers import Batch
from kraftwreck.nodes.replication.log_view import LogView
from kraftwreck.nodes.replication.replicas import Replicas
from kraftwreck.nodes.server.partition_files import DiskEffect, PartitionFiles
from tests.replication.judge import Judged
from tests.replication.world import KEY, NUMBERS, Disk, batch

SMALL = LogSettings(segment_bytes=400, index_interval_bytes=100)
_BODY = Struct(">hiqqqhii")
_HEAD = Struct(">qiibI")
_RECORDS = b"opaque"


def written(each: Batch) -> bytes:
    """The bytes of a batch as its producer sends them, with records that nothing reads."""
    body = _RECORDS + each.crc.to_bytes(8, "big", signed=True)
    body = (
        _BODY.pack(
            each.attributes,
            each.last_offset_delta,
            each.max_timestamp,
            each.max_timestamp,
            each.producer_id,
            each.producer_epoch,
            each.base_sequence,
            each.count,
        )
        + body
    )
    return _HEAD.pack(0, len(body) + 9, -1, 2, crc32c(body)) + body


def placed(content: bytes, offset: int, epoch: int) -> bytes:
    """The bytes with the offset and the epoch of their leader."""
    return offset.to_bytes(8, "big") + content[8:12] + epoch.to_bytes(4, "big") + content[16:]


def files_in(folder: Path, *, orderly: bool = False) -> PartitionFiles:
    return PartitionFiles(folder, lambda topic_id: topic_id.decode()[:1], SMALL, orderly=orderly)


@dataclass
class OnFiles(Disk):
    """A list that remembers beside files that do; both must say the same at any time."""

    folder: Path = Path()
    files: PartitionFiles | None = field(default=None, repr=False)
    opens: int = 0

    def opened(self) -> come.LogOpened:
        expected = super().opened()
        # A new process finds the files as the kernel has them; the old one closed nothing.
        self.files = files_in(self.folder)
        self.opens += 1
        first = self.files.carry_out(out.OpenLog(KEY))[0]
        assert isinstance(first, come.LogOpened)
        assert (first.start_offset, first.end_offset) == (expected.start_offset, self.end)
        assert first.high_watermark == expected.high_watermark
        last = {each.producer_id: each.last_sequence for each in self.producers}
        found = {each.producer_id: each.last_sequence for each in first.producers}
        assert {key: last[key] for key in last if key >= 0}.items() <= found.items()
        self.compare()
        return first

    def compare(self) -> None:
        """The files have the batches of the list, with the same epochs and records."""
        assert self.files is not None
        listed = {each.base_offset: each for each in self.batches}
        offset = max(self.start, min(listed, default=self.start))
        while (part := self.files.slice(KEY, out.Slice(offset, self.end, 1))) is not None:
            content = part.path.read_bytes()[part.position : part.position + part.length]
            header = parse_header(content)
            expected = listed[header.base_offset]
            assert (header.epoch, header.producer_id) == (
                expected.leader_epoch,
                expected.producer_id,
            )
            assert content == placed(written(expected), header.base_offset, header.epoch)
            offset = header.last_offset + 1
        assert offset == self.end

    def carry_out(self, effect: out.Effect) -> None:
        super().carry_out(effect)
        if self.files is None or isinstance(effect, out.OpenLog):
            return
        if isinstance(effect, out.Append):
            handle = written(effect.batch)
            effect = replace(effect, batch=replace(effect.batch, handle=handle))
        if isinstance(effect, DiskEffect):
            self.files.carry_out(cast("DiskEffect", effect))


class World(Judged):
    """Three brokers on files, judged by all invariants."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__(1)

    def new_disk(self, broker: int) -> Disk:
        folder = self.folder / f"b{broker}"
        folder.mkdir()
        return OnFiles(folder=folder)


@pytest.mark.parametrize("seed", range(6))
def test_worlds_on_files_keep_all_invariants(tmp_path: Path, seed: int) -> None:
    numbers = random.Random(seed)
    world = World(tmp_path)
    world.run([numbers.randrange(NUMBERS) for _ in range(700)])
    world.finish()
    disks = [cast("OnFiles", host.disk) for host in world.hosts.values()]
    assert max(disk.opens for disk in disks) > 1, "no process was killed"
    for disk in disks:
        assert disk.files is not None
        disk.compare()
        disk.files.close()


# --- one log -----------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> PartitionFiles:
    """Files with one open, empty log."""
    made = files_in(tmp_path)
    made.carry_out(out.OpenLog(KEY))
    return made


def append(files: PartitionFiles, offset: int, epoch: int = 3) -> list[come.Event]:
    each = batch(offset).placed(offset, epoch)
    return list(files.carry_out(out.Append(KEY, replace(each, handle=written(each)))))


def test_segments_end_where_the_config_of_the_topic_says(files: PartitionFiles) -> None:
    def closed(offsets: range) -> int:
        events = [event for offset in offsets for event in append(files, offset)]
        return sum(isinstance(event, come.SegmentClosed) for event in events)

    assert closed(range(3)) == 0
    files.carry_out(out.ShapeLog(KEY, 1, None, None))
    assert closed(range(3, 6)) == 3
    files.carry_out(out.ShapeLog(KEY, None, None, None))
    assert closed(range(6, 9)) == 0


def reopened(folder: Path, *, orderly: bool = False) -> come.LogOpened:
    first = files_in(folder, orderly=orderly).carry_out(out.OpenLog(KEY))[0]
    assert isinstance(first, come.LogOpened)
    return first


@pytest.mark.parametrize("end", (0, 1, 9, 10, 11, 12, 20, 21, 40))
def test_core_and_files_agree_on_full_segments_after_a_truncation(
    files: PartitionFiles, end: int
) -> None:
    # Seed 1400049: a segment that was written again counted twice, and retention deleted too much.
    view = LogView(come.LogOpened(KEY, 0, 0, (), (), 0))

    def grow(last: int) -> None:
        while view.end < last:
            each = batch(view.end, count=2).placed(view.end, 3)
            content = written(each)
            view.append(replace(each, size=len(content)), 0)
            told = files.carry_out(out.Append(KEY, replace(each, handle=content)))
            view.segments.extend(one for one in told if isinstance(one, come.SegmentClosed))

    def closed() -> list[int]:
        return [extent.end_offset for extent in files._replicas[KEY].log.extents[:-1]]

    grow(40)
    assert len(closed()) > 2
    assert view.truncate(end)
    files.carry_out(out.Truncate(KEY, end))
    assert [each.end_offset for each in view.segments] == closed()
    assert view.size == files.sizes()[KEY]
    grow(50)
    assert [each.end_offset for each in view.segments] == closed()
    view.delete_up_to(25)
    files.carry_out(out.DeleteUpTo(KEY, 25))
    assert view.size == files.sizes()[KEY]


def test_an_old_segment_is_closed_and_deleted_later(files: PartitionFiles, tmp_path: Path) -> None:
    """An idle log would never close it otherwise."""
    append(files, 0)
    append(files, 1)
    newest = files._replicas[KEY].log.extents[-1].max_timestamp
    assert files.carry_out(out.RollLog(KEY, newest)) == []
    closed, flushed = files.carry_out(out.RollLog(KEY, newest + 1))
    assert isinstance(closed, come.SegmentClosed) and isinstance(flushed, come.LogFlushed)
    assert (closed.base_offset, closed.end_offset, closed.max_timestamp) == (0, 2, newest)
    assert closed.size == files.sizes()[KEY] > 0
    assert files.carry_out(out.RollLog(KEY, newest + 1)) == [], "an empty segment stays"
    files.carry_out(out.DeleteUpTo(KEY, 2))
    assert files.sizes()[KEY] == 0
    append(files, 2)
    assert files.end_of(KEY) == 3


def test_a_closed_segment_goes_whose_records_were_deleted_before(files: PartitionFiles) -> None:
    append(files, 0)
    files.carry_out(out.DeleteUpTo(KEY, 1))
    assert files.sizes()[KEY] > 0, "it is written"
    files.carry_out(out.RollLog(KEY, 1 << 60))
    files.carry_out(out.DeleteUpTo(KEY, 1))
    assert files.sizes()[KEY] == 0


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_an_old_segment_is_closed_when_there_is_room(
    files: PartitionFiles, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(files, 0)

    def full(_: PartitionLog) -> None:
        raise OSError(number, "no room")

    with monkeypatch.context() as patch:
        patch.setattr(PartitionLog, "roll", full)
        if number == errno.EIO:
            with pytest.raises(OSError, match="no room"):
                files.carry_out(out.RollLog(KEY, 1 << 60))
        else:
            assert files.carry_out(out.RollLog(KEY, 1 << 60)) == []
    assert files.carry_out(out.RollLog(KEY, 1 << 60)) != []


def test_what_had_no_room_is_not_deleted(
    files: PartitionFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The core may delete in the step that appends."""
    append(files, 0)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no room")

    each = batch(1).placed(1, 3)
    with monkeypatch.context() as patch:
        patch.setattr(PartitionLog, "append", full)
        told = files.carry_out_all(
            [out.Append(KEY, replace(each, handle=written(each))), out.DeleteUpTo(KEY, 2)]
        )
    assert [event for event in told if isinstance(event, come.AppendFailed)] == [
        come.AppendFailed(KEY, 1)
    ]
    files.carry_out_all([out.Append(KEY, replace(each, handle=written(each)))])
    found = reopened(tmp_path)
    assert (found.start_offset, found.end_offset) == (1, 2)


def test_a_leader_s_offset_and_epoch_replace_those_of_the_producer(
    files: PartitionFiles, tmp_path: Path
) -> None:
    append(files, 0)
    append(files, 1, epoch=9)
    part = files.slice(KEY, out.Slice(1, 2, 1 << 20))
    assert part is not None
    content = part.path.read_bytes()[part.position : part.position + part.length]
    header = parse_header(content)
    assert (header.base_offset, header.epoch, header.length) == (1, 9, len(content))
    assert crc32c(content[21:]) == header.crc


def test_a_full_segment_is_announced_once_and_after_a_restart(
    files: PartitionFiles, tmp_path: Path
) -> None:
    said = [event for offset in range(12) for event in append(files, offset)]
    closed = [event for event in said if isinstance(event, come.SegmentClosed)]
    assert len(closed) > 1
    # All is durable when a segment is complete, and the core hears of that.
    flushed = [event for event in said if isinstance(event, come.LogFlushed)]
    assert [(each.number, each.cuts) for each in flushed] == [(0, 0)] * len(closed)
    assert len(said) == len(closed) + len(flushed)
    again = files_in(tmp_path).carry_out(out.OpenLog(KEY))
    assert again[1:] == closed
    assert isinstance(again[0], come.LogOpened)
    assert again[0].durable_end == flushed[-1].end_offset
    assert again[0].size == files.sizes()[KEY] > sum(each.size for each in closed)


def test_a_flush_tells_how_far_the_log_is_durable(files: PartitionFiles) -> None:
    for offset in range(4):
        append(files, offset)
    assert list(files.carry_out(out.FlushLog(KEY, 7))) == [come.LogFlushed(KEY, 7, 0, 4)]
    files.carry_out(out.Truncate(KEY, 2))
    assert list(files.carry_out(out.FlushLog(KEY, 8))) == [come.LogFlushed(KEY, 8, 1, 2)]


def test_an_orderly_end_makes_all_durable_for_the_next_start(
    files: PartitionFiles, tmp_path: Path
) -> None:
    append(files, 0)
    files.carry_out(out.WriteHighWatermarks({KEY: 1}))
    files.close()
    points = (tmp_path / "recovery-point-offset-checkpoint").read_text().splitlines()
    assert points == ["0", "1", "t 0 1"]
    found = reopened(tmp_path, orderly=True)
    assert (found.end_offset, found.high_watermark) == (1, 1)


def test_a_truncation_lowers_the_recovery_point_first(
    files: PartitionFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for offset in range(3):
        append(files, offset)
    files.close()
    second = files_in(tmp_path)
    second.carry_out(out.OpenLog(KEY))

    def dies(*_: object) -> None:
        raise OSError("the process ends here")

    monkeypatch.setattr("kraftwreck.nodes.log.partition.partition_log.PartitionLog.truncate", dies)
    with pytest.raises(OSError, match="ends here"):
        second.carry_out(out.Truncate(KEY, 1))
    assert "t 0 1" in (tmp_path / "recovery-point-offset-checkpoint").read_text()


def test_a_truncation_inside_of_a_batch_lowers_the_recovery_point_to_its_start(
    files: PartitionFiles, tmp_path: Path
) -> None:
    # Seed 1310085: a broker that was killed after such a truncation never started again.
    append(files, 0)
    two = batch(1, count=2).placed(1, 3)
    files.carry_out(out.Append(KEY, replace(two, handle=written(two))))
    files.close()
    second = files_in(tmp_path)
    second.carry_out(out.OpenLog(KEY))
    second.carry_out(out.Truncate(KEY, 2))
    assert reopened(tmp_path).end_offset == 1


def test_deleted_records_stay_deleted(files: PartitionFiles, tmp_path: Path) -> None:
    for offset in range(3):
        append(files, offset)
    files.carry_out(out.DeleteUpTo(KEY, 2))
    assert files.slice(KEY, out.Slice(1, 3, 100)) is None
    found = reopened(tmp_path)
    assert (found.start_offset, found.end_offset) == (2, 3)


def test_a_log_that_starts_anew_has_no_records(files: PartitionFiles, tmp_path: Path) -> None:
    append(files, 0)
    files.carry_out(out.StartAt(KEY, 70))
    append(files, 70)
    found = reopened(tmp_path)
    assert (found.start_offset, found.end_offset) == (70, 71)


@pytest.mark.parametrize("removed", [True, False], ids=["removed before", "left there"])
def test_a_topic_of_the_same_name_begins_empty(
    files: PartitionFiles, tmp_path: Path, removed: bool
) -> None:
    append(files, 0)
    files.carry_out(out.WriteHighWatermarks({KEY: 1}))
    if removed:
        files.carry_out(out.RemoveLog(KEY))
    other = (b"t" * 15 + b"u", 0)
    found = files_in(tmp_path).carry_out(out.OpenLog(other))[0]
    assert found == come.LogOpened(other, 0, 0, (), (), 0)


def test_a_log_that_was_opened_elsewhere_is_told_with_its_segments(
    files: PartitionFiles, tmp_path: Path
) -> None:
    for offset in range(12):
        append(files, offset)
    files.close()
    waiting: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()
    again = PartitionFiles(
        tmp_path, lambda topic_id: "t", SMALL, elsewhere=lambda *piece: waiting.append(piece)
    )
    told: list[list[type]] = []
    again.tell = lambda events: told.append([type(event) for event in events])
    again.carry_out(out.OpenLog(KEY))
    work, done = waiting.popleft()
    done(work())
    (together,) = told
    assert together[0] is come.LogOpened
    assert set(together[1:]) == {come.SegmentClosed}


def test_a_topic_deleted_while_its_log_is_opened_leaves_a_new_one_of_its_name_alone(
    tmp_path: Path,
) -> None:
    # Found with seed 6 of a hunt: the files of the new log were removed.
    waiting: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()
    files = PartitionFiles(
        tmp_path, lambda topic_id: "t", SMALL, elsewhere=lambda *piece: waiting.append(piece)
    )
    files.tell = lambda events: None
    other = (b"t" * 15 + b"u", 0)
    for effect in (out.OpenLog(KEY), out.RemoveLog(KEY), out.OpenLog(other)):
        files.carry_out(effect)
    while waiting:
        work, done = waiting.popleft()
        done(work())
    first = batch(1).placed(0, 3)
    files.carry_out(out.Append(other, replace(first, handle=written(first))))
    files.close()
    again = PartitionFiles(tmp_path, lambda topic_id: "t", SMALL)
    (found,) = again.carry_out(out.OpenLog(other))
    assert isinstance(found, come.LogOpened)
    assert found.end_offset == 1


@pytest.mark.parametrize("orderly", [True, False])
def test_a_stop_is_not_clean_while_a_log_is_opened_that_a_crash_may_have_torn(
    tmp_path: Path, orderly: bool
) -> None:
    waiting: list[Callable[[], Any]] = []
    files = PartitionFiles(
        tmp_path,
        lambda topic_id: "t",
        SMALL,
        orderly=orderly,
        elsewhere=lambda work, done: waiting.append(work),
    )
    files.carry_out(out.OpenLog(KEY))
    assert waiting
    assert files.close() is orderly


@pytest.mark.parametrize("removed", [True, False])
def test_a_stop_is_not_clean_while_a_log_is_left_that_was_to_be_removed(
    tmp_path: Path, removed: bool
) -> None:
    """The next image may give the replica back, whose records were never flushed (seed 9005)."""
    waiting: deque[Any] = deque()
    files = PartitionFiles(
        tmp_path,
        lambda topic_id: "t",
        SMALL,
        orderly=True,
        elsewhere=lambda *piece: waiting.append(piece),
    )
    files.tell = lambda events: None
    files.carry_out(out.OpenLog(KEY))
    work, done = waiting.popleft()
    done(work())
    files.carry_out(out.RemoveLog(KEY))
    if removed:
        waiting.popleft()[0]()  # It ends after the stop has begun.
    assert files.close() is removed


def test_a_producer_is_known_long_after_its_last_batch(
    files: PartitionFiles, tmp_path: Path
) -> None:
    each = batch(1, producer=7, sequence=4, count=2).placed(0, 3)
    files.carry_out(out.Append(KEY, replace(each, handle=written(each))))
    for offset in range(2, 20):
        append(files, offset)
    (found,) = reopened(tmp_path).producers
    assert (found.producer_id, found.base_sequence, found.last_sequence) == (7, 4, 5)
    assert (found.base_offset, found.last_offset) == (0, 1)


def test_no_bytes_of_a_producer_are_kept(files: PartitionFiles) -> None:
    """Neither the core nor the files hold on to a request, however many follow."""

    class Bytes(bytearray):
        """A buffer that can be watched."""

    core = Replicas(1, 1, 0)
    assignment = come.Assignment((1,), (1,), 1, 3, 10)
    core.step(come.Published((), {KEY: assignment}, None, {1: come.Peer(1, True)}), 0, 0)
    core.step(come.LogOpened(KEY, 0, 0, (), (), 0), 0, 0)
    watched = []
    for number in range(20):
        each = batch(number, producer=7, sequence=number)
        content = Bytes(written(each))
        watched.append(weakref.ref(content))
        event = come.ProduceReceived(1, -1, 10, ((KEY, replace(each, handle=content)),))
        for effect in core.step(event, 0, 0):
            if isinstance(effect, out.Append):
                files.carry_out(effect)
    del content, event, effect
    gc.collect()
    assert [ref() for ref in watched] == [None] * 20


@pytest.mark.parametrize(
    ("effect", "expected"), [(out.Truncate(KEY, 4), 4), (out.StartAt(KEY, 2), 2)]
)
def test_other_records_where_a_log_was_cut_are_not_committed(
    files: PartitionFiles, tmp_path: Path, effect: DiskEffect, expected: int
) -> None:
    """After an unclean election the high watermark may be above the cut."""
    for offset in range(9):
        append(files, offset)
    files.carry_out(out.WriteHighWatermarks({KEY: 8}))
    files.carry_out(effect)
    for offset in range(expected, 9):
        append(files, offset, epoch=4)
    assert reopened(tmp_path).high_watermark == expected


def test_the_last_high_watermarks_are_on_the_disk_after_a_stop(
    files: PartitionFiles, tmp_path: Path
) -> None:
    """Their write may still wait for the thread of the disk when the process stops."""
    for offset in range(9):
        append(files, offset)
    files._elsewhere = lambda work, done: None
    files.carry_out(out.WriteHighWatermarks({KEY: 8}))
    files.close()
    assert reopened(tmp_path, orderly=True).high_watermark == 8


def test_other_records_where_a_log_has_lost_some_are_not_committed(
    files: PartitionFiles, tmp_path: Path
) -> None:
    """A loss of power may take records below the stored high watermark (seed 3200894)."""
    append(files, 0)
    files.carry_out(out.WriteHighWatermarks({KEY: 8}))
    folder = tmp_path / "copy"
    shutil.copytree(tmp_path, folder, ignore=shutil.ignore_patterns("copy"))
    again = files_in(folder)
    again.carry_out(out.OpenLog(KEY))
    append(again, 1)
    shutil.copytree(folder, folder / "copy", ignore=shutil.ignore_patterns("copy"))
    assert reopened(folder / "copy").high_watermark == 1


def test_a_kill_while_a_log_starts_anew_below_leaves_the_old_log_or_the_new_one(
    files: PartitionFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.carry_out(out.StartAt(KEY, 100))
    restarted = PartitionLog.restart
    folder = tmp_path / "copy"

    def copied(log: PartitionLog, start_offset: int) -> None:
        restarted(log, start_offset)
        shutil.copytree(tmp_path, folder, ignore=shutil.ignore_patterns("copy"))

    monkeypatch.setattr(PartitionLog, "restart", copied)
    files.carry_out(out.StartAt(KEY, 40))
    monkeypatch.undo()
    found = reopened(folder)
    assert (found.start_offset, found.end_offset) == (40, 40)

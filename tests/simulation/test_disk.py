"""What a node's disk keeps: through a kill, a loss of power, and a crash amid an operation."""

from __future__ import annotations

import pytest

from nodes.consensus.effects import (
    AppendLog,
    AppendSnapshot,
    CleanLog,
    DropSnapshot,
    FinishSnapshot,
    FlushLog,
    InstallSnapshot,
    TruncateLog,
    WriteQuorumState,
)
from nodes.log.snapshots import SnapshotCorruptError, footer_batch, header_batch
from simulation.disk import Disk, DiskError


def batch(base: int, epoch: int = 1) -> bytes:
    return base.to_bytes(8, "big") + bytes(4) + epoch.to_bytes(4, "big") + bytes(15)


def snapshot(epoch: int = 1) -> bytes:
    return header_batch(epoch, 5, 7) + footer_batch(1, epoch, 5)


def disk_with(*ends: int, batches: int = 10, segment_bytes: int = 1 << 30) -> Disk:
    """A flushed log of one-record batches, with snapshots that end at ``ends``."""
    disk = Disk(segment_bytes=segment_bytes)
    for base in range(batches):
        disk.apply(AppendLog(batch(base)))
    disk.apply(FlushLog())
    for end in ends:
        write(disk, end)
        disk.apply(FinishSnapshot(end, 1))
    return disk


def write(disk: Disk, end: int, epoch: int = 1) -> None:
    content = snapshot(epoch)
    disk.apply(AppendSnapshot(end, epoch, 0, content[:50]))
    disk.apply(AppendSnapshot(end, epoch, 50, content[50:]))


# --- snapshots ----------------------------------------------------------------------------


def test_a_snapshot_is_there_once_it_is_finished() -> None:
    disk = disk_with()
    write(disk, 5)
    assert disk.snapshots == {}
    assert disk.read_snapshot((5, 1), 0, 10) is None
    disk.apply(FinishSnapshot(5, 1))
    assert disk.read_snapshot((5, 1), 10, 7) == snapshot()[10:17]
    recovered = disk.recover()
    assert [(f.id, f.size, f.timestamp) for f in recovered.snapshots] == [
        ((5, 1), len(snapshot()), 7)
    ]
    assert recovered.latest == snapshot()
    assert len(recovered.batches) == 10


def test_the_first_piece_begins_the_file_anew_and_dropping_forgets_it() -> None:
    disk = disk_with()
    write(disk, 5)
    write(disk, 5)
    disk.apply(FinishSnapshot(5, 1))
    assert disk.snapshots[5, 1] == snapshot()
    write(disk, 6)
    disk.apply(DropSnapshot(6, 1))
    disk.apply(DropSnapshot(6, 1))
    with pytest.raises(DiskError, match="was begun"):
        disk.apply(FinishSnapshot(6, 1))


def test_a_piece_must_follow_the_one_before() -> None:
    disk = disk_with()
    with pytest.raises(DiskError, match="no file"):
        disk.apply(AppendSnapshot(5, 1, 3, b"x"))
    disk.apply(AppendSnapshot(5, 1, 0, b"abc"))
    with pytest.raises(DiskError, match="there is 3 bytes"):
        disk.apply(AppendSnapshot(5, 1, 4, b"x"))


def test_unfinished_snapshots_survive_neither_a_restart_nor_a_loss_of_power() -> None:
    for lose in (False, True):
        disk = disk_with(5)
        write(disk, 8)
        if lose:
            disk.lose_power(3)
        disk.recover()
        assert disk.parts == {}
        assert list(disk.snapshots) == [(5, 1)]


def test_a_damaged_snapshot_keeps_a_node_from_starting() -> None:
    disk = Disk()
    disk.snapshots[0, 0] = b"not a snapshot"
    with pytest.raises(SnapshotCorruptError):
        disk.recover()


# --- the log's start ----------------------------------------------------------------------


def test_installing_empties_the_log_and_removes_older_snapshots() -> None:
    disk = disk_with(5)
    write(disk, 20, 3)
    disk.apply(FinishSnapshot(20, 3))
    disk.apply(InstallSnapshot(20, 3))
    assert (disk.start, disk.end_offset, disk.end_epoch) == (20, 20, 3)
    assert list(disk.snapshots) == [(20, 3)]
    disk.apply(AppendLog(batch(20, 3)))
    recovered = disk.recover()
    assert (recovered.start_offset, len(recovered.batches)) == (20, 1)
    with pytest.raises(DiskError, match="no snapshot"):
        disk.apply(InstallSnapshot(30, 3))


def test_a_crash_before_the_log_is_emptied_is_repaired_at_the_next_start() -> None:
    disk = disk_with(5)
    write(disk, 20, 3)
    disk.apply(FinishSnapshot(20, 3))
    recovered = disk.recover()
    assert (recovered.start_offset, recovered.batches) == (20, ())
    assert [f.id for f in recovered.snapshots] == [(20, 3)]


def test_a_log_that_ends_below_a_snapshot_of_an_older_epoch_is_emptied() -> None:
    disk = Disk()
    disk.apply(AppendLog(batch(0, 5)))
    write(disk, 20, 3)
    disk.apply(FinishSnapshot(20, 3))
    recovered = disk.recover()
    assert (recovered.start_offset, recovered.batches) == (20, ())


def test_cleaning_removes_whole_segments_and_older_snapshots() -> None:
    length = len(batch(0))
    for segment_bytes, start in ((1, 6), (4 * length, 4), (1 << 30, 0)):
        disk = disk_with(3, 6, segment_bytes=segment_bytes)
        disk.apply(CleanLog(6))
        assert disk.start == start
        assert list(disk.snapshots) == [(6, 1)]
        assert disk.recover().start_offset == start
        assert disk.flushed == len(disk.log) == 10 - start


def test_the_log_is_not_cleaned_up_to_where_no_snapshot_ends() -> None:
    disk = disk_with(6)
    with pytest.raises(DiskError, match="no snapshot ends there"):
        disk.apply(CleanLog(5))


def test_a_new_segment_is_begun_with_the_last_one_flushed() -> None:
    disk = Disk(segment_bytes=2 * len(batch(0)))
    for base in range(5):
        disk.apply(AppendLog(batch(base)))
    assert disk.segments == [0, 2, 4]
    assert disk.flushed == 4
    disk.apply(TruncateLog(3))
    assert disk.segments == [0, 2]
    disk.apply(AppendLog(batch(3)))
    disk.apply(AppendLog(batch(4)))
    assert disk.segments == [0, 2, 4]


def test_a_crash_amid_an_operation_leaves_it_done_or_not_or_half_cleaned() -> None:
    states = set()
    for number in range(8):
        disk = disk_with(3, 6, segment_bytes=1)
        if disk.survives(number):
            disk.interrupt(CleanLog(6), number)
        states.add((disk.start, tuple(disk.snapshots)))
        recovered = disk.recover()
        assert [f.id for f in recovered.snapshots] in ([(3, 1), (6, 1)], [(6, 1)])
    assert states == {(0, ((3, 1), (6, 1))), (6, ((3, 1), (6, 1))), (6, ((6, 1),))}


def test_power_loss_takes_a_suffix_of_what_was_not_flushed() -> None:
    kept = set()
    for number in range(10):
        disk = disk_with(batches=4)
        disk.apply(AppendLog(batch(4)))
        disk.apply(AppendLog(batch(5)))
        disk.lose_power(number)
        kept.add(disk.end_offset)
    assert kept == {4, 5, 6}


def test_a_formatted_disk_has_its_bootstrap_snapshot_and_identity() -> None:
    disk = Disk(b"d" * 16, header_batch(0, 0, 0) + footer_batch(1, 0, 0))
    disk.apply(WriteQuorumState(1, -1, -1, bytes(16), ()))
    content = disk.content()
    assert (content.directory, list(content.snapshots)) == (b"d" * 16, [(0, 0)])
    recovered = disk.recover()
    assert [f.id for f in recovered.snapshots] == [(0, 0)]
    assert recovered.start_offset == 0

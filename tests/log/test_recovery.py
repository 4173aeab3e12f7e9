"""Starting from snapshots and a log that begins above 0; installing and cleaning."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kraftwreck.nodes.log.batch import encode_batch, parse_header
from kraftwreck.nodes.log.files import LogCorruptError, MetadataLogFiles
from kraftwreck.nodes.log.layout import EPOCH_CHECKPOINT, METADATA_DIRECTORY
from kraftwreck.nodes.log.recovery import Found
from kraftwreck.nodes.log.snapshots import footer_batch, header_batch, snapshot_name

MakeBatch = Callable[[int, int], bytes]
SEGMENT = 300
BIG = 1 << 20


def content(epoch: int, timestamp: int = 0) -> bytes:
    return header_batch(epoch, 0, timestamp) + footer_batch(1, epoch, 0)


def snapshot(log: MetadataLogFiles, end_offset: int, epoch: int, timestamp: int = 0) -> None:
    log.snapshots.append(end_offset, epoch, 0, content(epoch, timestamp))
    log.snapshots.finish(end_offset, epoch)


def fill(log: MetadataLogFiles, batch_at: MakeBatch, count: int, epoch: int = 1) -> list[bytes]:
    batches = []
    for _ in range(count):
        batches.append(batch_at(log.end_offset, epoch))
        log.append(batches[-1])
    return batches


def names(directory: Path, pattern: str = "*") -> list[str]:
    return sorted(path.name for path in (directory / METADATA_DIRECTORY).glob(pattern))


def checkpoint(directory: Path) -> str:
    return (directory / METADATA_DIRECTORY / EPOCH_CHECKPOINT).read_text()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[MetadataLogFiles]:
    opened = MetadataLogFiles(tmp_path, SEGMENT)
    opened.recover()
    yield opened
    opened.close()


def start_again(log: MetadataLogFiles, directory: Path) -> tuple[MetadataLogFiles, Found]:
    log.close()
    again = MetadataLogFiles(directory, SEGMENT)
    try:
        return again, again.recover_all()
    except BaseException:
        again.close()
        raise


def from_offset(batches: list[bytes], offset: int) -> list[bytes]:
    return [batch for batch in batches if parse_header(batch).base_offset >= offset]


# --- the four steps of a start, and the new node ------------------------------------------------


def test_a_new_node_has_neither_snapshot_nor_log(tmp_path: Path) -> None:
    log = MetadataLogFiles(tmp_path)
    found = log.recover_all()
    assert (found.batches, found.snapshots, found.latest) == ([], [], b"")
    assert (log.start_offset, log.end_offset, log.last_epoch) == (0, 0, 0)
    log.close()


def test_the_newest_snapshot_is_loaded_and_the_log_added(
    log: MetadataLogFiles, tmp_path: Path, batch_at: MakeBatch
) -> None:
    batches = fill(log, batch_at, 4)
    snapshot(log, log.end_offset, 1, timestamp=5)
    batches += fill(log, batch_at, 4)
    snapshot(log, log.end_offset, 1, timestamp=6)
    latest = log.end_offset
    batches += fill(log, batch_at, 2)
    log, found = start_again(log, tmp_path)
    assert found.batches == batches
    assert [(file.end_offset, file.timestamp) for file in found.snapshots][1:] == [(latest, 6)]
    assert found.latest == content(1, 6)
    assert found.snapshots[-1].size == len(content(1, 6))
    log.close()


def test_a_log_behind_its_snapshot_restarts_at_the_snapshot(
    log: MetadataLogFiles, tmp_path: Path, batch_at: MakeBatch
) -> None:
    """The download was complete, and the node died before it was installed."""
    fill(log, batch_at, 9)
    snapshot(log, 500, 3)
    log, found = start_again(log, tmp_path)
    assert found.batches == []
    assert (log.start_offset, log.end_offset, log.last_epoch) == (500, 500, 3)
    assert names(tmp_path, "*.log") == [f"{500:020d}.log"]
    assert checkpoint(tmp_path) == "0\n0\n"
    added = fill(log, batch_at, 3, epoch=3)
    log, found = start_again(log, tmp_path)
    assert found.batches == added
    log.close()


def test_newer_snapshots_are_compared_by_epoch_first(
    log: MetadataLogFiles, tmp_path: Path, batch_at: MakeBatch
) -> None:
    """The log is longer, with records of an older epoch that were never committed."""
    fill(log, batch_at, 9, epoch=2)
    assert log.end_offset > 5
    snapshot(log, 5, 3)
    log, found = start_again(log, tmp_path)
    assert (found.batches, log.start_offset, log.end_offset) == ([], 5, 5)
    log.close()


def test_a_log_that_ends_below_a_snapshot_of_an_older_epoch_is_emptied(
    log: MetadataLogFiles, tmp_path: Path, batch_at: MakeBatch
) -> None:
    """Its tail of a newer epoch was never committed: the snapshot goes beyond it."""
    fill(log, batch_at, 3, epoch=4)
    snapshot(log, 100, 3)
    log, found = start_again(log, tmp_path)
    assert (found.batches, log.start_offset, log.end_offset) == ([], 100, 100)
    log.close()


def test_stale_files_go(log: MetadataLogFiles, tmp_path: Path) -> None:
    for name in (
        snapshot_name(7, 1) + ".part",
        snapshot_name(7, 1) + ".deleted",
        f"{7:020d}.log.deleted",
        f"{7:020d}.log.cleaned",
        f"{7:020d}.log.swap",
        "quorum-state.tmp",
    ):
        (tmp_path / METADATA_DIRECTORY / name).touch()
    (tmp_path / METADATA_DIRECTORY / "partition.metadata").touch()
    log, _ = start_again(log, tmp_path)
    assert names(tmp_path) == [f"{0:020d}.log", EPOCH_CHECKPOINT, "partition.metadata"]
    log.close()


def test_snapshots_below_the_log_start_go_even_if_damaged(
    log: MetadataLogFiles, tmp_path: Path, batch_at: MakeBatch
) -> None:
    fill(log, batch_at, 12)
    snapshot(log, log.end_offset, 1)
    log.clean(log.end_offset)
    assert log.start_offset > 1
    old = tmp_path / METADATA_DIRECTORY / snapshot_name(1, 1)
    old.write_bytes(b"")
    log, _ = start_again(log, tmp_path)
    assert names(tmp_path, "*.checkpoint") == [snapshot_name(log.end_offset, 1)]
    log.close()


def test_a_log_start_without_a_snapshot_up_to_it_is_refused(
    log: MetadataLogFiles, tmp_path: Path, batch_at: MakeBatch
) -> None:
    """KAFKA-14240."""
    fill(log, batch_at, 12)
    snapshot(log, log.end_offset, 1)
    log.clean(log.end_offset)
    start = log.start_offset
    (path,) = (tmp_path / METADATA_DIRECTORY).glob("*.checkpoint")
    path.unlink()
    with pytest.raises(LogCorruptError, match=rf"the log starts at {start} and no snapshot"):
        start_again(log, tmp_path)


# --- cleaning and installing --------------------------------------------------------------------


def test_cleaning_removes_whole_segments_and_older_snapshots(
    log: MetadataLogFiles, tmp_path: Path, batch_at: MakeBatch
) -> None:
    batches = fill(log, batch_at, 6, epoch=1)
    snapshot(log, log.end_offset, 1)
    batches += fill(log, batch_at, 7, epoch=2)
    target = log.end_offset
    snapshot(log, target, 2)
    batches += fill(log, batch_at, 1, epoch=2) + fill(log, batch_at, 6, epoch=3)
    before = [int(name[:20]) for name in names(tmp_path, "*.log")]
    log.clean(target)
    after = [int(name[:20]) for name in names(tmp_path, "*.log")]
    assert after == before[-len(after) :]
    assert 0 < log.start_offset == after[0] <= target < after[1]
    assert names(tmp_path, "*.checkpoint") == [snapshot_name(target, 2)]
    assert log.epochs[0] == (2, log.start_offset)
    assert checkpoint(tmp_path).startswith(f"0\n2\n2 {log.start_offset}\n3 ")
    start = log.start_offset
    log, found = start_again(log, tmp_path)
    assert log.start_offset == start
    assert found.batches == from_offset(batches, start)
    assert log.epochs[0] == (2, start)
    log.close()


def test_the_epochs_are_cut_at_both_ends(
    log: MetadataLogFiles, tmp_path: Path, batch_at: MakeBatch
) -> None:
    starts = {}
    for epoch in range(1, 7):
        starts[epoch] = log.end_offset
        fill(log, batch_at, 4, epoch)
        if epoch == 3:
            snapshot(log, log.end_offset, 3)
    log.clean(starts[4])
    log.truncate(starts[6])
    (first, *rest) = log.epochs
    assert first[1] == log.start_offset
    assert rest == [(epoch, starts[epoch]) for epoch in range(first[0] + 1, 6)]
    lines = [f"{epoch} {start}" for epoch, start in log.epochs]
    assert checkpoint(tmp_path) == "\n".join(["0", str(len(lines)), *lines, ""])


def test_a_log_cleaned_up_to_its_end_lets_the_next_record_begin_its_own_epoch(
    log: MetadataLogFiles, tmp_path: Path, batch_at: MakeBatch
) -> None:
    """A segment was begun just before a crash, so no record is left where the log begins."""
    fill(log, batch_at, 6, epoch=1)
    end = log.end_offset
    snapshot(log, end, 1)
    log.close()
    (tmp_path / METADATA_DIRECTORY / f"{end:020d}.log").touch()
    log, _ = start_again(log, tmp_path)
    log.clean(end)
    assert (log.start_offset, log.end_offset, log.last_epoch) == (end, end, 1)
    assert log.epochs == ()
    with pytest.raises(ValueError, match="goes back from 1 to 0"):
        log.append(batch_at(end, 0))
    fill(log, batch_at, 1, epoch=2)
    assert checkpoint(tmp_path) == f"0\n1\n2 {end}\n"
    log.close()


def test_cleaning_needs_a_snapshot_and_a_log_up_to_there(
    log: MetadataLogFiles, batch_at: MakeBatch
) -> None:
    fill(log, batch_at, 12)
    with pytest.raises(ValueError, match="no snapshot ends there"):
        log.clean(log.end_offset)
    snapshot(log, log.end_offset + 5, 1)
    with pytest.raises(ValueError, match="the log ends before it"):
        log.clean(log.end_offset + 5)
    assert log.start_offset == 0


def test_installing_empties_the_log_and_removes_older_snapshots(
    log: MetadataLogFiles, tmp_path: Path, batch_at: MakeBatch
) -> None:
    fill(log, batch_at, 6)
    snapshot(log, log.end_offset, 1)
    with pytest.raises(ValueError, match="there is no snapshot of offset 900"):
        log.install(900, 5)
    snapshot(log, 900, 5)
    log.install(900, 5)
    assert (log.start_offset, log.end_offset, log.last_epoch) == (900, 900, 5)
    assert names(tmp_path) == [
        snapshot_name(900, 5),
        f"{900:020d}.log",
        EPOCH_CHECKPOINT,
    ]
    with pytest.raises(ValueError, match="goes back from 5 to 4"):
        log.append(batch_at(900, 4))
    data = encode_batch(900, 5, 0, [(None, b"v")], False)
    log.append(data)
    with pytest.raises(ValueError, match="cannot truncate to 899"):
        log.truncate(899)
    log, found = start_again(log, tmp_path)
    assert found.batches == [data]
    assert found.latest == content(5)
    log.close()


def test_the_log_may_be_cut_to_the_snapshot_it_begins_at(
    log: MetadataLogFiles, tmp_path: Path, batch_at: MakeBatch
) -> None:
    snapshot(log, 40, 2)
    log.install(40, 2)
    fill(log, batch_at, 5, epoch=2)
    log.truncate(40)
    assert (log.end_offset, log.last_epoch) == (40, 2)
    log, found = start_again(log, tmp_path)
    assert (found.batches, log.start_offset, log.end_offset) == ([], 40, 40)
    log.close()


def test_a_snapshot_comes_in_pieces_and_is_read_in_pieces(
    log: MetadataLogFiles, tmp_path: Path
) -> None:
    data = content(2)
    snapshots = log.snapshots
    snapshots.append(9, 2, 0, b"an attempt that was given up")
    snapshots.append(9, 2, 0, data[:10])
    with pytest.raises(ValueError, match="has 10 bytes, a piece for byte 11 came"):
        snapshots.append(9, 2, 11, data[11:])
    snapshots.append(9, 2, 10, data[10:])
    assert names(tmp_path, "*.checkpoint*") == [snapshot_name(9, 2) + ".part"]
    assert snapshots.ids == []
    snapshots.finish(9, 2)
    path = tmp_path / METADATA_DIRECTORY / snapshot_name(9, 2)
    assert path.stat().st_mode & 0o222 == 0, "nobody may write it any more"
    pieces = [snapshots.read(9, 2, position, 50) for position in range(0, len(data), 50)]
    assert b"".join(pieces) == data == path.read_bytes()
    with pytest.raises(OSError, match="no byte 158"):
        snapshots.read(9, 2, len(data), 50)
    with pytest.raises(ValueError, match="was not begun"):
        snapshots.finish(9, 2)
    with pytest.raises(FileNotFoundError):
        snapshots.read(8, 2, 0, 50)


def test_an_unfinished_snapshot_is_dropped(log: MetadataLogFiles, tmp_path: Path) -> None:
    log.snapshots.append(9, 2, 0, b"x")
    log.snapshots.drop(9, 2)
    log.snapshots.drop(9, 2)
    assert names(tmp_path, "*.checkpoint*") == []
    with pytest.raises(ValueError, match="was not begun"):
        log.snapshots.finish(9, 2)


# --- segments by age ----------------------------------------------------------------------------


def test_a_segment_ends_when_it_is_old_enough(tmp_path: Path) -> None:
    """Old is the time between its first batch and the one that comes, also after a restart."""

    def batch(offset: int, time_ms: int) -> bytes:
        return encode_batch(offset, 1, time_ms, [(None, b"v")], True)

    log = MetadataLogFiles(tmp_path, BIG, segment_ms=1000)
    log.recover()
    for offset, time_ms in enumerate([5000, 5999, 4000]):
        log.append(batch(offset, time_ms))
    assert len(names(tmp_path, "*.log")) == 1
    log.close()
    log = MetadataLogFiles(tmp_path, BIG, segment_ms=1000)
    log.recover()
    log.append(batch(3, 6000))
    log.append(batch(4, 6999))
    assert names(tmp_path, "*.log") == [f"{0:020d}.log", f"{3:020d}.log"]
    log.append(batch(5, 7000))
    assert names(tmp_path, "*.log")[-1] == f"{5:020d}.log"
    log.truncate(4)
    log.append(batch(4, 6999))
    assert names(tmp_path, "*.log") == [f"{0:020d}.log", f"{3:020d}.log"]
    log.close()


# --- a damaged snapshot -------------------------------------------------------------------------


def test_a_damaged_snapshot_is_refused_with_a_note_on_the_log(
    log: MetadataLogFiles, tmp_path: Path, batch_at: MakeBatch
) -> None:
    batches = fill(log, batch_at, 6)
    middle = log.end_offset
    snapshot(log, middle, 1)
    batches += fill(log, batch_at, 6)
    snapshot(log, log.end_offset, 1)
    end = log.end_offset
    log.close()
    path = tmp_path / METADATA_DIRECTORY / snapshot_name(end, 1)
    sound = path.read_bytes()
    path.chmod(0o600)
    path.write_bytes(sound[:100] + b"!" + sound[101:])
    message = rf"{path}, byte 83: batch has a wrong checksum; the log holds the same records"
    with pytest.raises(LogCorruptError, match=message):
        start_again(log, tmp_path)
    # As it says.
    path.rename(tmp_path / "aside")
    log, found = start_again(log, tmp_path)
    assert found.batches == batches
    log.close()
    # Once the log begins above the older snapshot nothing replaces the newer one.
    shutil.copy(tmp_path / "aside", path)
    path.write_bytes(sound)
    log, _ = start_again(log, tmp_path)
    log.clean(end)
    assert log.start_offset > middle
    log.close()
    path.write_bytes(b"")
    with pytest.raises(LogCorruptError, match=f"{path}, byte 0: .*; restore the file, or remove"):
        start_again(log, tmp_path)

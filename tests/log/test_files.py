"""MetadataLogFiles: recovery finds appended, flushed and truncated data as it was."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kraftwreck.nodes.log.batch import parse_header
from kraftwreck.nodes.log.files import LogCorruptError, MetadataLogFiles
from kraftwreck.nodes.log.layout import EPOCH_CHECKPOINT, METADATA_DIRECTORY
from kraftwreck.nodes.log.lock import DirectoryLockedError

MakeBatch = Callable[[int, int], bytes]
SEGMENT = 300


@pytest.fixture
def log(tmp_path: Path) -> Iterator[MetadataLogFiles]:
    opened = MetadataLogFiles(tmp_path, SEGMENT)
    assert opened.recover() == []
    yield opened
    opened.close()


def fill(log: MetadataLogFiles, batch_at: MakeBatch, count: int, epoch: int = 1) -> list[bytes]:
    batches = []
    for _ in range(count):
        batches.append(batch_at(log.end_offset, epoch))
        log.append(batches[-1])
    return batches


def reopen(log: MetadataLogFiles, directory: Path) -> tuple[MetadataLogFiles, list[bytes]]:
    log.close()
    again = MetadataLogFiles(directory, SEGMENT)
    return again, again.recover()


def segments(directory: Path) -> list[str]:
    return sorted(path.name for path in (directory / METADATA_DIRECTORY).glob("*.log"))


def checkpoint(directory: Path) -> str:
    return (directory / METADATA_DIRECTORY / EPOCH_CHECKPOINT).read_text()


def test_an_empty_directory_gives_an_empty_log(log: MetadataLogFiles, tmp_path: Path) -> None:
    assert (log.start_offset, log.end_offset, log.last_epoch) == (0, 0, 0)
    assert segments(tmp_path) == ["00000000000000000000.log"]
    assert checkpoint(tmp_path) == "0\n0\n"


def test_batches_come_back_over_many_segments(
    log: MetadataLogFiles, tmp_path: Path, batch_at: MakeBatch
) -> None:
    batches = fill(log, batch_at, 20)
    end = log.end_offset
    files = [tmp_path / METADATA_DIRECTORY / name for name in segments(tmp_path)]
    assert len(files) > 3
    assert all(path.stat().st_size <= SEGMENT for path in files)
    assert [int(path.stem) for path in files] == [
        parse_header(path.read_bytes()).base_offset for path in files
    ]
    log, recovered = reopen(log, tmp_path)
    assert recovered == batches
    assert log.end_offset == end
    log.close()


def test_a_batch_larger_than_a_segment_gets_its_own(tmp_path: Path, batch_at: MakeBatch) -> None:
    log = MetadataLogFiles(tmp_path, segment_bytes=1)
    log.recover()
    batches = fill(log, batch_at, 3)
    assert len(segments(tmp_path)) == 3
    log.close()
    log = MetadataLogFiles(tmp_path, segment_bytes=1)
    assert log.recover() == batches
    log.close()


def test_the_checkpoint_lists_the_start_of_each_epoch(
    log: MetadataLogFiles, tmp_path: Path, batch_at: MakeBatch
) -> None:
    fill(log, batch_at, 2, epoch=1)
    second = log.end_offset
    fill(log, batch_at, 3, epoch=4)
    third = log.end_offset
    fill(log, batch_at, 1, epoch=5)
    assert log.epochs == ((1, 0), (4, second), (5, third))
    assert checkpoint(tmp_path) == f"0\n3\n1 0\n4 {second}\n5 {third}\n"
    log.truncate(third)
    assert checkpoint(tmp_path) == f"0\n2\n1 0\n4 {second}\n"
    assert log.last_epoch == 4


def test_a_lost_or_wrong_checkpoint_is_rebuilt(
    log: MetadataLogFiles, tmp_path: Path, batch_at: MakeBatch
) -> None:
    fill(log, batch_at, 3, epoch=2)
    right = checkpoint(tmp_path)
    (tmp_path / METADATA_DIRECTORY / EPOCH_CHECKPOINT).write_text("0\n1\n9 77\n")
    log, _ = reopen(log, tmp_path)
    assert checkpoint(tmp_path) == right
    assert log.epochs == ((2, 0),)
    log.close()


def test_truncation_cuts_at_every_batch_boundary(tmp_path: Path, batch_at: MakeBatch) -> None:
    for keep in range(13):
        directory = tmp_path / str(keep)
        directory.mkdir()
        log = MetadataLogFiles(directory, SEGMENT)
        log.recover()
        batches = fill(log, batch_at, 12)
        end = parse_header(batches[keep - 1]).last_offset + 1 if keep else 0
        log.truncate(end)
        assert log.end_offset == end
        added = fill(log, batch_at, 2, epoch=9)
        log, recovered = reopen(log, directory)
        assert recovered == batches[:keep] + added
        log.close()


def test_truncation_outside_or_inside_of_a_batch_changes_nothing(
    log: MetadataLogFiles, tmp_path: Path, batch_at: MakeBatch
) -> None:
    batches = fill(log, batch_at, 12)
    headers = [parse_header(batch) for batch in batches]
    inside = next(h.base_offset + 1 for h in headers if h.count > 1)
    for offset in (-1, inside, log.end_offset + 1):
        with pytest.raises(ValueError, match=r"offset|truncate"):
            log.truncate(offset)
    log, recovered = reopen(log, tmp_path)
    assert recovered == batches
    log.close()


@pytest.mark.parametrize(
    ("offset", "epoch", "reason"), [(1, 2, "log ends at"), (None, 1, "goes back from 2 to 1")]
)
def test_a_batch_that_does_not_continue_the_log_is_refused(
    log: MetadataLogFiles, batch_at: MakeBatch, offset: int | None, epoch: int, reason: str
) -> None:
    fill(log, batch_at, 3, epoch=2)
    with pytest.raises(ValueError, match=reason):
        log.append(batch_at(log.end_offset if offset is None else offset, epoch))
    with pytest.raises(ValueError, match="but says"):
        log.append(batch_at(log.end_offset, 2) + b"\0")
    fill(log, batch_at, 1, epoch=2)


# --- recovery ---------------------------------------------------------------------------------


def test_a_tail_cut_at_any_byte_leaves_a_prefix(
    log: MetadataLogFiles, tmp_path: Path, batch_at: MakeBatch
) -> None:
    batches = fill(log, batch_at, 8)
    while parse_header(batches[-1]).base_offset == int(segments(tmp_path)[-1][:20]):
        batches += fill(log, batch_at, 1)
    log.close()
    last = segments(tmp_path)[-1]
    content = (tmp_path / METADATA_DIRECTORY / last).read_bytes()
    before = [b for b in batches if parse_header(b).base_offset < int(last[:20])]
    in_last = batches[len(before) :]
    assert len(in_last) > 1
    for length in range(len(content) + 1):
        directory = tmp_path / "cut" / str(length)
        shutil.copytree(tmp_path / METADATA_DIRECTORY, directory / METADATA_DIRECTORY)
        path = directory / METADATA_DIRECTORY / last
        os.truncate(path, length)
        whole, size = 0, 0
        while whole < len(in_last) and size + len(in_last[whole]) <= length:
            size += len(in_last[whole])
            whole += 1
        cut = MetadataLogFiles(directory, SEGMENT)
        assert cut.recover() == before + in_last[:whole]
        assert path.stat().st_size == size
        # The log goes on where it was cut.
        added = fill(cut, batch_at, 1, epoch=3)
        cut, recovered = reopen(cut, directory)
        assert recovered == before + in_last[:whole] + added
        cut.close()
        shutil.rmtree(directory)


def test_damage_before_the_last_segment_is_refused_and_not_cut(
    log: MetadataLogFiles, tmp_path: Path, batch_at: MakeBatch
) -> None:
    fill(log, batch_at, 12)
    log.close()
    path = tmp_path / METADATA_DIRECTORY / segments(tmp_path)[1]
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    log = MetadataLogFiles(tmp_path, SEGMENT)
    with pytest.raises(LogCorruptError, match=path.name):
        log.recover()
    log.close()
    assert path.read_bytes() == content[:-1]


def test_a_missing_segment_is_refused(
    log: MetadataLogFiles, tmp_path: Path, batch_at: MakeBatch
) -> None:
    fill(log, batch_at, 12)
    log.close()
    (tmp_path / METADATA_DIRECTORY / segments(tmp_path)[1]).unlink()
    log = MetadataLogFiles(tmp_path, SEGMENT)
    with pytest.raises(LogCorruptError, match="the segment before ends at"):
        log.recover()
    log.close()


# --- one owner --------------------------------------------------------------------------------


def test_two_logs_cannot_open_one_directory(log: MetadataLogFiles, tmp_path: Path) -> None:
    with pytest.raises(DirectoryLockedError, match="in use"):
        MetadataLogFiles(tmp_path)
    code = (
        "from pathlib import Path; from kraftwreck.nodes.log.files import MetadataLogFiles;"
        f"MetadataLogFiles(Path({str(tmp_path)!r}))"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert b"in use by another node" in other.stderr
    log.close()
    MetadataLogFiles(tmp_path).close()


def test_nothing_works_before_recovery_or_after_closing(
    tmp_path: Path, batch_at: MakeBatch
) -> None:
    log = MetadataLogFiles(tmp_path)
    with pytest.raises(OSError, match="not recovered"):
        log.append(batch_at(0, 1))
    log.recover()
    log.close()
    log.close()
    with pytest.raises(OSError, match="closed"):
        log.flush()
    with pytest.raises(OSError, match="closed"):
        log.recover()


# --- disk errors ------------------------------------------------------------------------------


def test_a_write_cut_short_by_a_full_disk_leaves_the_log_as_it_was(
    tmp_path: Path, batch_at: MakeBatch
) -> None:
    log = MetadataLogFiles(tmp_path)
    log.recover()
    batches = fill(log, batch_at, 5)
    path = tmp_path / METADATA_DIRECTORY / segments(tmp_path)[0]
    size = path.stat().st_size
    # A file size limit makes the kernel write a part and then fail, as a full disk does.
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            log.append(batch_at(log.end_offset, 1))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.stat().st_size == size
    batches += fill(log, batch_at, 2)
    log.flush()
    log.close()
    log = MetadataLogFiles(tmp_path)
    assert log.recover() == batches
    log.close()


def failing(code: int) -> Callable[..., int]:
    def fail(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    return fail


def test_a_new_epoch_that_cannot_be_noted_is_not_appended(
    log: MetadataLogFiles, tmp_path: Path, batch_at: MakeBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = fill(log, batch_at, 2, epoch=1)
    end = log.end_offset
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", failing(errno.ENOSPC))
        with pytest.raises(OSError, match="No space left"):
            log.append(batch_at(end, 2))
    assert (log.end_offset, log.last_epoch) == (end, 1)
    batches += fill(log, batch_at, 1, epoch=3)
    log, recovered = reopen(log, tmp_path)
    assert recovered == batches
    assert log.epochs == ((1, 0), (3, end))
    log.close()


def test_a_failed_append_that_cannot_be_undone_ends_all_use(
    log: MetadataLogFiles, tmp_path: Path, batch_at: MakeBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = fill(log, batch_at, 2)
    write = os.write
    with monkeypatch.context() as patch:
        # One byte reaches the file, then the disk is gone.
        left = iter([1])

        def torn(fd: int, data: bytes) -> int:
            if next(left, 0):
                return write(fd, data[:1])
            raise OSError(errno.EIO, "Input/output error")

        patch.setattr(os, "write", torn)
        patch.setattr(os, "ftruncate", failing(errno.EIO))
        with pytest.raises(OSError, match="Input/output error"):
            log.append(batch_at(log.end_offset, 1))
    with pytest.raises(OSError, match="could not be undone"):
        log.append(batch_at(log.end_offset, 1))
    log, recovered = reopen(log, tmp_path)
    assert recovered == batches
    log.close()


def test_a_failed_fsync_ends_all_use(
    log: MetadataLogFiles, batch_at: MakeBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(log, batch_at, 2)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing(errno.EIO))
        with pytest.raises(OSError, match="Input/output error"):
            log.flush()
    # A second fsync would succeed although the pages are lost.
    with pytest.raises(OSError, match="cannot be used: fsync failed"):
        log.flush()
    with pytest.raises(OSError, match="cannot be used"):
        log.append(batch_at(log.end_offset, 1))

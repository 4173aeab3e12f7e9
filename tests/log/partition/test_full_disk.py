"""A full disk fails an append and leaves the log as it was; with room again, appends continue."""

from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftwreck.nodes.log.batch import parse_header
from kraftwreck.nodes.log.partition.partition_log import PartitionLog
from kraftwreck.nodes.log.partition.producer_snapshot import ProducerEntry
from kraftwreck.simulation.disk_trouble import DiskTrouble
from kraftwreck.simulation.filesystem import Filesystem
from tests.log.partition.batches import SMALL, contents, data_batch, fill, open_log


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 60))
def test_a_full_disk_fails_appends_and_nothing_else(number: int, before: int) -> None:
    disk = Filesystem()
    disk.make_directory(Path("/data"))
    log = open_log(Path("/data/t-0"), media=disk)
    written = fill(log, before)
    disk.trouble = DiskTrouble("full", number)
    for _ in range(60):
        batch = data_batch(log.end_offset)
        try:
            log.append(batch, [parse_header(batch)])
        except OSError as error:
            assert error.errno in (errno.ENOSPC, errno.EDQUOT)
            break
        written.append(batch)
    else:
        return
    assert contents(log, disk) == b"".join(written)
    disk.trouble = None
    written += fill(log, 20)
    assert contents(log, disk) == b"".join(written)
    again = open_log(Path("/data/t-0"), media=disk)
    assert contents(again, disk) == b"".join(written)
    assert again.cut is None


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_leader_epoch_without_room_is_taken_back(number: int) -> None:
    """The epoch may fit, and its first batch not."""
    for space in range(0, 400, 25):
        disk = Filesystem()
        disk.make_directory(Path("/data"))
        log = open_log(Path("/data/t-0"), media=disk)
        written = fill(log, 3)
        disk.trouble = DiskTrouble.full(space)
        disk.trouble.errno = number
        batch = data_batch(log.end_offset, epoch=5, count=200)
        with pytest.raises(OSError, match=r"No space|quota") as raised:
            log.append(batch, [parse_header(batch)])
        assert raised.value.errno == number
        disk.trouble = None
        assert contents(log, disk) == b"".join(written)
        end = log.end_offset
        log.append(batch, [parse_header(batch)])
        assert log.epochs[-1] == (5, end)


@pytest.mark.interpreted
def test_a_log_that_is_not_usable_cannot_stop_in_order(
    stored: tuple[Filesystem, PartitionLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it would be durable, and the next start must check it."""
    disk, log = stored
    batch = data_batch(log.end_offset)
    disk.trouble = DiskTrouble.full(20)
    monkeypatch.setattr(disk.open(log.directory / "x").__class__, "truncate", _fails)
    with pytest.raises(OSError, match="No space"):
        log.append(batch, [parse_header(batch)])
    disk.trouble = None
    with pytest.raises(OSError, match="could not be undone"):
        log.close()


def _fails(*_: object) -> None:
    raise OSError(errno.EIO, "no cut")


def test_a_failed_fsync_is_raised() -> None:
    disk = Filesystem()
    disk.make_directory(Path("/data"))
    log = open_log(Path("/data/t-0"), media=disk)
    fill(log, 3)
    flush = log.flush()
    troubles = (DiskTrouble("error", number) for number in range(100))
    disk.trouble = next(trouble for trouble in troubles if trouble.failing == "fsync")
    with pytest.raises(OSError, match="error"):
        for _ in range(5):
            flush.run()
    assert log.recovery_point == 0


PRODUCER = ProducerEntry(7, 0, 4, 2, 0, 0)


@pytest.fixture
def stored() -> tuple[Filesystem, PartitionLog]:
    """A disk, and a log on it with batches of one producer."""
    disk = Filesystem()
    disk.make_directory(Path("/data"))
    log = PartitionLog(Path("/data/t-0"), lambda: [PRODUCER], SMALL, media=disk)
    fill(log, 3)
    return disk, log


def test_producers_of_deleted_batches_are_kept_when_a_stop_fails(
    stored: tuple[Filesystem, PartitionLog],
) -> None:
    """The log is empty, so that only one snapshot has them."""
    disk, log = stored
    log.roll()
    log.delete_below(log.end_offset)
    disk.trouble = DiskTrouble.full(20)
    with suppress(OSError):
        log.close()
    disk.trouble = None
    assert open_log(log.directory, media=disk).stored_producers() == ([PRODUCER], log.end_offset)


def test_a_snapshot_that_has_no_room_is_written_later(
    stored: tuple[Filesystem, PartitionLog],
) -> None:
    disk, log = stored
    disk.trouble = DiskTrouble.full(20)
    with pytest.raises(OSError, match="No space"):
        log.roll()
    disk.trouble = None
    log.close()
    assert open_log(log.directory, media=disk).stored_producers() == ([PRODUCER], log.end_offset)

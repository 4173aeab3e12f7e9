"""A full disk fails an append and leaves the log as it was; with room again, appends continue."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftwreck.nodes.log.batch import parse_header
from kraftwreck.simulation.disk_trouble import DiskTrouble
from kraftwreck.simulation.filesystem import Filesystem
from tests.log.partition.batches import contents, data_batch, fill, open_log


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
            assert error.errno == errno.ENOSPC
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

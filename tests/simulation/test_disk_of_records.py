"""The simulated disk of a broker's records: work beside the process ends late, or in part."""

from __future__ import annotations

import errno
from dataclasses import replace
from typing import Any

import pytest

from kraftwreck.nodes.log.partition.settings import LogSettings
from kraftwreck.nodes.replication import effects as out
from kraftwreck.nodes.replication.events import LogFlushed, LogOpened
from kraftwreck.nodes.server.partition_files import PartitionFiles
from kraftwreck.simulation.disk import ROOT
from kraftwreck.simulation.filesystem import Filesystem
from kraftwreck.systems.kraft.simulated.data_disk import DataDisk
from tests.replication.world import KEY, batch
from tests.server.test_partition_files import written

pytestmark = pytest.mark.interpreted


def test_a_log_is_uncertain_after_an_operation_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk ends a process during a truncation: a part of it is done."""

    def full(self: PartitionFiles, effect: Any) -> Any:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(PartitionFiles, "carry_out", full)
    files = Filesystem()
    disk = DataDisk(bytes(16), settings=LogSettings(), segment_bytes=1 << 20, files=files)
    disk._logs = PartitionFiles(ROOT, lambda topic_id: "t", LogSettings(), files)
    with pytest.raises(OSError, match="no space left"):
        disk.write(out.Truncate((b"t", 0), 3))
    assert disk.interrupted == {(b"t", 0)}


def _disk_with_a_log(files: Filesystem) -> DataDisk:
    """Return the disk of a process that has opened a log."""
    files.make_directory(ROOT)
    disk = DataDisk(bytes(16), settings=LogSettings(), segment_bytes=1 << 20, files=files)
    disk.recover()
    disk.name_of = lambda topic_id: "t"
    disk.write(out.OpenLog(KEY))
    assert disk.take_events() == []
    end_work(disk)
    assert [type(event) for event in disk.take_events()] == [LogOpened]
    return disk


def end_work(disk: DataDisk) -> None:
    disk.begin_work()
    piece = disk.work()
    piece.done(piece.result)


def test_a_flush_of_records_ends_later_and_covers_what_was_there_when_it_began() -> None:
    disk = _disk_with_a_log(Filesystem())
    first, second = (batch(1).placed(offset, 3) for offset in (0, 1))
    disk.write(out.Append(KEY, replace(first, handle=written(first))))
    disk.write(out.FlushLog(KEY, 7))
    disk.begin_work()
    disk.write(out.Append(KEY, replace(second, handle=written(second))))
    assert disk.take_events() == []
    piece = disk.work()
    piece.done(piece.result)
    assert disk.take_events() == [LogFlushed(KEY, 7, 0, 1)]
    path = ROOT / "t-0" / "00000000000000000000.log"
    assert disk.files.on_platter(path) == len(written(first))
    assert len(disk.files.inode(path).data) == 2 * len(written(first))


def test_a_process_that_dies_leaves_work_undone() -> None:
    disk = _disk_with_a_log(Filesystem())
    disk.write(out.RemoveLog(KEY))
    disk.begin_work()
    disk.interrupt_work(0)
    disk.process_ended()
    assert not disk.pieces
    assert disk.interrupted == {KEY}
    assert disk.files.exists(ROOT / "t-0" / "partition.metadata")


def test_a_process_that_dies_while_it_opens_a_log_has_not_removed_it() -> None:
    disk = _disk_with_a_log(Filesystem())
    disk.process_ended()
    disk.recover()
    disk.write(out.OpenLog(KEY))
    disk.write(out.RemoveLog(KEY))
    disk.process_ended()
    assert disk.interrupted == {KEY}


def test_a_broker_removes_the_logs_of_others_beside_its_work() -> None:
    disk = _disk_with_a_log(Filesystem())
    disk.process_ended()
    disk.recover()
    disk.keep(frozenset(), [KEY])
    assert disk.interrupted == {KEY}
    end_work(disk)
    assert disk.interrupted == set()
    assert not disk.files.exists(ROOT / "t-0" / "partition.metadata")


def test_a_process_that_dies_while_it_removes_the_logs_of_others_leaves_some() -> None:
    disk = _disk_with_a_log(Filesystem())
    disk.process_ended()
    disk.recover()
    disk.keep(frozenset(), [KEY])
    disk.begin_work()
    disk.interrupt_work(0)
    disk.process_ended()
    assert disk.interrupted == {KEY}

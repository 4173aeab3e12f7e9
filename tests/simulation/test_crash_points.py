"""F10: a process may die after any change of files in an operation that removes records."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.nodes.log.partition.checkpoints import PARTITION_METADATA, TopicPartition
from kraftwreck.nodes.log.partition.partition_log import PartitionLog
from kraftwreck.nodes.log.partition.settings import LogSettings
from kraftwreck.nodes.replication import effects as out
from kraftwreck.nodes.server.partition_files import PartitionFiles
from kraftwreck.simulation.disk import ROOT
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.filesystem import Filesystem, MemoryFile
from kraftwreck.systems.kraft.simulated.crash_points import Copies, CrashPoints, found, stopped
from kraftwreck.systems.kraft.simulated.data_disk import DataDisk
from tests.replication.world import KEY, batch
from tests.server.test_partition_files import written
from tests.simulation.watched import Watched

pytestmark = pytest.mark.interpreted

RECORDS = 12

OPERATIONS = (
    out.Truncate(KEY, 3),
    out.Truncate(KEY, RECORDS),
    out.DeleteUpTo(KEY, 7),
    out.StartAt(KEY, 0),
    out.StartAt(KEY, 2),
    out.StartAt(KEY, 30),
    out.RemoveLog(KEY),
)


def written_log(files: Filesystem, *, start: int = 0, flushed: bool = True) -> PartitionFiles:
    """Write a log of several segments, of which most is durable."""
    files.make_directory(ROOT)
    logs = PartitionFiles(ROOT, lambda _: "t", LogSettings(segment_bytes=200), files)
    logs.carry_out(out.OpenLog(KEY))
    for offset in range(RECORDS):
        placed = batch(1).placed(offset, 1 + offset // 5)
        logs.carry_out(out.Append(KEY, replace(placed, handle=written(placed))))
    if flushed:
        logs.carry_out(out.FlushLog(KEY, 1))
    if start:
        logs.carry_out(out.DeleteUpTo(KEY, start))
    return logs


def wrong(effect: Any, *, start: int = 0) -> list[str]:
    files = Filesystem()
    written_log(files, start=start)
    return [each for seed in range(4) for each in found(Copies(files, "t", KEY), effect, seed)]


@pytest.mark.parametrize("effect", OPERATIONS, ids=repr)
def test_the_operations_of_the_nodes_survive_a_death_at_any_point(effect: Any) -> None:
    assert wrong(effect, start=1) == []


def _point_after_the_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    def truncate(self: PartitionFiles, key: Any, end_offset: int) -> None:
        replica = self._replicas[key]
        replica.log.truncate(end_offset)
        self._lower_point(replica.name, replica.log.end_offset)

    monkeypatch.setattr(PartitionFiles, "_truncate", truncate)


def _start_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The start of a removed log stays in its checkpoint."""
    empty = PartitionFiles._empty

    def forgetful(self: PartitionFiles, name: TopicPartition) -> None:
        start = self._starts.get(name, 0)
        empty(self, name)
        self._set_start(name, start)

    monkeypatch.setattr(PartitionFiles, "_empty", forgetful)


def _cut_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PartitionLog, "truncate", lambda self, end_offset: None)


def _cut_is_not_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryFile, "fsync", lambda self: None)


def _id_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file with the topic id goes with the others, in order of names."""
    unlink = Filesystem.unlink

    def planted(self: Filesystem, path: Path) -> None:
        first = f"{0:020}.log"
        if path.name != PARTITION_METADATA or first not in self.names(path.parent):
            unlink(self, path)

    monkeypatch.setattr(Filesystem, "unlink", planted)


def _deletion_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PartitionFiles, "_set_start", lambda self, name, offset: None)


@pytest.mark.parametrize(
    ("effect", "mistake"),
    [
        (out.Truncate(KEY, 3), _point_after_the_cut),
        (out.Truncate(KEY, 3), _cut_is_lost),
        (out.Truncate(KEY, 2), _cut_is_not_durable),
        (out.RemoveLog(KEY), _start_is_kept),
        (out.RemoveLog(KEY), _id_is_kept),
        (out.DeleteUpTo(KEY, 5), _deletion_is_lost),
    ],
)
def test_a_wrong_order_or_a_missing_step_is_found(
    monkeypatch: pytest.MonkeyPatch, effect: Any, mistake: Callable[[pytest.MonkeyPatch], None]
) -> None:
    files = Filesystem()
    written_log(files, start=1)
    copies = Copies(files, "t", KEY)
    assert list(found(copies, effect, 0)) == []
    mistake(monkeypatch)
    assert [each for seed in range(4) for each in found(copies, effect, seed)] != []


@pytest.mark.parametrize("flushed", [True, False])
def test_a_stop_in_good_order_keeps_everything(
    monkeypatch: pytest.MonkeyPatch, flushed: bool
) -> None:
    files = Filesystem()
    written_log(files, start=1, flushed=flushed)
    copies = Copies(files, "t", KEY)
    assert [each for seed in range(4) for each in stopped(copies, seed)] == []
    close = PartitionFiles.close

    def planted(self: PartitionFiles) -> bool:
        close(self)
        return True

    monkeypatch.setattr(PartitionFiles, "close", planted)
    wrong = [each for seed in range(4) for each in stopped(copies, seed)]
    assert (wrong == []) == flushed


def _last_batch_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log opens without its last batch."""
    tell_opened = PartitionFiles._tell_opened

    def planted(self: PartitionFiles, key: Any, replica: Any) -> None:
        self._truncate(key, replica.log.end_offset - 1)
        tell_opened(self, key, replica)

    monkeypatch.setattr(PartitionFiles, "_tell_opened", planted)


def test_an_operation_that_is_impossible_after_a_start_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = Filesystem()
    written_log(files)
    _last_batch_is_forgotten(monkeypatch)
    (what,) = found(Copies(files, "t", KEY), out.DeleteUpTo(KEY, RECORDS), 0)
    assert what.startswith("after a start it is impossible: the log ends at")


def test_a_log_that_is_not_open_is_left_alone() -> None:
    """A start may find it without its folder, or know no name of its topic."""
    run, files = Watched(), Filesystem()
    files.make_directory(ROOT)
    disk = DataDisk(bytes(16), settings=LogSettings(), segment_bytes=1 << 20, files=files)
    disk._logs = PartitionFiles(ROOT, lambda _: "t", LogSettings(), files)
    disk.name_of = lambda _: "t"
    run.host(1).disk = disk
    failures = Failures()
    CrashPoints(run.world, failures)
    assert disk.rehearse is not None
    for effect in (out.RemoveLog(KEY), out.OpenLog(KEY), out.RemoveLog(KEY)):
        disk.rehearse(effect)
    assert list(failures.items) == []


def test_a_run_rehearses_real_operations_and_invents_some(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first long log is enough, and a faulty disk is left alone."""
    run = Watched()
    host = run.host(1)
    files = Filesystem()
    host.disk = disk = DataDisk(
        bytes(16), settings=LogSettings(), segment_bytes=1 << 20, files=files
    )
    disk._logs = written_log(files)
    disk.name_of = lambda _: "t"
    tried: list[Any] = []

    def rehearsed(copies: Copies, effect: Any, seed: int) -> Iterable[str]:
        tried.append(effect)
        return ["it is wrong"]

    monkeypatch.setattr("kraftwreck.systems.kraft.simulated.crash_points.found", rehearsed)
    failures = Failures()
    CrashPoints(run.world, failures)
    assert disk.rehearse is not None
    disk.rehearse(out.OpenLog(KEY))
    for _ in range(3):
        disk.rehearse(out.Truncate(KEY, 3))
    assert tried == [out.Truncate(KEY, 3)] * 2
    assert [each.type for each in failures.items] == ["F10"] * 2
    closed = disk.logs.carry_out(out.OpenLog(KEY))[1]
    for _ in range(2):
        for told in run.world.on_caused:
            told(host, closed)
    assert [type(each) for each in tried[2:]] == [
        out.Truncate, out.DeleteUpTo, out.StartAt, out.RemoveLog,
    ]  # fmt: skip

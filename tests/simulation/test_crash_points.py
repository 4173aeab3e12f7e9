"""F10: a process may die after any change of files in an operation that removes records."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.nodes.consensus.effects import FatalError
from kraftwreck.nodes.log.partition.checkpoints import (
    LOG_STARTS,
    PARTITION_METADATA,
    TopicPartition,
)
from kraftwreck.nodes.log.partition.names import SNAPSHOT, numbered
from kraftwreck.nodes.log.partition.partition_log import PartitionLog
from kraftwreck.nodes.log.partition.producer_snapshot import encode_snapshot
from kraftwreck.nodes.log.partition.settings import LogSettings
from kraftwreck.nodes.replication import effects as out
from kraftwreck.nodes.server.log_directory import LogDirectory
from kraftwreck.nodes.server.partition_files import PartitionFiles
from kraftwreck.simulation.disk import ROOT
from kraftwreck.simulation.disk_trouble import DiskError
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.filesystem import Filesystem, MemoryFile
from kraftwreck.simulation.host import DiskWork
from kraftwreck.simulation.pieces import Piece
from kraftwreck.simulation.timeline import WorldError
from kraftwreck.systems.kraft.simulated.crash_points import (
    Copies,
    CrashPoints,
    Tidy,
    deaths_in_stop,
    found,
    stopped,
    tidied,
)
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
    Tidy(KEY),
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


@pytest.mark.parametrize("offset", [6, 30])
def test_a_log_that_begins_later_than_its_checkpoint_says_does_not_begin_earlier(
    offset: int,
) -> None:
    """The process has died between a new beginning and its checkpoint (seed 3200785 of runs with
    records)."""
    files = Filesystem()
    logs = written_log(files)
    logs.carry_out(out.StartAt(KEY, 7))
    logs._directory.set_log_start(("t", 0), 0)
    copies = Copies(files, "t", KEY)
    assert copies.content(copies.copy()).start == 7
    assert [
        each for seed in range(4) for each in found(copies, out.StartAt(KEY, offset), seed)
    ] == []


def _point_after_the_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    def truncate(self: PartitionFiles, key: Any, end_offset: int) -> None:
        replica = self._replicas[key]
        replica.log.truncate(end_offset)
        self._directory.lower_recovery_point(replica.name, replica.log.end_offset)

    monkeypatch.setattr(PartitionFiles, "_truncate", truncate)


def _start_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The start of a removed log stays in its checkpoint."""
    empty = LogDirectory.empty

    def forgetful(self: LogDirectory, name: TopicPartition) -> None:
        start = self.log_starts.get(name, 0)
        empty(self, name)
        self.set_log_start(name, start)

    monkeypatch.setattr(LogDirectory, "empty", forgetful)


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
    monkeypatch.setattr(LogDirectory, "set_log_start", lambda self, name, offset: None)


def _deleted_files_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PartitionFiles, "_unlink", lambda self, paths: None)


@pytest.mark.parametrize(
    ("effect", "mistake"),
    [
        (out.Truncate(KEY, 3), _point_after_the_cut),
        (out.Truncate(KEY, 3), _cut_is_lost),
        (out.Truncate(KEY, 2), _cut_is_not_durable),
        (out.RemoveLog(KEY), _start_is_kept),
        (out.RemoveLog(KEY), _id_is_kept),
        (Tidy(KEY), _id_is_kept),
        (out.DeleteUpTo(KEY, 5), _deletion_is_lost),
        (out.DeleteUpTo(KEY, 5), _deleted_files_stay),
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


def test_a_start_removes_other_logs_and_keeps_its_own() -> None:
    files = Filesystem()
    written_log(files, start=1)
    assert list(tidied(Copies(files, "t", KEY))) == []


def _nothing_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogDirectory, "remove_others", lambda self, keys: None)


def _all_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    remove_others = LogDirectory.remove_others
    monkeypatch.setattr(LogDirectory, "remove_others", lambda self, _: remove_others(self, ()))


def _others_are_always_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PartitionFiles, "_kept", lambda self, _: None)


@pytest.mark.parametrize(
    ("mistake", "wrong"),
    [
        (_nothing_is_removed, "a broker keeps a log of which it has no replica"),
        (_all_is_removed, "a start that removes other logs leaves a log from 0 to 0"),
        (_others_are_always_left, "a stop is not in good order although other logs were removed"),
    ],
)
def test_a_start_that_does_not_tidy_up_is_found(
    monkeypatch: pytest.MonkeyPatch, mistake: Callable[[pytest.MonkeyPatch], None], wrong: str
) -> None:
    files = Filesystem()
    written_log(files, start=1)
    mistake(monkeypatch)
    found = list(tidied(Copies(files, "t", KEY)))
    assert len(found) == 1 and wrong in found[0]


def test_a_start_that_is_impossible_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    files = Filesystem()
    written_log(files)

    def planted(self: PartitionFiles, keys: Any) -> None:
        raise KeyError(KEY)

    monkeypatch.setattr(PartitionFiles, "keep", planted)
    (what,) = tidied(Copies(files, "t", KEY))
    assert what.startswith("the start of a broker that finds another log is impossible")


def test_a_stop_before_other_logs_are_removed_is_not_in_good_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The broker may get the replica back, and the log was not checked since the crash."""
    files = Filesystem()
    written_log(files, start=1, flushed=False)
    keep = PartitionFiles.keep

    def planted(self: PartitionFiles, keys: Any) -> None:
        keep(self, keys)
        self._keeps_others = False

    monkeypatch.setattr(PartitionFiles, "keep", planted)
    wrong = [each for seed in range(4) for each in stopped(Copies(files, "t", KEY), seed)]
    assert any("before the removal of the log" in each for each in wrong)


def numbered_log(files: Filesystem) -> None:
    """Write a log of several segments by two idempotent producers."""
    files.make_directory(ROOT)
    logs = PartitionFiles(ROOT, lambda _: "t", LogSettings(segment_bytes=200), files)
    logs.carry_out(out.OpenLog(KEY))
    for offset in range(RECORDS):
        mine = replace(batch(1), producer_id=7 + offset % 2, producer_epoch=0)
        placed = replace(mine, base_sequence=offset // 2).placed(offset, 1)
        logs.carry_out(out.Append(KEY, replace(placed, handle=written(placed))))
    files.process_ended()


def test_a_death_inside_of_a_stop_takes_neither_records_nor_producers() -> None:
    files = Filesystem()
    numbered_log(files)
    copies = Copies(files, "t", KEY)
    assert [each for seed in range(4) for each in deaths_in_stop(copies, seed)] == []


def _snapshot_of_producers_written_again(log: PartitionLog) -> None:
    path = log.directory / numbered(log.end_offset, SNAPSHOT)
    file = log._media.open(path, fresh=True)
    file.append(encode_snapshot(log._producers()))
    file.close()


def test_a_stop_that_writes_the_only_snapshot_of_producers_again_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = Filesystem()
    numbered_log(files)
    monkeypatch.setattr(PartitionLog, "_write_producers", _snapshot_of_producers_written_again)
    (wrong,) = deaths_in_stop(Copies(files, "t", KEY), 1)
    assert wrong.startswith("a stop after the deletion of all records after ")
    assert wrong.endswith(", not {7: (0, 10), 8: (0, 11)}")


def _checkpoint_before_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop stores the recovery points before it makes the logs durable."""
    close = PartitionFiles.close

    def planted(self: PartitionFiles) -> bool:
        for replica in self._replicas.values():
            self._directory.recovery_points[replica.name] = replica.log.end_offset
        self._directory.write_recovery_points()
        return close(self)

    monkeypatch.setattr(PartitionFiles, "close", planted)


def test_a_stop_that_stores_the_recovery_point_first_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = Filesystem()
    numbered_log(files)
    _checkpoint_before_the_log(monkeypatch)
    copies = Copies(files, "t", KEY)
    assert [each for seed in range(8) for each in deaths_in_stop(copies, seed)]


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


class Rehearsed:
    """A host whose disk has the log of a partition, and the rule that watches it."""

    def __init__(self, *, opened: bool = True) -> None:
        self.run, self.failures, files = Watched(), Failures(), Filesystem()
        self.disk = DataDisk(bytes(16), settings=LogSettings(), segment_bytes=1 << 20, files=files)
        if opened:
            self.disk._logs = written_log(files)
        else:
            files.make_directory(ROOT)
            self.disk._logs = PartitionFiles(ROOT, lambda _: "t", LogSettings(), files)
        self.disk.name_of = lambda _: "t"
        self.host = self.run.host(1)
        self.host.disk = self.disk
        CrashPoints(self.run.world, self.failures)

    def write(self, effect: Any) -> None:
        """Announce ``effect``, as just before it is carried out."""
        for told in self.run.world.on_write:
            told(self.host, effect)

    def cause(self, event: Any) -> None:
        for told in self.run.world.on_caused:
            told(self.host, event)

    def end_event(self) -> None:
        """End the event of the run in which that happened."""
        self.run.world.run(0)

    @property
    def found(self) -> list[str]:
        return [each.type for each in self.failures.items]


def _judged_by(
    monkeypatch: pytest.MonkeyPatch, found: Callable[[Copies, Any, int], Iterable[str]]
) -> None:
    monkeypatch.setattr("kraftwreck.systems.kraft.simulated.crash_points.found", found)


def test_a_log_that_is_not_open_is_left_alone() -> None:
    """A start may find it without its folder, or know no name of its topic."""
    rehearsed = Rehearsed(opened=False)
    for effect in (out.RemoveLog(KEY), out.OpenLog(KEY), out.RemoveLog(KEY)):
        rehearsed.write(effect)
    rehearsed.end_event()
    assert rehearsed.found == []


def test_a_run_rehearses_real_operations_and_invents_some(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first long log is enough, and a faulty disk is left alone."""
    tried: list[Any] = []

    def rehearsed(copies: Copies, effect: Any, seed: int) -> Iterable[str]:
        tried.append(effect)
        return ["it is wrong"]

    _judged_by(monkeypatch, rehearsed)
    run = Rehearsed()
    run.write(out.OpenLog(KEY))
    for _ in range(3):
        run.write(out.Truncate(KEY, 3))
    run.end_event()
    assert tried == [out.Truncate(KEY, 3)] * 2
    assert run.found == ["F10"] * 2
    closed = run.disk.logs.carry_out(out.OpenLog(KEY))[1]
    for _ in range(2):
        run.cause(closed)
    run.end_event()
    assert [type(each) for each in tried[2:]] == [
        out.Truncate, out.DeleteUpTo, out.StartAt, out.RemoveLog, Tidy,
    ]  # fmt: skip


def test_a_rehearsal_is_of_the_files_before_the_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits until the event is over, when the operation has changed them."""
    seen: list[int] = []

    def rehearsed(copies: Copies, effect: Any, seed: int) -> Iterable[str]:
        yield from ()
        seen.append(copies.content(copies.copy()).end)

    _judged_by(monkeypatch, rehearsed)
    run = Rehearsed()
    run.write(out.OpenLog(KEY))
    effect = out.Truncate(KEY, 3)
    run.write(effect)
    run.disk.write(effect)
    assert seen == []
    run.end_event()
    assert (seen, run.disk.logs.end_of(KEY)) == ([RECORDS], 3)


@pytest.mark.parametrize("error", [OSError("no"), ValueError("no"), FatalError("no"), KeyError(7)])
def test_an_error_of_a_rehearsal_is_no_error_of_the_node(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Neither the operation fails, nor is the error lost or reported as a finding."""

    def broken(copies: Copies, effect: Any, seed: int) -> Iterable[str]:
        yield from ()
        raise error

    _judged_by(monkeypatch, broken)
    run = Rehearsed()
    run.write(out.OpenLog(KEY))
    run.write(out.RemoveLog(KEY))
    with pytest.raises(WorldError, match="the rehearsal failed of n1: RemoveLog of") as raised:
        run.end_event()
    assert raised.value.__cause__ is error
    assert run.found == []


@pytest.mark.parametrize("watches", ["on_write", "on_disk", "on_caused", "on_work"])
@pytest.mark.parametrize("error", [OSError("no"), DiskError("no")])
def test_an_error_of_a_watch_is_no_error_of_a_disk(watches: str, error: Exception) -> None:
    def broken(*_: object) -> None:
        raise error

    run = Rehearsed()
    world = run.run.world
    for each in (world.on_write, world.on_disk, world.on_caused, world.on_work):
        each.clear()
    getattr(world, watches).append(broken)
    effect = out.Append(KEY, replace(placed := batch(1).placed(RECORDS, 9), handle=written(placed)))
    run.host.busy = DiskWork([(0, effect)], [])
    run.disk._caused.append("an event")
    run.disk.pieces.append(Piece(lambda: None, lambda _: None, effect))
    with pytest.raises(WorldError, match=r"a watch of n1 failed: .*no") as raised:
        world._disks.carry_out(run.host)
        world._disks.end_piece(run.host)
    assert raised.value.__cause__ is error


def test_a_copy_has_a_checkpoint_that_is_not_durable_yet() -> None:
    """Its temporary file has the new name; the directory was not flushed, as after an error."""
    files = Filesystem()
    files.make_directory(ROOT)
    files.open(ROOT / f"{LOG_STARTS}.tmp")
    files.rename(ROOT / f"{LOG_STARTS}.tmp", ROOT / LOG_STARTS)
    copy = Copies(files, "t", KEY).copy()
    copy.fsync_directory(ROOT)
    assert copy.names(ROOT) == [LOG_STARTS]

"""F15: a process may die after any change of files in an operation on its metadata log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraftwreck.nodes.consensus.effects import (
    AppendLog,
    AppendSnapshot,
    CleanLog,
    FinishSnapshot,
    FlushLog,
    WriteQuorumState,
)
from kraftwreck.nodes.log import recovery
from kraftwreck.nodes.log.batch import encode_batch
from kraftwreck.nodes.log.files import MetadataLogFiles
from kraftwreck.nodes.log.snapshot_files import SnapshotFiles
from kraftwreck.simulation.disk import Disk
from kraftwreck.simulation.filesystem import Filesystem, MemoryFile
from kraftwreck.simulation.timeline import WorldError
from kraftwreck.systems.kraft.simulated import metadata_crashes
from kraftwreck.systems.kraft.simulated.metadata_crashes import cases, found
from tests.simulation.watched import Watched, snapshot

pytestmark = pytest.mark.interpreted

RECORDS = 12
NEXT = AppendSnapshot(9, 1, 0, snapshot(1))
SEEDS = range(6)


def batch(base: int, epoch: int = 1) -> bytes:
    return encode_batch(base, epoch, 0, [(b"\0\0\0\2", b"record")], control=True)


def written(disk: Disk) -> Disk:
    """Write a log of four segments, two snapshots and quorum-state."""
    disk.recover()
    for base in range(RECORDS):
        disk.apply(AppendLog(batch(base)))
    disk.apply(FlushLog())
    disk.apply(WriteQuorumState(1, 1, -1, bytes(16), (1, 2, 3)))
    for end in (3, 5):
        disk.apply(AppendSnapshot(end, 1, 0, snapshot(1)))
        disk.apply(FinishSnapshot(end, 1))
    disk.apply(CleanLog(3))
    return disk


def files_of(disk: Disk) -> Filesystem:
    return disk.files.copy_of(dict.fromkeys(disk.files.directories))


@pytest.fixture
def files() -> Filesystem:
    disk = written(Disk(segment_bytes=3 * len(batch(0))))
    assert len(disk.segments) == 3
    return files_of(disk)


def wrong(files: Filesystem, finished: AppendSnapshot = NEXT) -> dict[str, list[str]]:
    """Return what is found in each case, over several seeds."""
    every: dict[str, list[str]] = {}
    for seed in SEEDS:
        for case in cases(files, finished, seed):
            name = " ".join(case.name.split()[:3])
            every.setdefault(name, []).extend(found(files, case, seed))
    return every


def test_all_operations_survive_a_death_after_any_change(files: Filesystem) -> None:
    every = wrong(files)
    assert len(every) == 7
    assert not any(every.values()), every


def test_a_fetched_snapshot_may_be_ahead_of_the_log(files: Filesystem) -> None:
    """Such a log is not cleaned up to the snapshot; the snapshot is installed."""
    every = wrong(files, AppendSnapshot(RECORDS + 1, 1, 0, snapshot(1)))
    assert "a cleaning" not in every and "an installed snapshot" in every
    assert not any(every.values()), every


def _removed_first_to_last(log: Any, bases: list[int]) -> None:
    for base in sorted(bases):
        log._media.unlink(log._path(base))
    log._media.fsync_directory(log._directory)


def _removed_last_to_first(log: Any, bases: list[int]) -> None:
    for base in sorted(bases, reverse=True):
        log._media.unlink(log._path(base))
    log._media.fsync_directory(log._directory)


def _removed_for_a_while(log: Any, bases: list[int]) -> None:
    for base in bases:
        log._media.unlink(log._path(base))


def _finished_unsynced(snapshots: Any, end_offset: int, epoch: int) -> None:
    identity = end_offset, epoch
    snapshots._close(identity)
    snapshots._media.rename(snapshots._part(identity), snapshots.path(*identity))
    snapshots._media.fsync_directory(snapshots._directory)
    snapshots.ids.append(identity)


def _kept(snapshots: Any, end_offset: int, epoch: int) -> None:
    snapshots._close((end_offset, epoch))


def _unsynced(file: MemoryFile) -> None:
    """Promise nothing."""


@pytest.mark.parametrize(
    ("of", "method", "broken", "case"),
    [
        (MetadataLogFiles, "_remove_segments", _removed_first_to_last, "a truncation to"),
        (MetadataLogFiles, "_remove_segments", _removed_last_to_first, "a cleaning"),
        (MetadataLogFiles, "_remove_segments", _removed_for_a_while, "a truncation to"),
        (MetadataLogFiles, "flush", lambda _: None, "a new segment"),
        (SnapshotFiles, "finish", _finished_unsynced, "a finished snapshot"),
        (SnapshotFiles, "drop", _kept, "a snapshot that"),
        (MemoryFile, "fsync", _unsynced, "a new quorum-state"),
    ],
)
def test_an_operation_in_an_unsafe_order_is_found(
    files: Filesystem,
    monkeypatch: pytest.MonkeyPatch,
    of: type,
    method: str,
    broken: Callable[..., None],
    case: str,
) -> None:
    monkeypatch.setattr(of, method, broken)
    assert wrong(files)[case]


def test_a_start_that_leaves_an_unfinished_snapshot_is_found(
    files: Filesystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "is_stale", lambda _: False)
    assert "a start leaves " in wrong(files)["a finished snapshot"][0]


# --- in a run ------------------------------------------------------------------------------------


class Rehearsed:
    """A run in which n1 finishes snapshots of a log with ``segments`` segments."""

    def __init__(self, segments: int = 3) -> None:
        self.run = Watched()
        self.host = self.run.host(1)
        self.disk = Disk(segment_bytes=len(batch(0)) * (3 if segments == 3 else RECORDS))
        self.host.disk = written(self.disk)
        self.disk.apply(NEXT)

    def finish(self) -> list[str]:
        """Finish a snapshot; return the rules that were broken until then."""
        for told in self.run.world.on_write:
            told(self.host, FinishSnapshot(NEXT.end_offset, NEXT.epoch))
        self.run.world.run(0)
        return self.run.found


def test_a_run_rehearses_the_operations_on_one_long_log(monkeypatch: pytest.MonkeyPatch) -> None:
    rehearsed = Rehearsed()
    assert rehearsed.finish() == []
    monkeypatch.setattr(SnapshotFiles, "drop", _kept)
    assert rehearsed.finish() == [], "one rehearsal is enough"
    assert Rehearsed().finish() == ["F15"]


def test_a_short_log_is_not_rehearsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SnapshotFiles, "drop", _kept)
    assert Rehearsed(segments=1).finish() == []


@pytest.mark.parametrize("hindered", [True, False])
def test_a_disk_in_trouble_is_not_rehearsed(
    monkeypatch: pytest.MonkeyPatch, hindered: bool
) -> None:
    monkeypatch.setattr(SnapshotFiles, "drop", _kept)
    rehearsed = Rehearsed()
    if hindered:
        rehearsed.disk.begin_trouble("slow", 1)
    assert rehearsed.finish() == ([] if hindered else ["F15"])


def test_an_error_of_a_rehearsal_is_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Any:
        raise ValueError("no")

    monkeypatch.setattr(metadata_crashes, "cases", broken)
    with pytest.raises(WorldError, match="the rehearsal failed of the log of n1: "):
        Rehearsed().finish()


def test_an_operation_that_the_storage_refuses_is_found(
    files: Filesystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise ValueError("no")

    monkeypatch.setattr(MetadataLogFiles, "clean", refused)
    assert wrong(files)["a cleaning"][0] == "it is impossible: the log cannot take this: no"

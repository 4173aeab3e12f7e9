"""F28: no node starts from a metadata log, a snapshot or quorum-state that is damaged."""

from __future__ import annotations

from typing import Any

import pytest

from kraftwreck.nodes.consensus.effects import AppendSnapshot, FinishSnapshot
from kraftwreck.nodes.log import quorum_state, recovery, scan
from kraftwreck.nodes.log.layout import QUORUM_STATE, segment_name
from kraftwreck.nodes.log.snapshots import snapshot_name
from kraftwreck.simulation.disk import LOG, Disk
from kraftwreck.simulation.filesystem import Filesystem
from kraftwreck.systems.kraft.simulated.damage_rehearsal import (
    Damaged,
    accepted_reads,
    damages,
    is_refused,
)
from tests.simulation.test_metadata_crashes import batch, files_of, written
from tests.simulation.watched import Watched, snapshot

pytestmark = pytest.mark.interpreted

SEEDS = range(20)


@pytest.fixture
def files() -> Filesystem:
    return files_of(written(Disk(segment_bytes=3 * len(batch(0)))))


def accepted(files: Filesystem) -> set[str]:
    """Return the names of files whose damage a start accepts."""
    tried = [damaged for seed in SEEDS for damaged in damages(files, seed)]
    return {each.path.name for each in tried if not is_refused(files, each)}


def test_a_sound_start_refuses_each_damage(files: Filesystem) -> None:
    assert accepted(files) == set()
    same = bytes(files.inode(LOG / QUORUM_STATE).data)
    assert not is_refused(files, Damaged(LOG / QUORUM_STATE, same, "that has not changed"))
    changed = {damaged.path.name for damaged in damages(files, 1)}
    assert {QUORUM_STATE, segment_name(9), snapshot_name(5, 1)} <= changed


def test_a_log_is_damaged_in_each_field_of_a_batch(files: Filesystem) -> None:
    content = bytes(files.inode(LOG / segment_name(9)).data)
    places = set()
    for seed in range(200):
        for path, after, _ in damages(files, seed):
            if path.name == segment_name(9) and after is not None:
                [place] = [at for at, byte in enumerate(after) if byte != content[at]]
                places.add(place % len(batch(0)))
    assert places == set(range(len(batch(0)))) - set(range(12, 16))


def _unreadable_is_none(*arguments: Any, **options: Any) -> Any:
    try:
        return READ(*arguments, **options)
    except quorum_state.QuorumStateError:
        return None


READ = quorum_state.read


def test_a_quorum_state_that_counts_as_none_is_found(
    files: Filesystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quorum_state, "read", _unreadable_is_none)
    assert accepted(files) == {QUORUM_STATE}


def test_a_damaged_end_that_counts_as_torn_is_found(
    files: Filesystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "_is_torn", lambda *_: True)
    assert accepted(files) == {segment_name(9)}


def test_a_batch_with_a_wrong_checksum_is_found(
    files: Filesystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "verify_crc", lambda _: True)
    assert segment_name(9) in accepted(files)


def test_a_damaged_snapshot_that_is_left_out_is_found(
    files: Filesystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "_read_snapshots", lambda *_: None)
    assert {snapshot_name(3, 1), snapshot_name(5, 1)} <= accepted(files)


def _unread_is_none(*arguments: Any, **options: Any) -> Any:
    try:
        return READ(*arguments, **options)
    except OSError:
        return None


def test_a_file_that_cannot_be_read_is_not_one_that_is_missing(
    files: Filesystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert list(accepted_reads(files)) == []
    monkeypatch.setattr(quorum_state, "read", _unread_is_none)
    assert len(list(accepted_reads(files))) == 1


# --- in a run ------------------------------------------------------------------------------------


class Rehearsed:
    """A run in which n1 finishes snapshots."""

    def __init__(self) -> None:
        self.run = Watched()
        self.host = self.run.host(1)
        self.host.disk = self.disk = written(Disk(segment_bytes=3 * len(batch(0))))

    def finish(self, end: int = 9) -> list[str]:
        """Finish a snapshot; return the rules that were broken until then."""
        self.disk.apply(AppendSnapshot(end, 1, 0, snapshot(1)))
        for told in self.run.world.on_write:
            told(self.host, FinishSnapshot(end, 1))
        self.run.world.run(0)
        return self.run.found


def test_a_run_rehearses_damage_to_one_log_with_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    rehearsed = Rehearsed()
    assert rehearsed.finish() == []
    monkeypatch.setattr(scan, "_is_torn", lambda *_: True)
    assert rehearsed.finish(10) == [], "one rehearsal is enough"
    assert "F28" in Rehearsed().finish()


def test_the_first_snapshot_and_a_later_one_are_rehearsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "_is_torn", lambda *_: True)
    rehearsed = Rehearsed()
    rehearsed.disk.snapshots.clear()
    first = rehearsed.finish().count("F28")
    assert first
    rehearsed.disk.snapshots[3, 1] = b""
    assert rehearsed.finish(10).count("F28") > first


def test_a_disk_in_trouble_is_not_rehearsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "_is_torn", lambda *_: True)
    rehearsed = Rehearsed()
    rehearsed.disk.begin_trouble("slow", 1)
    assert rehearsed.finish() == []

"""Storage: effects go to the disk, and a start finds them there."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraftwreck.nodes.consensus.effects import (
    AppendLog,
    AppendSnapshot,
    CleanLog,
    DropSnapshot,
    Effect,
    FinishSnapshot,
    FlushLog,
    InstallSnapshot,
    TruncateLog,
    WriteQuorumState,
)
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.recovered import Recovered, SnapshotFile
from kraftwreck.nodes.log.batch import encode_batch
from kraftwreck.nodes.log.files import LogCorruptError
from kraftwreck.nodes.log.format import Mode, format_directory
from kraftwreck.nodes.log.layout import METADATA_DIRECTORY
from kraftwreck.nodes.log.snapshots import footer_batch, header_batch, read_header
from kraftwreck.nodes.server.storage import Storage

CONTENT = header_batch(2, 0, 77) + footer_batch(1, 2, 0)
VOTE = WriteQuorumState(2, -1, 3, bytes(15) + b"\7", (), 1)


def batch(offset: int) -> bytes:
    return encode_batch(offset, 2, 0, [(None, b"v" * 20)], offset == 0)


def finds(directory: Path) -> Recovered:
    storage = Storage(directory)
    storage.close()
    return storage.recovered


def test_effects_are_found_at_the_next_start(tmp_path: Path) -> None:
    storage = Storage(tmp_path, segment_bytes=200)
    assert storage.recovered == Recovered(None, [], 0, (), b"")
    batches = [batch(offset) for offset in range(8)]
    effects: list[Effect] = [
        VOTE,
        *map(AppendLog, batches),
        FlushLog(),
        TruncateLog(7),
        AppendSnapshot(6, 2, 0, CONTENT[:9]),
        AppendSnapshot(7, 2, 0, b"another one"),
        AppendSnapshot(6, 2, 9, CONTENT[9:]),
        DropSnapshot(7, 2),
        FinishSnapshot(6, 2),
        CleanLog(6),
    ]
    storage.carry_out(effects)
    assert storage.read_snapshot(6, 2, 3, 8) == CONTENT[3:11]
    storage.close()
    snapshot = SnapshotFile(6, 2, len(CONTENT), 77)
    assert finds(tmp_path) == Recovered(VOTE, batches[6:7], 6, (snapshot,), CONTENT)


def test_an_installed_snapshot_is_found(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    storage.carry_out([AppendLog(batch(0)), AppendSnapshot(90, 2, 0, CONTENT)])
    storage.carry_out([FinishSnapshot(90, 2), InstallSnapshot(90, 2), AppendLog(batch(90))])
    storage.close()
    snapshot = SnapshotFile(90, 2, len(CONTENT), 77)
    assert finds(tmp_path) == Recovered(None, [batch(90)], 90, (snapshot,), CONTENT)


def test_the_bootstrap_snapshot_is_found(tmp_path: Path) -> None:
    format_directory(
        tmp_path, "c", 3, mode=Mode.STANDALONE, listener=Endpoint("h", 1), metadata_version=25
    )
    found = finds(tmp_path)
    assert [file.id for file in found.snapshots] == [(0, 0)]
    head = read_header(found.latest)
    assert head.kraft_version == 1
    assert head.voters is not None
    assert [voter["voter_id"] for voter in head.voters] == [3]
    assert (found.start_offset, found.batches) == (0, [])


@pytest.mark.parametrize(
    "effect",
    [
        FinishSnapshot(5, 2),
        AppendSnapshot(5, 2, 7, b"x"),
        InstallSnapshot(5, 2),
        CleanLog(5),
        AppendLog(batch(5)),
        TruncateLog(5),
    ],
    ids=lambda effect: type(effect).__name__,
)
def test_impossible_operations_are_errors(tmp_path: Path, effect: Effect) -> None:
    storage = Storage(tmp_path)
    with pytest.raises(ValueError, match=r"has|begun|there is|no snapshot|starts|truncate"):
        storage.carry_out([effect])
    storage.close()


def test_a_damaged_directory_is_let_go_of(tmp_path: Path) -> None:
    path = tmp_path / METADATA_DIRECTORY / f"{9:020d}.log"
    path.parent.mkdir()
    path.touch()
    for _ in range(2):
        with pytest.raises(LogCorruptError, match="the log starts at 9"):
            Storage(tmp_path)

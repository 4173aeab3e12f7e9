"""quorum-state: Kafka's members and a checksum, never half-written, never misread."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

from kraftwreck.nodes.log import quorum_state
from kraftwreck.nodes.log.crc import crc32c
from kraftwreck.nodes.log.layout import METADATA_DIRECTORY, QUORUM_STATE
from kraftwreck.nodes.log.quorum_state import QuorumState, QuorumStateError
from kraftwreck.nodes.log.uuids import ZERO, from_halves

GOLDEN_0 = (
    '{"clusterId":"","leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,'
    '"currentVoters":[{"voterId":1},{"voterId":2},{"voterId":3}],"data_version":0}'
)
GOLDEN_1 = (
    '{"leaderId":-1,"leaderEpoch":3,"votedId":2,'
    '"votedDirectoryId":"AAAAAAAAAAcAAAAAAAAACA","data_version":1}'
)
STATE_0 = QuorumState(epoch=2, leader_id=1, voted_id=-1, voted_directory=ZERO, voters=(1, 2, 3))
STATE_1 = QuorumState(3, -1, 2, from_halves(7, 8), (), 1)


def checked(golden: str) -> str:
    body = golden.removesuffix("}")
    return f'{body},"crc32c":"{crc32c(body.encode()):08x}"}}'


def file(directory: Path) -> Path:
    path = directory / METADATA_DIRECTORY / QUORUM_STATE
    path.parent.mkdir(exist_ok=True)
    return path


def test_version_0_is_written_as_kafka_writes_it(tmp_path: Path) -> None:
    quorum_state.write(tmp_path, STATE_0)
    assert file(tmp_path).read_text() == checked(GOLDEN_0)
    assert quorum_state.read(tmp_path) == STATE_0


def test_version_1_is_written_as_kafka_writes_it(tmp_path: Path) -> None:
    # The voters of a dynamic quorum stand in the log, not here.
    quorum_state.write(tmp_path, replace(STATE_1, voters=(1, 2)))
    assert file(tmp_path).read_text() == checked(GOLDEN_1)
    assert quorum_state.read(tmp_path) == STATE_1


def test_the_version_follows_kraft_version_both_ways(tmp_path: Path) -> None:
    for state in (STATE_0, STATE_1, STATE_0):
        quorum_state.write(tmp_path, state)
        assert quorum_state.read(tmp_path) == state


def test_no_vote_has_the_zero_directory(tmp_path: Path) -> None:
    state = QuorumState(4, 2, -1, ZERO, (), 1)
    quorum_state.write(tmp_path, state)
    assert '"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA"' in file(tmp_path).read_text()
    assert quorum_state.read(tmp_path) == state


def test_no_file_is_no_state(tmp_path: Path) -> None:
    assert quorum_state.read(tmp_path) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON"),
        (GOLDEN_0[:-1], "not JSON"),
        ("[]", "not a JSON object"),
        (GOLDEN_0.replace(":0}", ":2}"), "unknown data_version 2"),
        (GOLDEN_0.replace('"data_version":0', '"x":0'), "unknown data_version None"),
        (GOLDEN_0.replace('"leaderEpoch":2', '"leaderEpoch":"2"'), "not a number"),
        (GOLDEN_0.replace('"leaderEpoch":2', '"leaderEpoch":true'), "not a number"),
        (GOLDEN_0.replace('"leaderEpoch":2', '"leaderEpoch":-2'), "below its least value"),
        (GOLDEN_0.replace('"votedId":-1,', ""), "KeyError: 'votedId'"),
        (GOLDEN_0.replace("[{", "[7,{"), "TypeError"),
        (GOLDEN_1.replace("AAAAAAAAAAcAAAAAAAAACA", "AAA"), "not a uuid"),
        (GOLDEN_1.replace('"votedDir', '"wotedDir'), "unknown member 'wotedDirectoryId'"),
        (GOLDEN_1.replace('"votedDirectoryId":"AAAAAAAAAAcAAAAAAAAACA",', ""), "KeyError: 'voted"),
        (GOLDEN_0.replace('"leaderEpoch":2', '"leaderEpoch":2147483648'), "above 2147483647"),
    ],
)
def test_damage_is_an_error_and_no_fresh_start(tmp_path: Path, text: str, reason: str) -> None:
    file(tmp_path).write_text(text)
    with pytest.raises(QuorumStateError, match=reason):
        quorum_state.read(tmp_path)


def test_kafkas_own_file_is_read(tmp_path: Path) -> None:
    for golden, state in ((GOLDEN_0, STATE_0), (GOLDEN_1, STATE_1)):
        file(tmp_path).write_text(golden)
        assert quorum_state.read(tmp_path) == state


@pytest.mark.parametrize("state", [STATE_0, STATE_1])
def test_every_changed_bit_is_found_with_its_byte(tmp_path: Path, state: QuorumState) -> None:
    quorum_state.write(tmp_path, state)
    sound = file(tmp_path).read_bytes()
    for place in range(len(sound)):
        for bit in range(8):
            damaged = bytearray(sound)
            damaged[place] ^= 1 << bit
            file(tmp_path).write_bytes(damaged)
            with pytest.raises(QuorumStateError, match=rf"quorum-state: .*\bbyte {place} is 0x"):
                quorum_state.read(tmp_path)


def test_temporary_files_of_a_crash_are_ignored(tmp_path: Path) -> None:
    quorum_state.write(tmp_path, STATE_0)
    stale = file(tmp_path).with_name("quorum-state.tmp")
    stale.write_text("torn and much longer than what follows" * 20)
    assert quorum_state.read(tmp_path) == STATE_0
    later = QuorumState(3, -1, 2, ZERO, (1, 2, 3))
    quorum_state.write(tmp_path, later)
    assert quorum_state.read(tmp_path) == later
    assert not stale.exists()


def test_the_steps_are_write_fsync_rename_fsync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quorum_state.write(tmp_path, STATE_0)
    steps: list[str] = []
    real = {name: getattr(os, name) for name in ("write", "fsync", "replace")}

    def recorder(name: str) -> None:
        def step(*arguments: object) -> object:
            kind = name
            if name == "fsync":
                path = Path(f"/proc/self/fd/{arguments[0]}").readlink()
                kind = "fsync directory" if path.is_dir() else "fsync file"
            steps.append(kind)
            return real[name](*arguments)

        monkeypatch.setattr(os, name, step)

    for name in real:
        recorder(name)
    quorum_state.write(tmp_path, STATE_0)
    assert steps == ["write", "fsync file", "replace", "fsync directory"]


@pytest.mark.parametrize("broken", ["write", "fsync", "replace"])
def test_a_disk_error_reaches_the_caller_and_keeps_the_old_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    quorum_state.write(tmp_path, STATE_0)

    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, broken, fail)
        with pytest.raises(OSError, match="No space left"):
            quorum_state.write(tmp_path, QuorumState(9, -1, 3, ZERO, (1, 2, 3)))
    assert quorum_state.read(tmp_path) == STATE_0
    assert list((tmp_path / METADATA_DIRECTORY).iterdir()) == [file(tmp_path)]

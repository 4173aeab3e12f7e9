"""Write-loss mode: unsynced data is gone when the process is killed."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.nodes.draw import draw_below
from kraftwreck.nodes.log import quorum_state
from kraftwreck.nodes.log.batch import parse_header
from kraftwreck.nodes.log.files import MetadataLogFiles
from kraftwreck.nodes.log.layout import METADATA_DIRECTORY
from kraftwreck.nodes.log.media import PLAIN, File, Media
from kraftwreck.nodes.log.snapshots import footer_batch, header_batch, snapshot_name
from kraftwreck.nodes.log.write_loss import WriteLossMedia

MakeBatch = Callable[[int, int], bytes]


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def media(clock: Clock) -> WriteLossMedia:
    return WriteLossMedia(5.0, clock)


def left(directory: Path) -> dict[str, bytes]:
    """Return the content of the disk itself, which a kill at this moment would leave."""
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def seen(media: Media, directory: Path) -> dict[str, bytes]:
    return {name: media.read(directory / name) for name in media.names(directory)}


def written(media: Media, path: Path, data: bytes, *, fsync: bool = True) -> File:
    file = media.open(path)
    file.append(data)
    if fsync:
        file.fsync()
    return file


# --- contents and names -------------------------------------------------------------------------


def test_contents_need_an_fsync_of_the_file(media: WriteLossMedia, tmp_path: Path) -> None:
    file = written(media, tmp_path / "a", b"one")
    media.fsync_directory(tmp_path)
    file.append(b"two")
    assert seen(media, tmp_path) == {"a": b"onetwo"}
    assert left(tmp_path) == {"a": b"one"}
    file.fsync()
    assert left(tmp_path) == {"a": b"onetwo"}


def test_a_name_needs_an_fsync_of_the_directory(media: WriteLossMedia, tmp_path: Path) -> None:
    written(media, tmp_path / "a", b"one")
    assert seen(media, tmp_path) == {"a": b"one"}
    assert left(tmp_path) == {}
    media.fsync_directory(tmp_path)
    assert left(tmp_path) == {"a": b"one"}


def test_a_name_may_come_before_the_contents(media: WriteLossMedia, tmp_path: Path) -> None:
    file = written(media, tmp_path / "a", b"one", fsync=False)
    media.fsync_directory(tmp_path)
    assert left(tmp_path) == {"a": b""}
    file.fsync()
    assert left(tmp_path) == {"a": b"one"}


def test_a_rename_without_an_fsync_is_undone(media: WriteLossMedia, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    written(media, tmp_path / "b", b"new")
    media.rename(tmp_path / "b", tmp_path / "a")
    assert seen(media, tmp_path) == {"a": b"new"}
    assert left(tmp_path) == {"a": b"old"}
    media.fsync_directory(tmp_path)
    assert left(tmp_path) == {"a": b"new"}


def test_a_removal_without_an_fsync_is_undone(media: WriteLossMedia, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    media.unlink(tmp_path / "a")
    assert seen(media, tmp_path) == {}
    with pytest.raises(FileNotFoundError):
        media.read(tmp_path / "a")
    assert left(tmp_path) == {"a": b"old"}
    written(media, tmp_path / "a", b"another")
    assert left(tmp_path) == {"a": b"old"}
    media.fsync_directory(tmp_path)
    assert left(tmp_path) == {"a": b"another"}


def test_a_cut_without_an_fsync_is_undone(media: WriteLossMedia, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"0123456789")
    file = media.open(tmp_path / "a")
    file.truncate(4)
    file.append(b"xyz")
    file.truncate(6)
    assert media.read(tmp_path / "a") == b"0123xy"
    assert media.read_at(tmp_path / "a", 3, 2) == b"3x"
    assert left(tmp_path) == {"a": b"0123456789"}
    file.fsync()
    assert left(tmp_path) == {"a": b"0123xy"}


def test_replacing_a_file_is_durable(media: WriteLossMedia, tmp_path: Path) -> None:
    media.replace(tmp_path / "a", b"one")
    media.replace(tmp_path / "a", b"two")
    assert left(tmp_path) == {"a": b"two"}


def test_a_file_that_is_there_cannot_be_created(media: WriteLossMedia, tmp_path: Path) -> None:
    media.create(tmp_path / "a")
    with pytest.raises(FileExistsError):
        media.create(tmp_path / "a")


def test_old_data_is_written_back(media: WriteLossMedia, clock: Clock, tmp_path: Path) -> None:
    file = written(media, tmp_path / "a", b"one", fsync=False)
    clock.now += 4.9
    file.append(b"two")
    assert left(tmp_path) == {}
    clock.now += 0.2
    file.append(b"three")
    assert left(tmp_path) == {"a": b"onetwo"}
    clock.now += 5
    media.unlink(tmp_path / "other")
    assert left(tmp_path) == {"a": b"onetwothree"}


def test_an_orderly_end_loses_nothing(media: WriteLossMedia, tmp_path: Path) -> None:
    (tmp_path / "gone").touch()
    file = written(media, tmp_path / "a", b"one", fsync=False)
    file.protect()
    media.rename(tmp_path / "a", tmp_path / "b")
    media.unlink(tmp_path / "gone")
    media.close()
    assert left(tmp_path) == {"b": b"one"}
    assert (tmp_path / "b").stat().st_mode & 0o222 == 0


def test_both_media_show_the_same_files(tmp_path: Path) -> None:
    """A few hundred random operations, and then an orderly close, give the same files."""
    (tmp_path / "plain").mkdir()
    (tmp_path / "lossy").mkdir()
    lossy = WriteLossMedia(1e9)

    def do(media: Media, directory: Path, files: dict[str, File], number: int) -> None:
        path = directory / "abcd"[draw_below(4, 1, "name", number)]
        kind = draw_below(9, 1, "kind", number)
        if kind < 4:
            files[path.name] = media.open(path, fresh=kind == 0)
            files[path.name].append(str(number).encode() * 3)
        elif kind == 4 and path.name in media.names(directory):
            media.open(path).truncate(draw_below(5, 1, "length", number))
        elif kind == 5 and path.name in media.names(directory):
            media.rename(path, directory / "abcd"[draw_below(4, 1, "target", number)])
        elif kind == 6:
            media.unlink(path)
        elif kind == 7:
            media.fsync_directory(directory)
        elif path.name in media.names(directory):
            media.open(path).fsync()

    plain_files: dict[str, File] = {}
    lossy_files: dict[str, File] = {}
    for number in range(600):
        do(PLAIN, tmp_path / "plain", plain_files, number)
        do(lossy, tmp_path / "lossy", lossy_files, number)
        assert seen(PLAIN, tmp_path / "plain") == seen(lossy, tmp_path / "lossy"), number
    lossy.close()
    assert left(tmp_path / "lossy") == left(tmp_path / "plain")


# --- a log in this mode -------------------------------------------------------------------------


ANY = 1 << 62


class Interrupted(BaseException):
    """The machine lost power."""


class DyingMedia(WriteLossMedia):
    """Loses power at the ``at``-th change; later changes have no effect."""

    def __init__(self, at: int) -> None:
        super().__init__(1e9)
        self.left = at

    def age(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Interrupted
        super().age()

    def fsync_directory(self, directory: Path) -> None:
        self.age()
        super().fsync_directory(directory)


@pytest.mark.interpreted
def test_a_loss_of_power_at_any_file_change_keeps_promises(
    quick_path: Path, batch_at: MakeBatch
) -> None:
    """Append, flush, snapshot, clean, install, cut, vote: each interrupted everywhere."""
    at, died = 0, True
    while died:
        at += 1
        directory = quick_path / str(at)
        directory.mkdir()
        media = DyingMedia(at)
        log = MetadataLogFiles(directory, 320, media=media)
        promised = [(0, ANY, 0, 0)]
        died = False
        try:
            for promise in work(log, directory, batch_at, media):
                promised.append(promise)
        except Interrupted:
            died = True
        media.left = 10**9
        log.close()  # without media.close(): the power is gone
        least, most, snapshot_end, vote = promised[-1]
        again = MetadataLogFiles(directory, 320)
        again.recover()
        state = quorum_state.read(directory)
        assert least <= again.end_offset <= most
        assert (again.snapshots.ids or [(0, 0)])[-1][0] >= snapshot_end
        assert (state.epoch if state else 0) >= vote
        again.close()
    assert at > 100


def work(
    log: MetadataLogFiles, directory: Path, batch_at: MakeBatch, media: Media
) -> Iterator[tuple[int, int, int, int]]:
    """Use the log; yield what is promised: end at least, at most, snapshot, epoch of the vote."""
    log.recover()
    snapshot_end = 0
    for epoch in range(1, 4):
        state = quorum_state.QuorumState(epoch, -1, 1, bytes(16), (1,))
        quorum_state.write(directory, state, media)
        yield log.end_offset, ANY, snapshot_end, epoch
        for _ in range(9):
            log.append(batch_at(log.end_offset, epoch))
        log.flush()
        yield log.end_offset, ANY, snapshot_end, epoch
        snapshot_end = log.end_offset
        make_snapshot(log, snapshot_end, epoch)
        yield log.end_offset, ANY, snapshot_end, epoch
        for _ in range(5):
            log.append(batch_at(log.end_offset, epoch))
        log.flush()
        log.truncate(snapshot_end)
        yield snapshot_end, snapshot_end, snapshot_end, epoch
        log.clean(snapshot_end)
        yield snapshot_end, snapshot_end, snapshot_end, epoch
    make_snapshot(log, snapshot_end + 10, 7)
    yield snapshot_end + 10, snapshot_end + 10, snapshot_end + 10, epoch
    log.install(snapshot_end + 10, 7)
    yield snapshot_end + 10, snapshot_end + 10, snapshot_end + 10, epoch


def make_snapshot(log: MetadataLogFiles, end_offset: int, epoch: int) -> None:
    log.snapshots.append(
        end_offset, epoch, 0, header_batch(epoch, 0, 0) + footer_batch(1, epoch, 0)
    )
    log.snapshots.finish(end_offset, epoch)


# --- a process in this mode ---------------------------------------------------------------------

NODE = """
import os, signal, sys
from pathlib import Path
from kraftwreck.nodes.consensus.effects import *
from kraftwreck.nodes.log.batch import encode_batch
from kraftwreck.nodes.log.files import MetadataLogFiles
from kraftwreck.nodes.log.media import PLAIN
from kraftwreck.nodes.log.snapshots import footer_batch, header_batch
from kraftwreck.nodes.log.write_loss import WriteLossMedia
from kraftwreck.nodes.server.storage import Storage

mode, defect, end = sys.argv[2:]
if defect == "no-fsync":
    MetadataLogFiles.flush = lambda self: None
storage = Storage(Path(sys.argv[1]), media=WriteLossMedia() if mode == "loss" else PLAIN)

def batch(offset):
    return AppendLog(encode_batch(offset, 1, 0, [(None, b"v")], offset == 0))

storage.carry_out([WriteQuorumState(1, -1, 1, bytes(16), (1,))])
storage.carry_out([batch(0), batch(1), FlushLog()])
content = header_batch(1, 0, 0) + footer_batch(1, 1, 0)
storage.carry_out([AppendSnapshot(2, 1, 0, content), FinishSnapshot(2, 1)])
storage.carry_out([batch(2), AppendSnapshot(3, 1, 0, content)])
assert storage.read_snapshot(2, 1, 5, 10) == content[5:15]
if end == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
storage.close()
"""


def run_node(directory: Path, mode: str, defect: str, end: str) -> int:
    """Run the node above; return the log end it finds at its next start."""
    command = [sys.executable, "-c", NODE, str(directory), mode, defect, end]
    status = subprocess.run(command, check=False, timeout=300).returncode
    assert status == (-signal.SIGKILL if end == "kill" else 0)
    log = MetadataLogFiles(directory)
    found = log.recover_all()
    assert [file.id for file in found.snapshots] == [(2, 1)]
    state = quorum_state.read(directory)
    assert state is not None
    assert state.voted_id == 1
    assert not list((directory / METADATA_DIRECTORY).glob("*.part"))
    log.close()
    return log.end_offset


@pytest.mark.parametrize(
    ("mode", "defect", "end", "offset"),
    [
        ("plain", "none", "kill", 3),
        ("loss", "none", "kill", 2),
        ("loss", "none", "close", 3),
        ("plain", "no-fsync", "kill", 3),
    ],
)
def test_a_killed_process_loses_unsynced_data_in_this_mode_only(
    tmp_path: Path, mode: str, defect: str, end: str, offset: int
) -> None:
    assert run_node(tmp_path, mode, defect, end) == offset


@pytest.mark.interpreted
def test_a_node_that_does_not_fsync_loses_its_promises(tmp_path: Path) -> None:
    command = [sys.executable, "-c", NODE, str(tmp_path), "loss", "no-fsync", "kill"]
    assert subprocess.run(command, check=False, timeout=300).returncode == -signal.SIGKILL
    directory = tmp_path / METADATA_DIRECTORY
    assert (directory / f"{0:020d}.log").stat().st_size == 0, "flushed, it said"
    assert (directory / snapshot_name(2, 1)).exists(), "the snapshot was fsynced"


def test_the_plain_mode_makes_the_same_system_calls_as_ever(
    tmp_path: Path, batch_at: MakeBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = MetadataLogFiles(tmp_path)
    log.recover()
    log.append(batch_at(0, 1))
    calls: list[str] = []

    def recorder(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(*arguments: Any, **options: Any) -> Any:
            calls.append(name)
            return real(*arguments, **options)

        return recorded

    with monkeypatch.context() as patch:
        for name in ("write", "fsync", "open", "read", "ftruncate", "replace"):
            patch.setattr(os, name, recorder(name, getattr(os, name)))
        batch = batch_at(log.end_offset, 1)
        assert parse_header(batch).epoch == 1
        log.append(batch)
        log.flush()
    log.close()
    assert calls == ["write", "fsync"]


@pytest.mark.parametrize("call", ["fsync", "write"])
def test_contents_are_written_once_though_the_disk_failed_in_between(
    media: WriteLossMedia, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    file = media.open(tmp_path / "log")
    file.append(b"one")
    file.fsync()
    media.fsync_directory(tmp_path)
    file.append(b"two")
    real = getattr(os, call)

    def fail(fd: int, *data: bytes) -> None:
        if call == "write":
            real(fd, data[0][:1])  # A part of it is on the disk.
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(f"kraftwreck.nodes.log.write_loss.os.{call}", fail)
        with pytest.raises(OSError, match="Input/output error"):
            file.fsync()
    media.close()
    assert left(tmp_path) == {"log": b"onetwo"}


def test_a_file_that_gets_its_name_is_on_the_disk_before(
    media: WriteLossMedia, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that the crash of a whole machine keeps what a kill -9 keeps."""
    calls: list[str] = []
    fsync, rename = os.fsync, os.rename

    def note_fsync(fd: int) -> None:
        calls.append("fsync " + Path(f"/proc/self/fd/{fd}").readlink().name)
        fsync(fd)

    def note_rename(source: Any, target: Any) -> None:
        calls.append("rename to " + Path(target).name)
        rename(source, target)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "rename", note_rename)
    monkeypatch.setattr(os, "replace", note_rename)
    written(media, tmp_path / "a.part", b"content")
    media.rename(tmp_path / "a.part", tmp_path / "a")
    media.fsync_directory(tmp_path)
    first = next(place for place, call in enumerate(calls) if call.startswith("rename"))
    assert any(call.startswith("fsync a") for call in calls[:first])
    assert calls[-1] == f"fsync {tmp_path.name}"


def test_names_are_those_of_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    media = WriteLossMedia()
    media.make_directory(tmp_path / "t-1")
    media.open(tmp_path / "file").close()
    assert media.names(tmp_path) == ["file", "t-0", "t-1"]

"""Crashes of the metadata log at every system call: kill -9, and loss of power.

A killed process keeps what it wrote (the kernel has it); a power cut keeps, at worst, only what
was fsynced: names by fsync of the directory, contents by fsync of the file.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from nodes.draw import draw_below
from nodes.log.batch import parse_header
from nodes.log.files import MetadataLogFiles
from nodes.log.layout import METADATA_DIRECTORY

MakeBatch = Callable[[int, int], bytes]
SEGMENT = 320
CALLS = ("write", "fsync", "ftruncate", "open", "unlink", "replace", "mkdir")


@dataclass
class Model:
    """What the log must hold: ``states`` are the contents allowed at this moment."""

    batch_at: MakeBatch
    batches: list[bytes] = field(default_factory=list)
    states: list[list[bytes]] = field(default_factory=lambda: [[]])
    flushed: int = 0

    @property
    def end(self) -> int:
        return parse_header(self.batches[-1]).last_offset + 1 if self.batches else 0


def run(log: MetadataLogFiles, model: Model, seed: int, operations: int) -> Iterator[None]:
    """Do ``operations`` on the log, keeping ``model`` right before and after each; yield each."""
    epoch = 1
    for number in range(operations):
        dice = draw_below(10, seed, "operation", number)
        if dice < 6:
            epoch += draw_below(4, seed, "epoch", number) == 0
            batch = model.batch_at(model.end, epoch)
            before = list(model.batches)
            model.batches.append(batch)
            model.states = [before, list(model.batches)]
            log.append(batch)
        elif dice < 8:
            log.flush()
            model.flushed = len(model.batches)
        else:
            keep = draw_below(len(model.batches) + 1, seed, "keep", number)
            keep = max(keep, len(model.batches) - 6)
            before = list(model.batches)
            del model.batches[keep:]
            model.states = [before[:length] for length in range(keep, len(before) + 1)]
            model.flushed = min(model.flushed, keep)
            epoch += 1
            log.truncate(model.end)
            model.flushed = keep
        model.states = [list(model.batches)]
        yield


def recovered(directory: Path) -> list[bytes]:
    """Recover twice: the second time must find nothing left to repair."""
    log = MetadataLogFiles(directory, SEGMENT)
    try:
        batches = log.recover()
        assert log.recover() == batches
        # It must also be fit to go on.
        end = log.end_offset
        assert end == (parse_header(batches[-1]).last_offset + 1 if batches else 0)
        return batches
    finally:
        log.close()


# --- kill -9 ------------------------------------------------------------------------------------


def die_at(call: int, *, after: bool) -> None:
    """Make this process kill itself around its ``call``-th system call; a write may be torn."""
    count = 0

    def wrap(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            nonlocal count
            count += 1
            if count < call:
                return real(*arguments, **options)
            if after:
                real(*arguments, **options)
            elif name == "write":
                real(arguments[0], arguments[1][: draw_below(len(arguments[1]), call)])
            os.kill(os.getpid(), signal.SIGKILL)
            return None

        return wrapped

    for name in CALLS:
        setattr(os, name, wrap(name, getattr(os, name)))


def operate_in_child(
    directory: Path, batch_at: MakeBatch, call: int, after: bool
) -> tuple[int, bool]:
    """Run the operations in a fork that dies; return operations done and whether it died."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        report = os.write
        die_at(call, after=after)
        log = MetadataLogFiles(directory, SEGMENT)
        log.recover()
        for _ in run(log, Model(batch_at), seed=5, operations=60):
            report(write_end, b".")
        os._exit(0)
    os.close(write_end)
    done = 0
    while got := os.read(read_end, 4096):
        done += len(got)
    os.close(read_end)
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL), "the child failed"
    return done, status != 0


def allowed_after(quick_path: Path, batch_at: MakeBatch, done: int) -> list[list[bytes]]:
    """The contents a log may have when operation ``done`` (counted from 0) was under way."""
    directory = quick_path / "model"
    directory.mkdir()
    log = MetadataLogFiles(directory, SEGMENT)
    log.recover()
    model = Model(batch_at)
    steps = run(log, model, seed=5, operations=60)
    for _ in range(done):
        next(steps)
    states = list(model.states)

    log.close()  # so that the next operation says what it is about to do, and fails
    with contextlib.suppress(OSError):
        next(steps, None)
    states += model.states
    shutil.rmtree(directory)
    return states


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_kill_at_every_system_call_leaves_the_log_as_before_or_after_the_operation(
    quick_path: Path, batch_at: MakeBatch, after: bool
) -> None:
    died, call = True, 0
    allowed: dict[int, list[list[bytes]]] = {}
    while died:
        call += 1
        directory = quick_path / str(call)
        directory.mkdir()
        done, died = operate_in_child(directory, batch_at, call, after)
        if done not in allowed:
            allowed[done] = allowed_after(quick_path, batch_at, done)
        assert recovered(directory) in allowed[done], f"killed at call {call}, operation {done}"
        shutil.rmtree(directory)
    assert call > 150, "the operations make many system calls"


WRITER = """
import sys
from pathlib import Path
from nodes.log.batch import encode_batch
from nodes.log.files import MetadataLogFiles
log = MetadataLogFiles(Path(sys.argv[1]), 4096)
log.recover()
epoch = log.last_epoch + 1
print(flush=True)
while True:
    end = log.end_offset
    if end % 97 == 96:
        print("promise", end - 20, flush=True)
        log.truncate(end - 20)
        epoch += 1
    log.append(encode_batch(log.end_offset, epoch, 0, [(None, str(end).encode() * 9)], True))
    if end % 3 == 0:
        log.flush()
        print("promise", log.end_offset, flush=True)
"""


def test_a_process_killed_at_any_moment_keeps_what_it_flushed(tmp_path: Path) -> None:
    for attempt in range(12):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        ) as child:
            assert child.stdout is not None
            child.stdout.readline()
            time.sleep(draw_below(60_000, attempt) / 1e6)
            child.kill()
            promises = child.stdout.read().split("\n")[:-1]
        log = MetadataLogFiles(tmp_path, 4096)
        batches = log.recover()
        log.close()
        offsets = [parse_header(batch).base_offset for batch in batches]
        assert offsets == list(range(len(offsets)))
        if promises:
            assert log.end_offset >= int(promises[-1].split()[1])


# --- loss of power --------------------------------------------------------------------------------


class Disk:
    """What would be left of ``directory`` if power went away: only what was fsynced."""

    def __init__(self, directory: Path, patch: pytest.MonkeyPatch) -> None:
        self.directory = directory
        self.names: dict[str, int] = {}
        self.contents: dict[int, bytes] = {}
        self.on_change: Callable[[], None] = lambda: None
        self.held: dict[int, int] = {}
        real = os.fsync

        def fsync(fd: int) -> None:
            real(fd)
            path = Path(f"/proc/self/fd/{fd}").readlink()
            if path == directory:
                self.names = {entry.name: entry.stat().st_ino for entry in os.scandir(directory)}
            elif path.parent == directory:
                inode = os.fstat(fd).st_ino
                self.contents[inode] = path.read_bytes()
                # A removed file held open does not give its inode to a new one.
                self.held.setdefault(inode, os.dup(fd))
            self.on_change()

        patch.setattr(os, "fsync", fsync)

    def release(self) -> None:
        for fd in self.held.values():
            os.close(fd)

    def restore(self, target: Path) -> None:
        (target / METADATA_DIRECTORY).mkdir(parents=True)
        for name, inode in self.names.items():
            (target / METADATA_DIRECTORY / name).write_bytes(self.contents.get(inode, b""))


@pytest.mark.parametrize("seed", range(8))
def test_a_power_cut_after_any_fsync_keeps_what_was_flushed(
    quick_path: Path, batch_at: MakeBatch, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    directory = quick_path / "live"
    directory.mkdir()
    log = MetadataLogFiles(directory, SEGMENT)
    log.recover()
    model = Model(batch_at)
    images: list[tuple[dict[str, int], dict[int, bytes], int, list[list[bytes]]]] = []
    with monkeypatch.context() as patch:
        disk = Disk(directory / METADATA_DIRECTORY, patch)

        def remember() -> None:
            images.append(
                (dict(disk.names), dict(disk.contents), model.flushed, list(model.states))
            )

        disk.on_change = remember
        log.recover()
        for _ in run(log, model, seed, operations=60):
            remember()
    disk.release()
    log.close()
    assert len(images) > 60
    for number, (names, contents, flushed, states) in enumerate(images):
        disk.names, disk.contents = names, contents
        target = quick_path / str(number)
        disk.restore(target)
        batches = recovered(target)
        assert any(batches == state[: len(batches)] for state in states)
        assert len(batches) >= flushed
        shutil.rmtree(target)

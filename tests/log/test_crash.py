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
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.nodes.draw import draw_below
from kraftwreck.nodes.log.batch import parse_header
from kraftwreck.nodes.log.files import MetadataLogFiles
from kraftwreck.nodes.log.layout import METADATA_DIRECTORY
from kraftwreck.nodes.log.snapshots import footer_batch, header_batch

MakeBatch = Callable[[int, int], bytes]
SEGMENT = 320
CALLS = ("write", "fsync", "ftruncate", "open", "unlink", "replace", "mkdir", "fchmod")
OPERATIONS = 90


Found = tuple[int, list[bytes], tuple[int, int] | None]
"""Log start, batches and latest snapshot after a recovery."""


@dataclass(frozen=True)
class State:
    """A content the log may have: all ``batches``, those below ``limit`` perhaps cleaned away."""

    start: int
    limit: int
    batches: tuple[bytes, ...]
    latest: tuple[int, int] | None

    def fits(self, found: Found, *, torn: bool = False) -> bool:
        """Whether ``found`` is this content, or the beginning of it if it may be ``torn``."""
        start, batches, latest = found
        kept = [batch for batch in self.batches if parse_header(batch).base_offset >= start]
        if torn:
            kept = kept[: len(batches)]
        return self.start <= start <= self.limit and batches == kept and latest == self.latest


@dataclass
class Model:
    """The expected log: ``states`` are the contents allowed at this moment."""

    batch_at: MakeBatch
    now: State = State(0, 0, (), None)
    states: list[State] = field(default_factory=lambda: [State(0, 0, (), None)])
    flushed: int = 0
    """The log is flushed up to this offset."""

    @property
    def end(self) -> int:
        if not self.now.batches:
            return self.now.start
        return parse_header(self.now.batches[-1]).last_offset + 1

    def change(self, **fields: Any) -> None:
        """The next operation leads to another state: until it is over, either may be found."""
        before, self.now = self.now, replace(self.now, **fields)
        self.states = [before, self.now]


def snapshot(end_offset: int, epoch: int) -> bytes:
    return header_batch(epoch, 0, 0) + footer_batch(1, epoch, 0)


def write_snapshot(log: MetadataLogFiles, end_offset: int, epoch: int) -> None:
    content = snapshot(end_offset, epoch)
    log.snapshots.append(end_offset, epoch, 0, b"begun and begun anew")
    log.snapshots.append(end_offset, epoch, 0, content[:50])
    log.snapshots.append(end_offset, epoch, 50, content[50:])
    log.snapshots.finish(end_offset, epoch)


def run(log: MetadataLogFiles, model: Model, seed: int, operations: int) -> Iterator[None]:
    """Do ``operations`` on the log, keeping ``model`` right before and after each; yield each."""
    epoch = 1
    for number in range(operations):
        dice = draw_below(32, seed, "operation", number)
        batches = model.now.batches
        latest = model.now.latest or (0, 0)
        if dice < 16:
            epoch += draw_below(4, seed, "epoch", number) == 0
            batch = model.batch_at(model.end, epoch)
            model.change(batches=(*batches, batch))
            log.append(batch)
        elif dice < 21:
            log.flush()
            model.flushed = model.end
        elif dice < 26:
            keep = draw_below(len(batches) + 1, seed, "keep", number)
            keep = max(keep, len(batches) - 6)
            while keep < len(batches) and parse_header(batches[keep]).base_offset < latest[0]:
                keep += 1
            before = model.now
            model.change(batches=batches[:keep])
            model.states = [
                replace(before, batches=batches[:length])
                for length in range(keep, len(batches) + 1)
            ]
            model.flushed = min(model.flushed, model.end)
            epoch += 1
            log.truncate(model.end)
            model.flushed = model.end
        elif dice < 29:
            headers = [parse_header(batch) for batch in batches]
            newer = [h for h in headers if h.last_offset >= max(latest[0], log.start_offset)]
            if newer:
                header = newer[draw_below(len(newer), seed, "snapshot", number)]
                model.change(latest=(header.last_offset + 1, header.epoch))
                log.flush()  # what a snapshot stands for is committed
                model.flushed = model.end
                write_snapshot(log, header.last_offset + 1, header.epoch)
        elif dice < 31:
            if model.now.latest is not None and latest[0] <= model.end:
                model.change(limit=max(model.now.limit, latest[0]))
                model.states = [model.now]
                log.clean(latest[0])
        else:
            end = model.end + 1 + draw_below(5, seed, "install", number)
            epoch += 1
            model.change(start=end, limit=end, batches=(), latest=(end, epoch))
            write_snapshot(log, end, epoch)
            log.install(end, epoch)
            model.flushed = end
        model.states = [model.now]
        yield


def recovered(directory: Path) -> Found:
    """Recover twice: the second time must find nothing left to repair."""
    log = MetadataLogFiles(directory, SEGMENT)
    try:
        found = log.recover_all()
        start = log.start_offset
        again = log.recover_all()
        assert (again.batches, log.start_offset) == (found.batches, start)
        assert again.snapshots == found.snapshots
        # It must also be fit to go on.
        end = log.end_offset
        batches = found.batches
        assert end == (parse_header(batches[-1]).last_offset + 1 if batches else start)
        assert all(end >= start for end, _ in log.snapshots.ids)
        assert not list((directory / METADATA_DIRECTORY).glob("*.part"))
        return start, batches, found.snapshots[-1].id if found.snapshots else None
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
        for _ in run(log, Model(batch_at), seed=5, operations=OPERATIONS):
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


def allowed_after(quick_path: Path, batch_at: MakeBatch, done: int) -> list[State]:
    """The contents a log may have when operation ``done`` (counted from 0) was under way."""
    directory = quick_path / "model"
    directory.mkdir()
    log = MetadataLogFiles(directory, SEGMENT)
    log.recover()
    model = Model(batch_at)
    steps = run(log, model, seed=5, operations=OPERATIONS)
    for _ in range(done):
        next(steps)
    states = list(model.states)

    log.close()  # so that the next operation says what it is about to do, and fails
    with contextlib.suppress(OSError):
        next(steps, None)
    states += model.states
    shutil.rmtree(directory)
    return states


@pytest.mark.parametrize(
    ("after", "first", "step"),
    [*((False, first, 12) for first in range(1, 13)), (True, 5, 10), (True, 10, 10)],
)
def test_kill_at_every_system_call_leaves_the_log_as_before_or_after_the_operation(
    quick_path: Path, batch_at: MakeBatch, after: bool, first: int, step: int
) -> None:
    """After a call the disk is as before the next one, so some of them are enough."""
    died, call = True, first - step
    allowed: dict[int, list[State]] = {}
    while died:
        call += step
        directory = quick_path / str(call)
        directory.mkdir()
        done, died = operate_in_child(directory, batch_at, call, after)
        if done not in allowed:
            allowed[done] = allowed_after(quick_path, batch_at, done)
        found = recovered(directory)
        assert any(state.fits(found) for state in allowed[done]), (call, done, found)
        shutil.rmtree(directory)
    assert call > 400, "the operations make many system calls"


WRITER = """
import sys
from pathlib import Path
from kraftwreck.nodes.log.batch import encode_batch
from kraftwreck.nodes.log.files import MetadataLogFiles
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
    records = [(b"\\0\\0\\0\\2", str(end).encode() * 9)]
    log.append(encode_batch(log.end_offset, epoch, 0, records, True))
    if end % 3 == 0:
        log.flush()
        print("promise", log.end_offset, flush=True)
"""


@pytest.mark.wall_clock("the moment of the kill is drawn")
def test_a_process_killed_at_any_moment_keeps_flushed_data(tmp_path: Path) -> None:
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
    """The fsynced part of ``directory``, which is left after a loss of power."""

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
def test_a_power_cut_after_any_fsync_keeps_flushed_data(
    quick_path: Path, batch_at: MakeBatch, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    directory = quick_path / "live"
    directory.mkdir()
    log = MetadataLogFiles(directory, SEGMENT)
    log.recover()
    model = Model(batch_at)
    images: list[tuple[dict[str, int], dict[int, bytes], int, list[State]]] = []
    with monkeypatch.context() as patch:
        disk = Disk(directory / METADATA_DIRECTORY, patch)

        def remember() -> None:
            images.append(
                (dict(disk.names), dict(disk.contents), model.flushed, list(model.states))
            )

        disk.on_change = remember
        log.recover()
        for _ in run(log, model, seed, operations=OPERATIONS):
            remember()
    disk.release()
    log.close()
    assert len(images) > 60
    for number, (names, contents, flushed, states) in enumerate(images):
        disk.names, disk.contents = names, contents
        target = quick_path / str(number)
        disk.restore(target)
        found = recovered(target)
        assert any(state.fits(found, torn=True) for state in states), found
        start, batches, _ = found
        end = parse_header(batches[-1]).last_offset + 1 if batches else start
        assert end >= flushed
        shutil.rmtree(target)

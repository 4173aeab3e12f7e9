"""The disk of a simulated broker with a data plane: metadata, and the logs of its partitions.

The logs are those of real brokers (``nodes.server.partition_files``) on the simulated file system:
a process that dies leaves them unchanged, a loss of power removes what was not flushed. As there,
opening, removing, flushing and checkpoints are pieces of work beside the process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from kraftwreck.nodes.consensus.effects import Stopped
from kraftwreck.nodes.consensus.recovered import Recovered
from kraftwreck.nodes.log.files import LogCorruptError
from kraftwreck.nodes.log.partition.checkpoints import CheckpointError
from kraftwreck.nodes.log.partition.settings import LogSettings
from kraftwreck.nodes.replication import effects as data
from kraftwreck.nodes.replication.headers import Batch, PartitionKey
from kraftwreck.nodes.server import clean_shutdown
from kraftwreck.nodes.server.partition_files import PartitionFiles
from kraftwreck.simulation.disk import ROOT, Disk
from kraftwreck.simulation.disk_trouble import DiskError
from kraftwreck.simulation.filesystem import Crash, Filesystem, Loss
from kraftwreck.simulation.pieces import Piece

T = TypeVar("T")

MOST_STEPS: Final[dict[type, int]] = {
    data.OpenLog: 12,
    data.ShapeLog: 0,
    data.RemoveLog: 10,
    data.Append: 6,
    data.FlushLog: 4,
    data.Truncate: 10,
    data.StartAt: 14,
    data.DeleteUpTo: 8,
    data.RollLog: 8,
    data.WriteEpochs: 4,
    data.WriteHighWatermarks: 4,
}
"""The disk effects of a data plane. The number of file changes is approximate: a crash comes after
some of them. Those of work beside the process count as well."""

_BESIDE: Final = (data.OpenLog, data.RemoveLog, data.FlushLog, data.WriteHighWatermarks)
"""Effects whose changes of files are work beside the process."""
_SHORT: Final = 4
"""Approximate number of file changes of a piece of work with another cause."""


@dataclass(frozen=True, slots=True)
class KeepLogs:
    """The cause of the removal of logs that are not the broker's: a broker removes them once, as
    soon as it knows its partitions. ``others`` may be there."""

    others: frozenset[PartitionKey]


class DataDisk(Disk):
    """A :class:`~simulation.disk.Disk` that also has the logs of partitions.

    ``name_of`` returns the name of a topic id; the process that runs sets it. ``epoch`` is the
    broker epoch that a clean stop left for the process that runs, -1 if there was none. ``losses``
    counts losses of power and of unsynced contents. ``interrupted`` are the partitions with an
    operation that a kill interrupted, or that failed.
    """

    __slots__ = (
        "_carried",
        "_caused",
        "_logs",
        "_settings",
        "epoch",
        "interrupted",
        "losses",
        "name_of",
        "pieces",
    )

    def __init__(self, directory: bytes, *, settings: LogSettings, segment_bytes: int,
                 files: Filesystem) -> None:  # fmt: skip
        super().__init__(directory, segment_bytes=segment_bytes, files=files)
        self.beside = self
        self.pieces: deque[Piece] = deque()
        self.name_of: Callable[[bytes], str] = _nameless
        self.epoch = clean_shutdown.UNCLEAN
        self.losses = 0
        self.interrupted: set[PartitionKey] = set()
        self._settings = settings
        self._logs: PartitionFiles | None = None
        self._caused: list[Any] = []
        self._carried: Any = None

    @property
    def logs(self) -> PartitionFiles:
        """The logs of the process that runs."""
        assert self._logs is not None
        return self._logs

    @property
    def settings(self) -> LogSettings:
        """The settings of logs whose topics have none."""
        return self._settings

    def write(self, effect: Any) -> None:
        """Carry out ``effect``: see :meth:`Disk.write`."""
        if type(effect) not in MOST_STEPS:
            super().write(effect)
            return
        self._carried = effect
        with self._failing(effect):
            self._caused.extend(self.logs.carry_out(effect))

    @contextmanager
    def _failing(self, effect: Any) -> Iterator[None]:
        """Turn errors of the storage into those of a disk."""
        try:
            yield
        except OSError:
            # A part of it may be on the disk, as after a kill.
            self._interrupted(effect)
            raise
        except (CheckpointError, LogCorruptError, ValueError, KeyError) as error:
            raise DiskError(f"the log of a partition cannot take this: {error!r}") from error

    def _elsewhere(self, work: Callable[[], T], done: Callable[[T], None]) -> None:
        """Add a piece of work beside the process (:class:`nodes.server.disk_worker.Elsewhere`)."""
        effect = self._carried

        def finish(result: T) -> None:
            self._carried = effect
            done(result)

        self.pieces.append(Piece(work, finish, effect))

    def keep(self, keys: Collection[PartitionKey], others: Collection[PartitionKey]) -> None:
        """Remove the logs of all partitions but ``keys``, beside the process; ``others`` may be
        there."""
        self.interrupted.update(others)
        self._carried = KeepLogs(frozenset(others))
        self.logs.keep(keys)

    def begin_work(self) -> None:
        """Begin the first of the pieces."""
        self.files.begin_beside()

    def work(self) -> Piece:
        """Carry out the first of the pieces: see :class:`~simulation.pieces.WorkBeside`."""
        piece = self.pieces[0]
        with self._failing(piece.cause), self.files.beside():
            piece.result = piece.work()
        if isinstance(piece.cause, KeepLogs):
            self.interrupted -= piece.cause.others
        self.pieces.popleft()
        return piece

    def interrupt_work(self, draw: int) -> None:
        """Let the process die during the first of the pieces."""
        piece = self.pieces[0]
        most = MOST_STEPS[type(piece.cause)] if isinstance(piece.cause, _BESIDE) else _SHORT
        self.files.crash_after(draw % (most + 1), draw >> 8)
        with suppress(Crash, OSError, ValueError, KeyError), self.files.beside():
            piece.work()
        self.files.process_ended()

    def note(self, effect: Any) -> None:
        """Record an effect on the metadata; those of partitions are only in the files."""
        if type(effect) not in MOST_STEPS:
            super().note(effect)

    def take_events(self) -> list[Any]:
        """Return the events that the effects written since the last call caused, in order."""
        events = self._caused[:]
        self._caused.clear()  # The logs hold on to this list.
        return events

    def stopped(self, effect: Stopped) -> None:
        """Close the logs, then write the mark of a clean stop. Raises OSError.

        Work that has begun ends before, the rest is not done. Without the mark nothing was left.
        """
        whole = True
        if self.pieces:
            try:
                self.work()
            except (DiskError, OSError):
                whole = False
        if not (whole and self.logs.close()):
            effect.broker_epoch = clean_shutdown.UNCLEAN
        if effect.broker_epoch >= 0:
            clean_shutdown.write(ROOT, effect.broker_epoch, self.files)

    def interrupt(self, effect: Any, draw: int) -> bool:
        """Let the process die during ``effect``: see :meth:`Disk.interrupt`."""
        most = MOST_STEPS.get(type(effect))
        if most is None:
            return super().interrupt(effect, draw)
        self._interrupted(effect)
        self.files.crash_after(draw % (most + 1), draw >> 8)
        try:
            self.logs.carry_out(effect)
        except (Crash, OSError, ValueError, KeyError):
            return False
        return True

    def _interrupted(self, effect: Any) -> None:
        if not isinstance(effect, data.WriteHighWatermarks | KeepLogs):
            self.interrupted.add(effect.key)

    def process_ended(self) -> None:
        """End the process, with its locks and open files."""
        super().process_ended()
        if self._logs is not None:
            self.interrupted.update(self._logs.unremoved)
        self.pieces.clear()
        self._carried = None
        self._logs = None
        self._caused.clear()

    @property
    def orderly(self) -> bool:
        """Whether the process before this one closed all logs."""
        return self.epoch != clean_shutdown.UNCLEAN

    def lose_power(self, draw: int) -> Loss:
        """Drop what is not on the platter: see :meth:`Disk.lose_power`."""
        self.losses += 1
        return super().lose_power(draw)

    def end_trouble(self) -> dict[str, Any]:
        """End the hardware trouble; return its effects."""
        if self.trouble is not None and self.trouble.dropped:
            self.losses += 1
        return super().end_trouble()

    def recover(self) -> Recovered:
        """Start a process: see :meth:`Disk.recover`. Also raises CheckpointError."""
        found = super().recover()
        self.epoch = clean_shutdown.take(ROOT, self.files)
        self._logs = PartitionFiles(
            ROOT,
            self._name_of,
            self._settings,
            self.files,
            orderly=self.orderly,
            elsewhere=self._elsewhere,
        )
        self._logs.tell = self._caused.extend
        return found

    def cached(self, effect: Any) -> bool:
        """Whether ``effect`` ends when the page cache has it."""
        if type(effect) in MOST_STEPS:
            return type(effect) is data.Append or isinstance(effect, _BESIDE)
        return super().cached(effect)

    def early(self, effect: Any) -> bool:
        """Whether watches must see ``effect`` even if a crash interrupted it."""
        if type(effect) in MOST_STEPS:
            return type(effect) is data.Append
        return super().early(effect)

    def fact(self, effect: Any) -> str:
        """Return the text that stands for ``effect`` in a run's digest."""
        if type(effect) not in MOST_STEPS:
            return super().fact(effect)
        name = type(effect).__name__
        if type(effect) is data.WriteHighWatermarks:
            offsets = sorted(effect.offsets.items())
            return f"{name} " + " ".join(f"{key[1]}:{at}" for key, at in offsets)
        where = f"{name} {effect.key[0].hex()} {effect.key[1]}"
        if type(effect) is data.Append:
            batch: Batch = effect.batch
            return f"{where} {batch.base_offset} {batch.leader_epoch} {batch.crc}"
        return f"{where} {_detail(effect)}"

    def _name_of(self, topic_id: bytes) -> str:
        return self.name_of(topic_id)


def _detail(effect: Any) -> object:
    for field in ("end_offset", "start_offset", "offset", "entries"):
        if hasattr(effect, field):
            return getattr(effect, field)
    return ""


def _nameless(topic_id: bytes) -> str:
    raise LookupError(f"no process knows the topic {topic_id.hex()}")

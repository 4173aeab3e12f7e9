"""A node's disk: the storage code of real nodes on a file system in memory.

A process that dies leaves the files unchanged; a loss of power removes what was not flushed
(``simulation.filesystem``). Beside the files the disk keeps an index of the requested operations
(:class:`~simulation.disk_index.DiskIndex`), which the simulator reads instead of the files. Each
start compares the two.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from kraftwreck.nodes.consensus.effects import (
    AppendLog,
    AppendSnapshot,
    CleanLog,
    DropSnapshot,
    FinishSnapshot,
    FlushLog,
    InstallSnapshot,
    TruncateLog,
    WriteQuorumState,
)
from kraftwreck.nodes.consensus.recovered import Recovered
from kraftwreck.nodes.draw import draw_below
from kraftwreck.nodes.log.batch import BatchError, split_batches
from kraftwreck.nodes.log.layout import (
    EPOCH_CHECKPOINT,
    METADATA_DIRECTORY,
    QUORUM_STATE,
    inside,
    segment_name,
)
from kraftwreck.nodes.log.layout import segment_offsets as offsets_of
from kraftwreck.nodes.log.quorum_state import QuorumStateError
from kraftwreck.nodes.log.recovery import LogCorruptError
from kraftwreck.nodes.log.snapshots import parse_snapshot_name, snapshot_name
from kraftwreck.nodes.server.storage import Storage
from kraftwreck.simulation.disk_check import disagreements
from kraftwreck.simulation.disk_index import (
    CACHED,
    DiskIndex,
    Durable,
    SnapshotId,
    batch_range,
    fact,
)
from kraftwreck.simulation.disk_trouble import DiskError, DiskTrouble, Kind
from kraftwreck.simulation.filesystem import Crash, Filesystem, Inode, Loss
from kraftwreck.simulation.pieces import WorkBeside

__all__ = [
    "LOG",
    "RECOVERY_STEPS",
    "ROOT",
    "Disk",
    "DiskContent",
    "DiskError",
    "Durable",
    "SnapshotId",
    "batch_range",
]

ROOT = Path("/data")
LOG = ROOT / METADATA_DIRECTORY

_MOST_STEPS: dict[type, int] = {
    AppendLog: 10,
    FlushLog: 1,
    TruncateLog: 12,
    WriteQuorumState: 5,
    AppendSnapshot: 2,
    FinishSnapshot: 3,
    DropSnapshot: 1,
    InstallSnapshot: 14,
    CleanLog: 14,
}
"""Approximate number of file changes in an operation: a crash comes after some of them."""

RECOVERY_STEPS = 12
_LOG_AND_MORE = ("log", "log", "snapshot", "quorum-state", "checkpoint")


@dataclass(slots=True, frozen=True)
class DiskContent:
    """The files of a disk.

    ``log`` has the joined segments from offset ``start`` on, unchanged, torn tail included.
    ``quorum_state`` and ``checkpoint`` (leader-epoch-checkpoint) are None without such a file.
    ``snapshots`` are the finished ones by (end offset, epoch).
    """

    quorum_state: bytes | None
    log: bytes
    start: int
    snapshots: dict[SnapshotId, bytes]
    checkpoint: bytes | None
    directory: bytes

    @property
    def batches(self) -> tuple[bytes, ...]:
        """The whole batches of the log, up to the first bytes that are not a batch."""
        found: list[bytes] = []
        with contextlib.suppress(BatchError):
            found.extend(split_batches(self.log))
        return tuple(found)


class _Taken:
    """Effects that report which of them the storage has carried out: those before the one that
    it takes next."""

    def __init__(self, effects: Sequence[Any], disk: Disk, told: Callable[[Durable], None]) -> None:
        self._effects = effects
        self._disk = disk
        self._told = told

    def __len__(self) -> int:
        return len(self._effects)

    def __getitem__(self, index: int) -> Any:
        return self._effects[index]

    def __iter__(self) -> Iterator[Any]:
        for effect in self._effects:
            durable = type(effect) in _MOST_STEPS
            if durable:
                self._disk.take(effect)
            yield effect
            if durable:
                self._told(effect)
                self._disk.note(effect)
                self._disk.take(None)


@dataclass(slots=True)
class Damage:
    """One bit that changed on its own: ``bit`` (0 to 7) of the byte at ``position``."""

    name: str
    inode: Inode = field(repr=False)
    position: int
    bit: int

    def flip(self) -> None:
        """Change the bit, or change it back."""
        self.inode.data[self.position] ^= 1 << self.bit


class Disk(DiskIndex):
    """The files of one node, formatted under the id ``directory``.

    ``files`` is a file system with a formatted data directory at :data:`ROOT`. Without it the
    disk is a new one, with the snapshot ``(0, 0)`` that holds ``bootstrap`` if that is given.
    ``findings`` are the faults that the last start found. ``refusal`` is the reason why the last
    start was refused because of a hardware fault, None if it was not.
    """

    __slots__ = (
        "_damage",
        "_lossy",
        "_pending",
        "_storage",
        "_torn",
        "beside",
        "directory",
        "files",
        "findings",
        "refusal",
        "trouble",
    )

    def __init__(
        self,
        directory: bytes = bytes(16),
        bootstrap: bytes | None = None,
        segment_bytes: int = 1 << 30,
        files: Filesystem | None = None,
    ) -> None:
        super().__init__(segment_bytes)
        self.directory = directory
        self.findings: list[str] = []
        self.beside: WorkBeside | None = None
        self.refusal: str | None = None
        self.trouble: DiskTrouble | None = None
        self._damage: Damage | None = None
        self._pending: Durable | None = None
        self._torn = False
        self._lossy = False
        self._storage: Storage | None = None
        if files is None:
            files = Filesystem()
            files.make_directory(ROOT)
            if bootstrap is not None:
                files.make_directory(LOG)
                files.replace(LOG / snapshot_name(0, 0), bootstrap)
        self.files = files
        self.snapshots.update(self._snapshot_files())

    # --- operations of a process ------------------------------------------------------------

    def write(self, effect: Durable) -> None:
        """Carry out ``effect`` on the files; :meth:`note` records it afterwards.

        Raises :class:`DiskError` if no storage could, and OSError if the hardware fails.
        """
        if self._storage is None:
            self.recover()
        storage = self._storage
        assert storage is not None
        self._pending = effect
        try:
            storage.carry_out((effect,))
        except ValueError as error:
            raise DiskError(f"the log cannot take this: {error}") from error
        self._pending = None

    def carry_out(self, effects: Sequence[Any], told: Callable[[Durable], None]) -> None:
        """Let the storage carry out the durable ones among ``effects``, in one call.

        An effect is recorded when the storage takes the next one. ``told`` gets it before that;
        and if the process dies (Crash), the one under way when the next start shows whether it
        happened. Raises ValueError and OSError.
        """
        storage = self._storage
        assert storage is not None
        self._pending = None
        try:
            storage.carry_out(cast("Sequence[Any]", _Taken(effects, self, told)))
        except Crash:
            self._torn = True
            pending = self._under_way()
            if pending is not None and self.early(pending):
                told(pending)
            raise

    def apply(self, effect: Durable) -> None:
        """Carry out ``effect`` and record it."""
        self.write(effect)
        self.note(effect)

    def read_snapshot(self, name: SnapshotId, position: int, length: int) -> bytes | None:
        """Return a piece of a finished snapshot; None if there is none, or it cannot be read."""
        if self._storage is None:
            return None
        try:
            return self._storage.read_snapshot(*name, position, length)
        except OSError:
            return None

    def _under_way(self) -> Durable | None:
        return self._pending

    @property
    def storage(self) -> Storage:
        """The storage of the process that runs."""
        assert self._storage is not None
        return self._storage

    def take(self, effect: Durable | None) -> None:
        """Note which operation is under way."""
        self._pending = effect

    # --- end and start of processes ---------------------------------------------------------

    def interrupt(self, effect: Durable, draw: int) -> bool:
        """Let the process die during ``effect``, after some of its file changes.

        Return whether it was carried out completely; then it must be recorded.
        """
        storage = self._storage
        if storage is None:
            return False
        self._pending = effect
        self._torn = True
        self.files.crash_after(draw % (_MOST_STEPS[type(effect)] + 1), draw >> 8)
        try:
            storage.carry_out((effect,))
        except (Crash, OSError, ValueError):
            return False
        self._pending = None
        return True

    def process_ended(self) -> None:
        """End the process, with its locks and open files."""
        self._storage = None
        self.files.process_ended()

    def refuse(self, reason: str) -> None:
        """Note that a process has read the disk and stopped."""
        self.refusal = reason
        self.process_ended()

    def lose_power(self, draw: int) -> Loss:
        """Drop what is not on the platter, except for what ``draw`` chooses."""
        self._lossy = True
        return self.files.lose_power(draw)

    def begin(self, steps: int, torn: int = 0) -> None:
        """Let a process start and die again after ``steps`` changes of files, if it makes so
        many. An error that stops it before will stop the next one too."""
        self.process_ended()
        self.files.crash_after(steps, torn)
        with contextlib.suppress(Crash, OSError, LogCorruptError, QuorumStateError):
            Storage(ROOT, self.segment_bytes, media=self.files)
        self.process_ended()

    def recover(self) -> Recovered:
        """Start a process: return the state on disk.

        Like a real start it repairs what a crash left incomplete, and makes durable what it reads
        before it trusts it.

        Raises what :class:`Storage` does: LogCorruptError, QuorumStateError, OSError.
        """
        self.process_ended()
        self.findings = []
        storage = Storage(ROOT, self.segment_bytes, media=self.files)
        found = storage.recovered
        snapshots = self._snapshot_files()
        self._note_dropped()
        self.findings = disagreements(self, self._pending, self._lossy, found, snapshots)
        self._take_over(found, snapshots)
        storage.recovered = Recovered()  # The node has its own.
        self._storage = storage
        self._pending = self._damage = self.refusal = None
        self._lossy = self._torn = False
        return found

    def _take_over(self, found: Recovered, snapshots: dict[SnapshotId, bytes]) -> None:
        """Set the index to the state that was found."""
        self.parts.clear()
        if list(found.batches) == self.log:
            found.batches = tuple(self.log)  # The same objects, so that equality is quick to see.
        else:
            self.log = list(found.batches)
            self.ends = [batch_range(batch)[1] for batch in self.log]
        self.flushed = len(self.log)
        self.quorum_state = found.quorum_state
        self.snapshots = {
            name: known if (known := self.snapshots.get(name)) == content else content
            for name, content in snapshots.items()
        }
        self.segments = offsets_of(self.files.names(LOG))
        self._length = len(self.files.inode(LOG / segment_name(self.segments[-1])).data)

    def _snapshot_files(self) -> dict[SnapshotId, bytes]:
        if not self.files.exists(LOG):
            return {}
        names = self.files.names(LOG)
        ids = [name for text in names if (name := parse_snapshot_name(text)) is not None]
        inode = self.files.inode
        return {name: bytes(inode(inside(LOG, snapshot_name(*name))).data) for name in ids}

    def content(self) -> DiskContent:
        """Return the files as readers see them now."""
        names = self.files.names(LOG) if self.files.exists(LOG) else []
        segments = offsets_of(names)

        def read(name: str) -> bytes | None:
            return bytes(self.files.inode(LOG / name).data) if name in names else None

        snapshots = self._snapshot_files()
        newest = max((end for end, _ in snapshots), default=0)
        return DiskContent(
            read(QUORUM_STATE),
            b"".join(self.files.inode(LOG / segment_name(base)).data for base in segments),
            segments[0] if segments else newest,
            snapshots,
            read(EPOCH_CHECKPOINT),
            self.directory,
        )

    # --- hardware ---------------------------------------------------------------------------

    def begin_trouble(self, kind: Kind, draw: int) -> DiskTrouble:
        """Begin trouble of this ``kind`` with the hardware."""
        self.trouble = self.files.trouble = DiskTrouble(kind, draw)
        return self.trouble

    def _note_dropped(self) -> None:
        """Expect no unsynced contents once an fsync has failed and dropped them."""
        if self.trouble is not None and self.trouble.dropped:
            self._lossy = True

    def end_trouble(self) -> dict[str, Any]:
        """End the hardware trouble; return its effects."""
        self._note_dropped()
        trouble, self.trouble, self.files.trouble = self.trouble, None, None
        return trouble.evidence() if trouble is not None else {}

    def flip(self, draw: int) -> dict[str, Any]:
        """Change one bit of one file, while no process runs; return which.

        The file is a segment, a finished snapshot, quorum-state or leader-epoch-checkpoint. It is
        not the log if a write was torn there: of two faults at the log's end one can hide the
        other.
        """
        if self._damage is not None or not self.files.exists(LOG):
            return {"flipped": False}
        names = self.files.names(LOG)
        segments = [segment_name(base) for base in offsets_of(names)]
        kinds: dict[str, list[str]] = {
            "log": [] if self._torn or self._lossy else segments,
            "snapshot": [name for name in names if parse_snapshot_name(name) is not None],
            "quorum-state": [name for name in names if name == QUORUM_STATE],
            "checkpoint": [name for name in names if name == EPOCH_CHECKPOINT],
        }
        usable = [
            name
            for kind in _LOG_AND_MORE
            for name in kinds[kind]
            if self.files.inode(LOG / name).data
        ]
        if not usable:
            return {"flipped": False}
        name = usable[draw_below(len(usable), draw, "file")]
        inode = self.files.inode(LOG / name)
        position = draw_below(len(inode.data), draw, "byte")
        self._damage = Damage(name, inode, position, draw_below(8, draw, "bit"))
        self._damage.flip()
        return {"flipped": True, "file": name, "byte": position, "bit": self._damage.bit}

    def tear(self, draw: int) -> dict[str, Any]:
        """Tear a write while no process runs; return how much of it was written.

        A loss of power can leave the beginning of a batch. The bytes are those of the last batch
        there, under the next offset. Nothing is added to a log that is torn or damaged already.
        """
        segments = offsets_of(self.files.names(LOG)) if self.files.exists(LOG) else []
        if not segments or self._torn or self._damage is not None:
            return {"torn": False}
        name = segment_name(segments[-1])
        inode = self.files.inode(LOG / name)
        try:
            batches = list(split_batches(bytes(inode.data)))
        except BatchError:
            batches = []
        length = len(inode.data)
        if not batches or sum(map(len, batches)) != length:
            return {"torn": False}
        batch = batch_range(batches[-1])[1].to_bytes(8, "big") + batches[-1][8:]
        part = batch[: 1 + draw_below(len(batch) - 1, draw, "part")]
        inode.data += part
        self._torn = True
        return {"torn": True, "file": name, "byte": length, "bytes": len(part), "of": len(batch)}

    def cached(self, effect: Durable) -> bool:
        """Whether ``effect`` ends when the page cache has it."""
        return type(effect) in CACHED

    def early(self, effect: Durable) -> bool:
        """Whether watches must see ``effect`` even if a crash interrupted it: the next start shows
        whether it happened."""
        return isinstance(effect, AppendLog | FinishSnapshot)

    def fact(self, effect: Durable) -> str:
        """Return the text that stands for ``effect`` in a run's digest."""
        return fact(effect)

    @property
    def start_steps(self) -> int:
        """The most file changes of a start."""
        return RECOVERY_STEPS

    def refuses(self, error: Exception) -> bool:
        """Whether a start refused the damaged disk as corrupt."""
        return isinstance(error, LogCorruptError | QuorumStateError) and self.damaged

    @property
    def damaged(self) -> bool:
        """Whether a bit is flipped and no start has repaired it."""
        return self._damage is not None

    def restore(self) -> bool:
        """Change the flipped bit back unless a process has started; return whether it was done."""
        damage, self._damage = self._damage, None
        if damage is None:
            return False
        damage.flip()
        return True

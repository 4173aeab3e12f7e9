"""Everything a checker may look at: one run, from a folder or from memory.

Tables are read on first use. The same data is available as objects (``ops``,
``events``), which is how a run in memory begins, so the simulator pays for no
conversion it does not need.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec
import pyarrow as pa
from msgspec import structs

from kraftwreck.checkers.calls import Call, pair
from kraftwreck.checkers.recorded.capture import Capture, read_messages
from kraftwreck.checkers.recorded.clocks import node_clocks
from kraftwreck.checkers.recorded.stored_events import stored_events
from kraftwreck.histories.fault import FaultEvent
from kraftwreck.histories.members import Member, read_members
from kraftwreck.histories.operation import Op
from kraftwreck.histories.reading import read_faults, read_history, read_trace
from kraftwreck.histories.tables import (
    HISTORY_SCHEMA,
    TRACE_SCHEMA,
    HistoryError,
    from_table,
    to_table,
)
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.histories.undecodable import UNDECODABLE

FINAL = "final"
"""Label of the disk image taken after the last operation."""

LOG_FOLDER = "__cluster_metadata-0"
META_PROPERTIES = "meta.properties"
EPOCH_CHECKPOINT = "leader-epoch-checkpoint"

Result = TypeVar("Result")


class DiskImage(msgspec.Struct, kw_only=True, eq=False):
    """The content of one node's disk: at a kill (``label`` "kill-<k>") or at the end ("final").

    ``pieces`` are the metadata log from ``start_offset`` on, segments joined, as bytes in
    pieces: images of one disk may share them (:func:`share`). ``quorum_state`` is the decoded
    quorum-state file, None if there was none. ``snapshots`` are (file name, content) of the
    complete ones, in order of name. ``directory`` is the directory id in ``meta.properties``,
    None if unknown. ``epochs`` are the (epoch, start offset) entries of
    ``leader-epoch-checkpoint``, None if there is no such file.
    """

    node: str
    label: str
    pieces: tuple[bytes, ...]
    quorum_state: dict[str, Any] | None = None
    start_offset: int = 0
    snapshots: tuple[tuple[str, bytes], ...] = ()
    directory: str | None = None
    epochs: tuple[tuple[int, int], ...] | None = None

    @property
    def log(self) -> bytes:
        """The metadata log from ``start_offset`` on, joined on each use."""
        return b"".join(self.pieces)

    @log.setter
    def log(self, content: bytes) -> None:
        self.pieces = (content,)

    def __eq__(self, other: object) -> bool:
        """Return whether disks are equal, in whatever pieces their logs are kept."""
        if not isinstance(other, DiskImage):
            return NotImplemented
        one, two = (structs.replace(image, pieces=(image.log,)) for image in (self, other))
        return structs.astuple(one) == structs.astuple(two)


def share(log: bytes, before: Sequence[bytes]) -> tuple[bytes, ...]:
    """Return ``log`` in pieces that are shared with an older image as far as possible.

    So the log of a disk that is killed a thousand times is kept once, not a thousand times.
    """
    pieces: list[bytes] = []
    position = 0
    for piece in before:
        if not log.startswith(piece, position):
            break
        pieces.append(piece)
        position += len(piece)
    if position < len(log):
        pieces.append(log[position:])
    return tuple(pieces)


class RunData:
    """One run. ``test`` is the content of ``test.json``.

    ``ordered`` is True if ``events`` are in the order in which they happened, over all
    nodes: true for the simulator, which has one clock, and never for real hosts.
    """

    def __init__(self, test: dict[str, Any], *, ordered: bool = False) -> None:
        self.test = test
        self.ordered = ordered
        self._derived: dict[str, Any] = {}
        self._folder: Path | None = None

    @classmethod
    def from_memory(
        cls,
        ops: Sequence[Op],
        events: Sequence[TraceEvent],
        faults: Sequence[FaultEvent],
        images: Sequence[DiskImage],
        test: dict[str, Any],
        *,
        ordered: bool = False,
        capture: Capture | None = None,
    ) -> RunData:
        """Return a run from data in memory. Nothing is copied.

        ``capture`` are the messages between nodes, None if they were not captured.
        """
        run = cls(test, ordered=ordered)
        run.__dict__.update(
            ops=list(ops),
            events=list(events),
            faults=list(faults),
            images=list(images),
            capture=capture,
        )
        return run

    @classmethod
    def from_folder(cls, path: Path) -> RunData:
        """Return the run in folder ``path`` (complete or not).

        Raises :class:`~histories.tables.HistoryError` when ``test.json`` cannot be read;
        the other files are read on first use, with the same error.
        """
        file = path / "test.json"
        try:
            test = msgspec.json.decode(file.read_bytes(), type=dict[str, Any])
        except OSError as error:
            raise HistoryError(f"{file}: {error.strerror}") from error
        except UNDECODABLE as error:
            raise HistoryError(f"{file}: {error}") from error
        run = cls(test)
        run._folder = path
        return run

    @cached_property
    def ops(self) -> list[Op]:
        return from_table(read_history(self._where()), Op)

    @cached_property
    def events(self) -> Sequence[TraceEvent]:
        stored = stored_events(self._where())
        if stored is not None:
            return stored
        return from_table(read_trace(self._where()), TraceEvent)

    @cached_property
    def faults(self) -> list[FaultEvent]:
        return read_faults(self._where())

    @cached_property
    def images(self) -> list[DiskImage]:
        return read_images(self._where())

    @cached_property
    def members(self) -> dict[str, Member] | None:
        """The members as they were at the end, None if nobody asked."""
        return None if self._folder is None else read_members(self._folder)

    @cached_property
    def capture(self) -> Capture | None:
        """The messages between nodes, None if nothing was captured."""
        ids = {name: number for number, name in enumerate(self.nodes, start=1)}
        return read_messages(self._where(), ids, node_clocks(self.test))

    @cached_property
    def history(self) -> pa.Table:
        """The operations as a table of :data:`~histories.tables.HISTORY_SCHEMA`."""
        return to_table(self.ops, HISTORY_SCHEMA)

    @cached_property
    def trace(self) -> pa.Table:
        """The trace as a table of :data:`~histories.tables.TRACE_SCHEMA`."""
        return to_table(self.events, TRACE_SCHEMA)

    @cached_property
    def calls(self) -> list[Call]:
        """The operations, invocations joined with completions."""
        return pair(self.ops)

    @property
    def ended(self) -> int | None:
        """When the judged time ended (ns since the start), None if the run did not record it.

        Nodes are stopped only afterwards: no rule about passing time, or about the state at the
        end, considers anything later.
        """
        until = self.test.get("judged_until")
        return until if isinstance(until, int) else None

    @cached_property
    def nodes(self) -> list[str]:
        """Node names in order; the Kafka node id of a node is its position + 1."""
        named = self.test.get("nodes")
        if isinstance(named, list) and named:
            return [str(name) for name in named]
        return sorted({event.node for event in self.events})

    def derived(self, name: str, make: Callable[[RunData], Result]) -> Result:
        """Return ``make(self)``, computed once: several checkers share one pass."""
        if name not in self._derived:
            self._derived[name] = make(self)
        return cast(Result, self._derived[name])

    def _where(self) -> Path:
        assert self._folder is not None, "a run in memory has all its data"
        return self._folder


def read_images(run: Path) -> list[DiskImage]:
    """Return the disk images under ``nodes/<n>/images/<label>/``, by node and label.

    Raises :class:`~histories.tables.HistoryError` when a file cannot be read.
    """
    images = []
    for folder in sorted((run / "nodes").glob("*/images/*/")):
        log_folder = folder / LOG_FOLDER
        try:
            segments = sorted(log_folder.glob("*.log"))
            log = b"".join(path.read_bytes() for path in segments)
            snapshots = tuple(
                (path.name, path.read_bytes()) for path in sorted(log_folder.glob("*.checkpoint"))
            )
            directory = _directory_id(folder / META_PROPERTIES)
            state_file = log_folder / "quorum-state"
            state = None
            if state_file.exists():
                state = msgspec.json.decode(state_file.read_bytes())
        except OSError as error:
            raise HistoryError(f"{error.filename}: {error.strerror}") from error
        except UNDECODABLE as error:
            raise HistoryError(f"{log_folder}/quorum-state: {error}") from error
        if log_folder.is_dir():
            node = folder.parent.parent.name
            # A segment is named by the offset of its first record.
            start = int(segments[0].stem) if segments and segments[0].stem.isdecimal() else 0
            images.append(
                DiskImage(
                    node=node,
                    label=folder.name,
                    pieces=(log,),
                    quorum_state=state,
                    start_offset=start,
                    snapshots=snapshots,
                    directory=directory,
                    epochs=_epochs(log_folder / EPOCH_CHECKPOINT),
                )
            )
    return images


def _directory_id(path: Path) -> str | None:
    if not path.exists():
        return None
    for line in path.read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition("=")
        if key.strip() == "directory.id":
            return value.strip()
    return None


def _epochs(path: Path) -> tuple[tuple[int, int], ...] | None:
    return parse_checkpoint(path.read_bytes()) if path.exists() else None


def parse_checkpoint(content: bytes) -> tuple[tuple[int, int], ...]:
    """Return the entries of a leader-epoch-checkpoint; none for one that is torn."""
    entries = []
    for line in content.split(b"\n")[2:-1]:
        epoch, _, start = line.partition(b" ")
        if not (epoch.isdigit() and start.isdigit()):
            return ()
        entries.append((int(epoch), int(start)))
    return tuple(entries)

"""Replay of the committed log through the independent model, with a listener for each step.

Metadata transactions (KIP-868): the records between Begin and End become visible together,
at the End, and never after an Abort.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from kraftwreck.checkers.kraft.controller_model.metadata_model import (
    Change,
    Fields,
    MetadataModel,
    ModelError,
)
from kraftwreck.checkers.kraft.quorum_model.quorum import VoterSet
from kraftwreck.checkers.kraft.recorded.committed_log import (
    DECODING,
    CommittedLog,
    Segment,
    Snapshot,
    control_records,
    voter_set,
)
from kraftwreck.checkers.kraft.recorded.disk_log import StoredBatch
from kraftwreck.nodes.protocol.records import KRAFT_VERSION, KRAFT_VOTERS

BEGIN, END, ABORT = "BeginTransactionRecord", "EndTransactionRecord", "AbortTransactionRecord"


@dataclass(slots=True)
class Step:
    """One record when it becomes visible, and its ``batch``."""

    offset: int
    name: str
    fields: Fields
    change: Change | None
    batch: StoredBatch
    model: MetadataModel


class Listener(Protocol):
    """Judges the log as it is replayed."""

    def begin(self, segment: Segment, model: MetadataModel) -> None:
        """Begin a part of the log; ``model`` is the state before it."""

    def step(self, step: Step) -> None:
        """Look at a record that was applied."""

    def batch_end(self, batch: StoredBatch, count: int, model: MetadataModel) -> None:
        """End a batch: all ``count`` records were applied, and no transaction is open."""

    def refused(self, offset: int, name: str, why: str, batch: StoredBatch) -> bool:
        """Look at a record that contradicts the state; the replay continues without it.

        Returns whether the listener has judged it, so that the replay does not report it.
        """


@dataclass(slots=True)
class Replay:
    """The results of a replay without its listener."""

    records: int = 0
    transactions: int = 0
    transaction_errors: list[str] = field(default_factory=list)
    open_ranges: list[tuple[int, int]] = field(default_factory=list)
    """Offsets (first, last) of metadata transactions."""
    refusals: list[tuple[int, str]] = field(default_factory=list)
    """Records that contradict the state before them: (offset, why)."""
    voters: list[tuple[int, VoterSet]] = field(default_factory=list)
    """(offset, voters) of the VotersRecords."""
    levels: list[tuple[int, int]] = field(default_factory=list)
    """(offset, kraft.version)."""
    compared: int = 0
    """Snapshots compared with the log before their end."""
    differences: list[tuple[Snapshot, str, Any, Any, Any]] = field(default_factory=list)
    """(snapshot, section, key, what the log gives, what the snapshot says)."""
    unreadable: list[tuple[Snapshot, str]] = field(default_factory=list)


def replay(log: CommittedLog, listener: Listener) -> Replay:
    """Replay all parts of ``log`` and compare the snapshots that end within them."""
    result = Replay()
    for segment in log.segments:
        _Run(log, segment, listener, result).run()
    return result


class _Run:
    """The replay of one part."""

    def __init__(
        self, log: CommittedLog, segment: Segment, listener: Listener, result: Replay
    ) -> None:
        self._log = log
        self._segment = segment
        self._listener = listener
        self._result = result
        self._open: list[tuple[int, str, Fields, StoredBatch]] | None = None
        self._begun = -1
        self._due: dict[int, list[Snapshot]] = {}
        for snapshot in log.snapshots:
            if snapshot.damage is None and snapshot is not segment.origin and snapshot.id[0] > 0:
                self._due.setdefault(snapshot.id[0], []).append(snapshot)

    def run(self) -> None:
        origin, decoder, result = self._segment.origin, self._log.decoder, self._result
        model = MetadataModel()
        if origin is not None:
            try:
                model = origin.model(decoder).copy()
            except DECODING as error:
                result.unreadable.append((origin, str(error)))
                return
        self._listener.begin(self._segment, model)
        if origin is not None and origin.id[0] > 0:
            self._compare(origin.id[0], model)
        for batch in self._segment.batches:
            if batch.control:
                self._control(batch)
            else:
                self._batch(batch, model)
            if batch.last + 1 in self._due and self._open is None:
                self._compare(batch.last + 1, model)

    def _control(self, batch: StoredBatch) -> None:
        for offset, kind, fields in control_records(batch):
            if kind == KRAFT_VOTERS:
                self._result.voters.append((offset, voter_set(fields["voters"])))
            elif kind == KRAFT_VERSION:
                self._result.levels.append((offset, fields["kraft_version"]))

    def _batch(self, batch: StoredBatch, model: MetadataModel) -> None:
        result = self._result
        try:
            records = self._log.decoder.batch(batch)
        except DECODING as error:
            result.refusals.append((batch.base, str(error)))
            return
        result.records += len(records)
        for offset, name, fields in records:
            if name in (BEGIN, END, ABORT):
                self._transaction(offset, name, model)
            elif self._open is not None:
                self._open.append((offset, name, fields, batch))
            elif name != "NoOpRecord":
                self._apply(offset, name, fields, batch, model)
        if self._open is None:
            self._listener.batch_end(batch, len(records), model)

    def _transaction(self, offset: int, name: str, model: MetadataModel) -> None:
        result, waiting = self._result, self._open
        if name == BEGIN:
            if waiting is not None:
                result.transaction_errors.append(
                    f"a transaction begins at offset {offset} inside the one of {self._begun}"
                )
            self._open, self._begun = [], offset
            return
        if waiting is None:
            result.transaction_errors.append(
                f"{name} at offset {offset} ends a transaction that never began"
            )
            return
        self._open = None
        result.transactions += 1
        result.open_ranges.append((self._begun, offset))
        if name == END:
            for at, kind, fields, batch in waiting:
                self._apply(at, kind, fields, batch, model)

    def _apply(
        self, offset: int, name: str, fields: Fields, batch: StoredBatch, model: MetadataModel
    ) -> None:
        try:
            change = model.apply(name, fields)
        except ModelError as error:
            if not self._listener.refused(offset, name, str(error), batch):
                self._result.refusals.append((offset, str(error)))
            return
        self._listener.step(Step(offset, name, fields, change, batch, model))

    def _compare(self, end: int, model: MetadataModel) -> None:
        """I19: compare a snapshot with the state of the log before its end."""
        for snapshot in self._due.get(end, ()):
            try:
                found = model.difference(snapshot.model(self._log.decoder))
            except DECODING as error:
                self._result.unreadable.append((snapshot, str(error)))
                continue
            self._result.compared += 1
            if found is not None:
                self._result.differences.append((snapshot, *found))

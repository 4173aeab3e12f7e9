"""The committed log, assembled from all disks of a run, with its records decoded.

The traces show which batches are committed; their bytes come from any image that has them. If all
logs were cleaned there is a gap. After a gap the log continues at the end of a snapshot, whose
content is then accepted without proof.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from kraftwreck.checkers.kraft.controller_model.metadata_model import MetadataModel, ModelError
from kraftwreck.checkers.kraft.quorum_model.log_chain import Committed
from kraftwreck.checkers.kraft.quorum_model.quorum import VoterSet
from kraftwreck.checkers.kraft.recorded.disk_log import (
    StoredBatch,
    StoredLog,
    disk_logs,
    read_batches,
)
from kraftwreck.checkers.kraft.recorded.trace import quorum_model
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.nodes.log.batch import BatchError, decode_batch
from kraftwreck.nodes.log.snapshots import (
    SnapshotCorruptError,
    SnapshotHeader,
    data_records,
    parse_snapshot_name,
    verify,
)
from kraftwreck.nodes.protocol.codec import ProtocolError
from kraftwreck.nodes.protocol.records import decode_control, decode_record

SnapshotId = tuple[int, int]
Records = list[tuple[int, str, dict[str, Any]]]
"""(offset, name, fields) of the metadata records of a batch."""


class Segment(NamedTuple):
    """An unbroken part of the committed log. ``origin`` is the snapshot it begins after, None
    at the beginning of the log."""

    origin: Snapshot | None
    batches: list[StoredBatch]

    @property
    def start(self) -> int:
        return self.origin.id[0] if self.origin is not None else 0

    @property
    def end(self) -> int:
        return self.batches[-1].last + 1 if self.batches else self.start


@dataclass(slots=True, eq=False)
class Snapshot:
    """One snapshot file; files with equal bytes are one. ``damage`` is the error in it."""

    id: SnapshotId
    content: bytes
    where: str
    header: SnapshotHeader | None = None
    damage: str | None = None
    _model: MetadataModel | None = None

    def model(self, decoder: Decoder) -> MetadataModel:
        """Return the state in it. Raises ModelError, BatchError and ProtocolError."""
        if self._model is None:
            model = MetadataModel()
            for record in data_records(self.content):
                name, fields = decoder.record(record)
                model.apply(name, fields)
            self._model = model
        return self._model


class Decoder:
    """Decodes records; equal bytes are decoded once."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[str, dict[str, Any]]] = {}

    def record(self, data: bytes) -> tuple[str, dict[str, Any]]:
        """Return name and fields of a framed metadata record. Raises ProtocolError."""
        found = self._known.get(data)
        if found is None:
            name, _, fields = decode_record(data)
            found = self._known[data] = (name, fields)
        return found

    def batch(self, batch: StoredBatch) -> Records:
        """Return the metadata records of a batch that is not a control batch."""
        return [
            (offset, *self.record(value or b"")) for offset, _, value in decode_batch(batch.data)[1]
        ]


class CommittedLog:
    """``segments`` in order; ``snapshots`` are all complete files of the images."""

    def __init__(
        self,
        committed: dict[int, Committed],
        logs: Iterable[StoredLog],
        written: Iterable[bytes] = (),
    ) -> None:
        logs = list(logs)
        self.decoder = Decoder()
        self.snapshots = list(_snapshots(logs))
        stored = {batch.key: batch for log in logs for batch in log.fresh}
        wanted = {(*entry.id, entry.crc) for entry in committed.values()}
        if lacking := wanted - stored.keys():
            stored |= {batch.key: batch for batch in read_batches(written) if batch.key in lacking}
        chain = {key[0]: stored[key] for key in wanted & stored.keys()}
        self.missing = len(wanted) - len(chain)
        """Committed batches whose bytes are in no image."""
        self.segments = list(self._join(chain))

    def _join(self, chain: dict[int, StoredBatch]) -> Iterable[Segment]:
        """Yield the parts: from 0, or from the end of a snapshot, as far as batches exist."""
        usable = [s for s in self.snapshots if s.damage is None]
        origins = {s.id[0]: s for s in sorted(usable, key=lambda s: s.id, reverse=True)}
        begins = sorted({0, *origins})
        reached = -1
        for begin in begins:
            if begin <= reached or begin not in chain:
                continue
            batches = []
            at = begin
            while at in chain:
                batches.append(chain[at])
                at = chain[at].last + 1
            reached = at
            # The snapshot made by formatting, (0, 0), becomes records of the log: it is no state.
            yield Segment(origins.get(begin) if begin > 0 else None, batches)

    @property
    def whole(self) -> bool:
        """Whether no committed batch is missing."""
        return len(self.segments) == 1 and self.segments[0].start == 0


def _snapshots(logs: list[StoredLog]) -> Iterable[Snapshot]:
    known: set[tuple[str, bytes]] = set()
    for log in logs:
        for name, content in log.image.snapshots:
            identity = parse_snapshot_name(name)
            if identity is None or (name, content) in known:
                continue
            known.add((name, content))
            snapshot = Snapshot(identity, content, f"{log.image.node} ({log.image.label})")
            try:
                snapshot.header = verify(content, name)
            except SnapshotCorruptError as error:
                snapshot.damage = str(error)
            yield snapshot


def voter_set(voters: list[dict[str, Any]] | None) -> VoterSet:
    """Return the voters in a VotersRecord or in the header of a snapshot."""
    return frozenset((v["voter_id"], bytes(v["voter_directory_id"]).hex()) for v in voters or ())


def control_records(batch: StoredBatch) -> list[tuple[int, int, dict[str, Any]]]:
    """Return (offset, type, fields) of the records of a control batch."""
    return [
        (offset, *decode_control(key, value)) for offset, key, value in decode_batch(batch.data)[1]
    ]


DECODING = (BatchError, ProtocolError, ModelError)
"""Exceptions that malformed records may raise."""


def committed_log(run: RunData) -> CommittedLog:
    """Return ``run``'s committed log, assembled once for all checkers."""
    return run.derived(
        "committed-log",
        lambda run: CommittedLog(
            quorum_model(run).chain.committed,
            disk_logs(run),
            () if run.capture is None else run.capture.batches,
        ),
    )

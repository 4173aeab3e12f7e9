"""The loader: applies committed records to the image, and decides when to take a snapshot.

How a node uses it, all in its own single thread:

* ``loader = Loader(image, snapshot_bytes, snapshot_interval_ms, now)``;
* ``loader.committed(batch)`` for every committed batch, control batches too, in order and without a
  gap. It is only queued;
* ``loader.load(content, end, epoch, now)`` when a snapshot ``(end, epoch)`` replaces everything
  before ``end`` (at start, or after InstallSnapshot). Queued batches are dropped; the next batch
  committed must begin at ``end``. ``content`` was verified;
* ``loader.work(records) -> bool``: do at most about that many records of work; True if there is
  more. Batches are applied as a whole: one larger than ``records`` is one step. Call it in each
  step and again soon (a Tick now) while it returns True;
* ``loader.take_applied() -> list[Applied]``: the batches applied since the last call, in order, so
  that the controller answers requests that waited for them and brokers publish them.
  ``Applied(offset, epoch, is_control, loaded, digest)``: ``loaded`` is set on the end of a
  snapshot's load;
* ``loader.busy``: there is queued or half-loaded work, so the image is behind the high watermark.
  Delay a claim of leadership until it is False (KAFKA-15345);
* ``loader.due(now) -> (end, epoch) | None``: the snapshot that should be taken now. It stays due
  until ``begin_snapshot``. ``loader.next_due(now)``: when to ask again though nothing happens;
* ``loader.begin_snapshot(header, now) -> (end, epoch)``: freeze the image. ``header`` is the first
  batch (``nodes.log.snapshots.header_batch``); its epoch must be that of ``due``, and all batches
  get its timestamp;
* ``loader.next_piece(records) -> bytes | None``: the next whole batches to append to the file, the
  header first, the footer last; ``loader.generating`` is ``(end, epoch)`` until the footer was
  returned, then None. One or a few pieces per step;
* ``loader.abandon_snapshot()``: stop generating; ``load`` does that by itself, so read
  ``generating`` before ``load`` and drop the unfinished file.

``now`` is monotonic microseconds. The image never shows a half-loaded snapshot: a new image is
built beside it and replaces it at the end, so no entry survives that the snapshot lacks
(KAFKA-14894). The old content is freed piece by piece.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

from kraftwreck.nodes.consensus.effects import FatalError
from kraftwreck.nodes.log.batch import BatchError, BatchHeader, decode_records, parse_header
from kraftwreck.nodes.log.snapshots import data_records
from kraftwreck.nodes.metadata.image import MetadataImage
from kraftwreck.nodes.metadata.image_values import Fields
from kraftwreck.nodes.metadata.periodic import NEVER
from kraftwreck.nodes.metadata.record_cache import RecordCache
from kraftwreck.nodes.metadata.snapshot import PIECE_RECORDS, SnapshotBuilder
from kraftwreck.nodes.protocol.codec import ProtocolError
from kraftwreck.nodes.protocol.records import decode_record

WORK_RECORDS: Final = 500
"""Records of one :meth:`Loader.work`: some 5 to 10 ms."""
_FREED_PER_RECORD: Final = 10
"""Freeing an entry costs about a tenth of applying a record."""
_MICROSECONDS: Final = 1000


class Applied(NamedTuple):
    """The image now contains everything up to ``offset``, the end of a batch of ``epoch``.

    ``loaded``: by a snapshot that ends there. Then ``digest`` is the image's digest at that point,
    if it keeps one.
    """

    offset: int
    epoch: int
    is_control: bool
    loaded: bool = False
    digest: str = ""


class _Load:
    """A snapshot that is being loaded into an image of its own."""

    def __init__(self, content: bytes, end: int, epoch: int, like: MetadataImage) -> None:
        self.end = end
        self.epoch = epoch
        self.image = MetadataImage(indexed=like.index is not None)
        if like.keeps_digest:
            self.image.digest()
        self._records: Iterator[bytes] = data_records(content)
        self._applied = 0

    def work(self, records: int) -> int:
        """Apply up to ``records`` more; return how many there were."""
        decoded = []
        try:
            for value in islice(self._records, records):
                name, _, fields = decode_record(value)
                decoded.append((name, fields))
        except (ProtocolError, BatchError) as error:
            raise FatalError(
                f"cannot read snapshot {self.end}-{self.epoch} after "
                f"{self._applied + len(decoded)} records: {error}"
            ) from error
        self._applied += len(decoded)
        if decoded:
            self.image.commit(self._applied - 1, 0, decoded)
            if self.image.in_transaction:
                raise FatalError(f"snapshot {self.end}-{self.epoch} holds a metadata transaction")
        return len(decoded)


class Loader:
    """Applies the committed log to ``image``; the module docstring explains its use.

    A snapshot is due once ``snapshot_bytes`` of batches were committed since the last one, or any
    byte and ``snapshot_interval_ms`` have passed (0: no limit by time).
    """

    def __init__(
        self,
        image: MetadataImage,
        snapshot_bytes: int = 20 << 20,
        snapshot_interval_ms: int = 3_600_000,
        now: int = 0,
    ) -> None:
        self.image = image
        self._snapshot_bytes = snapshot_bytes
        self._interval = snapshot_interval_ms * _MICROSECONDS
        self._bytes = 0
        self._since = now
        self._queue: deque[bytes] = deque()
        self._applied: list[Applied] = []
        self._load: _Load | None = None
        self._builder: SnapshotBuilder | None = None
        self._records = RecordCache()
        self._garbage: list[dict[Any, Any]] = []

    @property
    def busy(self) -> bool:
        """Whether the image is behind the committed log or is being loaded."""
        return self._load is not None or bool(self._queue)

    @property
    def idle(self) -> bool:
        """Whether :meth:`work` has nothing to do."""
        return not (self._queue or self._load or self._garbage)

    @property
    def loading(self) -> tuple[int, int] | None:
        """The snapshot being loaded, (end, epoch)."""
        return None if self._load is None else (self._load.end, self._load.epoch)

    @property
    def generating(self) -> tuple[int, int] | None:
        """The snapshot being generated, (end, epoch), until its footer was returned."""
        builder = self._builder
        return None if builder is None else (builder.end, builder.epoch)

    # --- the log ------------------------------------------------------------------------

    def committed(self, batch: bytes) -> None:
        """Queue one committed batch."""
        self._queue.append(batch)

    def load(self, content: bytes, end: int, epoch: int, now: int = 0) -> None:
        """Begin to load a snapshot that replaces the image; drop all queued batches."""
        self.abandon_snapshot()
        self._queue.clear()
        if self._load is not None:
            self._garbage.extend(self._load.image.discard())
        self._load = _Load(content, end, epoch, self.image)
        self._bytes = 0
        self._since = now

    def work(self, records: int = WORK_RECORDS) -> bool:
        """Do a bounded piece of work; return whether there is more.

        Raises :class:`FatalError` for data that cannot be read or contradicts the image.
        """
        if self.idle:
            return False
        while records > 0 and self.busy:
            if self._load is not None:
                done = self._load.work(records)
                if done < records:
                    self._install(self._load)
                records -= max(1, done)
            else:
                records -= max(1, self._apply(self._queue.popleft()))
        self._free(records * _FREED_PER_RECORD)
        return self.busy or bool(self._garbage)

    def take_applied(self) -> list[Applied]:
        """Return the batches and snapshots applied since the last call."""
        applied, self._applied = self._applied, []
        return applied

    def _install(self, load: _Load) -> None:
        self._garbage.extend(self.image.replace(load.image, load.end, load.epoch))
        self._load = None
        self._records.clear()
        digest = self.image.digest() if self.image.keeps_digest else ""
        self._applied.append(Applied(load.end - 1, load.epoch, False, True, digest))

    def _apply(self, batch: bytes) -> int:
        image = self.image
        header = parse_header(batch)
        if header.base_offset != image.committed_offset + 1:
            raise FatalError(
                f"committed batch at offset {header.base_offset} "
                f"follows offset {image.committed_offset}"
            )
        records: list[tuple[str, Fields]] = []
        if not header.is_control and not image.is_proposed(header.last_offset, header.epoch):
            records = _decoded(batch, header)
        image.commit(header.last_offset, header.epoch, records)
        self._bytes += len(batch)
        self._applied.append(Applied(header.last_offset, header.epoch, header.is_control))
        return header.count

    def _free(self, entries: int) -> None:
        while self._garbage and entries > 0:
            discarded = self._garbage[-1]
            count = min(entries, len(discarded))
            for _ in range(count):
                discarded.popitem()
            if not discarded:
                self._garbage.pop()
            entries -= max(1, count)

    # --- snapshots ----------------------------------------------------------------------

    def due(self, now: int) -> tuple[int, int] | None:
        """Return (end offset, epoch) of the snapshot that should be taken now, if any.

        None while one is being made or loaded, and inside of a metadata transaction.
        """
        image = self.image
        if self._bytes < self._snapshot_bytes or self._bytes == 0:
            late = self._interval > 0 and now - self._since >= self._interval
            if self._bytes == 0 or not late:
                return None
        if self._builder is not None or self._load is not None or image.in_transaction:
            return None
        return image.stable_offset + 1, image.stable_epoch

    def next_due(self, now: int) -> int:
        """Return when a snapshot will be due by its age, :data:`NEVER` if it is or none will be."""
        at = self._since + self._interval
        return at if self._bytes and self._interval > 0 and at > now else NEVER

    def begin_snapshot(self, header: bytes, now: int = 0) -> tuple[int, int]:
        """Freeze the committed image and begin its snapshot; return (end offset, epoch)."""
        if self._builder is not None or self._load is not None:
            raise FatalError("a snapshot was begun while another is made or loaded")
        frozen = self.image.freeze()
        builder = self._builder = SnapshotBuilder(frozen, header, self._records)
        self._bytes = 0
        self._since = now
        return builder.end, builder.epoch

    def next_piece(self, records: int = PIECE_RECORDS) -> bytes | None:
        """Return the next batches of the snapshot being made; None if there is none."""
        builder = self._builder
        if builder is None:
            return None
        piece = builder.next_piece(records)
        if builder.done:
            self._builder = None
        return piece

    def abandon_snapshot(self) -> None:
        """Stop making a snapshot, if one is being made."""
        if self._builder is not None:
            self._builder.abandon()
            self._builder = None


def _decoded(batch: bytes, header: BatchHeader) -> list[tuple[str, Fields]]:
    records: list[tuple[str, Fields]] = []
    offset = header.base_offset
    try:
        for _, _, value in decode_records(batch, header):
            if value is None:
                raise FatalError(f"empty metadata record in the batch at offset {offset}")
            name, _, fields = decode_record(value)
            records.append((name, fields))
    except (ProtocolError, BatchError) as error:
        raise FatalError(f"cannot read the metadata at offset {offset}: {error}") from error
    return records

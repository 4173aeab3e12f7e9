"""The metadata image: the state defined by a prefix of the metadata log.

Every node builds the same image from the same records, in two layers (see
:mod:`nodes.metadata.timeline`). The *stable* layer holds committed metadata. Reading the image
reads the *head*, which has two more kinds of records on top. These are the active controller's
uncommitted records, and the committed records of an open metadata transaction (KIP-868), which
become stable only with its end. On a standby without an open transaction the two layers are the
same, so claiming leadership costs nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from kraftwreck.nodes.consensus.effects import FatalError
from kraftwreck.nodes.metadata.image_digest import MODULUS, hash_of, is_same
from kraftwreck.nodes.metadata.image_records import apply_record, apply_records
from kraftwreck.nodes.metadata.image_tables import ImageTables
from kraftwreck.nodes.metadata.image_values import (
    BROKER,
    NEXT_PRODUCER_ID,
    TOPIC,
    Broker,
    ControllerRegistration,
    Entity,
    Fields,
    ImageView,
    Listener,
    Partition,
    PartitionKey,
    SupportedFeature,
    Topic,
)
from kraftwreck.nodes.metadata.timeline import Absent

__all__ = [
    "BROKER",
    "TOPIC",
    "Broker",
    "ControllerRegistration",
    "Fields",
    "Frozen",
    "ImageView",
    "Layer",
    "Listener",
    "MetadataImage",
    "Partition",
    "PartitionKey",
    "SupportedFeature",
    "Topic",
]

Records = Sequence[tuple[str, Fields]]
"""Record names and fields, at consecutive offsets."""

_BEGIN: Final = "BeginTransactionRecord"
_END: Final = "EndTransactionRecord"
_ABORT: Final = "AbortTransactionRecord"
_MARKS: Final = frozenset((_BEGIN, _END, _ABORT))
_MOST_HASHES: Final = 4096
"""Remembered hashes of entries: an entry that has just changed often changes again."""


class Layer:
    """One layer of an image: :class:`ImageView` over maps that are not the head."""

    def __init__(self, image: MetadataImage, maps: Mapping[str, Mapping[Any, Any]]) -> None:
        self._image = image
        self._maps = maps
        self.topics: Mapping[str, Topic] = maps["topics"]
        self.names: Mapping[bytes, str] = maps["names"]
        self.partitions: Mapping[PartitionKey, Partition] = maps["partitions"]
        self.configs: Mapping[tuple[int, str], Mapping[str, str]] = maps["configs"]
        self.features: Mapping[str, int] = maps["features"]
        self.brokers: Mapping[int, Broker] = maps["brokers"]
        self.controllers: Mapping[int, ControllerRegistration] = maps["controllers"]
        self.quotas: Mapping[tuple[Entity, str], float] = maps["quotas"]
        self.acls: Mapping[bytes, tuple[Any, ...]] = maps["acls"]
        self.scram: Mapping[tuple[str, int], tuple[Any, ...]] = maps["scram"]
        self.tokens: Mapping[str, tuple[Any, ...]] = maps["tokens"]
        self.numbers: Mapping[str, int] = maps["numbers"]

    @property
    def last_offset(self) -> int:
        """The last offset this layer contains."""
        return self._image.stable_offset

    @property
    def last_epoch(self) -> int:
        """The epoch of that record."""
        return self._image.stable_epoch

    @property
    def next_producer_id(self) -> int:
        """The first producer id that was not allocated yet."""
        return self.numbers.get(NEXT_PRODUCER_ID, 0)


class Frozen(Layer):
    """The stable layer as it was at one offset; later changes of the image do not affect it.

    There may be one at a time; :meth:`release` ends it.
    """

    def __init__(self, image: MetadataImage) -> None:
        super().__init__(image, {name: of.freeze() for name, of in image.maps.items()})
        self._offset, self._epoch = image.stable_offset, image.stable_epoch

    @property
    def last_offset(self) -> int:
        return self._offset

    @property
    def last_epoch(self) -> int:
        return self._epoch

    def release(self) -> None:
        """End the view; the image no longer keeps replaced values."""
        for of in self._image.maps.values():
            of.thaw()


class MetadataImage(ImageTables):
    """Cluster metadata after a prefix of the log; reading it reads the head.

    ``last_offset``, ``last_epoch``: the last record in the head. ``committed_offset``,
    ``committed_epoch``: the last committed record applied. ``stable_offset``, ``stable_epoch``: the
    last record in the stable layer, the same unless a transaction is open. Offsets are -1 and
    epochs 0 at first. Equality and :meth:`digest` ignore them: nodes whose logs differ only in NoOp
    records compare equal.
    """

    def __init__(self, indexed: bool = True) -> None:
        super().__init__(indexed)
        self.stable = Layer(self, {name: of.stable for name, of in self.maps.items()})
        self.last_offset = self.committed_offset = self.stable_offset = -1
        self.last_epoch = self.committed_epoch = self.stable_epoch = 0
        self._proposals: deque[tuple[int, int, Records]] = deque()
        # Where the open transaction of the head began, and that of the committed log.
        self._head_begun: int | None = None
        self._begun: int | None = None
        self._open: list[tuple[int, Records]] = []
        self._sum: int | None = None
        self._hashes: dict[tuple[str, Any], int] = {}

    # --- reading ------------------------------------------------------------------------

    @property
    def keeps_digest(self) -> bool:
        """Whether :meth:`digest` has been called, so that every change maintains it."""
        return self._sum is not None

    @property
    def in_transaction(self) -> bool:
        """Whether the committed log ends inside of a metadata transaction."""
        return self._begun is not None

    @property
    def head_in_transaction(self) -> bool:
        """Whether the head, proposals included, ends inside of a metadata transaction."""
        return self._head_begun is not None

    @property
    def proposed(self) -> int:
        """How many batches are proposed and not committed."""
        return len(self._proposals)

    # --- the log ------------------------------------------------------------------------

    def propose(self, offset: int, epoch: int, records: Records) -> None:
        """Apply the records of one batch to the head; ``offset`` is that of the last one.

        Raises :class:`FatalError` if they contradict the head; :meth:`revert` then undoes
        the part that was applied.
        """
        self._check_order(self.last_offset, self.last_epoch, offset, epoch)
        self._apply(offset, records)
        self._proposals.append((offset, epoch, records))
        self.last_offset, self.last_epoch = offset, epoch

    def is_proposed(self, offset: int, epoch: int) -> bool:
        """Return whether the next committed batch, ending at ``offset``, is the next proposal.

        Then :meth:`commit` needs no records: equal offset and epoch mean equal batches.
        """
        return bool(self._proposals) and self._proposals[0][:2] == (offset, epoch)

    def commit(self, offset: int, epoch: int, records: Records) -> None:
        """Apply one committed batch; ``offset`` is that of its last record.

        If the batch is not the next proposal, all proposals are reverted. Raises
        :class:`FatalError` for records that contradict the image.
        """
        self._check_order(self.committed_offset, self.committed_epoch, offset, epoch)
        if self.is_proposed(offset, epoch):
            records = self._proposals.popleft()[2]
            self._settle(offset, epoch, records, _marked(records))
            return
        if self._proposals and self._proposals[0][1] != epoch:
            self.revert()  # another leader's log replaced the proposals
        if self._proposals and (records or self._proposals[0][0] <= offset):
            raise FatalError(f"the records up to offset {offset} were appended, never proposed")
        marked = _marked(records)
        if self._begun is not None or marked:
            self._apply(offset, records)
        else:
            self.timeline.version = None
            apply_records(self, records)
        self._settle(offset, epoch, records, marked)

    def advance(self, offset: int, epoch: int) -> None:
        """Record a committed batch without metadata records (a control batch)."""
        self.commit(offset, epoch, ())

    def revert(self) -> None:
        """Forget all proposals: the head is the committed log again."""
        self._proposals.clear()
        self.timeline.revert(self.stable_offset)
        self.last_offset, self.last_epoch = self.committed_offset, self.committed_epoch
        # A proposed abort has removed the open transaction from the head.
        self._head_begun = None
        for offset, records in self._open:
            self._apply(offset, records)

    def _check_order(self, offset: int, epoch: int, to_offset: int, to_epoch: int) -> None:
        if to_offset <= offset or to_epoch < epoch:
            raise FatalError(
                f"metadata went back from offset {offset} epoch {epoch} "
                f"to offset {to_offset} epoch {to_epoch}"
            )

    def _apply(self, offset: int, records: Records) -> None:
        """Apply records to the head; with marks of transactions each at its own offset."""
        timeline = self.timeline
        if not _marked(records):
            # They are committed or reverted together.
            timeline.version = offset
            apply_records(self, records)
            return
        start = offset - len(records) + 1
        for number, (name, fields) in enumerate(records, start):
            if name == _BEGIN:
                if self._head_begun is not None:
                    raise FatalError(f"transaction begins inside another at offset {number}")
                self._head_begun = number
            elif name in (_END, _ABORT):
                if self._head_begun is None:
                    raise FatalError(f"{name} at offset {number} without a transaction")
                if name == _ABORT:
                    timeline.revert(self._head_begun - 1)
                self._head_begun = None
            else:
                timeline.version = number
                apply_record(self, name, fields)

    def _settle(self, offset: int, epoch: int, records: Records, marked: bool) -> None:
        """Move the stable layer up to ``offset``, or to the start of the open transaction."""
        start = offset - len(records) + 1
        if marked:
            for number, (name, _) in enumerate(records, start):
                if name == _BEGIN:
                    self._begun = number
                    self._open.clear()
                elif name in (_END, _ABORT):
                    self._begun = None
                    self._open.clear()
        self.committed_offset, self.committed_epoch = offset, epoch
        if not self._proposals:
            self.last_offset, self.last_epoch = offset, epoch
        if self._begun is None:
            self.timeline.commit(offset)
            self.stable_offset, self.stable_epoch = offset, epoch
            return
        if self._begun > start:
            self.stable_epoch = epoch
        self.stable_offset = self._begun - 1
        self.timeline.commit(self.stable_offset)
        if records:
            self._open.append((offset, records[max(0, self._begun - start) :]))

    # --- whole images -------------------------------------------------------------------

    def freeze(self) -> Frozen:
        """Return the stable layer as it is now. Raises :class:`FatalError` in a transaction."""
        if self._begun is not None:
            raise FatalError("a snapshot inside of a metadata transaction")
        return Frozen(self)

    def replace(self, other: MetadataImage, end: int, epoch: int) -> list[dict[Any, Any]]:
        """Become ``other``, which is the state at log offset ``end`` (exclusive) of ``epoch``.

        Proposals and an open transaction are dropped. Returns the old content, which the caller may
        free a piece at a time. ``other`` must not be used afterwards.
        """
        self._open.clear()
        self._begun = None
        self.revert()
        old = self._take(other)
        self._sum = None if self._sum is None else other._checksum()
        self._hashes = {}
        self.last_offset = self.committed_offset = self.stable_offset = end - 1
        self.last_epoch = self.committed_epoch = self.stable_epoch = epoch
        return old

    def discard(self) -> list[dict[Any, Any]]:
        """Give up the content, to be freed a piece at a time; only for an image without users."""
        return self._take(MetadataImage(indexed=self.index is not None))

    def _take(self, other: MetadataImage) -> list[dict[Any, Any]]:
        old: list[dict[Any, Any]] = []
        for name, of in self.maps.items():
            old.append(of.take(other.maps[name]))
        if self.index is not None and other.index is not None:
            old.extend(self.index.take(other.index))
        return old

    def __eq__(self, other: object) -> bool:
        """Compare the stable layers."""
        if not isinstance(other, MetadataImage):
            return NotImplemented
        return all(of.stable == other.maps[name].stable for name, of in self.maps.items())

    def digest(self) -> str:
        """Return 32 hex digits that are equal for equal stable layers on every interpreter.

        The first call costs the size of the image; from then on every change keeps the
        digest, and reading it costs nothing.
        """
        return f"{self._checksum():032x}"

    def _checksum(self) -> int:
        if self._sum is None:
            total = 0
            for name, of in self.maps.items():
                for key, value in of.stable.items():
                    total += hash_of(name, key, value)
            self._sum = total % MODULUS
            for name, of in self.maps.items():
                of.watch_stable(partial(self._keep, name))
        return self._sum

    def _keep(self, name: str, key: Any, old: Any, new: Any) -> None:
        if self._sum is None or is_same(old, new):
            return
        hashes = self._hashes
        before = 0
        if not isinstance(old, Absent):
            known = hashes.pop((name, key), None)
            before = hash_of(name, key, old) if known is None else known
        after = hash_of(name, key, new)
        if after:
            if len(hashes) >= _MOST_HASHES:
                hashes.clear()
            hashes[name, key] = after
        self._sum = (self._sum + after - before) % MODULUS


def _marked(records: Records) -> bool:
    """Return whether a metadata transaction begins or ends within the records."""
    if len(records) == 1:
        return records[0][0] in _MARKS
    return any(name in _MARKS for name, _ in records)

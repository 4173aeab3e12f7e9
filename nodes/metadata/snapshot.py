"""The bytes of a snapshot, made a piece at a time from a frozen image (KIP-630)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from kraftwreck.nodes.consensus.effects import FatalError
from kraftwreck.nodes.log.batch import parse_header
from kraftwreck.nodes.log.snapshots import data_batch, footer_batch
from kraftwreck.nodes.metadata.image import Frozen
from kraftwreck.nodes.metadata.record_cache import RecordCache

PIECE_RECORDS: Final = 1000
"""Most records in a piece: some 10 ms of work and 100 KB."""
PIECE_BYTES: Final = 1 << 18
"""A piece is closed once its records reach this many bytes."""


class SnapshotBuilder:
    """Makes the snapshot of ``frozen``; ``header`` is its first batch, written by the quorum.

    All batches have the epoch and the timestamp of the header. ``cache`` keeps records of the
    snapshot before. Raises :class:`FatalError` if the header is of another epoch than the image.
    """

    def __init__(self, frozen: Frozen, header: bytes, cache: RecordCache) -> None:
        parsed = parse_header(header)
        if parsed.epoch != frozen.last_epoch:
            raise FatalError(
                f"snapshot header of epoch {parsed.epoch} for metadata of epoch {frozen.last_epoch}"
            )
        self.end = frozen.last_offset + 1
        self.epoch = parsed.epoch
        self._timestamp = parsed.base_timestamp
        self._next = parsed.last_offset + 1
        self._header: bytes | None = header
        self._frozen = frozen
        self._records: Iterator[bytes] | None = cache.encode(frozen)

    @property
    def done(self) -> bool:
        """Whether every piece was returned, or :meth:`abandon` was called."""
        return self._records is None

    def next_piece(
        self, records: int = PIECE_RECORDS, most_bytes: int = PIECE_BYTES
    ) -> bytes | None:
        """Return the next whole batches: the header first, the footer last, then None.

        At most ``records`` metadata records are in one piece, and only the last one of them reaches
        ``most_bytes``.
        """
        if self._header is not None:
            header, self._header = self._header, None
            return header
        if self._records is None:
            return None
        chosen: list[bytes] = []
        size = 0
        for record in islice(self._records, records):
            chosen.append(record)
            size += len(record)
            if size >= most_bytes:
                break
        base = self._next
        if chosen:
            self._next += len(chosen)
            return data_batch(base, self.epoch, self._timestamp, chosen)
        self.abandon()
        return footer_batch(base, self.epoch, self._timestamp)

    def abandon(self) -> None:
        """Release the frozen image; the remaining pieces are not made."""
        if self._records is not None:
            self._records = None
            self._header = None
            self._frozen.release()

"""The state that a node recovers from its disk at start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kraftwreck.nodes.consensus.effects import WriteQuorumState


@dataclass(slots=True, frozen=True)
class SnapshotFile:
    """A complete snapshot on disk: it covers every record below ``end_offset``.

    ``epoch`` is that of the record before ``end_offset``, ``size`` the bytes of the file and
    ``timestamp`` the last contained log timestamp of its header (wall-clock milliseconds). ``(0,
    0)`` is the bootstrap snapshot, which the formatter wrote (KIP-630, KIP-853).
    """

    end_offset: int
    epoch: int
    size: int = 0
    timestamp: int = 0

    @property
    def id(self) -> tuple[int, int]:
        """``(end offset, epoch)``."""
        return self.end_offset, self.epoch


@dataclass(slots=True)
class Recovered:
    """The durable state of a node, already repaired: no torn tail, no stale files.

    ``batches`` are whole batches from ``start_offset`` (the log start) on, ``snapshots`` the
    complete ones, oldest first, and ``latest`` the content of the last of them. A log that
    ends before the latest snapshot has been emptied to start at it.
    """

    quorum_state: WriteQuorumState | None = None
    batches: Sequence[bytes] = ()
    start_offset: int = 0
    snapshots: Sequence[SnapshotFile] = ()
    latest: bytes = field(default=b"", repr=False)


@dataclass(slots=True, frozen=True)
class Snapshot:
    """A snapshot for the listener to load: it replaces everything loaded before."""

    end_offset: int
    epoch: int
    content: bytes = field(repr=False)

"""KRaft as a :class:`~nodes.consensus.embedded.Core`: pull replication for an embedding service."""

from __future__ import annotations

from typing import Final

from kraftwreck.nodes.consensus.effects import (
    Event,
    RequestReceived,
    ResponseReceived,
    Shutdown,
)
from kraftwreck.nodes.consensus.kraft import poll, snapshots
from kraftwreck.nodes.consensus.kraft.config import QuorumConfig
from kraftwreck.nodes.consensus.kraft.replica import Replica
from kraftwreck.nodes.consensus.kraft.requests import handle_request
from kraftwreck.nodes.consensus.kraft.responses import handle_response
from kraftwreck.nodes.consensus.recovered import Recovered, Snapshot
from kraftwreck.nodes.log.batch import parse_header
from kraftwreck.nodes.log.snapshots import read_header

_PIECE: Final = 256 << 10


class KraftCore(Replica):
    """A replica of KRaft; its reads are entries in the log, so nothing is ever ``confirmed``."""

    def __init__(self, config: QuorumConfig, recovered: Recovered, now: int, wall_ms: int) -> None:
        super().__init__(config, recovered, now, wall_ms)
        self.confirmed: list[int] = []

    @property
    def term(self) -> int:
        """The epoch."""
        return self.epoch

    @property
    def deadline(self) -> int:
        """The time at which the next Tick is due, monotonic microseconds."""
        return poll.deadline(self)

    def handle(self, event: Event) -> None:
        """Handle a message or the shutdown."""
        if isinstance(event, RequestReceived):
            handle_request(self, event.token, event.message)
        elif isinstance(event, ResponseReceived):
            handle_response(self, event.source, event.correlation, event.message)
        elif isinstance(event, Shutdown):
            self.stop()

    def poll(self) -> None:
        """Do everything that is due at ``now``."""
        poll.poll(self)

    def begin_read(self) -> int | None:
        """Return None: the service appends a barrier."""
        return None

    def begin_snapshot(self) -> tuple[int, int, bytes] | None:
        """Return ``(end offset, epoch, first batch)`` of a snapshot of all committed, or None."""
        batch = self.log.batch_ending_at(self.high_watermark)
        if batch is None:
            return None
        epoch = parse_header(batch).epoch
        head = snapshots.begin(self, self.high_watermark, epoch)
        return None if head is None else (self.high_watermark, epoch, head)

    def finish_snapshot(self, snapshot: Snapshot) -> None:
        """Store a complete snapshot."""
        place = (snapshot.end_offset, snapshot.epoch)
        content = snapshot.content
        for position in range(0, len(content), _PIECE):
            snapshots.piece(self, *place, position, content[position : position + _PIECE])
        snapshots.finish(self, *place, len(content), read_header(content).timestamp, "")

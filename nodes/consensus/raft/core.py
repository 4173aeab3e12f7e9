"""Raft as a :class:`~nodes.consensus.embedded.Core`: push replication for an embedding service."""

from __future__ import annotations

from kraftwreck.nodes.consensus.effects import (
    Event,
    RequestReceived,
    ResponseReceived,
    Shutdown,
)
from kraftwreck.nodes.consensus.raft import poll, snapshots
from kraftwreck.nodes.consensus.raft.replica import RaftReplica
from kraftwreck.nodes.consensus.raft.requests import handle_request
from kraftwreck.nodes.consensus.raft.responses import handle_response
from kraftwreck.nodes.consensus.recovered import Snapshot


class RaftCore(RaftReplica):
    """A member of a Raft group."""

    @property
    def deadline(self) -> int:
        """The time at which the next Tick is due, monotonic microseconds."""
        return poll.deadline(self)

    def handle(self, event: Event) -> None:
        """Handle a message or the shutdown; a member that shuts down rejects every message."""
        if isinstance(event, Shutdown):
            self.stop()
        elif self.shutting_down:
            return
        elif isinstance(event, RequestReceived):
            handle_request(self, event.token, event.message)
        elif isinstance(event, ResponseReceived):
            handle_response(self, event.source, event.correlation, event.message)

    def poll(self) -> None:
        """Do everything that is due at ``now``."""
        poll.poll(self)

    def begin_read(self) -> int | None:
        """Begin a read by ReadIndex; None if that option is off."""
        return self.read() if self.config.read_index else None

    def begin_snapshot(self) -> tuple[int, int, bytes] | None:
        """Return ``(end offset, term, first batch)`` of a snapshot of all committed, or None."""
        return snapshots.begin(self)

    def finish_snapshot(self, snapshot: Snapshot) -> None:
        """Store a complete snapshot."""
        size = self.config.snapshot_piece_bytes
        for position in range(0, len(snapshot.content), size):
            snapshots.piece(self, snapshot, position, snapshot.content[position : position + size])
        snapshots.finish(self, snapshot)

"""The quorum as a library: a service embeds it instead of running ZooKeeper beside itself.

The service provides a :class:`StateMachine`; :class:`Embedded` replicates it. Like everything in
this package it is pure: events in, effects out (``nodes.consensus.effects``). A shell such as
``nodes.server.host`` carries out the effects. See ``docs/embedding.md``.

Guarantees to the service:
* every member applies the same records in the same order, each once (I23, I25);
* a proposal answered ``True`` is never lost; one answered ``False`` may or may not happen;
* after a barrier answered ``True``, the state that a leading member reads is not stale: no other
  member can have led and committed anything between the barrier's call and its answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from kraftwreck.nodes.consensus.effects import (
    Effect,
    Event,
    RequestReceived,
    ResponseReceived,
    Shutdown,
)
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.kraft import poll, snapshots
from kraftwreck.nodes.consensus.kraft.config import QuorumConfig
from kraftwreck.nodes.consensus.kraft.replica import Replica
from kraftwreck.nodes.consensus.kraft.requests import handle_request
from kraftwreck.nodes.consensus.kraft.responses import handle_response
from kraftwreck.nodes.consensus.recovered import Recovered, Snapshot
from kraftwreck.nodes.log.batch import decode_batch, parse_header
from kraftwreck.nodes.log.snapshots import data_batch, data_records, footer_batch, read_header

BARRIER: Final = b""
"""An empty record: it takes an offset and is never passed to the state machine."""

_RECORDS_PER_BATCH: Final = 1000
_PIECE: Final = 256 << 10

Done = Callable[[bool], None]
"""Called once with a proposal's outcome. True: committed and applied here; False: unknown."""


class NotLeaderError(Exception):
    """Only the leader accepts proposals; ``leader_id`` names it."""


class StateMachine(Protocol):
    """The replicated state. It must be deterministic: no clock, no randomness, no I/O."""

    def apply(self, offset: int, record: bytes) -> None:
        """Apply a committed record; ``offset`` is its offset in the log."""
        ...

    def snapshot(self) -> Iterable[bytes]:
        """Return records (not empty) from which :meth:`restore` rebuilds the present state."""
        ...

    def restore(self, records: Iterable[bytes]) -> None:
        """Replace the state by the one that the records of :meth:`snapshot` describe."""
        ...


@dataclass(slots=True)
class _Pending:
    epoch: int
    last_offset: int
    done: Done


class Embedded:
    """One member of a quorum that replicates ``machine``.

    ``snapshot_bytes`` is how many bytes of committed records lie between two snapshots.
    ``now`` is monotonic microseconds, ``wall_ms`` wall-clock milliseconds.
    """

    def __init__(
        self,
        config: QuorumConfig,
        recovered: Recovered,
        machine: StateMachine,
        now: int,
        wall_ms: int,
        *,
        snapshot_bytes: int = 1 << 20,
    ) -> None:
        self.replica = Replica(config, recovered, now, wall_ms)
        self._machine = machine
        self._snapshot_bytes = snapshot_bytes
        self._since_snapshot = 0
        self._pending: deque[_Pending] = deque()
        self._leads = -1

    @property
    def deadline(self) -> int:
        """The time at which the next Tick is due, monotonic microseconds."""
        return poll.deadline(self.replica)

    @property
    def leader_id(self) -> int:
        """The leader as far as known, -1 otherwise."""
        return self.replica.leader_id

    @property
    def leader_endpoint(self) -> Endpoint | None:
        """Where the leader listens, if known."""
        return self.replica.leader_endpoint

    @property
    def leads(self) -> bool:
        """Whether this member leads and has applied everything earlier leaders committed."""
        return self._leads >= 0

    def start(self, now: int, wall_ms: int) -> list[Effect]:
        """Initialize from the recovered state; call once, before any step."""
        self.replica.now, self.replica.wall_ms = now, wall_ms
        self.replica.start()
        return self.settle()

    def step(self, event: Event, now: int, wall_ms: int) -> list[Effect]:
        """Handle one event of the quorum (or a Tick) and return the effects for the shell."""
        replica = self.replica
        replica.now, replica.wall_ms = now, wall_ms
        if isinstance(event, RequestReceived):
            handle_request(replica, event.token, event.message)
        elif isinstance(event, ResponseReceived):
            handle_response(replica, event.source, event.correlation, event.message)
        elif isinstance(event, Shutdown):
            replica.stop()
        return self.settle()

    def propose(self, records: Sequence[bytes], done: Done) -> None:
        """Replicate ``records``, all or none, in this order; then :meth:`settle` or step.

        Raises :class:`NotLeaderError` with nothing done unless :attr:`leads`.
        """
        if not self.leads or self.replica.shutting_down:
            raise NotLeaderError(f"member {self.replica.node_id} does not lead")
        last = self.replica.append_records(self.replica.epoch, records)
        self._pending.append(_Pending(self.replica.epoch, last, done))

    def barrier(self, done: Done) -> None:
        """Call ``done`` when reads of the state are at least as new as this call."""
        self.propose([BARRIER], done)

    def settle(self) -> list[Effect]:
        """Let replica and state machine process all that is pending; return the effects."""
        replica = self.replica
        while True:
            poll.poll(replica)
            committed, replica.committed = replica.committed, []
            for delivery in committed:
                self._take(delivery)
            announcements, replica.announcements = replica.announcements, []
            for leader_id, epoch in announcements:
                self._leads = epoch if leader_id == replica.node_id else -1
            if not self.leads:
                self._give_up()
            if not replica.committed and not replica.announcements:
                break
        if self._since_snapshot >= self._snapshot_bytes:
            self._make_snapshot()
        effects, replica.effects = replica.effects, []
        return effects

    # --- inside -----------------------------------------------------------------------------

    def _take(self, delivery: bytes | Snapshot) -> None:
        if isinstance(delivery, Snapshot):
            self._machine.restore(data_records(delivery.content))
            self._since_snapshot = 0
            return
        header = parse_header(delivery)
        if not header.is_control:
            for offset, _, value in decode_batch(delivery)[1]:
                if value:
                    self._machine.apply(offset, bytes(value))
        self._since_snapshot += header.length
        while self._pending and self._pending[0].last_offset <= header.last_offset:
            pending = self._pending.popleft()
            pending.done(pending.epoch == header.epoch)

    def _give_up(self) -> None:
        while self._pending:
            self._pending.popleft().done(False)

    def _make_snapshot(self) -> None:
        replica = self.replica
        self._since_snapshot = 0
        end = replica.high_watermark
        batch = replica.log.batch_ending_at(end)
        if batch is None:
            return
        epoch = parse_header(batch).epoch
        head = snapshots.begin(replica, end, epoch)
        if head is None:
            return
        content = bytearray(head)
        offset = parse_header(head).last_offset + 1
        records = list(self._machine.snapshot())
        for first in range(0, len(records), _RECORDS_PER_BATCH):
            part = records[first : first + _RECORDS_PER_BATCH]
            content += data_batch(offset, epoch, replica.wall_ms, part)
            offset += len(part)
        content += footer_batch(offset, epoch, replica.wall_ms)
        for position in range(0, len(content), _PIECE):
            piece = bytes(content[position : position + _PIECE])
            snapshots.piece(replica, end, epoch, position, piece)
        timestamp = read_header(bytes(head)).timestamp
        snapshots.finish(replica, end, epoch, len(content), timestamp, "")

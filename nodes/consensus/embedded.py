"""A consensus core as a library: a service embeds it instead of running ZooKeeper beside itself.

The service provides a :class:`StateMachine`; :class:`Embedded` replicates it with any
:class:`Core`: KRaft (``kraft.core``) or Raft (``raft.core``). Like everything in this package it is
pure: events in, effects out (``nodes.consensus.effects``). A shell such as
``examples.lock_service.serve`` carries out the effects. See ``docs/embedding.md``.

Guarantees to the service:
* every member applies the same records in the same order, each once (I23, I25);
* a proposal whose outcome is certain is never lost; without that it may or may not happen;
* after a certain barrier, the state that a leading member reads is not stale: no other member can
  have led and committed anything between the barrier's call and its answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from kraftwreck.nodes.consensus.effects import Effect, Event
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.recovered import Snapshot
from kraftwreck.nodes.log.batch import decode_batch, parse_header
from kraftwreck.nodes.log.snapshots import data_batch, data_records, footer_batch

BARRIER: Final = b""
"""An empty record: it takes an offset and is never passed to the state machine."""

_RECORDS_PER_BATCH: Final = 1000


@dataclass(slots=True, frozen=True)
class Outcome:
    """The outcome of a proposal or a barrier.

    ``certain``: committed, and applied here. Otherwise it is unknown whether it will happen.
    ``results`` are what the state machine returned for each record.
    """

    certain: bool
    results: tuple[Any, ...] = ()


Done = Callable[[Outcome], None]
"""Called once with the outcome."""


class NotLeaderError(Exception):
    """Only the leader accepts proposals; ``leader_id`` names it."""


class StateMachine(Protocol):
    """The replicated state. It must be deterministic: no clock, no randomness, no I/O."""

    def apply(self, offset: int, record: bytes) -> object:
        """Apply a committed record at ``offset`` of the log; return its result for the client."""
        ...

    def snapshot(self) -> Iterable[bytes]:
        """Return records (not empty) from which :meth:`restore` rebuilds the present state."""
        ...

    def restore(self, records: Iterable[bytes]) -> None:
        """Replace the state by the one that the records of :meth:`snapshot` describe."""
        ...


class Core(Protocol):
    """One member of a replicated log, as :class:`Embedded` drives it; KRaft and Raft are cores.

    ``effects``, ``committed`` (batches, and snapshots that replace all before), ``announcements``
    (leader id and term) and ``confirmed`` (numbers of reads) are filled by the core and emptied by
    its owner.
    """

    now: int
    wall_ms: int
    node_id: int
    shutting_down: bool
    effects: list[Effect]
    committed: list[bytes | Snapshot]
    announcements: list[tuple[int, int]]
    confirmed: list[int]

    @property
    def term(self) -> int:
        """The present term, which KRaft calls epoch."""
        ...

    @property
    def leader_id(self) -> int:
        """The leader as far as known, -1 otherwise."""
        ...

    @property
    def leader_endpoint(self) -> Endpoint | None:
        """Where the leader listens, None if it is not known."""
        ...

    @property
    def deadline(self) -> int:
        """The time at which the next Tick is due, monotonic microseconds."""
        ...

    def start(self) -> None:
        """Begin from the recovered state."""
        ...

    def handle(self, event: Event) -> None:
        """Handle a message or the shutdown; a Tick needs nothing but :meth:`poll`."""
        ...

    def poll(self) -> None:
        """Do everything that is due at ``now``."""
        ...

    def append_records(self, epoch: int, records: Sequence[bytes]) -> int:
        """Append records as the leader of term ``epoch``; return the offset of the last one."""
        ...

    def begin_read(self) -> int | None:
        """Begin a read that ``confirmed`` completes; None if reads go through the log."""
        ...

    def begin_snapshot(self) -> tuple[int, int, bytes] | None:
        """Return ``(end offset, term, first batch)`` of a snapshot of all committed, or None."""
        ...

    def finish_snapshot(self, snapshot: Snapshot) -> None:
        """Store a complete snapshot."""
        ...


@dataclass(slots=True)
class _Pending:
    term: int
    last_offset: int
    done: Done


class Embedded:
    """One member that replicates ``machine`` with ``core``.

    ``snapshot_bytes`` is how many bytes of committed records lie between two snapshots.
    """

    def __init__(self, core: Core, machine: StateMachine, *, snapshot_bytes: int = 1 << 20) -> None:
        self.core = core
        self._machine = machine
        self._snapshot_bytes = snapshot_bytes
        self._since_snapshot = 0
        self._pending: deque[_Pending] = deque()
        self._reads: dict[int, Done] = {}
        self._leads = -1

    @property
    def deadline(self) -> int:
        """The time at which the next Tick is due, monotonic microseconds."""
        return self.core.deadline

    @property
    def leader_id(self) -> int:
        """The leader as far as known, -1 otherwise."""
        return self.core.leader_id

    @property
    def leader_endpoint(self) -> Endpoint | None:
        """Where the leader listens, if known."""
        return self.core.leader_endpoint

    @property
    def leads(self) -> bool:
        """Whether this member leads and has applied everything earlier leaders committed."""
        return self._leads >= 0

    def start(self, now: int, wall_ms: int) -> list[Effect]:
        """Initialize from the recovered state; call once, before any step.

        ``now`` is monotonic microseconds, ``wall_ms`` wall-clock milliseconds.
        """
        self.core.now, self.core.wall_ms = now, wall_ms
        self.core.start()
        return self.settle()

    def step(self, event: Event, now: int, wall_ms: int) -> list[Effect]:
        """Handle one event of the core (or a Tick) and return the effects for the shell."""
        self.core.now, self.core.wall_ms = now, wall_ms
        self.core.handle(event)
        return self.settle()

    def propose(self, records: Sequence[bytes], done: Done) -> None:
        """Replicate ``records``, all or none, in this order; then :meth:`settle` or step.

        Raises :class:`NotLeaderError` with nothing done unless :attr:`leads`.
        """
        self._check_leads()
        term = self.core.term
        self._pending.append(_Pending(term, self.core.append_records(term, records), done))

    def barrier(self, done: Done) -> None:
        """Call ``done`` when reads of the state are at least as new as this call.

        Raises :class:`NotLeaderError` with nothing done unless :attr:`leads`.
        """
        self._check_leads()
        read = self.core.begin_read()
        if read is None:
            self.propose([BARRIER], done)
        else:
            self._reads[read] = done

    def settle(self) -> list[Effect]:
        """Let core and state machine process all that is pending; return the effects."""
        core = self.core
        while True:
            core.poll()
            committed, core.committed = core.committed, []
            for delivery in committed:
                self._take(delivery)
            # Only now: everything committed before a confirmation is applied.
            confirmed, core.confirmed = core.confirmed, []
            for read in confirmed:
                if read in self._reads:
                    self._reads.pop(read)(Outcome(True))
            announcements, core.announcements = core.announcements, []
            for leader_id, term in announcements:
                self._leads = term if leader_id == core.node_id else -1
            if not self.leads:
                self._give_up()
            if not core.committed and not core.announcements:
                break
        if self._since_snapshot >= self._snapshot_bytes:
            self._make_snapshot()
        effects, core.effects = core.effects, []
        return effects

    # --- inside -----------------------------------------------------------------------------

    def _check_leads(self) -> None:
        if not self.leads or self.core.shutting_down:
            raise NotLeaderError(f"member {self.core.node_id} does not lead")

    def _take(self, delivery: bytes | Snapshot) -> None:
        if isinstance(delivery, Snapshot):
            self._machine.restore(data_records(delivery.content))
            self._since_snapshot = 0
            return
        header = parse_header(delivery)
        results: list[object] = []
        if not header.is_control:
            for offset, _, value in decode_batch(delivery)[1]:
                if value:
                    results.append(self._machine.apply(offset, bytes(value)))
        self._since_snapshot += header.length
        while self._pending and self._pending[0].last_offset <= header.last_offset:
            pending = self._pending.popleft()
            certain = pending.term == header.epoch
            pending.done(Outcome(certain, tuple(results) if certain else ()))

    def _give_up(self) -> None:
        while self._pending:
            self._pending.popleft().done(Outcome(False))
        reads, self._reads = self._reads, {}
        for done in reads.values():
            done(Outcome(False))

    def _make_snapshot(self) -> None:
        self._since_snapshot = 0
        begun = self.core.begin_snapshot()
        if begun is None:
            return
        end, term, head = begun
        content = bytearray(head)
        offset = parse_header(head).last_offset + 1
        records = list(self._machine.snapshot())
        for first in range(0, len(records), _RECORDS_PER_BATCH):
            part = records[first : first + _RECORDS_PER_BATCH]
            content += data_batch(offset, term, self.core.wall_ms, part)
            offset += len(part)
        content += footer_batch(offset, term, self.core.wall_ms)
        self.core.finish_snapshot(Snapshot(end, term, bytes(content)))

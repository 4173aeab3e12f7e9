"""The controller: turns client requests into committed records, and records into answers.

It follows Kafka's ``QuorumController``, one event at a time and without any I/O:

* a *write* generates records from the head of the image, applies them to it at their future offsets
  and appends them as one atomic batch; it is answered when the batch is committed;
* a *read* is answered from the image's stable layer, once a record appended after the read's
  arrival is committed: no other node can have led in between;
* a write that needs no record (all refused, or nothing to change) also reveals state, so it waits
  like a read. Kafka answers at once if nothing is pending; a deposed leader that does not know it
  yet could then answer wrongly;
* *periodic tasks* (:mod:`nodes.metadata.periodic`) are writes without a client.

The node calls :meth:`Controller.leader_changed` once the start of the epoch is committed and
applied (KAFKA-15345); the leader then claims the controller's role. Its first records are in
:mod:`nodes.metadata.activation`. A controller whose operation fails unexpectedly resigns: the
operation's effect is unknown, and another controller may succeed (KAFKA-13104). Records that cannot
be applied are fatal.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from kraftwreck.nodes.consensus.effects import ApiReply, ApiRequest, FatalError
from kraftwreck.nodes.metadata.activation import activation_records
from kraftwreck.nodes.metadata.answers import Answers
from kraftwreck.nodes.metadata.controllers import (
    ControllerIdentity,
    OwnRegistration,
    registration_record,
)
from kraftwreck.nodes.metadata.describe import LISTENER
from kraftwreck.nodes.metadata.envelope import VOTER_CHANGES, refused, unwrap
from kraftwreck.nodes.metadata.failure import ApiError
from kraftwreck.nodes.metadata.image import MetadataImage
from kraftwreck.nodes.metadata.operation import (
    MAX_RECORDS_PER_BATCH,
    Body,
    Context,
    Outcome,
    Record,
    Settings,
)
from kraftwreck.nodes.metadata.periodic import NEVER, Schedule, Task
from kraftwreck.nodes.metadata.quorum import NotLeaderError, Quorum
from kraftwreck.nodes.metadata.served import CLIENT_APIS, ENVELOPE, LOCAL, READS, SERVED, WRITES
from kraftwreck.nodes.metadata.sessions import Sessions
from kraftwreck.nodes.metadata.waiting import Waiting
from kraftwreck.nodes.protocol.errors import (
    INVALID_REQUEST,
    NONE,
    NOT_CONTROLLER,
    REQUEST_TIMED_OUT,
    UNKNOWN_SERVER_ERROR,
)
from kraftwreck.nodes.protocol.records import encode_record

__all__ = ["CLIENT_APIS", "SERVED", "WRITES", "Controller"]

NOT_CLAIMED: Final = -1
MILLISECOND: Final = 1000
DEFAULT_TIMEOUT_MS: Final = 30_000
"""How long a request without a timeout may wait for its commit."""


class Controller:
    """The metadata controller of one node, active or not.

    ``image`` belongs to the node: a loader commits to it, and only this controller proposes. An
    active controller that has appended nothing for ``max_idle_ms`` appends a NoOp record.
    ``read_linger_ms`` is how long a first read waits for others to share its barrier. ``bootstrap``
    are the first records of an empty log, ``identity`` is the registration of this controller
    (None: it does not register). The other settings are those of
    :class:`nodes.metadata.operation.Settings`. All times given to methods are microseconds of the
    monotonic clock.
    """

    def __init__(
        self,
        quorum: Quorum,
        image: MetadataImage,
        seed: int,
        *,
        bootstrap: Sequence[Record] = (),
        identity: ControllerIdentity | None = None,
        read_linger_ms: int = 5,
        **settings: Any,
    ) -> None:
        self._quorum = quorum
        self._settings = Settings(seed, **settings)
        self._bootstrap = tuple(bootstrap)
        self._own = OwnRegistration(identity)
        self._sessions = Sessions(self._settings.session_timeout_ms)
        self._schedule = Schedule(self._settings)
        self._max_idle = self._settings.max_idle_ms * MILLISECOND or NEVER
        self._read_linger = read_linger_ms * MILLISECOND
        self.image = image
        """The stable layer holds committed records; the head also holds appended ones."""
        self._claimed = NOT_CLAIMED
        self._idle_since = 0
        self._wall_ms = 0
        # Requests whose record is appended, by offset; and those that still need one.
        self._pending: deque[Waiting] = deque()
        self._unbarred: list[Waiting] = []
        self._barrier_due = NEVER
        # A tick before this time does nothing, unless another event comes first.
        self._tick_at = 0
        self._touched = True
        self._answers = Answers(quorum, image)
        self._notes: list[tuple[str, dict[str, Any]]] = []

    @property
    def is_active(self) -> bool:
        """Whether this node is the active controller."""
        return self._claimed != NOT_CLAIMED

    @property
    def sessions(self) -> Sessions:
        """The sessions of brokers, which count while this is the active controller."""
        return self._sessions

    @property
    def deadline(self) -> int:
        """The time at which the next :meth:`tick` is due; a far future if none is."""
        due = self._next_tick() if self._touched else self._tick_at
        if (
            self._claimed == NOT_CLAIMED
            and self._own.is_missing_in_log(self.image)
            and self._knows_another()
        ):
            due = min(due, self._own.next)
        return due

    def _next_tick(self) -> int:
        due = self._barrier_due
        if self.is_active:
            due = min(due, self._idle_since + self._max_idle, self._schedule.deadline)
        for some in (self._pending, self._unbarred):
            for waiting in some:
                if waiting.deadline < due:
                    due = waiting.deadline
        return due

    def take_replies(self) -> list[ApiReply]:
        """Return the answers that have become ready since the last call."""
        return self._answers.take()

    def take_notes(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the (kind, detail) of each trace event since the last call."""
        notes, self._notes = self._notes, []
        return notes

    # --- news from the quorum -----------------------------------------------------------

    def applied(self, offset: int, epoch: int, now: int) -> None:
        """Answer the requests that waited for ``offset``, the end of a batch of ``epoch``.

        The stable layer of the image now holds everything up to there (``nodes.metadata.loader``).
        """
        self._own.log_has_changed()
        if self.is_active or self._pending:
            self._touched = True
        while self._pending and self._pending[0].offset <= offset:
            if self._pending[0].epoch != epoch:
                # Another leader's batch has taken the place of ours.
                self._renounce()
            else:
                self._answer(self._pending.popleft())

    def leader_changed(self, leader_id: int, epoch: int, now: int) -> None:
        """Claim or give up the role as ``leader_id`` (-1: unknown) leads ``epoch``."""
        self._touched = True
        if leader_id == self._quorum.node_id:
            if self._claimed != epoch:
                self._renounce()
                self._claim(epoch, now)
        else:
            self._renounce()

    def _claim(self, epoch: int, now: int) -> None:
        self._claimed = epoch
        self._answers.active = True
        self._idle_since = now
        # It is unknown how long the brokers have been silent (KAFKA-18138).
        self._sessions.claim(now, self._quorum.next_offset - 1)
        self._schedule.start(now)
        self._do("activation", lambda: self._activate(now), now)

    def _activate(self, now: int) -> None:
        self._append_all(activation_records(self._context(now), self._bootstrap), now)
        self._register_self(now)

    def _register_self(self, now: int) -> None:
        identity = self._own.identity
        if identity is not None and self._own.is_missing(self.image):
            self._append([registration_record(identity.request())], now)

    def _renounce(self) -> None:
        if not self.is_active:
            return
        self._claimed = NOT_CLAIMED
        self._answers.active = False
        self._schedule.stop()
        self.image.revert()
        self._barrier_due = NEVER
        waiting = [*self._pending, *self._unbarred]
        self._pending.clear()
        self._unbarred.clear()
        for each in waiting:
            self._lost(each)

    def _do(self, what: str, write: Callable[[], object], now: int) -> int:
        """Carry out ``write``; return NONE, or why this is no longer the active controller.

        Raises :class:`FatalError` for records that cannot be applied.
        """
        epoch = self._claimed
        try:
            write()
        except NotLeaderError:
            self._renounce()
            return NOT_CONTROLLER
        except FatalError:
            raise
        except Exception as error:  # a defect of one operation
            self._notes.append(
                ("controller-error", {"api": what, "error": repr(error), "epoch": epoch})
            )
            self._renounce()
            self._quorum.resign(epoch, now)
            return UNKNOWN_SERVER_ERROR
        return NONE

    # --- this controller's own registration, while it is not active ---------------------

    def registration_due(self, now: int) -> Body | None:
        """Return the ControllerRegistration to send to the leader now; None: nothing to send.

        Pass its result to :meth:`registration_answered`.
        """
        missing = self._own.is_missing_in_log(self.image)
        if not missing or self.is_active or not self._knows_another():
            return None
        return self._own.due(now)

    def registration_answered(self, body: Body | None, now: int) -> None:
        """Handle the answer to :meth:`registration_due`; None if there was none."""
        self._own.answered(body, now)

    def _knows_another(self) -> bool:
        return self._quorum.leader_id not in (-1, self._quorum.node_id)

    # --- client requests ----------------------------------------------------------------

    def handle(self, request: ApiRequest, now: int, wall_ms: int) -> None:
        """Accept a client request; :meth:`take_replies` returns its answer later.

        ``request.api`` must be one of :data:`CLIENT_APIS` and its body complete, as decoded by
        :mod:`nodes.protocol.codec`.
        """
        self._wall_ms = wall_ms
        self._touched = True
        if request.api == "BrokerHeartbeat":
            self._hear(request.body, now)
        if request.api in WRITES:
            self._write(request, now)
        elif request.api in READS:
            self._read(request, now)
        elif request.api in LOCAL:
            self._answers.give(request, self._answers.local(request, now))
        elif request.api == ENVELOPE:
            self._open(request, now)
        else:
            raise FatalError(f"the controller does not serve {request.api}")

    def tick(self, now: int) -> None:
        """Do everything that is due: timeouts, periodic tasks, the read barrier, a NoOp record."""
        if now < self._tick_at and not self._touched:
            return
        self._tick(now)
        self._touched = False
        self._tick_at = self._next_tick()

    def _tick(self, now: int) -> None:
        self._time_out(now)
        if not self._unbarred:
            self._barrier_due = NEVER
        if not self.is_active:
            return
        if self._schedule.deadline <= now:
            self._run_tasks(now)
        if self.is_active and not self._own.is_known(self.image):
            self._do("registration", lambda: self._register_self(now), now)
        if self.is_active and now >= min(self._barrier_due, self._idle_since + self._max_idle):
            self._barrier_due = NEVER
            self._do("no-op", lambda: self._append([("NoOpRecord", 0, {})], now), now)

    def _time_out(self, now: int) -> None:
        for some in (self._pending, self._unbarred):
            for waiting in [waiting for waiting in some if waiting.deadline <= now]:
                some.remove(waiting)
                self._answers.refuse(waiting.request, REQUEST_TIMED_OUT)

    def _run_tasks(self, now: int) -> None:
        for task in self._schedule.take_due(now):

            def run(task: Task = task) -> None:
                records, again = task.run(self._context(now))
                self._append_all(records, now)
                if again:
                    task.due = now

            if self._do(task.name, run, now) != NONE:
                return

    def _hear(self, body: Body, now: int) -> None:
        """Note contact with a broker when its heartbeat arrives, whatever the result."""
        broker = self.image.brokers.get(body["broker_id"])
        if self.is_active and broker is not None and broker.epoch == body["broker_epoch"]:
            self._sessions.touch(broker.broker_id, broker.epoch, now)

    def _open(self, request: ApiRequest, now: int) -> None:
        """Handle the request inside of an envelope; its answer is wrapped in one, too."""
        try:
            if request.listener != LISTENER:
                raise ApiError(INVALID_REQUEST, "An envelope came in by a listener for clients.")
            inside = unwrap(request.body)
        except ApiError as error:
            self._answers.give(request, refused(error.code))
            return
        if not self.is_active:
            self._answers.give(request, refused(NOT_CONTROLLER))
            return
        inner = self._answers.taken_out(request, inside)
        if inside.api in VOTER_CHANGES:
            self._quorum.change_voters(
                inside.api, inside.version, inside.body, partial(self._answers.give, inner), now
            )
        else:
            self.handle(inner, now, self._wall_ms)

    def _write(self, request: ApiRequest, now: int) -> None:
        if not self.is_active:
            self._answers.refuse(request, NOT_CONTROLLER)
            return
        timeout_ms = request.body.get("timeout_ms", DEFAULT_TIMEOUT_MS)
        waiting = Waiting(request, now + max(0, timeout_ms) * MILLISECOND, self._claimed, dict)

        def write() -> None:
            try:
                outcome = WRITES[request.api](self._context(now), request.version, request.body)
            except ApiError as error:
                # The error may depend on uncommitted records.
                outcome = Outcome([], self._answers.refusal(request, error.code, error.message))
            waiting.answer = lambda: outcome.body
            self._carry_out(outcome, waiting, now)

        code = self._do(request.api, write, now)
        if code != NONE:
            code = REQUEST_TIMED_OUT if waiting.writes and code == NOT_CONTROLLER else code
            self._answers.refuse(request, code)

    def _carry_out(self, outcome: Outcome, waiting: Waiting, now: int) -> None:
        """Append the records of an operation, and let its request wait for the commit."""
        if outcome.atomic and len(outcome.records) > MAX_RECORDS_PER_BATCH:
            raise ValueError(f"{len(outcome.records)} records do not fit one batch")
        if outcome.kraft_version is not None:
            self._quorum.upgrade_kraft_version(outcome.kraft_version)
            waiting.writes = True
        if outcome.records:
            waiting.offset = self._append_all(outcome.records, now, waiting)
        if outcome.appended is not None:
            outcome.appended(self._quorum.next_offset - 1)
        if outcome.records:
            self._pending.append(waiting)
        else:
            self._wait_for_barrier(waiting, now)

    def _read(self, request: ApiRequest, now: int) -> None:
        if request.api == "Metadata":
            discovery = request.body["topics"] == [] and request.version > 0
            if discovery or not self.is_active:
                self._answers.give(request, self._answers.read(request))
                return
        elif not self.is_active:
            self._answers.refuse(request, NOT_CONTROLLER)
            return
        deadline = now + DEFAULT_TIMEOUT_MS * MILLISECOND
        answer = partial(self._answers.read, request)
        self._wait_for_barrier(Waiting(request, deadline, self._claimed, answer), now)

    def _wait_for_barrier(self, waiting: Waiting, now: int) -> None:
        self._unbarred.append(waiting)
        self._barrier_due = min(self._barrier_due, now + self._read_linger)

    def _append_all(
        self, records: Sequence[Record], now: int, waiting: Waiting | None = None
    ) -> int:
        """Append any number of records, in batches; return the last offset (-1: no record)."""
        last = -1
        for start in range(0, len(records), MAX_RECORDS_PER_BATCH):
            last = self._append(records[start : start + MAX_RECORDS_PER_BATCH], now)
            if waiting is not None:
                waiting.writes = True
        return last

    def _append(self, records: Sequence[Record], now: int) -> int:
        """Apply ``records`` to the head of the image and append them; return the last offset.

        They are applied first: followers must never get records that the leader cannot apply. Any
        record is a barrier for all requests that wait for one.
        """
        expected = self._quorum.next_offset + len(records) - 1
        applied = [(name, fields) for name, _, fields in records]
        self.image.propose(expected, self._claimed, applied)
        encoded = [encode_record(name, version, fields) for name, version, fields in records]
        offset = self._quorum.append(self._claimed, encoded, now)
        if offset != expected:
            raise FatalError(f"records were applied up to offset {expected}, appended to {offset}")
        for waiting in self._unbarred:
            waiting.offset = offset
        self._pending.extend(self._unbarred)
        self._unbarred.clear()
        self._barrier_due = NEVER
        self._idle_since = now
        return offset

    def _context(self, now: int) -> Context:
        return Context(
            image=self.image,
            voters=self._quorum.voters,
            settings=self._settings,
            node_id=self._quorum.node_id,
            epoch=self._claimed,
            offset=self._quorum.next_offset,
            now=now,
            wall_ms=self._wall_ms,
            cluster_id=self._quorum.cluster_id,
            sessions=self._sessions,
            quorum=self._quorum,
        )

    def _answer(self, waiting: Waiting) -> None:
        request = waiting.request
        try:
            body = waiting.answer()
        except Exception as error:  # a defect of one read
            self._notes.append(("controller-error", {"api": request.api, "error": repr(error)}))
            body = self._answers.refusal(request, UNKNOWN_SERVER_ERROR)
        self._answers.give(request, body)

    def _lost(self, waiting: Waiting) -> None:
        """Answer a request whose record may or may not survive the loss of leadership."""
        self._answers.refuse(
            waiting.request, REQUEST_TIMED_OUT if waiting.writes else NOT_CONTROLLER
        )

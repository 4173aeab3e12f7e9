"""The controller: turns client requests into committed records, and records into answers.

It follows Kafka's ``QuorumController``, one event at a time and without any I/O:

* a *write* generates records from the head of the image, applies them to it and appends
  them as one atomic batch; the client hears of it when the batch is committed;
* a *read* is answered from the image's stable layer, after a record that was appended later
  than the read arrived has been committed: then no other node can have led in between;
* a write that needs no record (all refused, or nothing to change) says something about
  the state too, so it waits like a read. Kafka answers at once if nothing is pending,
  which a deposed leader that does not know it yet could do wrongly.

The leader claims the controller's role when the node tells :meth:`leader_changed`, which
it does only after the start of the epoch is committed and applied (KAFKA-15345).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from nodes.consensus.effects import ApiReply, ApiRequest, FatalError
from nodes.metadata.alter_configs import incremental_alter_configs
from nodes.metadata.alter_partition import alter_partition
from nodes.metadata.create_partitions import create_partitions
from nodes.metadata.describe import (
    METADATA_VERSION,
    SUPPORTED_FEATURES,
    api_versions,
    describe_cluster,
    describe_configs,
    describe_quorum,
    metadata,
)
from nodes.metadata.elections import elect_leaders
from nodes.metadata.failure import ApiError, refusal
from nodes.metadata.image import MetadataImage
from nodes.metadata.operation import Body, Context, Outcome, Record, Settings
from nodes.metadata.quorum import NotLeaderError, Quorum
from nodes.metadata.reassign import alter_partition_reassignments, list_partition_reassignments
from nodes.metadata.topics import create_topics, delete_topics
from nodes.metadata.waiting import Waiting
from nodes.protocol.apis import API_KEYS, SUPPORTED
from nodes.protocol.errors import (
    NONE,
    NOT_CONTROLLER,
    REQUEST_TIMED_OUT,
    UNKNOWN_SERVER_ERROR,
)
from nodes.protocol.records import encode_record

NEVER: Final = 2**63 - 1
NOT_CLAIMED: Final = -1
MILLISECOND: Final = 1000
METADATA_WITH_ERROR: Final = 13
"""First Metadata version with an error code for the whole answer."""
DEFAULT_TIMEOUT_MS: Final = 30_000
"""How long a request that names no time-out may wait for its commit."""

WRITES: Final[dict[str, Callable[[Context, int, Body], Outcome]]] = {
    "CreateTopics": create_topics,
    "DeleteTopics": delete_topics,
    "CreatePartitions": create_partitions,
    "IncrementalAlterConfigs": incremental_alter_configs,
    "AlterPartition": alter_partition,
    "ElectLeaders": elect_leaders,
    "AlterPartitionReassignments": alter_partition_reassignments,
}
READS: Final = ("Metadata", "DescribeConfigs", "ListPartitionReassignments")
LOCAL: Final = ("ApiVersions", "DescribeCluster", "DescribeQuorum")
QUORUM_APIS: Final = ("Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "Fetch")
CLIENT_APIS: Final = (*WRITES, *READS, *LOCAL)

SERVED: Final[tuple[tuple[int, int, int], ...]] = tuple(
    sorted((API_KEYS[api], *SUPPORTED[api]) for api in (*CLIENT_APIS, *QUORUM_APIS))
)
"""What ApiVersions tells: (api key, minimum, maximum version)."""


class Controller:
    """The metadata controller of one node, active or not.

    ``image`` is the node's: a loader commits to it, only this controller proposes.
    ``max_idle_ms`` is how long an active controller goes without appending anything before
    it appends a NoOp record; ``read_linger_ms`` how long a first read waits for others to
    share its barrier. All times given to methods are microseconds of the monotonic clock.
    """

    def __init__(
        self,
        quorum: Quorum,
        image: MetadataImage,
        seed: int,
        *,
        max_idle_ms: int = 500,
        default_partitions: int = 1,
        default_replication: int = 1,
        read_linger_ms: int = 5,
    ) -> None:
        self._quorum = quorum
        self._settings = Settings(seed, default_partitions, default_replication)
        self._max_idle = max_idle_ms * MILLISECOND
        self._read_linger = read_linger_ms * MILLISECOND
        self.image = image
        """Committed in its stable layer; with what is appended in its head."""
        self._claimed = NOT_CLAIMED
        self._idle_since = 0
        # Requests whose record is appended, by offset; and those that still need one.
        self._pending: deque[Waiting] = deque()
        self._unbarred: list[Waiting] = []
        self._barrier_due = NEVER
        self._replies: list[ApiReply] = []
        self._notes: list[tuple[str, dict[str, Any]]] = []

    @property
    def is_active(self) -> bool:
        """Whether this node is the active controller."""
        return self._claimed != NOT_CLAIMED

    @property
    def deadline(self) -> int:
        """When the next :meth:`tick` is due; a far future if never."""
        due = self._barrier_due
        if self.is_active:
            due = min(due, self._idle_since + self._max_idle)
        for waiting in (*self._pending, *self._unbarred):
            due = min(due, waiting.deadline)
        return due

    def take_replies(self) -> list[ApiReply]:
        """Return the answers that became ready since the last call."""
        replies, self._replies = self._replies, []
        return replies

    def take_notes(self) -> list[tuple[str, dict[str, Any]]]:
        """Return (kind, detail) of what is worth a trace event since the last call."""
        notes, self._notes = self._notes, []
        return notes

    # --- what the quorum tells ----------------------------------------------------------

    def applied(self, offset: int, epoch: int, now: int) -> None:
        """The stable layer of the image now holds everything up to ``offset``, the end of a
        batch of ``epoch`` (``nodes.metadata.loader``): answer what waited for that."""
        while self._pending and self._pending[0].offset <= offset:
            if self._pending[0].epoch != epoch:
                # Another leader's batch has taken the place of ours.
                self._renounce()
            else:
                self._answer(self._pending.popleft())

    def leader_changed(self, leader_id: int, epoch: int, now: int) -> None:
        """Take notice of who leads ``epoch`` (-1: unknown) and claim or give up the role."""
        if leader_id == self._quorum.node_id:
            if self._claimed != epoch:
                self._renounce()
                self._claim(epoch, now)
        else:
            self._renounce()

    def _claim(self, epoch: int, now: int) -> None:
        self._claimed = epoch
        self._idle_since = now
        if METADATA_VERSION not in self.image.features:
            level = SUPPORTED_FEATURES[METADATA_VERSION][1]
            fields = {"name": METADATA_VERSION, "feature_level": level}
            try:
                self._append([("FeatureLevelRecord", 0, fields)], now)
            except NotLeaderError:
                self._renounce()

    def _renounce(self) -> None:
        if not self.is_active:
            return
        self._claimed = NOT_CLAIMED
        self.image.revert()
        self._barrier_due = NEVER
        waiting = [*self._pending, *self._unbarred]
        self._pending.clear()
        self._unbarred.clear()
        for each in waiting:
            self._lost(each)

    # --- what clients ask ---------------------------------------------------------------

    def handle(self, request: ApiRequest, now: int, wall_ms: int) -> None:
        """Take a client request in; its answer comes out of :meth:`take_replies` some time.

        ``request.api`` must be one of :data:`CLIENT_APIS` and its body complete, as decoded
        by :mod:`nodes.protocol.codec`.
        """
        if request.api in WRITES:
            self._write(request, now)
        elif request.api in READS:
            self._read(request, now)
        elif request.api in LOCAL:
            self._reply(request, self._local(request, now))
        else:
            raise FatalError(f"the controller does not serve {request.api}")

    def tick(self, now: int) -> None:
        """Do what has become due: time-outs, the read barrier, the idle NoOp record."""
        for waiting in [w for w in (*self._pending, *self._unbarred) if w.deadline <= now]:
            if waiting in self._pending:
                self._pending.remove(waiting)
            else:
                self._unbarred.remove(waiting)
            self._reply(waiting.request, self._refused(waiting.request, REQUEST_TIMED_OUT))
        if not self._unbarred:
            self._barrier_due = NEVER
        if self.is_active and now >= min(self._barrier_due, self._idle_since + self._max_idle):
            self._barrier_due = NEVER
            try:
                self._append([("NoOpRecord", 0, {})], now)
            except NotLeaderError:
                self._renounce()

    def _write(self, request: ApiRequest, now: int) -> None:
        if not self.is_active:
            self._reply(request, self._refused(request, NOT_CONTROLLER))
            return
        timeout_ms = request.body.get("timeout_ms", DEFAULT_TIMEOUT_MS)
        deadline = now + max(0, timeout_ms) * MILLISECOND
        epoch = self._claimed
        try:
            outcome = WRITES[request.api](self._context(), request.version, request.body)
            waiting = Waiting(request, deadline, epoch, lambda: outcome.body)
            if outcome.records:
                waiting.offset = self._append(outcome.records, now)
                waiting.writes = True
                self._pending.append(waiting)
            else:
                self._wait_for_barrier(waiting, now)
        except ApiError as error:
            # The refusal as a whole depends on the request only, not on the state.
            self._reply(request, self._refused(request, error.code, error.message))
        except NotLeaderError:
            self._renounce()
            self._reply(request, self._refused(request, NOT_CONTROLLER))
        except FatalError:
            raise
        except Exception as error:  # a defect in this operation must not decide for others
            self._notes.append(
                ("controller-error", {"api": request.api, "error": repr(error), "epoch": epoch})
            )
            self._renounce()
            self._quorum.resign(epoch, now)
            self._reply(request, self._refused(request, UNKNOWN_SERVER_ERROR, repr(error)))

    def _read(self, request: ApiRequest, now: int) -> None:
        if request.api == "Metadata":
            discovery = request.body["topics"] == [] and request.version > 0
            if discovery or not self.is_active:
                self._reply(request, self._metadata(request))
                return
            waiting = Waiting(request, 0, self._claimed, lambda: self._metadata(request))
        else:
            if not self.is_active:
                self._reply(request, self._refused(request, NOT_CONTROLLER))
                return
            waiting = Waiting(
                request,
                0,
                self._claimed,
                lambda: self._committed_read(request),
            )
        waiting.deadline = now + DEFAULT_TIMEOUT_MS * MILLISECOND
        self._wait_for_barrier(waiting, now)

    def _committed_read(self, request: ApiRequest) -> Body:
        if request.api == "DescribeConfigs":
            return describe_configs(self.image.stable, self._quorum.voters, request.body)
        return list_partition_reassignments(self.image.stable, request.body)

    def _wait_for_barrier(self, waiting: Waiting, now: int) -> None:
        self._unbarred.append(waiting)
        self._barrier_due = min(self._barrier_due, now + self._read_linger)

    def _append(self, records: Sequence[Record], now: int) -> int:
        """Apply ``records`` to the head of the image and append them; return the last offset.

        They are applied first: what the leader cannot apply, followers must never get.
        Any record is a barrier for everything that waits for one.
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

    # --- answers ------------------------------------------------------------------------

    def _context(self) -> Context:
        return Context(
            image=self.image,
            voters=self._quorum.voters,
            settings=self._settings,
            node_id=self._quorum.node_id,
            epoch=self._claimed,
            offset=self._quorum.next_offset,
        )

    def _controller_id(self) -> int:
        """Return who to call the controller: this node only if it really is active."""
        if self.is_active:
            return self._quorum.node_id
        leader = self._quorum.leader_id
        return -1 if leader == self._quorum.node_id else leader

    def _local(self, request: ApiRequest, now: int) -> Body:
        if request.api == "ApiVersions":
            return api_versions(self.image.stable, request.version, SERVED)
        if request.api == "DescribeCluster":
            return describe_cluster(
                self.image.stable, self._quorum, self._controller_id(), request.body
            )
        return describe_quorum(self._quorum, request.body, now)

    def _metadata(self, request: ApiRequest) -> Body:
        controller = self._controller_id()
        return metadata(self.image.stable, self._quorum, controller, request.version, request.body)

    def _refused(self, request: ApiRequest, code: int, message: str | None = None) -> Body:
        if request.api == "Metadata":
            return self._not_linearizable(request, code)
        text = message or _MESSAGES[code]
        body: Body = refusal(request.api, request.version, request.body, code, text)
        return body

    def _not_linearizable(self, request: ApiRequest, code: int) -> Body:
        """Answer Metadata without proof of leadership, so never as the controller.

        Before version 13 there is no place for ``code``: the answer is a follower's then,
        what this node knows.
        """
        leader = self._quorum.leader_id
        controller = -1 if leader == self._quorum.node_id else leader
        error = code if request.version >= METADATA_WITH_ERROR else NONE
        return metadata(
            self.image.stable, self._quorum, controller, request.version, request.body, error
        )

    def _answer(self, waiting: Waiting) -> None:
        try:
            body = waiting.answer()
        except Exception as error:  # a defect in a read must not stop the others
            self._notes.append(
                ("controller-error", {"api": waiting.request.api, "error": repr(error)})
            )
            body = self._refused(waiting.request, UNKNOWN_SERVER_ERROR, repr(error))
        self._reply(waiting.request, body)

    def _lost(self, waiting: Waiting) -> None:
        """Answer a request whose record may or may not survive the loss of leadership."""
        code = REQUEST_TIMED_OUT if waiting.writes else NOT_CONTROLLER
        self._reply(waiting.request, self._refused(waiting.request, code))

    def _reply(self, request: ApiRequest, body: Body) -> None:
        self._replies.append(ApiReply(request.token, body))


_MESSAGES: Final = {
    NOT_CONTROLLER: "This node is not the active controller.",
    REQUEST_TIMED_OUT: "The request was not committed in time; it may still be.",
    UNKNOWN_SERVER_ERROR: "The controller failed while it handled the request.",
}

"""A whole node, pure: the replica of the quorum, and the controller or broker on top of it.

A shell only calls ``step(event, now, wall_ms)``; ``nodes.consensus.effects`` defines its input and
output, and the order that a shell must keep. Loading the image and writing a snapshot of it may
take long, so each step does a bounded piece of that. The node requests the next step at once, and
votes, replicates and answers meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Final

from kraftwreck.nodes.broker.broker import FIRST_CORRELATION, Broker
from kraftwreck.nodes.broker.leadership import controller_of
from kraftwreck.nodes.consensus.containment import contained
from kraftwreck.nodes.consensus.effects import (
    Abandon,
    ApiRequest,
    ApiResponseReceived,
    AppendLog,
    DropSnapshot,
    FatalError,
    FlushLog,
    RequestReceived,
    ResponseReceived,
    SendApi,
    Shutdown,
    Stopped,
    Tick,
)
from kraftwreck.nodes.consensus.kraft import poll, snapshots
from kraftwreck.nodes.consensus.kraft.leader import Leader
from kraftwreck.nodes.consensus.kraft.replica import Replica
from kraftwreck.nodes.consensus.kraft.requests import handle_request
from kraftwreck.nodes.consensus.kraft.responses import handle_response
from kraftwreck.nodes.consensus.kraft.voters import LISTENER as CONTROLLER_LISTENER
from kraftwreck.nodes.consensus.recovered import Recovered, Snapshot
from kraftwreck.nodes.draw import draw
from kraftwreck.nodes.effects import NodeEffect, NodeEvent
from kraftwreck.nodes.local_quorum import LocalQuorum
from kraftwreck.nodes.log.batch import parse_header
from kraftwreck.nodes.log.snapshots import data_records, read_header
from kraftwreck.nodes.metadata.controller import Controller
from kraftwreck.nodes.metadata.controllers import ControllerIdentity
from kraftwreck.nodes.metadata.image import MetadataImage
from kraftwreck.nodes.metadata.image_values import Listener
from kraftwreck.nodes.metadata.loader import Applied, Loader
from kraftwreck.nodes.metadata.operation import Record
from kraftwreck.nodes.node_config import NodeConfig
from kraftwreck.nodes.protocol.records import decode_record
from kraftwreck.nodes.replication.events import FromShell, is_from_shell

DIGEST_INTERVAL: Final = 64
"""Offsets between two traces of the image's digest."""
FIRST_REGISTRATION: Final = 1 << 29
"""First correlation id of a ControllerRegistration, far from all other numbers."""
_NEVER: Final = 2**63 - 1


class Node:
    """One process of the cluster as a pure state machine.

    ``recovered`` is the state that the shell found on its disk. ``now`` is monotonic microseconds,
    ``wall_ms`` wall-clock milliseconds; both may differ between nodes. :meth:`step` raises
    FatalError when it reaches an illegal state; the shell must then stop the node.
    """

    def __init__(self, config: NodeConfig, recovered: Recovered, now: int, wall_ms: int) -> None:
        self.config = config
        self.replica = Replica(config, recovered, now, wall_ms)
        self.image = MetadataImage(indexed=config.controller)
        self.image.digest()  # From now on every change updates it.
        self.loader = Loader(self.image, config.snapshot_bytes, config.snapshot_interval_ms, now)
        self._quorum = LocalQuorum(self.replica)
        self.broker = Broker(config, self.image, self._quorum, now) if config.broker else None
        self.controller = Controller(
            self._quorum,
            self.image,
            seed=config.seed,
            bootstrap=_bootstrap(recovered),
            identity=_identity(config),
            max_idle_ms=config.max_idle_ms,
            default_partitions=config.default_partitions,
            default_replication=config.default_replication,
            min_insync_replicas=config.min_insync_replicas,
            session_timeout_ms=config.session_timeout_ms,
            leader_imbalance_check_interval_seconds=config.leader_imbalance_check_interval_seconds,
            unclean_leader_election_interval_ms=config.unclean_leader_election_interval_ms,
            producer_id_block=config.producer_id_block,
        )
        self._registrations = FIRST_REGISTRATION
        self._announcements: deque[tuple[int, int]] = deque()
        self._undelivered: list[bytes | Snapshot] = []
        """Committed batches that the next step takes in, since this one flushes them."""
        self._applied = 0
        """The end of what the image shows."""
        self._behind: tuple[int, int] | None = None
        """The applied and the committed end of the last report, None if these were equal."""
        self._roles_due: int | None = None
        """When controller, broker and snapshots are due, None after a step that may change it."""
        self._more = False
        self._now = now
        self._position = 0
        self._timestamp = 0
        self._digest = ""
        self._digested = -1

    @property
    def deadline(self) -> int:
        """The time at which the next Tick is due, monotonic microseconds."""
        if self._more:
            return self._now
        due = min(poll.deadline(self.replica), self._roles_deadline())
        data = None if self.broker is None else self.broker.data
        return due if data is None else min(due, data.deadline)

    def _roles_deadline(self) -> int:
        """Return when controller, broker and snapshots are due, apart from the data plane."""
        due = self._roles_due
        if due is None:
            due = min(self.controller.deadline, self.loader.next_due(self.replica.now))
            if self.broker is not None:
                due = min(due, self.broker.own_deadline)
            self._roles_due = due
        return due

    def start(self, now: int, wall_ms: int) -> list[NodeEffect]:
        """Initialize from the recovered state; call once, before any step."""
        replica = self.replica
        replica.now = self._now = now
        replica.wall_ms = wall_ms
        replica.start()
        return self._settle(now, wall_ms)

    def step(self, event: NodeEvent, now: int, wall_ms: int) -> list[NodeEffect]:
        """Handle one event completely and return the effects for the shell."""
        replica = self.replica
        self._now = now
        if is_from_shell(event):
            # The replica's own time stands still: what is due by it waits for a step of its own.
            return self._handle_data(event, now, wall_ms)
        replica.now = now
        replica.wall_ms = wall_ms
        if isinstance(event, Tick):
            pass
        elif isinstance(event, RequestReceived):
            handle_request(replica, event.token, event.message)
        elif isinstance(event, ResponseReceived):
            handle_response(replica, event.source, event.correlation, event.message)
        elif isinstance(event, ApiRequest):
            refused = contained(replica, event.api, partial(self._ask, event, now, wall_ms))
            if refused is not None:
                replica.effects.append(Abandon(event.token))
        elif isinstance(event, ApiResponseReceived):
            what = f"an answer of node {event.source}"
            contained(replica, what, partial(self._answered, event, now, wall_ms))
        elif isinstance(event, Shutdown):
            if self.broker is not None:
                self.broker.stop(now)
            else:
                replica.stop()
        else:
            raise TypeError(f"unknown event {event!r}")
        return self._settle(now, wall_ms)

    # --- inside -----------------------------------------------------------------------------

    def _ask(self, event: ApiRequest, now: int, wall_ms: int) -> None:
        if self.broker is not None and event.listener != CONTROLLER_LISTENER:
            self.broker.handle(event, now, wall_ms)
        else:
            self.controller.handle(event, now, wall_ms)

    def _answered(self, event: ApiResponseReceived, now: int, wall_ms: int) -> None:
        if event.correlation < FIRST_CORRELATION:
            self.controller.registration_answered(event.body, now)
        elif self.broker is not None:
            self.broker.response(event, now, wall_ms)

    def _handle_data(self, event: FromShell, now: int, wall_ms: int) -> list[NodeEffect]:
        """Handle an event of the data plane; it concerns neither the replica nor the controller."""
        broker = self.broker
        if broker is None:
            raise FatalError(f"a node without a broker has no data plane: {type(event).__name__}")
        if broker.data is None or not broker.data.is_open:
            self._roles_due = None  # The broker may register as soon as its logs are open.
        broker.handle_data(event, now, wall_ms)
        for kind, detail in broker.take_notes():
            self.replica.trace(kind, detail)
        effects: list[NodeEffect] = [*self.replica.effects, *broker.take_effects()]
        self.replica.effects = []
        return effects

    def _settle(self, now: int, wall_ms: int) -> list[NodeEffect]:
        """Run replica and controller until neither has news for the other."""
        self._roles_due = None
        replica = self.replica
        controller = self.controller
        loader = self.loader
        broker = self.broker
        budget = self.config.work_records
        if self._undelivered:
            late, self._undelivered = self._undelivered, []
            self._take_deliveries(late, now)
        while True:
            poll.poll(replica)
            if replica.committed:
                committed = [*self._undelivered, *replica.committed]
                replica.committed.clear()
                durable = self._durable(committed)
                self._undelivered = committed[durable:]
                self._take_deliveries(committed[:durable], now)
            if loader.idle:
                self._more = bool(self._undelivered)
            elif budget > 0:
                self._more = loader.work(budget) or bool(self._undelivered)
                budget -= self._publish(now)
            if replica.announcements:
                self._announcements.extend(replica.announcements)
                replica.announcements.clear()
            if self._announcements:
                self._announce_all(now)
            state = replica.state
            controller.tick(now)
            for kind, detail in controller.take_notes():
                replica.trace(kind, detail)
            if broker is not None:
                self._run_broker(broker, now, wall_ms)
            if replica.state is state and not replica.committed and not replica.announcements:
                break
        if self._behind is not None or self._undelivered or loader.busy:
            self._trace_applied()
        self._make_snapshot(now)
        made, replica.effects = replica.effects, []
        effects: list[NodeEffect] = [*self._quorum.take_answers(made), *controller.take_replies()]
        self._register(effects, now)
        if broker is not None:
            effects.extend(broker.take_effects())
            for effect in effects:
                if isinstance(effect, Stopped):
                    effect.broker_epoch = broker.left_epoch
        return effects

    def _run_broker(self, broker: Broker, now: int, wall_ms: int) -> None:
        broker.tick(now, wall_ms)
        for kind, detail in broker.take_notes():
            self.replica.trace(kind, detail)
        if broker.stopped and not self.replica.shutting_down:
            self.replica.stop()
            self._more = True  # It ends in a step of its own, after the effects of this one.

    def _register(self, effects: list[NodeEffect], now: int) -> None:
        """Send this controller's registration to the active controller if it is due."""
        if not self.config.controller:
            return
        body = self.controller.registration_due(now)
        if body is None:
            return
        leader = controller_of(self._quorum)
        if leader is None:
            self.controller.registration_answered(None, now)
            return
        self._registrations += 1
        effects.append(
            SendApi(
                leader.node_id,
                self._registrations,
                leader.endpoint,
                "ControllerRegistration",
                body,
            )
        )

    def _durable(self, committed: Sequence[bytes | Snapshot]) -> int:
        """Return how many of the committed batches do not wait for a flush of this very step.

        A node with records serves them while its disk is at work (``nodes.server.shell``). So what
        it serves them by must be on the disk: the only voter of a quorum, whose batches are
        committed as soon as they are appended, takes them in with its next step.
        """
        effects = self.replica.effects
        appends = (effect for effect in effects if isinstance(effect, AppendLog))
        first = next(appends, None)
        if first is None or self.broker is None or self.broker.data is None:
            return len(committed)
        if not any(isinstance(effect, FlushLog) for effect in effects):
            return len(committed)
        end = parse_header(first.batch).base_offset
        for place, delivery in enumerate(committed):
            if not isinstance(delivery, Snapshot) and parse_header(delivery).last_offset >= end:
                return place
        return len(committed)

    def _take_deliveries(self, deliveries: Sequence[bytes | Snapshot], now: int) -> None:
        """Pass committed batches to the loader; a snapshot replaces everything before it."""
        loader = self.loader
        for delivery in deliveries:
            if isinstance(delivery, Snapshot):
                self._abandon_snapshot()
                loader.load(delivery.content, delivery.end_offset, delivery.epoch, now)
            else:
                loader.committed(delivery)

    def _publish(self, now: int) -> int:
        """Publish the batches that the loader has applied; return their number."""
        applied = self.loader.take_applied()
        for each in applied:
            self._applied = each.offset + 1
            if each.loaded:
                detail = {"end": self._applied, "epoch": each.epoch, "digest": each.digest}
                self.replica.trace("load", detail)
            self._trace_digest(each)
            self.controller.applied(each.offset, each.epoch, now)
            if self.broker is not None:
                self.broker.published(each.offset, each.epoch, now)
        return len(applied)

    def _trace_applied(self) -> None:
        """Trace how far the image is, from when it lags behind the commits until it no longer does.

        Usually a step applies all that it reports as committed, and needs no such event.
        """
        lags = self.loader.busy or bool(self._undelivered)
        position = (self._applied, self.replica.delivered) if lags else None
        if position != self._behind:
            self._behind = position
            self.replica.trace("apply", {"end": self._applied})

    def _trace_digest(self, applied: Applied) -> None:
        """Trace the image's digest at the same offsets on every node, for comparison."""
        step = (applied.offset + 1) // DIGEST_INTERVAL
        if step > self._digested and applied.offset == self.image.stable_offset:
            if self._digested >= 0 and not applied.loaded:
                detail = {"offset": applied.offset, "epoch": applied.epoch}
                self.replica.trace("image", detail | {"digest": self.image.digest()})
            self._digested = step

    def _announce_all(self, now: int) -> None:
        """Announce leader changes, in order; a claim waits until the image has caught up."""
        own = self.config.node_id
        while self._announcements:
            leader_id, epoch = self._announcements[0]
            if leader_id == own and (self.loader.busy or self._undelivered):
                return
            self._announcements.popleft()
            self._announce(leader_id, epoch, now)

    def _announce(self, leader_id: int, epoch: int, now: int) -> None:
        """Announce a leader change, unless it is a claim that a newer one has made void."""
        replica = self.replica
        own = leader_id == self.config.node_id
        if own and not (replica.is_leader and replica.epoch == epoch):
            return
        was_active = self.controller.is_active
        self.controller.leader_changed(leader_id, epoch, now)
        if own:
            start = replica.state.epoch_start if isinstance(replica.state, Leader) else -1
            replica.trace("claim", {"epoch_start": start})
        elif was_active:
            replica.trace("renounce")

    # --- snapshots of the image -----------------------------------------------------------

    def _make_snapshot(self, now: int) -> None:
        """Begin a snapshot that is due, or write the next pieces of the one in progress."""
        replica, loader = self.replica, self.loader
        due = loader.due(now)
        if due is not None:
            header = snapshots.begin(replica, *due)
            if header is None:
                return
            self._digest = self.image.digest()
            self._timestamp = read_header(header).timestamp
            self._position = 0
            loader.begin_snapshot(header, now)
        making = loader.generating
        if making is None:
            return
        end, epoch = making
        for _ in range(3):  # A small image takes three pieces: header, data, footer.
            piece = loader.next_piece(self.config.snapshot_piece_records)
            if piece is None:
                break
            snapshots.piece(replica, end, epoch, self._position, piece)
            self._position += len(piece)
        if loader.generating is None:
            snapshots.finish(replica, end, epoch, self._position, self._timestamp, self._digest)
            self._more = self._more or loader.due(now) is not None
        else:
            self._more = True

    def _abandon_snapshot(self) -> None:
        making = self.loader.generating
        if making is not None:
            self.replica.effects.append(DropSnapshot(*making))
            self.loader.abandon_snapshot()


def _bootstrap(recovered: Recovered) -> list[Record]:
    """Return the records of the bootstrap snapshot, unless there is newer state."""
    if not recovered.snapshots or recovered.snapshots[-1].end_offset > 0:
        return []
    return [decode_record(value) for value in data_records(recovered.latest)]


def _identity(config: NodeConfig) -> ControllerIdentity | None:
    """Return this controller's registration; a fresh incarnation for each process."""
    if not config.controller or config.listener is None:
        return None
    key = (config.seed, "incarnation", config.node_id, config.directory_id, config.incarnation)
    incarnation = b"".join(draw(*key, half).to_bytes(8, "big") for half in (0, 1))
    listener = Listener(CONTROLLER_LISTENER, config.listener.host, config.listener.port)
    return ControllerIdentity(config.node_id, incarnation, (listener,))

"""A whole node, pure: the replica of the quorum and the controller on top of it.

``step(event, now, wall_ms)`` is all a shell ever calls; see ``nodes.consensus.effects`` for
what goes in and out and for the order a shell must keep.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nodes.consensus.effects import (
    ApiRequest,
    Effect,
    Event,
    RequestReceived,
    ResponseReceived,
    Shutdown,
    Tick,
)
from nodes.consensus.endpoint import Endpoint
from nodes.consensus.kraft import poll
from nodes.consensus.kraft.config import QuorumConfig
from nodes.consensus.kraft.leader import Leader, Progress
from nodes.consensus.kraft.replica import Replica
from nodes.consensus.kraft.requests import handle_request
from nodes.consensus.kraft.responses import handle_response
from nodes.consensus.recovered import Recovered
from nodes.metadata.controller import Controller
from nodes.metadata.quorum import NotLeaderError, QuorumDescription, ReplicaProgress


@dataclass(slots=True, frozen=True)
class NodeConfig(QuorumConfig):
    """Everything a node is told: the quorum's settings and those of its roles (Kafka's names).

    A node has the ``controller`` role, the ``broker`` role, or both (``process.roles``).
    ``snapshot_bytes`` is ``metadata.log.max.record.bytes.between.snapshots``,
    ``snapshot_interval_ms`` ``metadata.log.max.snapshot.interval.ms``; ``session_timeout_ms``
    and ``heartbeat_interval_ms`` are the brokers'; ``broker_listener`` is where clients reach
    the broker and ``broker_incarnation`` (16 bytes) names its process.
    """

    controller: bool = True
    broker: bool = False
    max_idle_ms: int = 500
    default_partitions: int = 1
    default_replication: int = 1
    min_insync_replicas: int = 1
    snapshot_bytes: int = 20 << 20
    snapshot_interval_ms: int = 3_600_000
    session_timeout_ms: int = 9000
    heartbeat_interval_ms: int = 2000
    registration_timeout_ms: int = 60_000
    broker_listener: Endpoint | None = None
    broker_incarnation: bytes = bytes(16)
    rack: str | None = None


class _ReplicaQuorum:
    """The replica as the controller sees it (``nodes.metadata.quorum.Quorum``)."""

    def __init__(self, replica: Replica, voters: Mapping[int, Endpoint]) -> None:
        self._replica = replica
        self.node_id = replica.node_id
        self.cluster_id = replica.config.cluster_id
        self.voters = voters

    @property
    def epoch(self) -> int:
        return self._replica.epoch

    @property
    def leader_id(self) -> int:
        return self._replica.leader_id

    @property
    def is_leader(self) -> bool:
        return self._replica.is_leader

    @property
    def high_watermark(self) -> int:
        return self._replica.high_watermark

    def append(self, epoch: int, records: Sequence[bytes], now: int) -> int:
        replica = self._replica
        if not replica.is_leader or replica.epoch != epoch or replica.shutting_down:
            raise NotLeaderError(f"node {self.node_id} does not lead epoch {epoch}")
        return replica.append_records(epoch, records)

    def resign(self, epoch: int, now: int) -> None:
        if epoch == self._replica.epoch:
            self._replica.resign("controller")

    def describe(self, now: int) -> QuorumDescription:
        replica = self._replica
        leader = replica.state
        if not isinstance(leader, Leader):
            raise NotLeaderError(f"node {self.node_id} does not lead")

        def progress(replica_id: int, state: Progress) -> ReplicaProgress:
            own = replica_id == replica.node_id
            return ReplicaProgress(
                replica_id,
                state.directory,
                state.end_offset,
                replica.wall_ms if own else state.last_fetch_wall,
                replica.wall_ms if own else state.last_caught_up_wall,
            )

        return QuorumDescription(
            leader.leader_id,
            replica.epoch,
            replica.high_watermark,
            [progress(i, p) for i, p in sorted(leader.voters.items())],
            [progress(i, p) for i, p in sorted(leader.observers.items())],
        )


class Node:
    """One process of the cluster as a pure state machine.

    ``recovered`` is what the shell found on its disk. ``now`` is monotonic microseconds,
    ``wall_ms`` wall-clock milliseconds; both may differ between nodes. Raises FatalError
    from :meth:`step` when an illegal state is reached; the shell must then stop the node.
    """

    def __init__(self, config: NodeConfig, recovered: Recovered, now: int, wall_ms: int) -> None:
        self.config = config
        self.replica = Replica(config, recovered, now, wall_ms)
        self.controller = Controller(
            _ReplicaQuorum(self.replica, dict(config.voters)),
            seed=config.seed,
            max_idle_ms=config.max_idle_ms,
            default_partitions=config.default_partitions,
            default_replication=config.default_replication,
        )

    @property
    def deadline(self) -> int:
        """When the next Tick is wanted, monotonic microseconds."""
        return min(poll.deadline(self.replica), self.controller.deadline)

    def start(self, now: int, wall_ms: int) -> list[Effect]:
        """Take up the recovered state; call once, before any step."""
        replica = self.replica
        replica.now = now
        replica.wall_ms = wall_ms
        replica.start()
        return self._settle(now, wall_ms)

    def step(self, event: Event, now: int, wall_ms: int) -> list[Effect]:
        """Handle one event completely and return what the shell must do."""
        replica = self.replica
        replica.now = now
        replica.wall_ms = wall_ms
        if isinstance(event, RequestReceived):
            handle_request(replica, event.token, event.message)
        elif isinstance(event, ResponseReceived):
            handle_response(replica, event.source, event.correlation, event.message)
        elif isinstance(event, ApiRequest):
            self.controller.handle(event, now, wall_ms)
        elif isinstance(event, Shutdown):
            replica.stop()
        elif not isinstance(event, Tick):
            raise TypeError(f"unknown event {event!r}")
        return self._settle(now, wall_ms)

    def _settle(self, now: int, wall_ms: int) -> list[Effect]:
        """Run replica and controller until neither has news for the other."""
        replica = self.replica
        controller = self.controller
        while True:
            poll.poll(replica)
            committed, replica.committed = replica.committed, []
            for batch in committed:
                controller.committed(batch, now)
            announcements, replica.announcements = replica.announcements, []
            for leader_id, epoch in announcements:
                self._announce(leader_id, epoch, now)
            state = replica.state
            controller.tick(now)
            for kind, detail in controller.take_notes():
                replica.trace(kind, detail)
            if replica.state is state and not replica.committed and not replica.announcements:
                break
        effects, replica.effects = replica.effects, []
        effects.extend(controller.take_replies())
        return effects

    def _announce(self, leader_id: int, epoch: int, now: int) -> None:
        """Pass a leader change on, unless a newer one has made a claim of ours void."""
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

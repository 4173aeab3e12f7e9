"""A whole node, pure: the replica of the quorum and the controller on top of it.

``step(event, now, wall_ms)`` is all a shell ever calls; see ``nodes.consensus.effects`` for
what goes in and out and for the order a shell must keep.
"""

from __future__ import annotations

from dataclasses import dataclass

from nodes.consensus.effects import (
    ApiRequest,
    Effect,
    Event,
    FatalError,
    RequestReceived,
    ResponseReceived,
    Shutdown,
    Tick,
)
from nodes.consensus.endpoint import Endpoint
from nodes.consensus.kraft import poll
from nodes.consensus.kraft.config import QuorumConfig
from nodes.consensus.kraft.leader import Leader
from nodes.consensus.kraft.replica import Replica
from nodes.consensus.kraft.requests import handle_request
from nodes.consensus.kraft.responses import handle_response
from nodes.consensus.recovered import Recovered, Snapshot
from nodes.local_quorum import LocalQuorum
from nodes.metadata.controller import Controller


@dataclass(slots=True, frozen=True)
class NodeConfig(QuorumConfig):
    """Everything a node is told: the quorum's settings and those of its roles (Kafka's names).

    A node has the ``controller`` role, the ``broker`` role, or both (``process.roles``).
    ``snapshot_bytes`` is ``metadata.log.max.record.bytes.between.snapshots``,
    ``snapshot_interval_ms`` ``metadata.log.max.snapshot.interval.ms``; ``session_timeout_ms``
    and ``heartbeat_interval_ms`` are the brokers'; ``broker_listener`` is where clients reach
    the broker and ``broker_incarnation`` (16 bytes) names its process;
    ``previous_broker_epoch`` is that of the process before, -1 if it did not stop cleanly.
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
    previous_broker_epoch: int = -1
    rack: str | None = None


class Node:
    """One process of the cluster as a pure state machine.

    ``recovered`` is what the shell found on its disk. ``now`` is monotonic microseconds,
    ``wall_ms`` wall-clock milliseconds; both may differ between nodes. Raises FatalError
    from :meth:`step` when an illegal state is reached; the shell must then stop the node.
    """

    def __init__(self, config: NodeConfig, recovered: Recovered, now: int, wall_ms: int) -> None:
        self.config = config
        self.replica = Replica(config, recovered, now, wall_ms)
        self._quorum = LocalQuorum(self.replica)
        self.controller = Controller(
            self._quorum,
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
                if isinstance(batch, Snapshot):
                    raise FatalError("snapshots are not loaded yet")
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
        effects = self._quorum.take_answers(effects)
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

"""The data plane of a broker, joined to its metadata, to the controller and to the shell.

The core (``nodes.replication``) knows neither the image nor addresses. This module publishes the
image to it, sends its AlterPartition requests to the active controller, and adds to its fetches
where the leader listens. All other effects of the core pass to the shell as they are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from kraftwreck.nodes.broker.cluster_view import listener_of
from kraftwreck.nodes.broker.image_changes import ImageChanges
from kraftwreck.nodes.broker.isr_proposals import IsrProposals
from kraftwreck.nodes.broker.leadership import ControllerAddress
from kraftwreck.nodes.broker.lifecycle import LISTENER, MILLISECOND
from kraftwreck.nodes.consensus.effects import ApiResponseReceived, SendApi
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.draw import draw
from kraftwreck.nodes.metadata.image_values import ImageView
from kraftwreck.nodes.node_config import NodeConfig
from kraftwreck.nodes.replication.effects import (
    AlterPartition,
    AskOffsets,
    Effect,
    FetchFrom,
    Note,
    RemoveLog,
)
from kraftwreck.nodes.replication.events import AlterPartitionAnswered, Event, LogOpened, Tick
from kraftwreck.nodes.replication.headers import PartitionKey
from kraftwreck.nodes.replication.positions import Moved, Samples
from kraftwreck.nodes.replication.replicas import Replicas

Body = dict[str, Any]

_JOINED: Final = frozenset((AlterPartition, Note, FetchFrom, AskOffsets, RemoveLog))
"""The effects of the core that do not pass to the shell as they are."""


class DataPlane:
    """The replicas of one broker; times are microseconds, ``wall_ms`` milliseconds.

    It has no partitions before the first :meth:`publish`, which must wait until the broker has
    caught up with the metadata: an old image may name this broker as the leader of partitions that
    others lead. The broker must not be unfenced before :attr:`is_open`, or it could be elected
    while it refuses everything.
    """

    def __init__(self, config: NodeConfig, now: int) -> None:
        seed = draw(config.seed, "data", config.node_id, config.broker_incarnation)
        lag_us = config.replica_lag_time_max_ms * MILLISECOND
        retention_us = config.retention_check_interval_ms * MILLISECOND
        self.core = Replicas(config.node_id, seed, now, lag_us, retention_us)
        self._changes = ImageChanges(config.node_id, config.min_insync_replicas)
        self._proposals = IsrProposals(config.node_id, config.request_timeout_ms * MILLISECOND)
        self._endpoints: dict[int, Endpoint] = {}
        self._epoch = -1
        self._opening: set[PartitionKey] | None = None
        self._proposed: AlterPartition | None = None
        self._stopped = False
        self._effects: list[Effect | SendApi] = []
        self._notes: list[tuple[str, Body]] = []
        self._core_due: int | None = None
        self._samples = Samples(now)
        self._names: dict[bytes, str] = {}

    @property
    def is_open(self) -> bool:
        """Whether the logs of the first image are open, or not this broker's any longer."""
        return self._opening is not None and not self._opening

    @property
    def replicas(self) -> frozenset[PartitionKey] | None:
        """The partitions that this broker has replicas of, None before the first image."""
        return None if self._opening is None else frozenset(self.core.partitions)

    @property
    def deadline(self) -> int:
        """The time at which the next :meth:`tick` is due."""
        return min(self._core_deadline(), self._proposals.deadline)

    def take_effects(self) -> list[Effect | SendApi]:
        """Return the effects for the shell since the last call, in order."""
        effects, self._effects = self._effects, []
        return effects

    def take_notes(self) -> list[tuple[str, Body]]:
        """Return the (kind, detail) of each trace event since the last call."""
        notes, self._notes = self._notes, []
        return notes

    def publish(self, image: ImageView, broker_epoch: int, now: int, wall_ms: int) -> None:
        """Take in a newer image. ``broker_epoch`` is that of this broker's registration."""
        self._epoch = broker_epoch
        self._endpoints = {
            broker_id: Endpoint(at.host, at.port)
            for broker_id, broker in image.brokers.items()
            if (at := listener_of(broker, LISTENER)) is not None
        }
        published = self._changes.since_last(image)
        if published is not None:
            for topic_id, _ in published.assigned or ():
                self._names[topic_id] = image.names[topic_id]
            self.step(published, now, wall_ms)
        if self._opening is None:
            self._opening = set(self.core.partitions)

    def step(self, event: Event, now: int, wall_ms: int) -> None:
        """Handle one event of the shell; :meth:`take_effects` returns what follows from it."""
        self._core_due = None
        jumped: list[PartitionKey] = []
        if isinstance(event, LogOpened):
            jumped.append(event.key)
            if self._opening is not None:
                self._opening.discard(event.key)
        for effect in self.core.step(event, now, wall_ms):
            if type(effect) not in _JOINED:
                self._effects.append(effect)
            elif isinstance(effect, AlterPartition):
                assert self._proposed is None, "one AlterPartition at a time"
                self._proposed = effect
            elif isinstance(effect, Note):
                topic_id, number = effect.key
                if effect.kind == "truncate":
                    jumped.append(effect.key)
                where = {"topic_id": topic_id.hex(), "partition": number}
                self._notes.append((f"replica-{effect.kind}", where | effect.detail))
            elif isinstance(effect, FetchFrom):
                self._effects.append(self._addressed(effect))
            elif isinstance(effect, AskOffsets):
                at = self._endpoints.get(effect.leader)
                self._effects.append(replace(effect, endpoint=at, broker_epoch=self._epoch))
            else:
                assert isinstance(effect, RemoveLog)
                if self._opening is not None:
                    self._opening.discard(effect.key)
                self._effects.append(effect)
        if now >= self._samples.due:
            self._trace(self._samples.all(self.core.partitions, now))
        elif jumped:
            self._trace(self._samples.some(self.core.partitions, jumped))

    def _core_deadline(self) -> int:
        """Return when the core is due, which only its steps change."""
        due = self._core_due
        if due is None:
            due = self._core_due = self.core.deadline
        return due

    def _addressed(self, effect: FetchFrom) -> FetchFrom:
        """Return the fetch with the address of its leader. The core keeps its own."""
        return FetchFrom(
            effect.leader,
            effect.correlation,
            effect.max_wait_ms,
            effect.parts,
            self._endpoints.get(effect.leader),
            self._epoch,
        )

    def _trace(self, moved: Moved) -> None:
        """Trace positions, with the names of topics that no event of this process has named."""
        if moved:
            rows = [[topic_id.hex(), number, *at] for (topic_id, number), at in moved]
            names = {
                key[0].hex(): self._names.pop(key[0]) for key, _ in moved if key[0] in self._names
            }
            detail = {"replicas": rows} | ({"topics": names} if names else {})
            self._notes.append(("replica-positions", detail))

    def response(self, event: ApiResponseReceived, now: int, wall_ms: int) -> bool:
        """Handle a response of the controller; False if the data plane did not wait for it."""
        answer = self._proposals.response(event)
        if answer is not None:
            self.step(answer, now, wall_ms)
        return answer is not None

    def tick(
        self,
        controller: ControllerAddress | None,
        broker_epoch: int,
        correlation: int,
        now: int,
        wall_ms: int,
    ) -> int:
        """Do everything that is due; return how many requests were sent, from ``correlation``."""
        self._epoch = broker_epoch
        void = self._proposals.void(controller, now)
        if void is not None:
            self.step(void, now, wall_ms)
        if self._core_deadline() <= now:
            self.step(Tick(), now, wall_ms)
        asked, self._proposed = self._proposed, None
        if asked is None:
            return 0
        if controller is None or broker_epoch < 0:
            # It was not sent; the core proposes again after its back-off.
            self.step(AlterPartitionAnswered(asked.correlation, None), now, wall_ms)
            return 0
        send = self._proposals.send(asked, controller, broker_epoch, correlation, now)
        self._effects.append(send)
        return 1

    def stop(self, now: int) -> None:
        """Checkpoint the high watermarks once, at the end of a controlled shutdown."""
        if not self._stopped:
            self._stopped = True
            self._effects.append(self.core.watermarks())
            self._trace(self._samples.all(self.core.partitions, now))

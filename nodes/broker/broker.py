"""The broker role of a node: a cluster member that clients connect to.

A broker registers, sends heartbeats, answers clients from its own metadata image, and forwards
changes of metadata to the active controller. The image holds committed metadata and may lag behind;
its answers are not linearizable. It has replicas of partitions if ``data_plane`` is set.
"""

from __future__ import annotations

from typing import Any, Final

from kraftwreck.nodes.broker.apis import FORWARDED, LOCAL, SERVED, SERVED_WITH_RECORDS
from kraftwreck.nodes.broker.auto_creation import AutoCreation
from kraftwreck.nodes.broker.cluster_view import alive_brokers, describe_cluster, some_controller
from kraftwreck.nodes.broker.config_view import described_configs, list_config_resources
from kraftwreck.nodes.broker.data_plane import DataPlane
from kraftwreck.nodes.broker.forwarding import Forwarding
from kraftwreck.nodes.broker.leadership import ControllerAddress, Leadership, controller_of
from kraftwreck.nodes.broker.lifecycle import Life, Lifecycle
from kraftwreck.nodes.broker.producer_ids import API as INIT_PRODUCER_ID
from kraftwreck.nodes.broker.producer_ids import ProducerIds, answer
from kraftwreck.nodes.broker.topic_view import MetadataAnswer, PartitionsAnswer
from kraftwreck.nodes.consensus.effects import (
    ApiReply,
    ApiRequest,
    ApiResponseReceived,
    FatalError,
    SendApi,
)
from kraftwreck.nodes.metadata.describe import api_versions
from kraftwreck.nodes.metadata.eligibility import DIRECTORIES, metadata_version
from kraftwreck.nodes.metadata.image import MetadataImage
from kraftwreck.nodes.node_config import NodeConfig
from kraftwreck.nodes.protocol.errors import UNSUPPORTED_VERSION
from kraftwreck.nodes.replication.effects import Effect as DataEffect
from kraftwreck.nodes.replication.events import FromShell, Request, Together
from kraftwreck.nodes.replication.headers import PartitionKey

FIRST_CORRELATION: Final = 1 << 30
"""Correlation ids of the broker start here, far from those of the rest of the node."""

Body = dict[str, Any]


class Broker:
    """The broker of one node, pure.

    It reads the stable layer of ``image`` and gets the active controller from ``quorum``.
    Times are microseconds of the monotonic clock; ``wall_ms`` is wall-clock milliseconds.
    """

    def __init__(
        self, config: NodeConfig, image: MetadataImage, quorum: Leadership, now: int = 0
    ) -> None:
        self._config = config
        self._image = image
        self._quorum = quorum
        self._life = Lifecycle(config, quorum.cluster_id)
        self._forwarding = Forwarding(f"broker-{config.node_id}", config.request_timeout_ms)
        self._correlation = FIRST_CORRELATION
        self._controller: ControllerAddress | None = None
        self._data = DataPlane(config, now) if config.data_plane else None
        self._producer_ids = ProducerIds(config.node_id, config.request_timeout_ms)
        self._creation = AutoCreation(
            config.default_partitions, config.default_replication, config.request_timeout_ms
        )
        self._moved = False
        self._lacks_directories = False
        self._recovered = False
        self._held: list[ApiRequest | Request | Together] = []
        self._effects: list[SendApi | ApiReply | DataEffect] = []

    @property
    def state(self) -> Life:
        """The state of the broker's lifecycle."""
        return self._life.state

    @property
    def data(self) -> DataPlane | None:
        """The data plane, None without one."""
        return self._data

    @property
    def epoch(self) -> int:
        """The broker epoch of the registration in force, -1 if there is none."""
        return self._life.epoch

    @property
    def left_epoch(self) -> int:
        """The epoch that a stop leaves to the next start, which then need not check the logs; -1 if
        this process has not opened them itself."""
        unchecked = self._data is not None and not self._data.is_open
        return -1 if unchecked else self.epoch

    @property
    def stopped(self) -> bool:
        """Whether the broker has finished: stopped on request, or registration failed."""
        return self._life.state is Life.STOPPED

    @property
    def replicas(self) -> frozenset[PartitionKey] | None:
        """The partitions that this broker has replicas of, None as long as it does not know."""
        return None if self._data is None else self._data.replicas

    @property
    def deadline(self) -> int:
        """The time at which the next :meth:`tick` is due; a far future if none is."""
        due = self.own_deadline
        return due if self._data is None else min(due, self._data.deadline)

    @property
    def own_deadline(self) -> int:
        """:attr:`deadline` apart from the data plane. Events of the data plane do not change it
        once the logs are open."""
        controller = self._find_controller()
        return min(
            self._life.deadline(controller),
            self._forwarding.deadline(controller),
            self._producer_ids.deadline(controller),
        )

    def _find_controller(self) -> ControllerAddress | None:
        """Return the active controller as far as known; the same object until it changes."""
        quorum, known = self._quorum, self._controller
        if (
            known is None
            or known.node_id != quorum.leader_id
            or known.endpoint is not quorum.leader_endpoint
        ):
            known = self._controller = controller_of(quorum)
        return known

    def take_effects(self) -> list[SendApi | ApiReply | DataEffect]:
        """Return the requests to send, the answers to give and the work of the data plane since the
        last call, in order."""
        effects, self._effects = self._effects, []
        return effects

    def take_notes(self) -> list[tuple[str, Body]]:
        """Return the (kind, detail) of each trace event since the last call."""
        notes = self._life.take_notes()
        return notes if self._data is None else notes + self._data.take_notes()

    # --- events -------------------------------------------------------------------------

    def handle(self, request: ApiRequest, now: int, wall_ms: int) -> None:
        """Accept a client request; :meth:`take_effects` returns its answer later.

        Requests wait until the broker has caught up with the metadata once, because before that its
        image is meaningless. Kafka keeps the listener closed for that time.
        """
        api = request.api
        if api not in FORWARDED and api not in LOCAL and api != INIT_PRODUCER_ID:
            raise FatalError(f"the broker does not serve {api}")
        if api == "ApiVersions":
            self._reply(request, self._api_versions(request))
        elif api == INIT_PRODUCER_ID and self._data is None:
            self._reply(request, answer(UNSUPPORTED_VERSION))
        elif not self._life.knows:
            self._held.append(request)
        else:
            self._answer(request, now)
            self._collect()

    def handle_data(self, event: FromShell, now: int, wall_ms: int) -> None:
        """Let the data plane handle ``event``, at once and completely.

        Requests wait until the broker has caught up, like those of :meth:`handle`. Raises
        FatalError if the broker has no data plane.
        """
        if self._data is None:
            raise FatalError(f"the broker has no data plane for {type(event).__name__}")
        if self.stopped:
            return
        if (self._held or not self._life.knows) and isinstance(event, Request | Together):
            self._held.append(event)
            return
        self._data.step(event, now, wall_ms)
        self._run_data(self._data, now, wall_ms)

    def response(self, event: ApiResponseReceived, now: int, wall_ms: int = 0) -> bool:
        """Handle a response from a controller; False if the broker did not wait for it."""
        mine = (
            self._life.response(event, now)
            or self._forwarding.response(event, now)
            or self._producer_ids.response(event, now)
        )
        if not mine and self._data is not None:
            mine = self._data.response(event, now, wall_ms)
        self._collect()
        return mine

    def published(self, offset: int, epoch: int, now: int) -> None:
        """Note that the stable image has moved up to and including ``offset``."""
        self._life.published(offset, now)
        self._moved = True
        image = self._image.stable
        mine = image.brokers.get(self._config.node_id)
        lacks = mine is not None and mine.epoch == self.epoch and not mine.log_dirs
        lacks = lacks and metadata_version(image) >= DIRECTORIES
        if lacks and not self._lacks_directories:
            self._life.amend(now)
        self._lacks_directories = lacks

    def tick(self, now: int, wall_ms: int) -> None:
        """Do everything that is due."""
        if self._data is not None and self._moved and self._life.knows:
            self._moved = False
            self._data.publish(self._image.stable, self.epoch, now, wall_ms)
        if self._held and self._life.knows:
            held, self._held = self._held, []
            for request in held:
                if isinstance(request, ApiRequest):
                    self._answer(request, now)
                elif self._data is not None:
                    self._data.step(request, now, wall_ms)
        controller = self._find_controller()
        said = self._life.tick(controller, self._correlation, now)
        if said is not None:
            self._correlation += 1
            self._effects.append(said)
        sends = self._forwarding.tick(controller, self._correlation, now)
        self._correlation += len(sends)
        self._effects.extend(sends)
        asked = self._producer_ids.tick(controller, self.epoch, self._correlation, now)
        if asked is not None:
            self._correlation += 1
            self._effects.append(asked)
        self._collect()
        if self._data is not None:
            self._run_data(self._data, now, wall_ms)

    def stop(self, now: int) -> None:
        """Begin the controlled shutdown; :attr:`stopped` becomes true when it is complete."""
        self._life.stop(now)

    def _run_data(self, data: DataPlane, now: int, wall_ms: int) -> None:
        """Let the data plane do what is due, and collect its effects."""
        controller = self._find_controller()
        self._correlation += data.tick(controller, self.epoch, self._correlation, now, wall_ms)
        if self.stopped:
            data.stop(now)
        if data.is_open and not self._recovered:
            self._recovered = True
            self._life.logs_opened(now)
        self._effects.extend(data.take_effects())

    # --- answers ------------------------------------------------------------------------

    def _answer(self, request: ApiRequest, now: int) -> None:
        if request.api in FORWARDED:
            self._forwarding.take_in(request, now)
        elif request.api == INIT_PRODUCER_ID:
            self._producer_ids.handle(request, now)
        else:
            self._reply(request, self._local(request))
            if request.api == "Metadata" and self._config.auto_create_topics:
                creation = self._creation.request(self._image.stable, request)
                if creation is not None:
                    self._forwarding.take_in(creation, now)

    def _local(self, request: ApiRequest) -> Body:
        image, cluster_id = self._image.stable, self._quorum.cluster_id
        body, listener = request.body, request.listener
        if request.api == "DescribeConfigs":
            mine, at = self._config.node_id, self._config.broker_listener
            return described_configs(image, mine, listener, at, body)
        if request.api == "ListConfigResources":
            return list_config_resources(image, listener, request.version, body)
        if request.api == "DescribeTopicPartitions":
            return PartitionsAnswer(image, listener).body(body)
        alive = alive_brokers(image, listener)
        controller = some_controller(alive, self._config.seed, self._config.node_id, request.token)
        if request.api == "DescribeCluster":
            return describe_cluster(image, listener, cluster_id, controller, body)
        return MetadataAnswer(image, listener, cluster_id).body(request.version, body, controller)

    def _api_versions(self, request: ApiRequest) -> Body:
        image, level = self._image.stable, self._quorum.kraft_version
        served = SERVED if self._data is None else SERVED_WITH_RECORDS
        return api_versions(image, request.version, served, level)

    def _reply(self, request: ApiRequest, body: Body) -> None:
        self._effects.append(ApiReply(request.token, body))

    def _collect(self) -> None:
        self._effects.extend(self._creation.without_ours(self._forwarding.take_replies()))
        self._effects.extend(self._producer_ids.take_replies())

"""Kafka requests as calls of clients, and what KRaft's clients remember."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kraftwreck.harness.client import Call, Invocation
from kraftwreck.harness.workload import ClientSetting
from kraftwreck.histories.operation import Op
from kraftwreck.nodes.draw import draw_below
from kraftwreck.nodes.protocol.request import KafkaRequest
from kraftwreck.workloads.planned import PlannedWorkload


def kafka_call(
    node: str, api: str, version: int, body: dict[str, Any], timeout_ms: int = 5000
) -> Call:
    """Return the call of ``api`` (its schema name) on ``node``."""
    return Call(node, KafkaRequest(api, version, body), timeout_ms)


_BROKER: Final = "/broker"


def broker_of(node: str) -> str:
    """Return how clients call the broker of a node that is also a controller."""
    return node + _BROKER


def addressed(name: str) -> tuple[str, bool]:
    """Return the node that clients call ``name``, and whether they mean its broker as such."""
    return name.removesuffix(_BROKER), name.endswith(_BROKER)


@dataclass(slots=True)
class ClientState:
    """The state that one client keeps between operations.

    ``nodes`` are the names of the controllers in a fixed order; ``ids`` maps node ids to names.
    ``gateways`` are the brokers to which writes go; if empty, they go directly to the active
    controller. Topics get ``topic_configs`` beside those that a workload chooses. If that is None,
    the workload draws them for each topic. ``memory`` is the workload's own.
    """

    thread: int
    nodes: Sequence[str]
    ids: Mapping[int, str]
    seed: int
    leader: str | None = None
    calls: int = 0
    gateways: Sequence[str] = ()
    topic_configs: Mapping[str, str] | None = None
    memory: dict[str, Any] = field(default_factory=dict)

    def broker(self, broker_id: int) -> str | None:
        """Return the gateway with this broker id, None if there is none.

        Brokers have the ids after those of the controllers, unless every node is both.
        """
        both = any(addressed(name)[1] for name in self.gateways)
        place = broker_id - 1 if both else broker_id - 1 - len(self.nodes)
        return self.gateways[place] if 0 <= place < len(self.gateways) else None


class KraftClient:
    """A client (:class:`~harness.client.Client`) that carries out a workload of KRaft's own.

    ``forgets`` is the probability in percent that it forgets the leader before an operation.
    """

    def __init__(self, workload: KraftWorkload, state: ClientState, forgets: int = 0) -> None:
        self.state = state
        self._workload = workload
        self._forgets = forgets

    def invoke(self, op: Op) -> Invocation:
        """Carry out ``op``; the completion names a node by its host."""
        completion = yield from self._workload.invoke(op, self.state)
        if completion.node is not None:
            completion.node = addressed(completion.node)[0]
        return completion

    def reset(self) -> None:
        """Forget the leader."""
        self.state.leader = None

    def forget(self, number: int) -> None:
        """Forget the leader before the operation ``number``, by draw."""
        state = self.state
        if draw_below(100, state.seed, "forget", state.thread, number) < self._forgets:
            state.leader = None


PROTOCOL: Final = "Kafka"
"""The protocol of clients and nodes of KRaft."""


class KraftWorkload(PlannedWorkload):
    """A workload that speaks Kafka; the base of all of KRaft's own."""

    protocol = PROTOCOL

    @abstractmethod
    def invoke(self, op: Op, client: ClientState) -> Invocation:
        """Carry out ``op``."""

    def client(self, setting: ClientSetting) -> KraftClient:
        """Return the client of one thread."""
        ids = dict(enumerate(setting.nodes, start=1))
        state = ClientState(
            setting.thread, setting.nodes, ids, setting.seed, gateways=setting.gateways
        )
        return KraftClient(self, state, setting.forgets)

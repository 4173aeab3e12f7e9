"""A toy node, small enough to reason about: it asks its peers in turn and logs answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from kraftwreck.nodes.consensus.effects import (
    ApiReply,
    ApiRequest,
    AppendLog,
    Effect,
    Event,
    FatalError,
    FlushLog,
    Reply,
    RequestReceived,
    ResponseReceived,
    Send,
    Shutdown,
    Stopped,
    Tick,
    Trace,
    WriteQuorumState,
)
from kraftwreck.nodes.consensus.kraft.messages import EndQuorumEpochRequest, EndQuorumEpochResponse
from kraftwreck.nodes.consensus.recovered import Recovered
from kraftwreck.nodes.log.batch import encode_batch
from kraftwreck.simulation.host import Host
from kraftwreck.systems.kraft.simulated.api_message import ApiMessage
from kraftwreck.systems.kraft.simulated.binding import kraft_world
from kraftwreck.systems.kraft.simulated.knobs import Knobs

PERIOD = 100_000


def toy_batch(base: int, epoch: int = 1, fill: int = 0) -> bytes:
    """A batch of one record at offset ``base``, as it may begin an epoch."""
    return encode_batch(base, epoch, 0, [(b"\0\0\0\2", bytes([fill]))], control=True)


@dataclass
class ToyNode:
    """Asks the next peer every 100 ms; an ``Append`` call logs a batch, flushed or not. It stops
    on request, unless it is ``stubborn``. Once it is ``restless``, each Tick has those effects and
    requests the next at once."""

    node_id: int
    peers: list[int]
    incarnation: int
    recovered: Recovered
    log: list[bytes]
    deadline: int = 0
    asked: int = 0
    stubborn: bool = False
    restless: list[Effect] | None = None
    seen: list[tuple[int, Event]] = field(default_factory=list)

    def _trace(self, kind: str, epoch: int = 0) -> Trace:
        return Trace(kind, "follower", epoch, -1, -1, len(self.log), -1)

    def start(self, now: int, wall_ms: int) -> list[Effect]:
        self.deadline = now + PERIOD
        return [self._trace("start")]

    def step(self, event: Event, now: int, wall_ms: int) -> list[Effect]:
        self.seen.append((now, event))
        if isinstance(event, Tick):
            if self.restless is not None:
                self.deadline = now
                return self.restless
            if now < self.deadline:
                return []
            self.deadline = now + PERIOD
            peer = self.peers[self.asked % len(self.peers)]
            self.asked += 1
            request = EndQuorumEpochRequest(None, self.node_id, self.asked, ())
            return [Send(peer, self.asked, request), self._trace("asked", self.asked)]
        if isinstance(event, RequestReceived):
            return [Reply(event.token, EndQuorumEpochResponse(0, 0, -1, self.incarnation))]
        if isinstance(event, ResponseReceived):
            return [self._trace("heard" if event.message else "failed")]
        if isinstance(event, Shutdown):
            return [] if self.stubborn else [self._trace("stop"), Stopped(7)]
        assert isinstance(event, ApiRequest)
        if event.api == "Die":
            raise FatalError("asked to")
        if event.api == "Append":
            batch = toy_batch(len(self.log))
            self.log.append(batch)
            effects: list[Effect] = [AppendLog(batch)]
            if event.body.get("flush"):
                effects.append(FlushLog())
            return [*effects, ApiReply(event.token, {"offset": len(self.log) - 1})]
        if event.api == "Vote":
            return [WriteQuorumState(7, -1, 3, bytes(16), (1, 2, 3)), ApiReply(event.token, {})]
        return [ApiReply(event.token, {"from": self.node_id})]


class Toys:
    """The world of toy nodes and the node objects in it."""

    def __init__(self, count: int, seed: int, knobs: Knobs | None = None) -> None:
        self.made: dict[int, list[ToyNode]] = {i + 1: [] for i in range(count)}
        names = [f"n{i + 1}" for i in range(count)]
        self.world = kraft_world(names, self._make, seed, knobs)
        for name in names:
            self.world.start(name)

    def _make(self, host: Host, recovered: Recovered, now: int, wall_ms: int) -> ToyNode:
        peers = [i for i in self.made if i != host.id]
        node = ToyNode(host.id, peers, host.incarnation, recovered, list(recovered.batches))
        self.made[host.id].append(node)
        return node

    def node(self, node_id: int) -> ToyNode:
        """The latest process of the node."""
        return self.made[node_id][-1]

    def ask(
        self, node: str, api: str = "Ping", timeout: int = 1_000_000, **body: object
    ) -> list[tuple[str, dict[str, object], str | None]]:
        """Call a node; the list receives the outcome when there is one."""
        got: list[tuple[str, dict[str, object], str | None]] = []
        request = ApiMessage(api, 0, body)
        self.world.call(1, node, request, timeout, lambda *outcome: got.append(outcome))
        return got

    def kinds(self, node: str, since: int = 0) -> list[str]:
        """Kinds of the node's trace events from virtual time ``since`` on."""
        offset = self.world.host(node).clock.mono_offset
        return [e.kind for e in self.world.events if e.node == node and e.mono - offset >= since]


@pytest.fixture
def toys() -> Callable[..., Toys]:
    """Makes a world of toy nodes: ``toys(count=3, seed=1, knobs=None)``."""

    def make(count: int = 3, seed: int = 1, knobs: Knobs | None = None) -> Toys:
        return Toys(count, seed, knobs)

    return make

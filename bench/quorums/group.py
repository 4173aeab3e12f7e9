"""A simulated group of members on either core, and the traffic between them.

Push is Raft (``nodes/consensus/raft``), pull is KRaft (``nodes/consensus/kraft``). Both replicate
the store of ``nodes/store``. Timers are the same as far as both have them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kraftwreck.harness.simulated.embedded import EmbeddedBinding, EmbeddedMember
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.consensus.effects import Message, Reply, Send
from kraftwreck.nodes.consensus.embedded import Core
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.kraft.config import QuorumConfig
from kraftwreck.nodes.consensus.kraft.core import KraftCore
from kraftwreck.nodes.consensus.kraft.states import Prospective
from kraftwreck.nodes.consensus.raft.config import RaftConfig
from kraftwreck.nodes.consensus.raft.core import RaftCore
from kraftwreck.nodes.consensus.recovered import Recovered
from kraftwreck.nodes.protocol.apis import SUPPORTED, encode_request, encode_response
from kraftwreck.nodes.server.wire import api_of, request_to_body, response_to_body
from kraftwreck.nodes.store.service import StoreService
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.knobs import WorldKnobs
from kraftwreck.simulation.network import Rpc
from kraftwreck.simulation.world import World

MS: Final = 1000
SECOND: Final = 1000 * MS
CLUSTER_ID: Final = "bench"
LENGTH_BYTES: Final = 4
"""Every frame begins with its length."""
ELECTION_MS: Final = 1000
"""The election timeout T of both: elections wait for a time drawn from [T, 2T)."""
FETCH_MS: Final = 1500
"""The fetch timeout of pull, which is not drawn: the mean of push's election timeout."""
_CORRELATION_MASK: Final = 2**31 - 1


class EagerKraftCore(KraftCore):
    """KRaft as before KIP-996: a voter whose timeout has expired raises the epoch at once."""

    def become_prospective(self) -> None:
        """Become a candidate, without a round of pre-votes."""
        super().become_prospective()
        if isinstance(self.state, Prospective):
            self.become_candidate()


@dataclass(frozen=True, slots=True)
class Kind:
    """One of the compared protocols: its core, and the settings that are not the defaults."""

    name: str
    pull: bool
    settings: Mapping[str, Any] = field(default_factory=dict)
    pre_vote: bool = True

    def core(
        self,
        host: Host,
        members: Mapping[int, Endpoint],
        seed: int,
        recovered: Recovered,
        clocks: tuple[int, int],
    ) -> Core:
        """Return the core of the member on ``host``; ``clocks`` are monotonic microseconds and
        wall-clock milliseconds."""
        given: dict[str, Any] = {"seed": seed, "incarnation": host.incarnation}
        given |= {"election_timeout_ms": ELECTION_MS, **self.settings}
        if not self.pull:
            raft = RaftConfig(host.id, CLUSTER_ID, members, pre_vote=self.pre_vote, **given)
            return RaftCore(raft, recovered, *clocks)
        given = {"fetch_timeout_ms": FETCH_MS, "linger_ms": 0, **given}
        kraft = QuorumConfig(host.id, CLUSTER_ID, bytes([host.id] * 16), members, **given)
        make = KraftCore if self.pre_vote else EagerKraftCore
        return make(kraft, recovered, *clocks)


PUSH: Final = Kind("push", pull=False)
PULL: Final = Kind("pull", pull=True)
LINGERING_PULL: Final = Kind("pull, linger 25 ms", pull=True, settings={"linger_ms": 25})
EAGER_PUSH: Final = Kind("push", pull=False, pre_vote=False)
EAGER_PULL: Final = Kind("pull", pull=True, pre_vote=False)


@dataclass(slots=True)
class Traffic:
    """Frames between members, by API and by pair of members: how many, and their bytes."""

    messages: Counter[str] = field(default_factory=Counter)
    volume: Counter[str] = field(default_factory=Counter)
    of_pair: Counter[frozenset[int]] = field(default_factory=Counter)
    volume_of_pair: Counter[frozenset[int]] = field(default_factory=Counter)

    def add(self, api: str, one: int, other: int, frame: bytes) -> None:
        """Count one frame between two members."""
        size, pair = LENGTH_BYTES + len(frame), frozenset((one, other))
        self.messages[api] += 1
        self.volume[api] += size
        self.of_pair[pair] += 1
        self.volume_of_pair[pair] += size

    def clear(self) -> None:
        """Count from zero again."""
        for counter in (self.messages, self.volume, self.of_pair, self.volume_of_pair):
            counter.clear()


class CountingBinding(EmbeddedBinding):
    """Counts the frames that real members would write to their sockets."""

    def __init__(self, endpoints: Mapping[int, Endpoint]) -> None:
        self.traffic = Traffic()
        self._endpoints = dict(endpoints)
        self._ids = {endpoint.host: number for number, endpoint in endpoints.items()}

    def request(self, host: Host, effect: Send) -> Message:
        """Count a request, and return it as its receiver decodes it."""
        api = api_of(effect.message)
        version = SUPPORTED[api][1]
        body = request_to_body(effect.message, version, self._endpoints)
        number = effect.correlation & _CORRELATION_MASK
        to = effect.destination
        if effect.endpoint is not None:
            to = self._ids[effect.endpoint.host]
        frame = encode_request(api, version, number, f"node-{host.id}", body)
        self.traffic.add(f"{api} request", host.id, to, frame)
        return super().request(host, effect)

    def answer(self, rpc: Rpc, effect: Reply) -> Message:
        """Count an answer, and return it as the other member decodes it."""
        api = api_of(rpc.message)
        version = SUPPORTED[api][1]
        body = response_to_body(effect.message, version, self._endpoints, api)
        frame = encode_response(api, version, rpc.correlation & _CORRELATION_MASK, body)
        self.traffic.add(f"{api} response", rpc.source, rpc.destination, frame)
        return super().answer(rpc, effect)


class Group:
    """``size`` members of ``kind`` in a world of their own."""

    def __init__(self, kind: Kind, size: int, seed: int, knobs: WorldKnobs | None = None) -> None:
        self.kind = kind
        self.seed = seed
        self.names = [f"n{number}" for number in range(1, size + 1)]
        members = {number: Endpoint(name, 1) for number, name in enumerate(self.names, 1)}
        binding = CountingBinding(members)
        self.traffic = binding.traffic

        def member(host: Host, recovered: Recovered, now: int, wall_ms: int) -> EmbeddedMember:
            core = kind.core(host, members, seed, recovered, (now, wall_ms))
            return EmbeddedMember(StoreService(core, snapshot_bytes=1 << 40))

        self.world = World(self.names, member, seed, knobs or WorldKnobs(), binding)
        self.events: list[tuple[int, TraceEvent]] = []
        """The traces of members, each with its time in microseconds."""
        self.world.on_trace.append(self._traced)

    def _traced(self, host: Host, event: TraceEvent) -> None:
        if event.kind == "fatal":
            raise RuntimeError(f"{event.node} died: {event.detail}")
        self.events.append((self.world.now, event))

    def start(self) -> None:
        """Start all members and wait until one leads. RuntimeError if none does in a minute."""
        for name in self.names:
            self.world.start(name)
        self.wait_for_leader()

    def wait(self, done: Callable[[], bool], what: str, seconds: int = 60) -> None:
        """Run until ``done``. Raises RuntimeError if that takes more than ``seconds``."""
        if not done():
            self.world.run(self.world.now + seconds * SECOND, stop=done)
        if not done():
            raise RuntimeError(f"{self.kind.name}, seed {self.seed}: no {what} in {seconds} s")

    def wait_for_leader(self, after: int = 0) -> str:
        """Run until a member leads a term above ``after``, and return it. RuntimeError if none does
        in a minute."""

        def led() -> bool:
            name = self.leader
            return name is not None and int(self.core(name).term) > after

        self.wait(led, "leader")
        leader = self.leader
        assert leader is not None
        return leader

    def service(self, name: str) -> StoreService | None:
        """Return the running member ``name``, None if its process is down."""
        node = self.world.host(name).node
        if node is None:
            return None
        assert isinstance(node, EmbeddedMember)
        assert isinstance(node.service, StoreService)
        return node.service

    def core(self, name: str) -> Any:
        """Return the core of a member that runs."""
        service = self.service(name)
        assert service is not None
        return service.consensus.core

    @property
    def leader(self) -> str | None:
        """The member of the newest term that leads and has applied all before its term."""
        leading = [
            (service.consensus.core.term, name)
            for name in self.names
            if (service := self.service(name)) is not None and service.consensus.leads
        ]
        return max(leading)[1] if leading else None

    def alone(self, name: str) -> dict[str, set[str]]:
        """Return the cut that separates ``name`` from all others, in both directions."""
        others = {other for other in self.names if other != name}
        return {name: others, **{other: {name} for other in others}}

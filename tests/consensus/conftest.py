"""A handful of replicas joined by a network the test holds in its hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from nodes.consensus.effects import (
    AppendLog,
    Effect,
    Reply,
    Send,
    Trace,
    TruncateLog,
    WriteQuorumState,
)
from nodes.consensus.endpoint import Endpoint
from nodes.consensus.kraft import poll
from nodes.consensus.kraft.config import QuorumConfig
from nodes.consensus.kraft.messages import Request, Response
from nodes.consensus.kraft.replica import Replica
from nodes.consensus.kraft.requests import handle_request
from nodes.consensus.kraft.responses import handle_response
from nodes.consensus.recovered import Recovered
from nodes.log.batch import parse_header

MS = 1000


@dataclass
class Disk:
    """What survives a kill: every effect is carried out at once."""

    quorum_state: WriteQuorumState | None = None
    batches: list[bytes] = field(default_factory=list)

    def apply(self, effect: Effect) -> None:
        if isinstance(effect, WriteQuorumState):
            self.quorum_state = effect
        elif isinstance(effect, AppendLog):
            self.batches.append(effect.batch)
        elif isinstance(effect, TruncateLog):
            while self.batches and parse_header(self.batches[-1]).last_offset >= effect.end_offset:
                self.batches.pop()


class Cluster:
    """Replicas 1..n; messages are delivered instantly unless ``cut`` says otherwise."""

    def __init__(self, voters: int, seed: int = 1, fetch_max_bytes: int = 1 << 20) -> None:
        self.seed = seed
        self.fetch_max_bytes = fetch_max_bytes
        self.now = 0
        self.ids = list(range(1, voters + 1))
        self.disks = {i: Disk() for i in self.ids}
        self.traces: dict[int, list[Trace]] = {i: [] for i in self.ids}
        self.cut: Callable[[int, int], bool] = lambda source, target: False
        self.incarnation = dict.fromkeys(self.ids, 0)
        self.replicas: dict[int, Replica] = {}
        self.stopped: set[int] = set()
        self._tokens: dict[int, tuple[int, int, int]] = {}
        self._token = 0
        self._queue: list[tuple[int, Callable[[], None]]] = []
        for i in self.ids:
            self.start(i)

    def start(self, i: int) -> Replica:
        """Start node ``i`` from its disk."""
        self.incarnation[i] += 1
        config = QuorumConfig(
            i,
            "cluster",
            bytes([i] * 16),
            {voter: Endpoint(f"n{voter}", 9093) for voter in self.ids},
            seed=self.seed,
            incarnation=self.incarnation[i],
            fetch_max_bytes=self.fetch_max_bytes,
        )
        disk = self.disks[i]
        replica = Replica(config, Recovered(disk.quorum_state, list(disk.batches)), self.now, 0)
        replica.now = self.now
        self.replicas[i] = replica
        replica.start()
        self._settle(i)
        return replica

    def kill(self, i: int) -> None:
        """Kill node ``i``: only its disk remains."""
        del self.replicas[i]

    def _settle(self, i: int) -> None:
        replica = self.replicas[i]
        poll.poll(replica)
        effects, replica.effects = replica.effects, []
        for effect in effects:
            self.disks[i].apply(effect)
        for effect in effects:
            if isinstance(effect, Trace):
                self.traces[i].append(effect)
            elif isinstance(effect, Send):
                self._post(i, effect.destination, effect.correlation, effect.message)
            elif isinstance(effect, Reply):
                self._answer(i, effect.token, effect.message)

    def _post(self, source: int, target: int, correlation: int, message: Request) -> None:
        incarnation = self.incarnation[source]

        def deliver() -> None:
            if self.cut(source, target):
                return
            if target not in self.replicas:
                self._respond(source, incarnation, target, correlation, None)
                return
            self._token += 1
            token = self._token
            self._tokens[token] = (source, correlation, incarnation)
            self.handle(target, lambda r: handle_request(r, token, message))

        self._queue.append((self.now, deliver))

    def _answer(self, source: int, token: int, message: Response) -> None:
        target, correlation, incarnation = self._tokens[token]

        def deliver() -> None:
            if not self.cut(source, target):
                self._respond(target, incarnation, source, correlation, message)

        self._queue.append((self.now, deliver))

    def _respond(
        self, target: int, incarnation: int, source: int, correlation: int, message: Response | None
    ) -> None:
        if target in self.replicas and self.incarnation[target] == incarnation:
            self.handle(target, lambda r: handle_response(r, source, correlation, message))

    def handle(self, i: int, action: Callable[[Replica], object]) -> None:
        """Let node ``i`` do ``action`` and carry out what follows."""
        replica = self.replicas[i]
        replica.now = self.now
        action(replica)
        self._settle(i)

    def flush(self) -> None:
        """Deliver everything under way."""
        for _ in range(100_000):
            if not self._queue:
                return
            self._queue.pop(0)[1]()
        raise AssertionError("messages never end")

    def run(self, milliseconds: int, until: Callable[[], bool] | None = None) -> bool:
        """Let time pass in steps of one millisecond; True as soon as ``until`` holds."""
        for _ in range(milliseconds):
            self.now += MS
            for i in list(self.replicas):
                replica = self.replicas[i]
                replica.now = self.now
                if poll.deadline(replica) <= self.now:
                    self._settle(i)
            self.flush()
            if until is not None and until():
                return True
        return until is None

    def leader(self) -> Replica | None:
        """The replica that leads the highest epoch, if any."""
        leaders = [r for r in self.replicas.values() if r.is_leader]
        return max(leaders, key=lambda r: r.epoch, default=None)

    def elect(self) -> Replica:
        """Run until some leader has a high watermark."""

        def ready() -> bool:
            leader = self.leader()
            return leader is not None and leader.high_watermark > 0

        assert self.run(10_000, ready), "no leader within ten seconds"
        leader = self.leader()
        assert leader is not None
        return leader

    def append(self, leader: Replica, *values: bytes) -> int:
        """Append one batch at ``leader``; returns its last offset."""
        last = -1

        def action(replica: Replica) -> None:
            nonlocal last
            last = replica.append_records(replica.epoch, values)

        self.handle(leader.node_id, action)
        return last

    def kinds(self, i: int) -> list[str]:
        """The trace kinds of node ``i``."""
        return [t.kind for t in self.traces[i]]


@pytest.fixture
def cluster_of() -> Callable[..., Cluster]:
    """Make a cluster of n voters."""
    return Cluster

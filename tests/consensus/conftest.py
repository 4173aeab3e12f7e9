"""A handful of replicas joined by a network the test holds in its hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kraftwreck.nodes.consensus.effects import Reply, Send, SnapshotReply, Trace
from kraftwreck.nodes.consensus.kraft import poll, snapshots
from kraftwreck.nodes.consensus.kraft.config import QuorumConfig
from kraftwreck.nodes.consensus.kraft.messages import (
    AddRaftVoterRequest,
    ApiVersionsRequest,
    ApiVersionsResponse,
    RemoveRaftVoterRequest,
    Request,
    Response,
    VoterChangeResponse,
)
from kraftwreck.nodes.consensus.kraft.replica import Replica
from kraftwreck.nodes.consensus.kraft.requests import handle_request
from kraftwreck.nodes.consensus.kraft.responses import handle_response
from kraftwreck.nodes.consensus.kraft.voters import LISTENER
from kraftwreck.nodes.consensus.recovered import Snapshot
from kraftwreck.nodes.log.batch import parse_header
from kraftwreck.nodes.log.snapshots import data_batch, footer_batch
from tests.consensus.disks import Disk, bootstrap_snapshot, directory_of, endpoint_of, values_of

MS = 1000
OUTSIDE = 0
"""Source of requests that no replica sent."""


class Cluster:
    """Replicas 1..n; messages are delivered instantly unless ``cut`` says otherwise.

    ``settings`` go into each QuorumConfig. With ``dynamic`` the voters lie in a bootstrap
    snapshot; otherwise they are configured.
    """

    def __init__(self, voters: int, seed: int = 1, *, dynamic: bool = False, **settings: Any):
        self.seed = seed
        self.settings = settings
        self.now = 0
        self.dynamic = dynamic
        self.initial = list(range(1, voters + 1))
        self.disks: dict[int, Disk] = {}
        self.disk_number: dict[int, int] = {}
        self.traces: dict[int, list[Trace]] = {}
        self.cut: Callable[[int, int], bool] = lambda source, target: False
        self.incarnation: dict[int, int] = {}
        self.replicas: dict[int, Replica] = {}
        self.loaded: dict[int, list[bytes]] = {}
        self.outcomes: list[VoterChangeResponse] = []
        self.sent: list[tuple[int, int, Request]] = []
        self._tokens: dict[int, tuple[int, int, int, int]] = {}
        self._token = 0
        self._expected = 0
        self._queue: list[tuple[int, Callable[[], None]]] = []
        for i in self.initial:
            self.start(i)

    @property
    def ids(self) -> list[int]:
        return list(self.disks)

    def start(self, i: int, **settings: Any) -> Replica:
        """Start node ``i`` from its disk; a new one gets a disk of its own."""
        if i not in self.disks:
            self.disks[i] = Disk()
            self.traces.setdefault(i, [])
            if self.dynamic and i in self.initial and i not in self.disk_number:
                self.disks[i].snapshots[0, 0] = bootstrap_snapshot(self.initial)
            self.disk_number.setdefault(i, 0)
        self.incarnation[i] = self.incarnation.get(i, 0) + 1
        static = {v: endpoint_of(v) for v in self.initial}
        config = QuorumConfig(
            i,
            "cluster",
            directory_of(i, self.disk_number[i]),
            {} if self.dynamic else static,
            seed=self.seed,
            incarnation=self.incarnation[i],
            bootstrap_servers=tuple(static.values()) if self.dynamic else (),
            listener=endpoint_of(i) if self.dynamic else None,
        )
        config = replace(config, **self.settings | settings)
        replica = Replica(config, self.disks[i].recovered(), self.now, 0)
        replica.now = self.now
        self.replicas[i] = replica
        self.loaded[i] = []
        replica.start()
        self._settle(i)
        return replica

    def kill(self, i: int) -> None:
        """Kill node ``i``: only its disk remains."""
        del self.replicas[i]

    def wipe(self, i: int) -> None:
        """Take the disk of a dead node away; it will start with an empty one."""
        assert i not in self.replicas
        del self.disks[i]
        self.disk_number[i] += 1

    def _settle(self, i: int) -> None:
        replica = self.replicas[i]
        poll.poll(replica)
        self._take(replica)
        effects, replica.effects = replica.effects, []
        for effect in effects:
            self.disks[i].apply(effect)
        for effect in effects:
            if isinstance(effect, Trace):
                self.traces[i].append(effect)
            elif isinstance(effect, Send):
                self._post(i, effect)
            elif isinstance(effect, Reply):
                self._answer(i, effect.token, effect.message)
            elif isinstance(effect, SnapshotReply):
                message = effect.message
                content = self.disks[i].snapshots[message.snapshot_end, message.snapshot_epoch]
                message.data = content[message.position : message.position + effect.max_bytes]
                self._answer(i, effect.token, message)

    def _take(self, replica: Replica) -> None:
        """Be the listener: its state is the list of all values committed."""
        state = self.loaded[replica.node_id]
        for delivery in replica.committed:
            if isinstance(delivery, Snapshot):
                state[:] = values_of(delivery.content)
            else:
                state += values_of(delivery)
        replica.committed.clear()

    def snapshot(self, i: int) -> tuple[int, int] | None:
        """Let node ``i`` make a snapshot of everything committed; return its id."""
        made: list[tuple[int, int]] = []

        def make(replica: Replica) -> None:
            end = replica.high_watermark
            batch = replica.log.batch_ending_at(end)
            if batch is None:
                return
            epoch = parse_header(batch).epoch
            head = snapshots.begin(replica, end, epoch)
            if head is None:
                return
            offset = parse_header(head).last_offset + 1
            body = b""
            state = self.loaded[i]
            if state:
                body = data_batch(offset, epoch, 0, state)
                offset += len(state)
            content = head + body + footer_batch(offset, epoch, 0)
            middle = len(content) // 2
            snapshots.piece(replica, end, epoch, 0, content[:middle])
            snapshots.piece(replica, end, epoch, middle, content[middle:])
            snapshots.finish(replica, end, epoch, len(content), 0, "")
            made.append((end, epoch))

        self.handle(i, make)
        return made[0] if made else None

    def clean(self, i: int) -> None:
        """Let node ``i`` remove all snapshots but the last, and the log below it."""

        def action(replica: Replica) -> None:
            config = replica.config
            replica.config = replace(config, retention_bytes=0)
            snapshots.clean(replica)
            replica.config = config

        self.handle(i, action)

    def _post(self, source: int, effect: Send) -> None:
        incarnation = self.incarnation[source]
        assert effect.endpoint is not None
        target = int(effect.endpoint.host.removeprefix("n"))
        correlation, message = effect.correlation, effect.message
        alias = effect.destination
        self.sent.append((source, target, message))

        def deliver() -> None:
            if self.cut(source, target):
                return
            if target not in self.replicas:
                self._respond(source, incarnation, alias, correlation, None)
                return
            if isinstance(message, ApiVersionsRequest):
                answer = ApiVersionsResponse(0, 0, 1)
                self._respond(source, incarnation, alias, correlation, answer)
                return
            self._token += 1
            token = self._token
            self._tokens[token] = (source, correlation, incarnation, alias)
            self.handle(target, lambda r: handle_request(r, token, message))

        self._queue.append((self.now, deliver))

    def _answer(self, source: int, token: int, message: Response) -> None:
        target, correlation, incarnation, alias = self._tokens[token]
        if target == OUTSIDE:
            assert isinstance(message, VoterChangeResponse)
            self.outcomes.append(message)
            return

        def deliver() -> None:
            if not self.cut(source, target):
                self._respond(target, incarnation, alias, correlation, message)

        self._queue.append((self.now, deliver))

    def _respond(
        self, target: int, incarnation: int, source: int, correlation: int, message: Response | None
    ) -> None:
        if target in self.replicas and self.incarnation[target] == incarnation:
            self.handle(target, lambda r: handle_response(r, source, correlation, message))

    def ask(self, i: int, message: Request) -> None:
        """Send a voter change from outside; its answer goes to ``outcomes``."""
        self._token += 1
        token = self._token
        self._tokens[token] = (OUTSIDE, 0, 0, 0)
        self.handle(i, lambda r: handle_request(r, token, message))

    def add(self, i: int) -> None:
        """Ask the leader to add node ``i``."""
        leader = self.leader()
        assert leader is not None
        endpoints = ((LISTENER, endpoint_of(i)),)
        key = (i, directory_of(i, self.disk_number[i]))
        self.ask(leader.node_id, AddRaftVoterRequest("cluster", 1000, *key, endpoints))

    def remove(self, i: int, disk: int = 0) -> None:
        """Ask the leader to remove node ``i``."""
        leader = self.leader()
        assert leader is not None
        self.ask(leader.node_id, RemoveRaftVoterRequest("cluster", i, directory_of(i, disk)))

    def change(self, action: Callable[[], None], milliseconds: int = 5000) -> int:
        """Ask for a voter change until it is possible; return the final error."""
        for _ in range(milliseconds // 50):
            self._expected = len(self.outcomes) + 1
            action()
            assert self.run(5000, lambda: len(self.outcomes) >= self._expected), "no answer"
            if self.outcomes[-1].error != 7:
                break
            self.run(50)
        return self.outcomes[-1].error

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

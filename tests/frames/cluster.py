"""Three combined nodes in this process, joined by the bytes of their protocol.

Requests reach a node as on a host: through a listener's :class:`Connection`, which holds the whole
way of a frame up to the disk. Time is virtual; fsync is left out.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from kraftwreck.nodes.consensus.effects import (
    Abandon,
    ApiReply,
    ApiResponseReceived,
    Event,
    Reply,
    ResponseReceived,
    Send,
    SendApi,
    SnapshotReply,
    Stopped,
    Tick,
    Trace,
)
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.effects import NodeEffect
from kraftwreck.nodes.log.format import format_directory
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.node_config import NodeConfig
from kraftwreck.nodes.protocol.apis import (
    SUPPORTED,
    decode_response,
    encode_request,
    encode_response,
)
from kraftwreck.nodes.protocol.codec import ProtocolError
from kraftwreck.nodes.server.addresses import BROKER, CONTROLLER
from kraftwreck.nodes.server.admission import Admission
from kraftwreck.nodes.server.connection import Connection, Requests
from kraftwreck.nodes.server.listeners import Listener
from kraftwreck.nodes.server.quorum_requests import api_of, request_to_body
from kraftwreck.nodes.server.quorum_responses import response_from_body
from kraftwreck.nodes.server.shapes import ShapeError
from kraftwreck.nodes.server.storage import Storage
from kraftwreck.simulation.unsynced import UnsyncedMedia

CLUSTER_ID: Final = "frames"
IDS: Final = (1, 2, 3)
MS: Final = 1000
Body = dict[str, Any]


class DeathError(AssertionError):
    """A node ended, or one of its handlers failed."""


class _Wire(asyncio.Transport):
    """The transport of a connection whose other end is a test."""

    def __init__(self, host: str, heard: Callable[[bytes], None]) -> None:
        super().__init__({"peername": (host, 1)})
        self._heard = heard
        self.closed = False

    def write(self, data: Any) -> None:
        self._heard(bytes(data))

    def abort(self) -> None:
        self.closed = True

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """All is written at once."""

    def pause_reading(self) -> None:
        """Nothing is sent before the answer."""

    def resume_reading(self) -> None:
        """See :meth:`pause_reading`."""


class Process:
    """One node with its disk and its listeners."""

    def __init__(self, cluster: Cluster, node_id: int, directory: Path) -> None:
        self.cluster = cluster
        self.node_id = node_id
        meta = format_directory(directory, CLUSTER_ID, node_id)
        self.directory_id = meta.directory_id
        self.storage = Storage(directory, media=UnsyncedMedia())
        voters = {i: Endpoint(f"n{i}", 9093) for i in IDS}
        config = NodeConfig(
            node_id,
            CLUSTER_ID,
            meta.directory_id,
            voters,
            seed=7,
            listener=voters[node_id],
            broker=True,
            broker_listener=Endpoint(f"n{node_id}", 9092),
            broker_incarnation=bytes([node_id]) * 16,
            snapshot_bytes=200_000,
        )
        self.node = Node(config, self.storage.recovered, cluster.now, cluster.now // MS)
        self.requests = Requests(self.submit, voters)
        self.admission = Admission(2)
        self.kinds: dict[str, int] = {}
        self._carry_out(self.node.start(cluster.now, cluster.now // MS))

    def connect(self, listener: str, heard: Callable[[bytes], None]) -> tuple[Connection, _Wire]:
        connection = Connection(self.requests, self.admission, Listener.called(listener))
        wire = _Wire("client", heard)
        connection.connection_made(wire)
        return connection, wire

    def submit(self, event: Event) -> None:
        now = self.cluster.now
        self._carry_out(self.node.step(event, now, now // MS))

    def tick(self) -> None:
        if self.node.deadline <= self.cluster.now:
            self.submit(Tick())

    def _carry_out(self, effects: list[NodeEffect]) -> None:
        self.storage.carry_out(effects)
        for effect in effects:
            if isinstance(effect, Trace):
                self.kinds[effect.kind] = self.kinds.get(effect.kind, 0) + 1
                if effect.kind in ("defect", "controller-error"):
                    raise DeathError(f"node {self.node_id}: {effect.kind} {effect.detail}")
            elif isinstance(effect, Send | SendApi):
                self.cluster.post(self, effect)
            elif isinstance(effect, Reply | ApiReply):
                self.requests.reply(effect)
            elif isinstance(effect, SnapshotReply):
                place = (effect.message.snapshot_end, effect.message.snapshot_epoch)
                effect.message.data = self.storage.read_snapshot(
                    *place, effect.message.position, effect.max_bytes
                )
                self.requests.reply(Reply(effect.token, effect.message))
            elif isinstance(effect, Abandon):
                self.requests.abandon(effect)
            elif isinstance(effect, Stopped):
                raise DeathError(f"node {self.node_id} stopped")


class Cluster:
    """The nodes, and what is under way between them.

    ``lie`` may change a response of node 3 before it is received: its body, then its bytes.
    """

    def __init__(self, directory: Path) -> None:
        self.now = 10_000_000
        self.lie: Callable[[str, Body], None] = lambda api, body: None
        self.damage: Callable[[bytes], bytes] = lambda data: data
        self._queue: deque[Callable[[], None]] = deque()
        self.processes: dict[int, Process] = {}
        for node_id in IDS:
            self.processes[node_id] = Process(self, node_id, directory / f"n{node_id}")

    async def run(self, milliseconds: int, step: int = 1) -> None:
        """Let virtual time pass."""
        for _ in range(0, milliseconds, step):
            self.now += step * MS
            for process in self.processes.values():
                process.tick()
            await self.settle()

    async def settle(self) -> None:
        """Deliver what is under way."""
        for _ in range(10_000):
            if not self._queue:
                return
            self._queue.popleft()()
        raise DeathError("messages never end")

    def leader(self) -> Process | None:
        active = [p for p in self.processes.values() if p.node.controller.is_active]
        return max(active, key=lambda p: p.node.replica.epoch, default=None)

    # --- between nodes ----------------------------------------------------------------------

    def post(self, sender: Process, effect: Send | SendApi) -> None:
        """Carry a request to its destination, and the answer back."""
        self._queue.append(lambda: self._deliver(sender, effect))

    def _deliver(self, sender: Process, effect: Send | SendApi) -> None:
        if isinstance(effect, SendApi):
            api, body = effect.api, effect.body
        else:
            api = api_of(effect.message)
            body = request_to_body(effect.message, SUPPORTED[api][1], {})
        version = SUPPORTED[api][1]
        host = effect.endpoint.host if effect.endpoint is not None else f"n{effect.destination}"
        target = next((p for p in self.processes.values() if f"n{p.node_id}" == host), None)
        if target is None:
            self._answer(sender, effect, None)
            return

        def heard(data: bytes) -> None:
            connection.connection_lost(None)
            answer = self._received(target, api, version, data)
            self._queue.append(lambda: self._answer(sender, effect, answer))

        connection, wire = target.connect(CONTROLLER, heard)
        frame = encode_request(api, version, 1, "node", body)
        connection.data_received(len(frame).to_bytes(4, "big") + frame)
        if wire.closed:
            connection.connection_lost(None)
            self._answer(sender, effect, None)

    def _received(self, target: Process, api: str, version: int, data: bytes) -> Any:
        """Return the body of a response as its receiver reads it, None for a broken one."""
        try:
            if target.node_id == IDS[-1]:
                _, body = decode_response(api, version, data[4:])
                self.lie(api, body)
                data = data[:4] + self.damage(encode_response(api, version, 1, body))
            correlation, body = decode_response(api, version, data[4:])
        except ProtocolError:
            return None
        return body if correlation == 1 else None

    def _answer(self, sender: Process, effect: Send | SendApi, body: Body | None) -> None:
        if isinstance(effect, SendApi):
            sender.submit(ApiResponseReceived(effect.destination, effect.correlation, body))
            return
        message = None
        if body is not None:
            api = api_of(effect.message)
            try:
                message = response_from_body(api, SUPPORTED[api][1], body)
            except ShapeError:
                message = None
        sender.submit(ResponseReceived(effect.destination, effect.correlation, message))

    # --- a client that means well -----------------------------------------------------------

    async def ask(self, node_id: int, listener: str, api: str, version: int, body: Body) -> Body:
        """Return the answer to a valid request. Raises DeathError if there is none."""
        heard: list[bytes] = []
        connection, wire = self.processes[node_id].connect(listener, heard.append)
        frame = encode_request(api, version, 5, "client", body)
        connection.data_received(len(frame).to_bytes(4, "big") + frame)
        for _ in range(4000):
            if heard or wire.closed:
                break
            await self.run(10, 10)
        connection.connection_lost(None)
        if not heard:
            raise DeathError(f"node {node_id} does not answer a valid {api} on {listener}")
        return decode_response(api, version, heard[0][4:])[1]

    async def serves(self) -> None:
        """Raise DeathError unless a change is committed and every listener answers."""
        for _ in range(400):
            leader = self.leader()
            if leader is not None:
                topic = {"name": f"ok{self.now}", "num_partitions": 1, "replication_factor": -1}
                body = {"topics": [topic], "timeout_ms": 30_000}
                answer = await self.ask(leader.node_id, CONTROLLER, "CreateTopics", 7, body)
                # 38: no broker is left unfenced; that is an answer, too.
                if answer["topics"][0]["error_code"] in (0, 38):
                    break
            await self.run(100, 10)
        else:
            raise DeathError("no controller commits anything")
        for node_id in IDS:
            for listener in (CONTROLLER, BROKER):
                await self.ask(node_id, listener, "ApiVersions", 3, {})
            await self.ask(node_id, CONTROLLER, "Metadata", 12, {"topics": None})

    def close(self) -> None:
        for process in self.processes.values():
            process.storage.close()

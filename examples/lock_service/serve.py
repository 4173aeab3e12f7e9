"""A process of the lock service: the members' RPCs on one port, clients on another.

The members speak Kafka's protocol through ``nodes.server`` (Raft with API keys of its own), and
keep their log with ``nodes.log``. Clients send a JSON object a line and get one a line back, in any
order: ``id`` of a request is repeated in its answer.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from kraftwreck.examples.lock_service.service import LockService
from kraftwreck.nodes.consensus.effects import (
    Abandon,
    ApiReply,
    ApiRequest,
    Effect,
    Event,
    Reply,
    Send,
    SnapshotReply,
    Tick,
)
from kraftwreck.nodes.consensus.embedded import Core
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.kraft.config import QuorumConfig
from kraftwreck.nodes.consensus.kraft.core import KraftCore
from kraftwreck.nodes.consensus.raft.config import RaftConfig
from kraftwreck.nodes.consensus.raft.core import RaftCore
from kraftwreck.nodes.log.format import format_directory
from kraftwreck.nodes.protocol.apis import API_KEYS, SUPPORTED
from kraftwreck.nodes.server.admission import Admission
from kraftwreck.nodes.server.connection import Connection, Requests
from kraftwreck.nodes.server.listeners import Listener
from kraftwreck.nodes.server.peers import Peers
from kraftwreck.nodes.server.raft_wire import RAFT_APIS
from kraftwreck.nodes.server.shapes import LISTENER, QUORUM_APIS
from kraftwreck.nodes.server.storage import Storage, next_incarnation

CLUSTER_ID: Final = "lock-service"
CORES: Final = {"kraft": QUORUM_APIS, "raft": RAFT_APIS}
"""The consensus cores by name, and the RPCs of each."""


def clocks() -> tuple[int, int]:
    """Return the monotonic clock (µs) and the wall clock (ms)."""
    return time.monotonic_ns() // 1000, time.time_ns() // 1_000_000


class Process:
    """The shell around one :class:`LockService`: disk, timer and sockets.

    ``kind`` is one of :data:`CORES`.
    """

    def __init__(
        self, node_id: int, members: dict[int, Endpoint], data: Path, kind: str = "kraft"
    ) -> None:
        self.served = frozenset((*CORES[kind], "ApiVersions"))
        meta = format_directory(data, CLUSTER_ID, node_id)
        self._storage = Storage(data)
        incarnation = next_incarnation(data / "incarnation")
        core: Core
        if kind == "raft":
            raft = RaftConfig(node_id, CLUSTER_ID, members, incarnation=incarnation)
            core = RaftCore(raft, self._storage.recovered, *clocks())
            timeout_ms = raft.request_timeout_ms
        else:
            config = QuorumConfig(
                node_id, CLUSTER_ID, meta.directory_id, members, incarnation=incarnation
            )
            core = KraftCore(config, self._storage.recovered, *clocks())
            timeout_ms = config.request_timeout_ms
        self.service = LockService(core)
        self._timer: asyncio.TimerHandle | None = None
        self._answers: list[tuple[asyncio.StreamWriter, bytes]] = []
        self._peers = Peers(node_id, members, members[node_id], timeout_ms, self.submit)
        self.requests = Requests(self.submit, members)

    def begin(self) -> None:
        """Start from the state on the disk."""
        self._carry_out(self.service.start(*clocks()))

    def submit(self, event: Event) -> None:
        """Let the consensus core handle an event."""
        if isinstance(event, ApiRequest):
            self.requests.reply(ApiReply(event.token, _api_versions(self.served)))
            return
        self._carry_out(self.service.step(event, *clocks()))

    def ask(self, request: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        """Handle a client's request."""

        def answer(body: dict[str, Any]) -> None:
            line = json.dumps({"id": request.get("id"), **body}).encode() + b"\n"
            self._answers.append((writer, line))

        self._carry_out(self.service.ask(request, answer, clocks()[0]))

    async def clients(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client until it disconnects or sends an invalid request."""
        try:
            while line := await reader.readline():
                request = json.loads(line)
                if not isinstance(request, dict) or "do" not in request:
                    raise ValueError("a request is an object that says what to do")
                self.ask(request, writer)
        except (ValueError, OSError) as error:
            writer.write(json.dumps({"ok": False, "error": str(error)}).encode() + b"\n")
        finally:
            writer.close()

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        """Carry out durable effects first, then send messages: persist before you speak."""
        self._storage.carry_out(effects)
        answers, self._answers = self._answers, []
        for writer, line in answers:
            if not writer.is_closing():
                writer.write(line)
        for effect in effects:
            if isinstance(effect, Send):
                self._peers.send(effect)
            elif isinstance(effect, Reply):
                self.requests.reply(effect)
            elif isinstance(effect, Abandon):
                self.requests.abandon(effect)
            elif isinstance(effect, SnapshotReply):
                told = effect.message
                place = (told.snapshot_end, told.snapshot_epoch, told.position)
                data = self._storage.read_snapshot(*place, effect.max_bytes)
                self.requests.reply(Reply(effect.token, replace(told, data=data)))
        if self._timer is not None:
            self._timer.cancel()
        delay = max(0.001, (self.service.deadline - clocks()[0]) / 1e6)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(min(delay, 3600.0), self.submit, Tick())


def _api_versions(served: Iterable[str]) -> dict[str, Any]:
    keys = [
        {
            "api_key": API_KEYS[api],
            "min_version": SUPPORTED[api][0],
            "max_version": SUPPORTED[api][1],
        }
        for api in sorted(served, key=lambda name: API_KEYS[name])
    ]
    return {"error_code": 0, "api_keys": keys, "throttle_time_ms": 0}


async def serve(
    node_id: int, members: dict[int, Endpoint], clients: Endpoint, data: Path, kind: str
) -> None:
    """Run a member until it is killed."""
    process = Process(node_id, members, data, kind)
    listener = Listener(LISTENER, process.served, frozenset(CORES[kind]))
    admission = Admission()
    loop = asyncio.get_running_loop()
    own = members[node_id]
    await loop.create_server(
        lambda: Connection(process.requests, admission, listener), own.host, own.port
    )
    await asyncio.start_server(process.clients, clients.host, clients.port)
    process.begin()
    await asyncio.Event().wait()


def endpoint(text: str) -> Endpoint:
    """Parse an endpoint of the form ``host:port``."""
    host, _, port = text.rpartition(":")
    return Endpoint(host, int(port))


def main(argv: Sequence[str] | None = None) -> None:
    """``python -m kraftwreck.examples.lock_service.serve --id 1 --members 1@host:port,... ...``."""
    parser = argparse.ArgumentParser(description="One member of the lock service.")
    parser.add_argument("--id", type=int, required=True)
    parser.add_argument("--members", required=True, help="1@host:port,2@host:port,...")
    parser.add_argument("--clients", type=endpoint, required=True, help="host:port for clients")
    parser.add_argument("--data", type=Path, required=True, help="a directory of its own")
    parser.add_argument("--core", choices=sorted(CORES), default="kraft", help="kraft or raft")
    options = parser.parse_args(argv)
    members = {}
    for member in options.members.split(","):
        name, _, where = member.partition("@")
        members[int(name)] = endpoint(where)
    asyncio.run(serve(options.id, members, options.clients, options.data, options.core))


if __name__ == "__main__":
    main()

"""A process of the store: the members' RPCs on one port, clients on another.

``python -m kraftwreck.nodes.store.serve --id 1 --members 1@host:port,... --clients host:port --data
DIRECTORY``. Clients send a JSON object a line and get one a line back, in any order: the ``id`` of
a request is repeated in its answer. SIGTERM ends the process; a leader steps down first.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from kraftwreck.nodes.consensus.effects import (
    Abandon,
    ApiReply,
    ApiRequest,
    Effect,
    Event,
    Reply,
    Send,
    Shutdown,
    Stopped,
    Tick,
)
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.raft.config import RaftConfig
from kraftwreck.nodes.consensus.raft.core import RaftCore
from kraftwreck.nodes.log.format import format_directory
from kraftwreck.nodes.protocol.apis import API_KEYS, SUPPORTED
from kraftwreck.nodes.server.admission import Admission
from kraftwreck.nodes.server.connection import Connection, Requests
from kraftwreck.nodes.server.listeners import Listener
from kraftwreck.nodes.server.peers import Peers
from kraftwreck.nodes.server.raft_wire import RAFT_APIS
from kraftwreck.nodes.server.shapes import LISTENER
from kraftwreck.nodes.server.storage import Storage, next_incarnation
from kraftwreck.nodes.store.service import StoreService

CLUSTER_ID: Final = "store"
READY: Final = "the store listens"
"""Printed once clients can connect."""
_SERVED: Final = frozenset((*RAFT_APIS, "ApiVersions"))
_LINE_BYTES: Final = 1 << 20


def clocks() -> tuple[int, int]:
    """Return the monotonic clock (µs) and the wall clock (ms)."""
    return time.monotonic_ns() // 1000, time.time_ns() // 1_000_000


class Process:
    """The shell around one :class:`StoreService`: disk, timer and sockets."""

    def __init__(self, node_id: int, members: dict[int, Endpoint], data: Path) -> None:
        format_directory(data, CLUSTER_ID, node_id)
        self._storage = Storage(data)
        incarnation = next_incarnation(data / "incarnation")
        config = RaftConfig(node_id, CLUSTER_ID, members, incarnation=incarnation)
        core = RaftCore(config, self._storage.recovered, *clocks())
        self.service = StoreService(core)
        self.stopped = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._answers: list[tuple[asyncio.StreamWriter, bytes]] = []
        own = members[node_id]
        self._peers = Peers(node_id, members, own, config.request_timeout_ms, self.submit)
        self.requests = Requests(self.submit, members)

    def begin(self) -> None:
        """Start from the state on the disk."""
        self._carry_out(self.service.start(*clocks()))

    def submit(self, event: Event) -> None:
        """Let the member handle an event."""
        if isinstance(event, ApiRequest):
            self.requests.reply(ApiReply(event.token, _api_versions()))
        elif not self.stopped.is_set():
            self._carry_out(self.service.step(event, *clocks()))

    async def clients(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client until it disconnects or sends an invalid request."""
        try:
            while line := await reader.readline():
                request = json.loads(line)
                if not isinstance(request, dict):
                    raise ValueError("a request is an object that says what to do")
                self._ask(request, writer)
                await writer.drain()
        except (ValueError, OSError) as error:
            writer.write(json.dumps({"ok": False, "error": str(error)}).encode() + b"\n")
        finally:
            writer.close()

    def _ask(self, request: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        number = request.pop("id", None)

        def answer(body: dict[str, Any]) -> None:
            line = json.dumps({"id": number, **body}).encode() + b"\n"
            self._answers.append((writer, line))

        core = self.service.consensus.core
        core.now, core.wall_ms = clocks()
        self._carry_out(self.service.ask(request, answer, core.now))

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
            elif isinstance(effect, Stopped):
                self.stopped.set()
        if self._timer is not None:
            self._timer.cancel()
        delay = max(0.001, (self.service.deadline - clocks()[0]) / 1e6)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(min(delay, 3600.0), self.submit, Tick())


def _api_versions() -> dict[str, Any]:
    keys = [
        {
            "api_key": API_KEYS[api],
            "min_version": SUPPORTED[api][0],
            "max_version": SUPPORTED[api][1],
        }
        for api in sorted(_SERVED, key=lambda name: API_KEYS[name])
    ]
    return {"error_code": 0, "api_keys": keys, "throttle_time_ms": 0}


async def serve(node_id: int, members: dict[int, Endpoint], clients: Endpoint, data: Path) -> None:
    """Run a member until SIGTERM."""
    process = Process(node_id, members, data)
    listener = Listener(LISTENER, _SERVED, frozenset(RAFT_APIS))
    admission = Admission()
    loop = asyncio.get_running_loop()
    own = members[node_id]
    await loop.create_server(
        lambda: Connection(process.requests, admission, listener), own.host, own.port
    )
    await asyncio.start_server(process.clients, clients.host, clients.port, limit=_LINE_BYTES)
    process.begin()
    loop.add_signal_handler(signal.SIGTERM, process.submit, Shutdown())
    print(READY, flush=True)
    await process.stopped.wait()


def endpoint(text: str) -> Endpoint:
    """Parse an endpoint of the form ``host:port``."""
    host, _, port = text.rpartition(":")
    return Endpoint(host, int(port))


def main(argv: Sequence[str] | None = None) -> None:
    """Parse the command line and run a member."""
    parser = argparse.ArgumentParser(description="One member of the store.")
    parser.add_argument("--id", type=int, required=True)
    parser.add_argument("--members", required=True, help="1@host:port,2@host:port,...")
    parser.add_argument("--clients", type=endpoint, required=True, help="host:port for clients")
    parser.add_argument("--data", type=Path, required=True, help="a directory of its own")
    options = parser.parse_args(argv)
    members = {}
    for member in options.members.split(","):
        name, _, where = member.partition("@")
        members[int(name)] = endpoint(where)
    asyncio.run(serve(options.id, members, options.clients, options.data))


if __name__ == "__main__":
    main()

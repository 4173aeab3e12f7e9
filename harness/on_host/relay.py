"""On a host: a relay that disturbs some kinds of requests from peers, or their responses.

Standard library only, for any Python >= 3.9; it is sent to the host with the agent.

nftables redirects connections of some peers to the relay instead of the node's ports; existing
connections are reset once. The relay parses frames (length, api key, version, correlation
id). So it can drop, delay or duplicate one kind of RPC while its connection and all other messages
continue. It adds about a millisecond of latency.

A rule is ``{"peer": ip, "part": "request"|"response", "apis": [keys], ...effects}``; no apis means
all. Times are microseconds, probabilities percents. The effects of all matching rules add up.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import socket
import struct
from typing import TYPE_CHECKING, Any

from kraftwreck.harness.on_host.daemon import DaemonError, ask, end, pid_of, spawn
from kraftwreck.harness.on_host.netem import run

if TYPE_CHECKING:
    import asyncio

SOCKET = "/run/kraftwreck-relay.sock"
TABLE = "kraftwreck_relay"
RETRANSMISSION_US = 200_000
RETRANSMISSIONS = 3
MOST = 100 << 20
_SO_ORIGINAL_DST = 80
_CONNECT_S = 5.0

Rule = dict[str, Any]


class Relay:
    """The rules, their counters, and their connections."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.rules: list[Rule] = request["rules"]
        self.again: frozenset[int] = frozenset(request["again"])
        """Kinds of requests that may arrive twice."""
        self.counts: dict[str, dict[str, dict[str, int]]] = {}
        self._seed = request["seed"]
        self._messages = 0
        self.server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.server.bind(("0.0.0.0", 0))  # noqa: S104 - only what nftables sends here gets on
        self.port = self.server.getsockname()[1]
        self.server.listen(128)
        redirect(request, self.port)
        self._tasks: set[asyncio.Task[None]] = set()

    def dice(self) -> Any:
        """Yield numbers in [0, 1) for one message."""
        self._messages += 1
        turn = 0
        while True:
            text = f"{self._seed}\x1frelay\x1f{self._messages}\x1f{turn}".encode()
            word = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")
            yield (word >> 11) / (1 << 53)
            turn += 1

    def count(self, peer: str, api: int, what: str) -> None:
        """Count an effect on a message."""
        kinds = self.counts.setdefault(peer, {}).setdefault(str(api), {})
        kinds[what] = kinds.get(what, 0) + 1

    def handle(self, request: dict[str, Any]) -> dict[str, Any]:
        """Carry out a request of the agent: ``set`` or ``end``."""
        counts, self.counts = self.counts, {}
        if request["do"] == "set":
            self.rules, self.again = request["rules"], frozenset(request["again"])
            redirect(request, self.port)
        return {"messages": counts}

    def run(self, listener: socket.socket) -> None:
        asyncio.run(self._run(listener))

    async def _run(self, listener: socket.socket) -> None:
        ended = asyncio.Event()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                line = await reader.readline()
                if line:
                    request = json.loads(line)
                    try:
                        told = self.handle(request)
                    except (DaemonError, KeyError) as error:
                        told = {"error": f"{error}"}
                    writer.write(json.dumps(told).encode() + b"\n")
                    await writer.drain()
                    if request["do"] == "end":
                        ended.set()
                writer.close()

        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await Connection(self, reader, writer).relay()

        questions = await asyncio.start_unix_server(answer, sock=listener)
        await asyncio.start_server(relay, sock=self.server, limit=1 << 20)
        await ended.wait()
        questions.close()


class Connection:
    """One connection of a peer, and the corresponding one to the node."""

    def __init__(
        self, relay: Relay, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._relay = relay
        self._reader, self._writer = reader, writer
        self._peer: str = writer.get_extra_info("peername")[0]
        self._asked: dict[int, int] = {}
        """Kind of each unanswered request, by its correlation id."""
        self._last = {"request": 0.0, "response": 0.0}
        self._node: asyncio.StreamWriter | None = None
        self._address = ("", 0)

    async def relay(self) -> None:
        """Pass messages in both directions until one side closes."""
        told = self._writer.get_extra_info("socket").getsockopt(socket.SOL_IP, _SO_ORIGINAL_DST, 16)
        port, address = struct.unpack_from(">2xH4s", told)
        self._address = (socket.inet_ntoa(address), port)
        try:
            if port == self._relay.port:
                return  # The connection was not redirected.
            node_reader, node = await asyncio.wait_for(
                asyncio.open_connection(*self._address, local_addr=(self._address[0], 0)),
                _CONNECT_S,
            )
            self._node = node
            ways = [
                asyncio.ensure_future(self._pass(self._reader, node, "request")),
                asyncio.ensure_future(self._pass(node_reader, self._writer, "response")),
            ]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
        except OSError:
            pass  # The node is down; the peer's connection closes, too.
        finally:
            self._reset()

    def _reset(self) -> None:
        """Reset both connections, so that a peer that waits for a response notices."""
        for writer in (self._writer, self._node):
            if writer is not None and not writer.transport.is_closing():
                with contextlib.suppress(OSError):
                    writer.get_extra_info("socket").setsockopt(
                        socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                    )
                writer.transport.abort()

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, part: str
    ) -> None:
        with contextlib.suppress(OSError, EOFError):
            while True:
                head = await reader.readexactly(4)
                size = int.from_bytes(head, "big")
                if not 8 <= size <= MOST and not (part == "response" and 4 <= size <= MOST):
                    writer.write(head)
                    await self._pass_bytes(reader, writer)
                    return
                frame = head + await reader.readexactly(size)
                self._decide(frame, writer, part)
                await writer.drain()

    async def _pass_bytes(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass bytes without frames (such as TLS) unchanged."""
        while chunk := await reader.read(1 << 16):
            writer.write(chunk)
            await writer.drain()

    def _decide(self, frame: bytes, writer: asyncio.StreamWriter, part: str) -> None:
        """Apply the rules to one message."""
        relay = self._relay
        if part == "request":
            api, _, correlation = struct.unpack_from(">hhi", frame, 4)
            self._asked[correlation] = api
        else:
            (correlation,) = struct.unpack_from(">i", frame, 4)
            api = self._asked.pop(correlation, -1)
        rules = [
            rule
            for rule in relay.rules
            if rule["peer"] == self._peer
            and rule["part"] == part
            and (not rule["apis"] or api in rule["apis"])
        ]
        late, ordered, again, what = 0.0, True, -1.0, "passed"
        dice = relay.dice()
        for rule in rules:
            ordered = ordered and not rule["apis"] and not rule["window"]
            late += rule["delay"] + next(dice) * rule["jitter"] + next(dice) * rule["window"]
            lost = 0
            while lost <= RETRANSMISSIONS and next(dice) * 100 < rule["loss"]:
                lost += 1
            late += RETRANSMISSION_US * ((1 << lost) - 1)
            if lost and next(dice) * 100 < rule["reset"]:
                relay.count(self._peer, api, "reset")
                self._reset()
                return
            if lost > RETRANSMISSIONS or next(dice) * 100 < rule["drop"]:
                what = "dropped"
            if part == "request" and next(dice) * 100 < rule["duplicate"]:
                again = next(dice) * rule["again"]
        if what == "passed" and late:
            what = "delayed"
        relay.count(self._peer, api, what)
        if what == "dropped":
            return
        loop = asyncio.get_running_loop()
        at = loop.time() + late / 1e6
        if ordered and self._last[part] >= at:
            # Each a little later: the loop does not keep the order of equal times.
            at = self._last[part] + 1e-6
        if ordered:
            self._last[part] = at
        if at <= loop.time():
            writer.write(frame)
        else:
            loop.call_at(at, self._write, writer, frame)
        if again >= 0 and api in relay.again:
            relay.count(self._peer, api, "duplicated")
            loop.call_at(at + again / 1e6, self._send_again, frame)

    def _write(self, writer: asyncio.StreamWriter, frame: bytes) -> None:
        if not writer.transport.is_closing():
            writer.write(frame)

    def _send_again(self, frame: bytes) -> None:
        task = asyncio.ensure_future(self._once_more(frame))
        self._relay._tasks.add(task)
        task.add_done_callback(self._relay._tasks.discard)

    async def _once_more(self, frame: bytes) -> None:
        """Deliver a request again, on a connection whose peer has closed."""
        with contextlib.suppress(OSError, EOFError):
            reader, writer = await asyncio.wait_for(
                asyncio.open_connection(*self._address, local_addr=(self._address[0], 0)),
                _CONNECT_S,
            )
            try:
                writer.write(frame)
                size = int.from_bytes(await asyncio.wait_for(reader.readexactly(4), 5.0), "big")
                await reader.readexactly(size)
            finally:
                writer.transport.abort()


def redirect(request: dict[str, Any], port: int) -> None:
    """Redirect connections of the peers to the relay and reset direct ones, atomically."""
    peers = ", ".join(sorted(set(request["peers"])))
    ports = ", ".join(str(each) for each in sorted(set(request["ports"])))
    run(["nft", "-f", "-"], f"table ip {TABLE}\ndelete table ip {TABLE}\n"
        f"table ip {TABLE} {{\n chain arriving {{\n"
        "  type nat hook prerouting priority dstnat; policy accept;\n"
        f"  ip saddr {{ {peers} }} tcp dport {{ {ports} }} counter redirect to :{port}\n }}\n"
        " chain straight {\n  type filter hook input priority 0; policy accept;\n"
        f"  ip saddr {{ {peers} }} tcp dport {{ {ports} }} counter reject with tcp reset\n"
        " }\n}\n")  # fmt: skip


def set_relay(request: dict[str, Any]) -> dict[str, Any]:
    """Apply exactly the ``rules`` for ``peers`` on ``ports``.

    ``before`` in the evidence counts the effects on messages since the last call, by peer and kind
    of request.
    """
    if not request["rules"]:
        return heal_relay(request)
    before = ask(SOCKET, {**request, "do": "set"})
    if before is None:
        spawn(SOCKET, "kw-relay", lambda: _process(request).run)
    return {"means": "relay", "rules": request["rules"], "before": before or {}}


def _process(request: dict[str, Any]) -> Relay:
    # It takes longer to load than the rest of the agent, and is rarely needed.
    globals()["asyncio"] = importlib.import_module("asyncio")
    return Relay(request)


def heal_relay(request: dict[str, Any]) -> dict[str, Any]:
    """Stop redirecting connections; harmless when none are redirected."""
    there = pid_of(SOCKET) is not None
    if f"ip {TABLE}\n" in run(["nft", "list", "tables"]) + "\n":
        run(["nft", "delete", "table", "ip", TABLE])
        there = True
    return {"healed": there, "rules": [], "before": end(SOCKET)}

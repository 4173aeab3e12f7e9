"""A peer that serves no cluster: it answers as it likes, or not at all.

Real peers seldom answer with an error between two others, in an old version, too late or not whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, cast

from kraftwreck.nodes.protocol.apis import (
    API_KEYS,
    NAMES,
    SUPPORTED,
    decode_request_header,
    encode_response,
)
from kraftwreck.nodes.protocol.codec import decode
from kraftwreck.nodes.protocol.errors import NONE, UNSUPPORTED_VERSION
from kraftwreck.nodes.protocol.limits import ANSWER
from kraftwreck.systems.kraft.sockets.frames import SIZE, Frames, framed
from kraftwreck.systems.kraft.sockets.network import Address, Network, Port

Body = dict[str, Any]

GREETS: Final = 0.7
"""How often the beginning of a connection is in order."""
ANSWERS: Final = 0.6
"""How often a request is answered in order."""
LATE_S: Final = 4.0
"""When a late answer comes: after the time-out of its request."""
IDLE: Final = 0.1
"""How often the peer closes the connection behind an answer."""


@dataclass(slots=True)
class Handled:
    """A request that has arrived, with its number, and its answer: None unless that left in order
    and in time."""

    api: str
    version: int
    number: int
    body: Body
    answer: Body | None = None


class ScriptedPeer:
    """Listens at ``address``; ``script`` returns the answer to a request.

    ``handled`` has all requests in the order of their arrival, ``wrong`` what was no request.
    ``highest`` has the last version of each API that a connection allows, by the number of the
    connection; those that began otherwise are not there.
    """

    def __init__(
        self, network: Network, address: Address, script: Callable[[Handled], Body]
    ) -> None:
        self.network = network
        self.address = address
        self.script = script
        self.handled: list[Handled] = []
        self.wrong: list[str] = []
        self.connections = 0
        self.away = False
        """Whether it does not listen, or cannot be reached."""
        self.highest: dict[int, dict[str, int]] = {}

    async def listen(self) -> None:
        """Accept connections from now on."""
        server = await self.network.create_server(lambda: _Served(self), sock=Port(self.address))
        await server.start_serving()

    def leave(self) -> None:
        """Accept none any longer."""
        self.network.listening.pop(self.address, None)


class _Served(asyncio.Protocol):
    """One connection. It begins with ApiVersions; the versions that it names bind the other end."""

    def __init__(self, peer: ScriptedPeer) -> None:
        self._peer = peer
        self._dice = peer.network.dice
        self._transport: asyncio.Transport | None = None
        self._frames = Frames()
        self._highest: dict[str, int] = {}
        self._number = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._peer.connections += 1
        self._number = self._peer.connections

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    def data_received(self, data: bytes) -> None:
        for frame in self._frames.taken(data):
            self._take(frame)

    def _take(self, frame: bytes) -> None:
        key, version, number, _, offset = decode_request_header(frame)
        api = NAMES[key]
        body, end = decode(f"{api}Request", version, frame, offset)
        if end != len(frame):
            self._peer.wrong.append(f"a {api} has {len(frame) - end} bytes too many")
        if api == "ApiVersions":
            self._greet(version, number)
        else:
            self._handle(Handled(api, version, number, body))

    def _greet(self, version: int, number: int) -> None:
        keys = []
        for api, (low, high) in SUPPORTED.items():
            high = self._dice.choice((high, low, self._dice.randint(low, high)))
            self._highest[api] = high
            keys.append({"api_key": API_KEYS[api], "min_version": low, "max_version": high})
        # A peer may be newer, with versions and APIs that this side does not know.
        keys.append({"api_key": 999, "min_version": 0, "max_version": 3})
        fetch = next(each for each in keys if each["api_key"] == API_KEYS["Fetch"])
        fetch["max_version"] += self._dice.choice((0, 5))
        self._highest["Fetch"] = fetch["max_version"]
        answer = {"error_code": NONE, "api_keys": keys, "throttle_time_ms": 0}
        how = self._dice.randrange(4)
        if self._dice.random() < GREETS:
            self._peer.highest[self._number] = self._highest
            self._write(encode_response("ApiVersions", version, number, answer))
        elif how == 0:
            refused = {"error_code": UNSUPPORTED_VERSION, "api_keys": []}
            self._write(encode_response("ApiVersions", 0, number, refused))
        elif how == 1:
            for each in keys:
                each["min_version"] = each["max_version"] = 90
            self._write(encode_response("ApiVersions", version, number, answer))
        else:
            self._fail(encode_response("ApiVersions", version, number, answer))

    def _handle(self, handled: Handled) -> None:
        api, version, number = handled.api, handled.version, handled.number
        if version > self._highest.get(api, -1):
            self._peer.wrong.append(f"a {api} has version {version}, which the peer has not named")
        self._peer.handled.append(handled)
        answer = self._peer.script(handled)
        frame = encode_response(api, version, number, answer)
        if self._dice.random() >= ANSWERS:
            self._fail(frame)
            return
        handled.answer = answer
        if self._dice.random() < 0.3 and len(frame) > 8:
            self._in_parts(frame)
            return
        self._write(frame)
        if self._dice.random() < IDLE:
            self._close()

    def _fail(self, frame: bytes) -> None:
        """Answer with anything but ``frame``, or not."""
        match self._dice.randrange(8):
            case 0:
                self._close()
            case 1 | 7:
                pass  # Silence.
            case 2:
                self._peer.network.call_later(LATE_S, self._write, frame)
            case 3:
                self._put(framed(frame)[: SIZE + len(frame) // 2])
                self._close()
            case 4:
                wrong = int.from_bytes(frame[:SIZE], "big") ^ 1
                self._write(wrong.to_bytes(SIZE, "big") + frame[SIZE:])
            case 5:
                self._put((ANSWER.size + 1).to_bytes(SIZE, "big"))
            case _:
                self._write(frame[:SIZE] + b"\xff" * 3)

    def _in_parts(self, frame: bytes) -> None:
        data = framed(frame)
        middle = self._dice.choice((2, 5, len(data) - 1))
        self._put(data[:middle])
        self._peer.network.call_later(0.1, self._put, data[middle:])

    def _write(self, frame: bytes) -> None:
        self._put(framed(frame))

    def _put(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()

"""The connection of a follower to a leader, with one request on it at a time and no task for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, cast

from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.protocol.apis import (
    NAMES,
    SUPPORTED,
    decode_response,
    encode_request_header,
)
from kraftwreck.nodes.protocol.codec import ProtocolError, encode
from kraftwreck.nodes.protocol.errors import NONE
from kraftwreck.nodes.protocol.limits import ANSWER
from kraftwreck.nodes.server.console import say
from kraftwreck.nodes.server.deadline import Deadline
from kraftwreck.nodes.server.link import CONNECT_TIMEOUT_S, HANDSHAKE_VERSION, local_address
from kraftwreck.nodes.server.quorum_requests import SOFTWARE
from kraftwreck.nodes.server.shapes import Body

Done = Callable[[Body | None], None]
Make = Callable[[int], bytes]
"""The body of a request at the version given, encoded."""
_SIZE: Final = 4
_CORRELATION_MASK: Final = 2**31 - 1


class ReplicaLink(asyncio.Protocol):
    """A connection to ``endpoint``, opened when it is needed, and again after a failure.

    ``listener`` is an address this node listens on, as in :class:`nodes.server.link.Link`.
    """

    def __init__(self, node_id: int, endpoint: Endpoint, listener: Endpoint) -> None:
        self.endpoint = endpoint
        self._client_id = f"node-{node_id}"
        self._local = local_address(listener)
        self._transport: asyncio.Transport | None = None
        self._opening: asyncio.Task[None] | None = None
        self._deadline = Deadline(asyncio.get_running_loop(), lambda: self._fail(""))
        self._buffer = bytearray()
        self._size = -1
        self._correlation = 0
        self._versions: dict[str, tuple[int, int]] = {}
        self._asked: tuple[str, int, Done] | None = None
        self._next: tuple[str, int, Make, Done] | None = None

    def call(self, api: str, most: int, make: Make, done: Done, timeout_s: float) -> None:
        """Send a request at up to version ``most``; ``done`` gets its answer, None on a failure.

        ``done`` is never called before this returns.
        """
        assert self._asked is None and self._next is None, "one request at a time"
        self._next = (api, most, make, done)
        self._deadline.set(timeout_s)
        if self._transport is not None and self._versions:
            self._send_next()
        elif self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._open())

    def close(self) -> None:
        """Close the connection; a request in flight is not answered."""
        self._asked = self._next = None
        self._fail("")

    # --- asyncio.Protocol -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the versions of the peer."""
        self._transport = cast("asyncio.Transport", transport)
        greeting = encode("ApiVersionsRequest", HANDSHAKE_VERSION, dict(SOFTWARE))
        self._write("ApiVersions", HANDSHAKE_VERSION, greeting, self._greeted)

    def connection_lost(self, exc: Exception | None) -> None:
        """Let the request in flight fail."""
        if self._transport is not None:
            self._fail("")

    def data_received(self, data: bytes) -> None:
        """Take in a part of an answer."""
        self._buffer += data
        while self._transport is not None and len(self._buffer) >= _SIZE:
            size = int.from_bytes(self._buffer[:_SIZE], "big", signed=True)
            if not 0 <= size <= ANSWER.size:
                self._fail(f"a frame of {size} bytes is not an answer")
                return
            if len(self._buffer) < _SIZE + size:
                return
            with memoryview(self._buffer) as view:
                frame = bytes(view[_SIZE : _SIZE + size])
            del self._buffer[: _SIZE + size]
            self._answered(frame)

    # --- inside ---------------------------------------------------------------------------

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await loop.create_connection(
                    lambda: self, self.endpoint.host, self.endpoint.port, local_addr=self._local
                )
        except (OSError, TimeoutError, ValueError):  # ValueError: invalid host name
            self._fail("")
        finally:
            if self._opening is asyncio.current_task():
                self._opening = None

    def _greeted(self, answer: Body | None) -> None:
        if answer is None:
            return
        if answer["error_code"] != NONE:
            self._fail(f"ApiVersions failed with error {answer['error_code']}")
            return
        self._versions = {
            NAMES[each["api_key"]]: (each["min_version"], each["max_version"])
            for each in answer["api_keys"]
            if each["api_key"] in NAMES
        }
        self._send_next()

    def _send_next(self) -> None:
        if self._next is None:
            return
        api, most, make, done = self._next
        low, high = self._versions.get(api, (0, -1))
        version = min(high, most)
        if version < max(low, SUPPORTED[api][0]):
            asyncio.get_running_loop().call_soon(self._fail, f"no version of {api} in common")
            return
        self._next = None
        self._write(api, version, make(version), done)

    def _write(self, api: str, version: int, body: bytes, done: Done) -> None:
        assert self._transport is not None
        self._correlation = (self._correlation + 1) & _CORRELATION_MASK
        head = encode_request_header(api, version, self._correlation, self._client_id)
        self._asked = (api, version, done)
        size = len(head) + len(body)
        self._transport.write(b"".join((size.to_bytes(_SIZE, "big"), head, body)))

    def _answered(self, frame: bytes) -> None:
        if self._asked is None:
            self._fail("an answer without a request")
            return
        api, version, done = self._asked
        try:
            received, body = decode_response(api, version, frame, ANSWER.items)
        except ProtocolError as error:
            self._fail(str(error))
            return
        if received != self._correlation:
            self._fail(f"answer to request {received} instead of {self._correlation}")
            return
        self._asked = None
        if self._next is None:
            self._deadline.clear()
        done(body)

    def _fail(self, reason: str) -> None:
        """Close the connection, and let the request that waits fail."""
        if reason:
            say(f"closing the connection to {self.endpoint.host}:{self.endpoint.port}: {reason}")
        transport, self._transport = self._transport, None
        self._versions = {}
        self._buffer.clear()
        if transport is not None:
            # At once: data for an unreachable node must not linger in the kernel.
            transport.abort()
        if self._opening is not None:
            self._opening.cancel()
            self._opening = None
        self._deadline.close()
        asked, self._asked = self._asked, None
        following, self._next = self._next, None
        if asked is not None and asked[2] != self._greeted:
            asked[2](None)
        elif following is not None:
            following[3](None)

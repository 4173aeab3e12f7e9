"""Clients of a run over sockets: they pipeline requests, read slowly, and send frames in drops."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, cast

from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.protocol.apis import decode_response, encode_request
from kraftwreck.nodes.protocol.codec import ProtocolError
from kraftwreck.systems.kraft.sockets.frames import Frames, framed
from kraftwreck.systems.kraft.sockets.network import CLIENT, Network

Body = dict[str, Any]


class LostError(Exception):
    """The connection ended before the answer."""


class Client(asyncio.Protocol):
    """One connection. Answers must come whole, and in the order of the requests.

    ``lost`` is set when the connection has ended, ``wrong`` if an answer was not one. ``process``
    is the node at its other end, and which start of it.
    """

    def __init__(self) -> None:
        self.lost = False
        self.wrong: str | None = None
        self.process = (-1, 0)
        self._transport: asyncio.Transport | None = None
        self._frames = Frames()
        self._waiting: deque[tuple[str, int, int, asyncio.Future[Body]]] = deque()
        self._next = 1

    @staticmethod
    async def connect(network: Network, at: Endpoint) -> Client:
        """Return a new connection. Raises LostError if nobody listens."""
        try:
            async with asyncio.timeout(5.0):
                _, client = await network.create_connection(
                    Client, at.host, at.port, local_addr=(CLIENT, 0)
                )
        except (OSError, TimeoutError) as error:
            raise LostError(str(error)) from error
        return cast(Client, client)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        for _, _, _, answer in self._waiting:
            if not answer.done():
                answer.set_exception(LostError("the connection has ended"))
                answer.exception()  # Nobody may wait for it.
        self._waiting.clear()

    def data_received(self, data: bytes) -> None:
        for frame in self._frames.taken(data):
            self._answered(frame)

    def _answered(self, frame: bytes) -> None:
        if not self._waiting:
            self.wrong = "an answer to no request"
            self.close()
            return
        api, version, correlation, answer = self._waiting.popleft()
        try:
            received, body = decode_response(api, version, frame)
        except ProtocolError as error:
            self.wrong = f"an answer to {api} that cannot be read: {error}"
            self.close()
            return
        if received != correlation:
            self.wrong = f"the answer to request {received} where that to {correlation} is due"
            self.close()
            return
        if not answer.done():
            answer.set_result(body)

    def send(self, api: str, version: int, body: Body) -> asyncio.Future[Body]:
        """Send a request at once; the future gets the body of its answer, or LostError."""
        frame, answer = self._framed(api, version, body)
        if self._transport is not None and not self.lost:
            self._transport.write(frame)
        return answer

    def send_unanswered(self, api: str, version: int, body: Body) -> None:
        """Send a request that gets no answer: a Produce with acks 0."""
        frame = self._frame(api, version, self._number(), body)
        if self._transport is not None and not self.lost:
            self._transport.write(frame)

    async def send_in_drops(self, network: Network, api: str, version: int, body: Body) -> Body:
        """Send a request a few bytes at a time; return its answer. Raises LostError."""
        frame, answer = self._framed(api, version, body)
        position = 0
        while position < len(frame) and self._transport is not None and not self.lost:
            size = network.dice.randrange(1, max(8, len(frame) // 20))
            self._transport.write(frame[position : position + size])
            position += size
            await asyncio.sleep(0.003)
        return await answer

    def pause(self) -> None:
        """Read nothing before :meth:`resume`."""
        if self._transport is not None and not self.lost:
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read again."""
        if self._transport is not None and not self.lost:
            self._transport.resume_reading()

    def close(self) -> None:
        """End the connection."""
        if self._transport is not None:
            self._transport.abort()

    def _framed(self, api: str, version: int, body: Body) -> tuple[bytes, asyncio.Future[Body]]:
        correlation = self._number()
        answer: asyncio.Future[Body] = asyncio.get_running_loop().create_future()
        if self.lost:
            answer.set_exception(LostError("the connection has ended"))
            answer.exception()
        else:
            self._waiting.append((api, version, correlation, answer))
        return self._frame(api, version, correlation, body), answer

    def _number(self) -> int:
        """Return the number of a new request."""
        correlation, self._next = self._next, self._next + 1
        return correlation

    def _frame(self, api: str, version: int, correlation: int, body: Body) -> bytes:
        return framed(encode_request(api, version, correlation, "socket-client", body))

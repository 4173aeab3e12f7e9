"""Requests to the other voters: one connection each, at most one request on it.

On every new connection ApiVersions tells what the peer serves; a request is sent at the
highest version both sides know. A pre-vote to a peer that cannot take one is answered
UNSUPPORTED_VERSION on its behalf. When the core sends again before an answer came it has
forgotten the old request (its state has changed), so the old connection is given up: a
parked Fetch on it would hold up the new answer. There is no retry here; how long to wait
before the next attempt is decided by the core.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from nodes.consensus.effects import Event, ResponseReceived, Send
from nodes.consensus.endpoint import Endpoint
from nodes.consensus.kraft.messages import Request, Response, VoteRequest, VoteResponse
from nodes.protocol.apis import API_KEYS, NAMES, SUPPORTED, decode_response, encode_request
from nodes.protocol.codec import ProtocolError
from nodes.protocol.errors import NONE, UNSUPPORTED_VERSION
from nodes.server.console import say
from nodes.server.wire import (
    PRE_VOTE,
    Body,
    Endpoints,
    ShapeError,
    api_of,
    request_to_body,
    response_from_body,
)

CONNECT_TIMEOUT_S: Final = 1.0
MAX_FRAME: Final = 100 << 20
HANDSHAKE_VERSION: Final = 3
_CORRELATION_MASK: Final = 2**31 - 1
_WILDCARDS: Final = ("", "0.0.0.0", "::")  # noqa: S104  # compared with, never bound to


class Peers:
    """The ways to all other voters."""

    def __init__(
        self,
        node_id: int,
        endpoints: Endpoints,
        listener: Endpoint,
        request_timeout_ms: int,
        submit: Callable[[Event], None],
    ) -> None:
        self._peers = {
            voter: _Peer(voter, node_id, endpoints, listener, request_timeout_ms / 1000, submit)
            for voter in endpoints
            if voter != node_id
        }

    def send(self, effect: Send) -> None:
        """Start sending; the answer or the failure is submitted as ResponseReceived."""
        self._peers[effect.destination].send(effect.correlation, effect.message)

    async def close(self) -> None:
        """Give up everything that is under way."""
        for peer in self._peers.values():
            await peer.close()


class _Peer:
    def __init__(
        self,
        peer_id: int,
        node_id: int,
        endpoints: Endpoints,
        listener: Endpoint,
        timeout_s: float,
        submit: Callable[[Event], None],
    ) -> None:
        self._id = peer_id
        self._endpoint = endpoints[peer_id]
        self._endpoints = endpoints
        self._client_id = f"node-{node_id}"
        # Packets to peers carry the address this node listens on, so that whoever cuts
        # nodes off by address cuts both directions.
        self._local = None if listener.host in _WILDCARDS else (listener.host, 0)
        self._timeout_s = timeout_s
        self._submit = submit
        self._task: asyncio.Task[None] | None = None
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._versions: dict[str, tuple[int, int]] = {}

    def send(self, correlation: int, message: Request) -> None:
        if self._task is not None and not self._task.done():
            self._task.cancel()
            self._disconnect()
        self._task = asyncio.get_running_loop().create_task(self._request(correlation, message))

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._disconnect()

    async def _request(self, correlation: int, message: Request) -> None:
        response: Response | None = None
        try:
            async with asyncio.timeout(self._timeout_s):
                if self._reader is None or self._reader.at_eof():
                    await self._connect()
                response = await self._exchange(correlation, message)
        except asyncio.CancelledError:
            raise  # whoever cancels has closed the connection and may have a new one
        except (OSError, EOFError, TimeoutError):
            self._disconnect()
        except (ProtocolError, ShapeError) as error:
            say(f"node {self._id} answers something else: {error}")
            self._disconnect()
        self._submit(ResponseReceived(self._id, correlation, response))

    async def _connect(self) -> None:
        self._disconnect()
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            self._reader, self._writer = await asyncio.open_connection(
                self._endpoint.host, self._endpoint.port, local_addr=self._local
            )
        body = {"client_software_name": "kraftwreck", "client_software_version": "1"}
        answer = await self._call("ApiVersions", HANDSHAKE_VERSION, 0, body)
        if answer["error_code"] != NONE:
            raise ProtocolError(f"ApiVersions failed with error {answer['error_code']}")
        self._versions = {
            NAMES[served["api_key"]]: (served["min_version"], served["max_version"])
            for served in answer["api_keys"]
            if served["api_key"] in NAMES
        }

    async def _exchange(self, correlation: int, message: Request) -> Response:
        api = api_of(message)
        low, high = self._versions.get(api, (0, -1))
        version = min(high, SUPPORTED[api][1])
        if version < max(low, SUPPORTED[api][0]):
            raise ProtocolError(f"no version of {api} (api {API_KEYS[api]}) in common")
        if isinstance(message, VoteRequest) and message.pre_vote and version < PRE_VOTE:
            return VoteResponse(UNSUPPORTED_VERSION, NONE, -1, 0, False)
        body = request_to_body(message, version, self._endpoints)
        answer = await self._call(api, version, correlation & _CORRELATION_MASK, body)
        return response_from_body(api, version, answer)

    async def _call(self, api: str, version: int, correlation: int, body: Body) -> Body:
        assert self._reader is not None and self._writer is not None
        frame = encode_request(api, version, correlation, self._client_id, body)
        self._writer.write(len(frame).to_bytes(4, "big") + frame)
        size = int.from_bytes(await self._reader.readexactly(4), "big", signed=True)
        if not 0 <= size <= MAX_FRAME:
            raise ProtocolError(f"a frame of {size} bytes is not an answer")
        received, answer = decode_response(api, version, await self._reader.readexactly(size))
        if received != correlation:
            raise ProtocolError(f"answer to request {received}, asked was {correlation}")
        return answer

    def _disconnect(self) -> None:
        if self._writer is not None:
            # At once: data for a node that cannot be reached must not linger in the kernel.
            self._writer.transport.abort()
        self._reader = self._writer = None

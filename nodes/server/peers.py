"""Quorum RPCs to other nodes: one connection each, at most one request on it.

This module answers UNSUPPORTED_VERSION itself for a pre-vote to a peer that does not support one. A
new request before the answer to the old one means that the core has forgotten the old one (its
state has changed). The old connection is then closed, as a parked Fetch on it would delay the new
answer. There is no retry here; the core decides how long to wait before the next attempt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from kraftwreck.nodes.consensus.effects import Event, Message, ResponseReceived, Send
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.kraft.messages import VoteRequest, VoteResponse
from kraftwreck.nodes.protocol.codec import ProtocolError
from kraftwreck.nodes.protocol.errors import NONE, UNSUPPORTED_VERSION
from kraftwreck.nodes.server.console import say
from kraftwreck.nodes.server.link import Link
from kraftwreck.nodes.server.wire import (
    PRE_VOTE,
    Endpoints,
    ShapeError,
    api_of,
    request_to_body,
    response_from_body,
)

MAX_PEERS: Final = 64
"""Destinations with a kept connection; a further one replaces the oldest."""


class Peers:
    """The connections to all other nodes of the quorum, by destination.

    A destination is a node id, or below -1 a bootstrap server. ``endpoints`` is the address book
    for messages without an address.
    """

    def __init__(
        self,
        node_id: int,
        endpoints: Endpoints,
        listener: Endpoint,
        request_timeout_ms: int,
        submit: Callable[[Event], None],
    ) -> None:
        self._node_id = node_id
        self._endpoints = endpoints
        self._listener = listener
        self._timeout_s = request_timeout_ms / 1000
        self._submit = submit
        self._peers: dict[int, _Peer] = {}

    def send(self, effect: Send) -> None:
        """Start sending; the answer or the failure is submitted as ResponseReceived."""
        endpoint = effect.endpoint or self._endpoints[effect.destination]
        peer = self._peers.get(effect.destination)
        if peer is None or peer.link.endpoint != endpoint:
            if peer is not None:
                peer.give_up()
            elif len(self._peers) >= MAX_PEERS:
                self._peers.pop(next(iter(self._peers))).give_up()
            link = Link(self._node_id, endpoint, self._listener)
            peer = _Peer(effect.destination, link, self._endpoints, self._timeout_s, self._submit)
            self._peers[effect.destination] = peer
        peer.send(effect.correlation, effect.message)

    async def close(self) -> None:
        """Give up all requests in flight."""
        tasks = [task for peer in self._peers.values() if (task := peer.give_up()) is not None]
        await asyncio.gather(*tasks, return_exceptions=True)


class _Peer:
    def __init__(
        self,
        peer_id: int,
        link: Link,
        endpoints: Endpoints,
        timeout_s: float,
        submit: Callable[[Event], None],
    ) -> None:
        self.link = link
        self._id = peer_id
        self._endpoints = endpoints
        self._timeout_s = timeout_s
        self._submit = submit
        self._task: asyncio.Task[None] | None = None

    def send(self, correlation: int, message: Message) -> None:
        self.give_up(only_if_busy=True)
        self._task = asyncio.get_running_loop().create_task(self._request(correlation, message))

    def give_up(self, only_if_busy: bool = False) -> asyncio.Task[None] | None:
        """End the request in flight, and the connection; return the task that ends."""
        task, self._task = self._task, None
        busy = task is not None and not task.done()
        if task is not None and busy:
            task.cancel()
        if busy or not only_if_busy:
            self.link.close()
        return task

    async def _request(self, correlation: int, message: Message) -> None:
        response: Message | None = None
        try:
            async with asyncio.timeout(self._timeout_s):
                await self.link.open()
                response = await self._exchange(correlation, message)
        except asyncio.CancelledError:
            raise  # the canceller has closed the connection and may have opened a new one
        except (OSError, EOFError, TimeoutError, ValueError):  # ValueError: invalid host name
            self.link.close()
        except (ProtocolError, ShapeError) as error:
            say(f"node {self._id} sent an invalid answer: {error}")
            self.link.close()
        if self._task is asyncio.current_task():
            self._task = None  # The answer may cause the next request at once.
        self._submit(ResponseReceived(self._id, correlation, response))

    async def _exchange(self, correlation: int, message: Message) -> Message:
        api = api_of(message)
        version = self.link.version(api)
        if isinstance(message, VoteRequest) and message.pre_vote and version < PRE_VOTE:
            return VoteResponse(UNSUPPORTED_VERSION, NONE, -1, 0, False)
        body = request_to_body(message, version, self._endpoints)
        answer = await self.link.call(api, version, correlation, body)
        return response_from_body(api, version, answer)

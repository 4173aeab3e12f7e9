"""Requests to other nodes other than quorum RPCs: registration, heartbeats, forwarding.

None of them may wait for another: a heartbeat behind a forwarded CreateTopics that waits for its
commit would get its broker fenced. So each request has a connection to itself while it is in
flight; idle connections are used again. A node may call itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from kraftwreck.nodes.consensus.effects import ApiResponseReceived, Event, SendApi
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.protocol.codec import ProtocolError
from kraftwreck.nodes.server.admission import most_calls
from kraftwreck.nodes.server.console import say
from kraftwreck.nodes.server.link import Link

MAX_IDLE: Final = 4
"""Idle connections kept open to each destination."""


class Calls:
    """Carries out :class:`SendApi`. ``listener`` is an address this node listens on."""

    def __init__(
        self,
        node_id: int,
        listener: Endpoint,
        request_timeout_ms: int,
        submit: Callable[[Event], None],
    ) -> None:
        self._node_id = node_id
        self._listener = listener
        self._timeout_ms = request_timeout_ms
        self._submit = submit
        self._idle: dict[int, list[Link]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def send(self, effect: SendApi) -> None:
        """Start sending; the answer or the failure is submitted as ApiResponseReceived.

        With too many requests in flight it fails at once. Requests of this node for itself, its
        registration and heartbeats, are always sent.
        """
        if len(self._tasks) >= most_calls() and effect.api == "Envelope":
            failed = ApiResponseReceived(effect.destination, effect.correlation, None, sent=False)
            asyncio.get_running_loop().call_soon(self._submit, failed)
            return
        task = asyncio.get_running_loop().create_task(self._request(effect))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Give up all requests in flight."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for links in self._idle.values():
            for link in links:
                link.close()
        self._idle.clear()

    async def _request(self, effect: SendApi) -> None:
        response = ApiResponseReceived(effect.destination, effect.correlation, None, sent=False)
        link = self._take(effect.destination, effect.endpoint)
        try:
            async with asyncio.timeout((effect.timeout_ms or self._timeout_ms) / 1000):
                await link.open()
                version = link.version(effect.api)
                response.sent = True
                response.body = await link.call(
                    effect.api, version, effect.correlation, effect.body
                )
        except asyncio.CancelledError:
            link.close()
            raise
        except (OSError, EOFError, TimeoutError, ValueError):  # ValueError: invalid host name
            link.close()
        except ProtocolError as error:
            say(f"node {effect.destination} sent an invalid answer: {error}")
            link.close()
        if link.is_open:
            self._give_back(effect.destination, link)
        self._submit(response)

    def _take(self, destination: int, endpoint: Endpoint) -> Link:
        idle = self._idle.get(destination, [])
        while idle:
            link = idle.pop()
            if link.endpoint == endpoint and link.is_open:
                return link
            link.close()
        return Link(self._node_id, endpoint, self._listener)

    def _give_back(self, destination: int, link: Link) -> None:
        idle = self._idle.setdefault(destination, [])
        if len(idle) < MAX_IDLE:
            idle.append(link)
        else:
            link.close()

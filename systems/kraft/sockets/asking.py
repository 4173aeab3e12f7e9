"""Requests of one process to scripted peers, and what it takes from their answers (F35).

The connections are those of a real process: to leaders of partitions, to the active controller and
to members of the quorum.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.systems.kraft.sockets.network import Network
from kraftwreck.systems.kraft.sockets.scripted_peer import ScriptedPeer

SELF: Final = 7
LISTENER: Final = Endpoint("10.0.0.7", 9092)
TIMEOUT_MS: Final = 2_000
SOON_S: Final = 0.3
"""How long after its time-out a request may have no end."""
REQUESTS: Final = 12
"""How many requests are sent one after the other."""
LOOK_S: Final = 0.01


class Asking:
    """The network and the events that all requests share; ``wrong`` is a list of failures."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.dice = network.dice
        self.wrong: list[str] = []
        self.events: list[Any] = []
        self._numbers = 0

    def number(self) -> int:
        """Return the number of a new request."""
        self._numbers += 1
        return self._numbers

    async def event(self, number: int, limit_s: float, what: str) -> Any:
        """Return the event that ends a request, None if it does not come in time."""
        limit = self.network.time() + limit_s + SOON_S
        while self.network.time() < limit:
            for event in self.events:
                if event.correlation == number:
                    self.events.remove(event)
                    return event
            await asyncio.sleep(LOOK_S)
        self.wrong.append(f"{what} has no end {limit_s + SOON_S:.1f} s after it was sent")
        return None

    async def repeat(
        self, peer: ScriptedPeer, ask: Callable[[], Awaitable[None]], *, alone: bool = True
    ) -> None:
        """Send requests to ``peer``, which now and then does not listen.

        Nor can it be reached at times, if these requests are ``alone``.
        """
        way = LISTENER.host, peer.address[0]
        for _ in range(REQUESTS):
            await asyncio.sleep(self.dice.random())
            how = self.dice.randrange(12)
            if how == 0:
                peer.leave()
            elif how == 1 and alone:
                self.network.blocked.add(way)
            peer.away = how <= 1
            await ask()
            if way in self.network.blocked:
                self.network.cut(lambda wire: (wire.source, wire.target[0]) == way)
                self.network.blocked.discard(way)
            await peer.listen()

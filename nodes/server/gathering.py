"""Gathers the requests for records of one turn of an event loop, for one step of the node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kraftwreck.nodes.replication.events import Request, Together

MOST_TOGETHER: Final = 100
"""Requests for records in one step."""


class Gathering:
    """Gathers the requests of one turn.

    A follower's fetch is then answered with the records of all of them. ``defer`` calls a function
    when the turn is over; ``step`` passes an event to the node.
    """

    def __init__(
        self,
        step: Callable[[Request | Together], None],
        defer: Callable[[Callable[[], None]], object],
    ) -> None:
        self._step = step
        self._defer = defer
        self._requests: list[Request] = []

    def add(self, request: Request) -> None:
        """Keep ``request`` until the turn is over, or until there are :data:`MOST_TOGETHER`."""
        if not self._requests:
            self._defer(self.submit)
        self._requests.append(request)
        if len(self._requests) == MOST_TOGETHER:
            self.submit()

    def submit(self) -> None:
        """Let the node handle the requests of the turn, if there are any."""
        requests, self._requests = self._requests, []
        if requests:
            self._step(Together(tuple(requests)) if len(requests) > 1 else requests[0])

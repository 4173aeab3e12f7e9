"""Gathers the requests for records of one turn of an event loop, for one step of the node."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from kraftwreck.nodes.replication.events import FetchReceived, ProduceReceived, Request, Together

MOST_TOGETHER: Final = 100
"""Requests for records in one step."""
_SHARING: Final = frozenset((ProduceReceived, FetchReceived))


class Gathering:
    """Gathers the requests of one turn.

    A follower's fetch is then answered with the records of all of them. Other requests than Produce
    and Fetch have steps of their own: they ask for offsets, which a batch does not have before the
    disk has taken it, and that is known only after the step.

    ``defer`` calls a function when the turn is over; ``step`` passes an event to the node.
    """

    def __init__(
        self,
        step: Callable[[Request | Together], None],
        defer: Callable[[Callable[[], None]], object],
    ) -> None:
        self._step = step
        self._defer = defer
        self._steps: deque[list[Request]] = deque()
        """The requests of each step, in the order in which they came."""

    def add(self, request: Request) -> None:
        """Keep ``request`` until the turn is over, or a later one."""
        if not self._steps:
            self._defer(self.submit)
        last = self._steps[-1] if self._steps else None
        if last is not None and _may_share(request) and _may_share(last[0]) and not _is_full(last):
            last.append(request)
        else:
            self._steps.append([request])

    def submit(self) -> None:
        """Let the node handle the requests of the next step, if there are any."""
        if not self._steps:
            return
        requests = self._steps.popleft()
        if self._steps:
            self._defer(self.submit)
        self._step(Together(tuple(requests)) if len(requests) > 1 else requests[0])


def _may_share(request: Request) -> bool:
    return type(request) in _SHARING


def _is_full(requests: list[Request]) -> bool:
    return len(requests) >= MOST_TOGETHER

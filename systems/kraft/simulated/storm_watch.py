"""Detects request storms (L8): retries without back-off, and repeats of a successful request.

A node whose request was refused, or did not arrive, waits for its back-off before it asks the same
node again. Without back-off two nodes that disagree keep each other busy. An answered request is
not repeated: a candidate requests a vote, and a resigning leader ends its epoch, once at each node
while its own position stays the same. A leader announces itself, and a voter updates itself, a few
times in a second at most.
"""

from __future__ import annotations

from typing import Any

from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.consensus.effects import Reply, ResponseReceived
from kraftwreck.nodes.consensus.kraft.messages import (
    BeginQuorumEpochResponse,
    EndQuorumEpochResponse,
    VoterChangeResponse,
    VoteResponse,
)
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.network import Rpc
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.per_second import SECOND, PerSecond

MOST_IN_VAIN = 200
"""Failed requests of one node to another in a second; a back-off of 20 ms allows 50."""

MOST_AGAIN = 5
"""Answers without error to one request in the asker's present position. One should be enough, but
an answer may be duplicated."""
_ONCE = frozenset((VoteResponse, EndQuorumEpochResponse))
_SELDOM = frozenset((BeginQuorumEpochResponse, VoterChangeResponse))
"""Answers to requests that are repeated after half a fetch timeout at the earliest."""
_MOVES = frozenset(("start", "state", "grant", "elected", "resign", "voters"))


class StormWatch:
    """Counts error answers and missing answers, by link and second."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._in_vain = PerSecond()
        self._again: dict[int, dict[tuple[int, type, int], int]] = {}
        self._since: dict[int, int] = {}
        self._asked: dict[tuple[int, int, int], int] = {}
        world.wires.on_reply.append(self._on_reply)
        world.on_response.append(self._on_response)
        world.on_trace.append(self._on_trace)

    def _on_trace(self, host: Host, event: TraceEvent) -> None:
        if event.kind in _MOVES:
            self._again.pop(host.id, None)
            self._since[host.id] = self._world.now

    def _on_reply(self, host: Host, rpc: Rpc, effect: Any) -> None:
        if type(effect) is Reply and type(effect.message) in _ONCE:
            self._asked[rpc.source, host.id, rpc.correlation] = rpc.sent

    def _on_response(self, host: Host, event: ResponseReceived) -> None:
        message = event.message
        if message is not None and not (message.error or getattr(message, "partition_error", 0)):
            kind = type(message)
            if kind in _ONCE:
                # A slow node may answer the requests of many elections at once.
                asked = self._asked.pop((host.id, event.source, event.correlation), -1)
                if asked >= self._since.get(host.id, 0):
                    self._answered(host, event.source, kind, 0)
            elif kind in _SELDOM:
                self._answered(host, event.source, kind, self._world.now // SECOND)
            return
        count = self._in_vain.count((host.id, event.source), self._world.now)
        if count == MOST_IN_VAIN:
            self._failures.add(
                "L8",
                self._world.now,
                f"{host.name} sent node {event.source} {count} failing requests within a second",
            )

    def _answered(self, host: Host, source: int, kind: type, second: int) -> None:
        """Count an answer; the request may be repeated in the next ``second``."""
        known = self._again.setdefault(host.id, {})
        count = known[source, kind, second] = known.get((source, kind, second), 0) + 1
        if count == MOST_AGAIN:
            self._failures.add(
                "L8",
                self._world.now,
                f"{host.name} repeats a request to node {source} although it was answered"
                f" ({count} times {kind.__name__.removesuffix('Response')} without an error)",
            )

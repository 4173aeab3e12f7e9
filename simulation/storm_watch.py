"""Watches who asks in vain and does not wait, or asks again what it was told (L8).

A node whose request was refused, or reached nobody, waits for its back-off before it asks the
same node again; without it, two nodes that disagree keep each other busy for as long as they do.
Who was answered does not ask the same again: a vote, or that a lead is over, is asked once of each
node for as long as the asker stands where it stood; a leader announces itself, and a voter itself,
a few times in a second at most.
"""

from __future__ import annotations

from histories.trace import TraceEvent
from nodes.consensus.effects import Reply, ResponseReceived
from nodes.consensus.kraft.messages import (
    BeginQuorumEpochResponse,
    EndQuorumEpochResponse,
    VoterChangeResponse,
    VoteResponse,
)
from simulation.failures import Failures
from simulation.host import Host
from simulation.network import Rpc
from simulation.world import World

MOST_IN_VAIN = 200
"""Requests in vain of one node to another in a second; a back-off of 20 ms allows 50."""
_SECOND = 1_000_000

MOST_AGAIN = 5
"""Answers without error to one question, asked where the asker stands now. One should do, but an
answer may come twice."""
_ONCE = frozenset((VoteResponse, EndQuorumEpochResponse))
_SELDOM = frozenset((BeginQuorumEpochResponse, VoterChangeResponse))
"""What is asked again after half a fetch time-out at the earliest."""
_MOVES = frozenset(("start", "state", "grant", "elected", "resign", "voters"))


class StormWatch:
    """Counts answers that are errors, or missing, by link and second."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._counts: dict[tuple[int, int], tuple[int, int]] = {}
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

    def _on_reply(self, host: Host, rpc: Rpc, effect: Reply) -> None:
        if type(effect.message) in _ONCE:
            self._asked[rpc.source, host.id, rpc.correlation] = rpc.sent

    def _on_response(self, host: Host, event: ResponseReceived) -> None:
        message = event.message
        if message is not None and not (message.error or getattr(message, "partition_error", 0)):
            kind = type(message)
            if kind in _ONCE:
                # Who was slow may answer at once what it was asked in many elections.
                asked = self._asked.pop((host.id, event.source, event.correlation), -1)
                if asked >= self._since.get(host.id, 0):
                    self._answered(host, event.source, kind, 0)
            elif kind in _SELDOM:
                self._answered(host, event.source, kind, self._world.now // _SECOND)
            return
        link, second = (host.id, event.source), self._world.now // _SECOND
        since, count = self._counts.get(link, (second, 0))
        count = count + 1 if since == second else 1
        self._counts[link] = second, count
        if count == MOST_IN_VAIN:
            self._failures.add(
                "L8",
                self._world.now,
                f"{host.name} has asked node {event.source} {count} times in vain within a second",
            )

    def _answered(self, host: Host, source: int, kind: type, second: int) -> None:
        """``second`` tells questions apart that may be asked again then."""
        known = self._again.setdefault(host.id, {})
        count = known[source, kind, second] = known.get((source, kind, second), 0) + 1
        if count == MOST_AGAIN:
            self._failures.add(
                "L8",
                self._world.now,
                f"{host.name} asks node {source} again and again although it was answered"
                f" ({count} times {kind.__name__.removesuffix('Response')} without an error)",
            )

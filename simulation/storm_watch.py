"""Watches who asks in vain and does not wait (L8): every refusal or failure asks for a pause.

A node whose request was refused, or reached nobody, waits for its back-off before it asks the
same node again; without it, two nodes that disagree keep each other busy for as long as they do.
"""

from __future__ import annotations

from nodes.consensus.effects import ResponseReceived
from simulation.failures import Failures
from simulation.host import Host
from simulation.world import World

MOST_IN_VAIN = 200
"""Requests in vain of one node to another in a second; a back-off of 20 ms allows 50."""
_SECOND = 1_000_000


class StormWatch:
    """Counts answers that are errors, or missing, by link and second."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._counts: dict[tuple[int, int], tuple[int, int]] = {}
        world.on_response.append(self._on_response)

    def _on_response(self, host: Host, event: ResponseReceived) -> None:
        message = event.message
        if message is not None and not (message.error or getattr(message, "partition_error", 0)):
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

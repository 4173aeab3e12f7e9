"""Watches that a stopping broker waits until the controller lets it go (F25).

A broker that is asked to stop hands its partitions over first (KIP-631). It ends once the
controller answers ``should_shut_down``: then others lead them. A broker that ends sooner is a
failure to its clients.
"""

from __future__ import annotations

from typing import Any, Final

from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.nodes.broker.lifecycle import Life
from kraftwreck.nodes.consensus.effects import ApiResponseReceived
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.protocol.errors import BROKER_ID_NOT_REGISTERED, NONE, STALE_BROKER_EPOCH
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World

UNKNOWN: Final = frozenset((BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH))
"""Errors by which a controller says that it has no such broker."""


class LeaveWatch:
    """Judges the steps in which brokers of ``world`` end."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._stopping: dict[int, int] = {}
        """By host: the life of the process that waits for the controller."""
        world.on_step.append(self._on_step)

    @rule(
        "F25",
        "LeavesWhenReleased",
        "A stopping broker that was in service ends once the controller has answered that it "
        "should shut down, or that it knows no such broker.",
        simulated=True,
    )
    def _on_step(self, host: Host, event: Any) -> None:
        node = host.node
        if not isinstance(node, Node) or node.broker is None:
            return
        waited = self._stopping.get(host.id) == host.life
        if node.broker.state is Life.PENDING_CONTROLLED_SHUTDOWN:
            self._stopping[host.id] = host.life
        elif waited and node.broker.state is Life.STOPPED:
            del self._stopping[host.id]
            if not _is_release(event):
                explanation = f"{host.name} stops before the controller has let it go"
                self._failures.add("F25", self._world.now, explanation)


def _is_release(event: Any) -> bool:
    """Return whether ``event`` is an answer after which a stopping broker may end."""
    if type(event) is not ApiResponseReceived or event.body is None:
        return False
    error = event.body["error_code"]
    return error in UNKNOWN or (error == NONE and event.body.get("should_shut_down") is True)

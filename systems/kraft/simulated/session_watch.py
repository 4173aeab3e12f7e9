"""Watches what renews a broker's session (C16): a heartbeat of its present process, or a
registration.

A controller that takes anything else for contact keeps a dead broker in service. That shows late,
as the session must run out first, so its end is judged after every request.
"""

from __future__ import annotations

from typing import Any, Final

from kraftwreck.nodes.consensus.effects import ApiRequest
from kraftwreck.nodes.metadata.image_values import ImageView
from kraftwreck.nodes.node import Node
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World

NOBODY: Final = -1
"""The id of no broker: such a session began with the controller's claim."""


class SessionWatch:
    """Judges the active controllers of ``world``."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._renewed: dict[tuple[int, int], int] = {}
        """By host and broker: when a request last renewed the session, by the host's clock, which
        may read the same at two moments."""
        world.on_step.append(self._on_step)

    def _on_step(self, host: Host, event: Any) -> None:
        node = host.node
        if type(event) is not ApiRequest or not isinstance(node, Node):
            return
        if not node.controller.is_active:
            return
        now = host.clock.mono(self._world.now)
        asking = contact(event, node.image)
        if asking is not None:
            self._renewed[host.id, asking] = now
        sessions = node.controller.sessions
        end = now + sessions.timeout
        if sessions.expiry(NOBODY, -1) == end:
            return  # It has just claimed its role, which begins all sessions.
        for broker in node.image.brokers.values():
            if sessions.expiry(broker.broker_id, broker.epoch) != end:
                continue
            if self._renewed.get((host.id, broker.broker_id)) != now:
                self._failures.add(
                    "C16",
                    self._world.now,
                    f"{host.name} renews the session of broker {broker.broker_id} in epoch "
                    f"{broker.epoch} by a {event.api} that its process did not send: {event.body}.",
                )


def contact(request: ApiRequest, image: ImageView) -> int | None:
    """Return the broker whose session ``request`` may renew, None if there is none."""
    if request.api == "BrokerRegistration":
        return int(request.body["broker_id"])
    if request.api != "BrokerHeartbeat":
        return None
    broker = image.brokers.get(request.body["broker_id"])
    if broker is None or broker.epoch != request.body["broker_epoch"]:
        return None
    return broker.broker_id

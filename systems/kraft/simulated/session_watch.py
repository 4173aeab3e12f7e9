"""Watches what renews a broker's session (C16): a heartbeat of its present process, or a
registration.

A controller that takes anything else for contact keeps a dead broker in service. That shows late,
as the session must run out first, so its end is judged after every request.

The active controller looks for ended sessions eight times per session timeout. It fences one broker
per event, the one whose session ended first, and looks again at once (KAFKA-13173). So a session
that ended a period ago was due for a look: each event fences a broker until there is none left.
Events of the data plane do not concern the controller.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from kraftwreck.nodes.consensus.effects import ApiRequest
from kraftwreck.nodes.metadata.controller import Controller
from kraftwreck.nodes.metadata.image_values import ImageView
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.replication.events import is_from_shell
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World

NOBODY: Final = -1
"""The id of no broker: such a session began with the controller's claim."""

LOOKS_PER_SESSION: Final = 8
"""How often the active controller looks for ended sessions in a session timeout."""


class _Silent(NamedTuple):
    """The unfenced brokers whose sessions had ended a period ago, by id and epoch, after an event
    of a controller. Before ``due`` (its monotonic clock) no session has ended a period ago."""

    controller: Controller
    brokers: frozenset[tuple[int, int]]
    due: int


class SessionWatch:
    """Judges the active controllers of ``world``."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._renewed: dict[tuple[int, int], int] = {}
        """By host and broker: when a request last renewed the session, by the host's clock, which
        may read the same at two moments."""
        self._silent: dict[int, _Silent] = {}
        """By host, if its last event was one of an active controller."""
        world.on_step.append(self._on_step)

    def _on_step(self, host: Host, event: Any) -> None:
        node = host.node
        if not isinstance(node, Node):
            return
        if not node.controller.is_active:
            self._silent.pop(host.id, None)
            return
        now = host.clock.mono(self._world.now)
        if not is_from_shell(event):
            self._judge_pace(host, node, now)
        if type(event) is ApiRequest:
            self._judge_contact(host, node, event, now)

    def _judge_pace(self, host: Host, node: Node, now: int) -> None:
        """C16: all brokers whose sessions have ended are fenced, one per event."""
        before, controller = self._silent.get(host.id), node.controller
        if before is not None and before.controller is not controller:
            before = None
        if before is not None and now < before.due:
            return
        sessions = controller.sessions
        period = sessions.timeout // LOOKS_PER_SESSION
        due = now + sessions.timeout + period
        silent = []
        for broker in node.image.brokers.values():
            if not broker.fenced:
                late = sessions.expiry(broker.broker_id, broker.epoch) + period
                if late <= now:
                    silent.append((broker.broker_id, broker.epoch))
                due = min(due, late)
        found = frozenset(silent)
        self._silent[host.id] = _Silent(controller, found, due)
        if before is not None and before.brokers and before.brokers <= found:
            ids = ", ".join(str(broker) for broker, _ in sorted(found))
            self._failures.add(
                "C16",
                self._world.now,
                f"{host.name} fences none of the brokers {ids}, whose sessions ended more than"
                f" {period / 1e6:.3f} s ago",
            )

    def _judge_contact(self, host: Host, node: Node, event: ApiRequest, now: int) -> None:
        """C16: requests of other processes renew no session."""
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

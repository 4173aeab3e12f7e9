"""Delivery order of messages queued while a process was paused."""

from __future__ import annotations

from kraftwreck.nodes.consensus.effects import (
    ApiRequest,
    ApiResponseReceived,
    Event,
    RequestReceived,
    ResponseReceived,
    Shutdown,
)
from kraftwreck.nodes.draw import draw
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.timeline import WorldError
from kraftwreck.simulation.wires import Wires

_SIGNAL = 1 << 32
"""Stands for the connection of a signal, which is independent of all connections."""


def shuffle(host: Host, wires: Wires, seed: int, now: int) -> None:
    """Shuffle queued messages: those of different connections may be read in any order."""

    def connection(event: Event) -> tuple[bool, int]:
        if isinstance(event, ResponseReceived | ApiResponseReceived):
            return False, event.source
        if isinstance(event, RequestReceived | ApiRequest):
            return wires.origin(host, event.token)
        if isinstance(event, Shutdown):
            return False, _SIGNAL
        raise WorldError(f"{event!r} waits for {host.name}")

    def order(event: Event) -> int:
        client, number = connection(event)
        return draw(seed, "read-order", host.id, now, client, number)

    waiting = sorted(host.inbox, key=order)
    host.inbox.clear()
    host.inbox.extend(waiting)

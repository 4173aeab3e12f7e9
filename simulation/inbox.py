"""Delivery order of messages queued while a process was paused."""

from __future__ import annotations

from typing import Any

from kraftwreck.nodes.consensus.effects import Shutdown, Tick
from kraftwreck.nodes.draw import draw
from kraftwreck.simulation.binding import Binding
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.pieces import Piece
from kraftwreck.simulation.timeline import WorldError

_SIGNAL = 1 << 32
"""Stands for the connection of a signal, which is independent of all connections."""
_TIMER = _SIGNAL + 1
"""The same for a Tick that stands for an answer."""
_DISK = _SIGNAL + 2
"""The same for the ends of work on the disk."""


def shuffle(host: Host, binding: Binding, seed: int, now: int) -> None:
    """Shuffle queued messages: those of different connections may be read in any order."""

    def connection(event: Any) -> tuple[bool, int]:
        if isinstance(event, Shutdown):
            return False, _SIGNAL
        if isinstance(event, Tick):
            return False, _TIMER
        if isinstance(event, Piece):
            return False, _DISK
        found = binding.connection(host, event)
        if found is None:
            raise WorldError(f"{event!r} waits for {host.name}")
        return found

    def order(event: Any) -> int:
        client, number = connection(event)
        return draw(seed, "read-order", host.id, now, client, number)

    waiting = sorted(host.inbox, key=order)
    host.inbox.clear()
    host.inbox.extend(waiting)

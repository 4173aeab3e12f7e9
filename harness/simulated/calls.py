"""Clients' calls in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kraftwreck.harness.client import Answer, Call
from kraftwreck.simulation.world import World

_STATUS: dict[str, Any] = {"ok": "ok", "refused": "refused", "lost": "lost"}


def virtual_call(world: World, client: int, call: Call, done: Callable[[Answer], None]) -> None:
    """Send a client's request; call ``done`` with the result. ``client`` numbers the connection.

    Raises what the binding of the system raises for a request that cannot be sent.
    """

    def answered(status: str, response: Any, error: str | None) -> None:
        done(Answer(_STATUS[status], response, error))

    world.call(client, call.node, call.request, call.timeout_ms * 1000, answered)

"""Watches for requests that are never answered (F2).

A process that lives answers whatever it was given: at once, when something is committed, or when
the request's time is over. Who waits for an answer that never comes knows less than it could, and
what a node keeps for it is kept for ever. Judged when the run is over and all has been well for a
while.
"""

from __future__ import annotations

from simulation.failures import Failures
from simulation.host import ClientCall, Host
from simulation.network import ApiMessage, Rpc
from simulation.world import World

PATIENCE = 5_000_000
"""Microseconds within which a controller of a healthy cluster answers everything."""
DEFAULT_TIMEOUT_MS = 30_000
"""How long a broker may look for a controller where the request names no time-out."""


class AnswerWatch:
    """Looks at what is open on every host in the end."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures

    def finish(self) -> None:
        """The run is over and the cluster has recovered."""
        for host in self._world.hosts:
            for request in host.tokens.values():
                given = request.sent if isinstance(request, ClientCall) else request.arrived
                since = max(given, host.resumed_at)
                if since + self._patience(host, request) < self._world.now:
                    self._failures.add(
                        "F2",
                        self._world.now,
                        f"{host.name} has not answered {_what(request)} of"
                        f" {request.sent / 1e6:.3f} s, {(self._world.now - since) / 1e6:.1f} s"
                        " later",
                    )

    @staticmethod
    def _patience(host: Host, request: Rpc | ClientCall) -> int:
        if host.listener == "CONTROLLER":
            return PATIENCE
        body = request.body if isinstance(request, ClientCall) else {}
        timeout_ms = body.get("timeout_ms", DEFAULT_TIMEOUT_MS)
        return PATIENCE + int(timeout_ms) * 1000


def _what(request: Rpc | ClientCall) -> str:
    if isinstance(request, ClientCall):
        return f"a client's {request.api}"
    message = request.message
    api = message.api if isinstance(message, ApiMessage) else type(message).__name__
    return f"the {api} of node {request.source}"

"""Watches for requests that are never answered (F2).

A running process answers every request: at once, after a commit, or when the request's time is
over. A missing answer leaves the sender without information, and the node keeps the request's state
for ever. F2 is judged after the run, once the cluster has been healthy for a while.
"""

from __future__ import annotations

from kraftwreck.checkers.kraft.limits import ANSWERED_US, FORWARDED_MS
from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import ClientCall, Host
from kraftwreck.simulation.network import Rpc
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.api_message import ApiMessage
from kraftwreck.systems.kraft.simulated.binding import CONTROLLER_LISTENER
from kraftwreck.systems.kraft.simulated.data_requests import RecordMessage


class AnswerWatch:
    """Judges the requests that are open on every host at the end."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures

    @rule(
        "F2",
        "RequestsAnswered",
        "At the end every running process has answered its requests: controllers within 5 "
        "s, brokers within the request's timeout plus 5 s.",
        simulated=True,
    )
    def finish(self) -> None:
        """Judge the open requests after the run, when the cluster has recovered."""
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
        if host.listener in ("", CONTROLLER_LISTENER):
            return ANSWERED_US
        body = request.request.body if isinstance(request, ClientCall) else {}
        timeout_ms = body.get("timeout_ms", FORWARDED_MS)
        return ANSWERED_US + int(timeout_ms) * 1000


def _what(request: Rpc | ClientCall) -> str:
    if isinstance(request, ClientCall):
        return f"a client's {request.request.api}"
    message = request.message
    api = message.api if isinstance(message, ApiMessage | RecordMessage) else type(message).__name__
    return f"the {api} of node {request.source}"

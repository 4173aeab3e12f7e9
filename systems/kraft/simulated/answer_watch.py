"""Watches for requests that are never answered (F2).

A running process answers every request: at once, after a commit, or when the request's time is
over. A missing answer leaves the sender without information, and the node keeps the request's state
for ever. F2 is judged after the run, once the cluster has been healthy for a while.

A fetch of the log that waits at the leader is answered at the latest when its time is over. So the
leader's next Tick is due by then. That is judged whenever another fetch arrives.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kraftwreck.checkers.kraft.limits import ANSWERED_US, DRIFT_US, FORWARDED_MS
from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.nodes.consensus.kraft.messages import FetchRequest, Request
from kraftwreck.nodes.node import Node
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import ClientCall, Host
from kraftwreck.simulation.network import Rpc
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.api_message import ApiMessage
from kraftwreck.systems.kraft.simulated.binding import CONTROLLER_LISTENER
from kraftwreck.systems.kraft.simulated.data_requests import RecordMessage


@dataclass(slots=True)
class _Fetches:
    """The fetches that a process has handled, by identity: each, and until when (µs of its own
    clock) it may wait."""

    life: int
    until: dict[int, tuple[Request, int]] = field(default_factory=dict)


class AnswerWatch:
    """Judges the requests that are open on every host at the end, and fetches while they wait."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._fetches: dict[int, _Fetches] = {}
        world.on_request.append(self.arrived)

    def arrived(self, host: Host, message: Request) -> None:
        """F2: before a fetch is handled, the leader is to wake up for each that waits already."""
        if type(message) is not FetchRequest:
            return
        known, now = self._fetches.get(host.id), host.clock.mono(self._world.now)
        if known is None or known.life != host.life:
            known = self._fetches[host.id] = _Fetches(host.life)
        until = known.until
        waiting: dict[int, Rpc] = {}
        if until:
            waiting = {id(each.message): each for each in _waiting(host)}
            known.until = until = {key: each for key, each in until.items() if key in waiting}
        if until:
            self._judge(host, until, waiting)
        until[id(message)] = message, now + message.max_wait_ms * 1000

    def _judge(
        self, host: Host, until: dict[int, tuple[Request, int]], waiting: dict[int, Rpc]
    ) -> None:
        due = host.node.deadline if isinstance(host.node, Node) else None
        for key, (_, at) in until.items():
            if due is not None and due - at > DRIFT_US:
                self._failures.add(
                    "F2",
                    self._world.now,
                    f"{host.name} wakes up {(due - at) / 1e6:.3f} s too late for"
                    f" {_what(waiting[key])}",
                )

    @rule(
        "F2",
        "RequestsAnswered",
        "At the end every running process has answered its requests: controllers within 5 "
        "s, brokers within the request's timeout plus 5 s. A fetch of the log waits no longer than "
        "it allows.",
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


def _waiting(host: Host) -> list[Rpc]:
    tokens = host.tokens.values()
    return [e for e in tokens if isinstance(e, Rpc) and type(e.message) is FetchRequest]


def _what(request: Rpc | ClientCall) -> str:
    if isinstance(request, ClientCall):
        return f"a client's {request.request.api}"
    message = request.message
    api = message.api if isinstance(message, ApiMessage | RecordMessage) else type(message).__name__
    return f"the {api} of node {request.source}"

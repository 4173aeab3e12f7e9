"""Watches that brokers keep in touch with the active controller (F27).

A broker sends its next heartbeat within the interval of heartbeats after the last one has ended.
The back-off after failures is no longer, as the controller fences a broker that is silent for a
session timeout. Registrations take the place of heartbeats. One follows a heartbeat that was
refused, as the controller knows no such process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from kraftwreck.checkers.kraft.limits import REGISTRATION_BACKOFF_MS, STEPS_US
from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.broker.lifecycle import Life
from kraftwreck.nodes.consensus.effects import ApiResponseReceived
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.protocol.errors import BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH
from kraftwreck.nodes.replication.events import is_from_shell
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.network import Rpc
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.api_message import ApiMessage
from kraftwreck.systems.kraft.simulated.known_controller import known_controller

HEARTBEAT: Final = "BrokerHeartbeat"
LIFE: Final = frozenset((HEARTBEAT, "BrokerRegistration"))
UNKNOWN: Final = frozenset((STALE_BROKER_EPOCH, BROKER_ID_NOT_REGISTERED))


@dataclass(slots=True)
class _Broker:
    """The requests of a broker process to the controllers.

    ``leader`` is the other node that it knows as the active controller, None without one, and
    ``since`` when it learned of it. ``asked`` is its last request (destination, correlation), sent
    at ``sent``, and ``ended`` when that was answered or failed, None before. ``late``: a step has
    found the broker late; it may send its request by that step.
    ``unknown``: the controller has refused the last request, as it knows no such process.
    """

    leader: int | None = None
    since: int = 0
    asked: tuple[int, int] | None = None
    sent: int = 0
    ended: int | None = None
    late: bool = False
    unknown: bool = False


class HeartbeatWatch:
    """Judges the brokers of ``world``."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._brokers: dict[int, _Broker] = {}
        world.wires.on_ask.append(self._on_ask)
        world.on_trace.append(self._on_trace)
        world.on_step.append(self._on_step)

    def _on_trace(self, host: Host, event: TraceEvent) -> None:
        if event.kind == "start":
            self._brokers.pop(host.id, None)

    def _on_ask(self, host: Host, rpc: Rpc) -> None:
        message = rpc.message
        if type(message) is ApiMessage and message.api in LIFE:
            known = self._brokers.setdefault(host.id, _Broker())
            if known.unknown and message.api == HEARTBEAT and not host.stopping:
                self._failures.add(
                    "F27",
                    self._world.now,
                    f"{host.name} sends another heartbeat although the controller has refused the"
                    " last one, as it knows no such process; it has to register",
                )
            known.unknown = False
            known.asked, known.sent = (rpc.named, rpc.correlation), self._world.now
            known.ended, known.late = None, False

    @rule(
        "F27",
        "HeartbeatsInTime",
        "A broker that knows an active controller sends it the next heartbeat or registration "
        "within the interval of heartbeats and a second. That time begins when the last one was "
        "answered, failed or took the time of a request. A heartbeat that was refused, as the "
        "controller knows no such process, is followed by a registration.",
        simulated=True,
    )
    def _on_step(self, host: Host, event: Any) -> None:
        node, now = host.node, self._world.now
        if not isinstance(node, Node) or node.broker is None or is_from_shell(event):
            return
        known = self._brokers.setdefault(host.id, _Broker())
        if type(event) is ApiResponseReceived and known.asked == (event.source, event.correlation):
            known.ended = now
            # The broker no longer waits for an answer that comes after the time of its request.
            took = host.clock.elapsed(known.sent, now)
            refused = event.body is not None and event.body["error_code"] in UNKNOWN
            known.unknown = refused and took < 1000 * node.config.request_timeout_ms
        leader = known_controller(host, node.replica)
        if leader != known.leader:
            known.leader, known.since, known.late = leader, now, False
        if leader is None or node.broker.state is Life.STOPPED:
            return
        since = known.since
        if known.asked is not None:
            timeout = known.sent + 1000 * node.config.request_timeout_ms
            since = max(since, timeout if known.ended is None else known.ended)
        most = max(node.config.heartbeat_interval_ms, REGISTRATION_BACKOFF_MS)
        if host.waited(since, now, STEPS_US) <= 1000 * most:
            known.late = False
        elif not known.late:
            known.late = True
        else:
            known.since, known.late = now, False  # Once.
            self._failures.add(
                "F27",
                now,
                f"{host.name} knows node {leader} as the active controller, but has sent it no"
                f" heartbeat and no registration for {(now - since) / 1e6:.3f} s; the interval is"
                f" {most} ms",
            )

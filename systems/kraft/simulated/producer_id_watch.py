"""Watches the producer ids that brokers give to clients (F18).

A broker gets blocks of ids from the active controller (KIP-730). An id that two producers have
makes their batches look like repetitions. And a producer that waits for its id sends nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from kraftwreck.checkers.kraft.limits import (
    DRIFT_US,
    HANDED_OVER_US,
    PRODUCER_IDS_BACKOFF_US,
    STEPS_US,
)
from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.broker.lifecycle import NO_EPOCH, Life
from kraftwreck.nodes.consensus.effects import ApiRequest, ApiResponseReceived
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.protocol.errors import NONE
from kraftwreck.nodes.replication.events import is_from_shell
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import ClientCall, Host
from kraftwreck.simulation.network import Rpc
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.api_message import ApiMessage
from kraftwreck.systems.kraft.simulated.known_controller import known_controller

ALLOCATE: Final = "AllocateProducerIds"
INIT: Final = "InitProducerId"


@dataclass(slots=True)
class _Process:
    """A broker process.

    ``open`` are the clients' requests that it has not answered, by number, with the time at which
    it handled them. ``stepped`` is the time of its last step, whose messages may leave later.
    ``last`` is its request for a block that has not ended in any step, ``asked`` the time of the
    step that sent it, ``ended`` the time at which the one before ended. ``refused`` is when the
    last answer came, None if it had a block or was ignored. ``leader`` is the other node that it
    knows as the active controller, None without one or while the broker does not serve, and
    ``since`` the time since which it does.
    """

    life: int
    open: dict[int, int] = field(default_factory=dict)
    stepped: int = 0
    last: Rpc | None = None
    asked: int = 0
    ended: int = 0
    refused: int | None = None
    leader: int | None = None
    since: int = 0
    blocks: list[range] = field(default_factory=list)


class ProducerIdWatch:
    """Judges the answers of the brokers of ``world`` to InitProducerId, and how they get blocks."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._processes: dict[int, _Process] = {}
        self._given: set[int] = set()
        world.wires.on_client_reply.append(self._on_client_reply)
        world.wires.on_ask.append(self._on_ask)
        world.wires.on_reply.append(self._on_reply)
        world.on_trace.append(self._on_trace)
        world.on_step.append(self._on_step)

    def _of(self, host_id: int, life: int) -> _Process:
        known = self._processes.get(host_id)
        if known is None or known.life < life:
            known = self._processes[host_id] = _Process(life)
        return known

    def _on_trace(self, host: Host, event: TraceEvent) -> None:
        if event.kind == "start":
            self._processes.pop(host.id, None)

    # --- ids ----------------------------------------------------------------------------------

    def _on_reply(self, _: Host, rpc: Rpc, effect: Any) -> None:
        """Note a block on its way to a broker."""
        message = rpc.message
        if type(message) is ApiMessage and message.api == ALLOCATE and not _error(effect.body):
            process, start = self._of(rpc.source, rpc.source_life), effect.body["producer_id_start"]
            if process.life == rpc.source_life:
                process.blocks.append(range(start, start + effect.body["producer_id_len"]))

    @rule(
        "F18",
        "ProducerIdsInTime",
        "A broker gives each producer id once, out of a block that the controller gave to this "
        "process. It has one request for a block in flight, and pauses for 50 ms after an error. "
        "While a client waits for an id, the broker asks the active controller that it knows "
        "within a second after 50 ms, and within 100 ms if it waits for another one.",
        simulated=True,
    )
    def _on_client_reply(self, host: Host, call: ClientCall, body: dict[str, Any]) -> None:
        if call.request.api != INIT:
            return
        process = self._of(host.id, host.life)
        process.open.pop(call.number, None)
        if _error(body):
            return
        number = body["producer_id"]
        if number in self._given:
            self._fail(f"{host.name} gives producer id {number}, which another producer has")
        elif not any(number in block for block in process.blocks):
            self._fail(f"{host.name} gives producer id {number}, which is in none of its blocks")
        self._given.add(number)

    # --- blocks -------------------------------------------------------------------------------

    @rule("F18", simulated=True)
    def _on_ask(self, host: Host, rpc: Rpc) -> None:
        """F18: a broker does not ask again while an answer of the same controller may come."""
        message = rpc.message
        if type(message) is not ApiMessage or message.api != ALLOCATE:
            return
        process = self._of(host.id, host.life)
        last, refused = process.last, process.refused
        if refused is not None:
            pause = host.clock.elapsed(refused, process.stepped)
            if pause + DRIFT_US < PRODUCER_IDS_BACKOFF_US:
                self._fail(
                    f"{host.name} asks for a block of producer ids {pause / 1e6:.3f} s after an"
                    " error"
                )
        if (
            last is not None
            and process.asked > process.since
            and last.named == rpc.named == process.leader
            and self._in_flight(host, process, process.stepped)
        ):
            waits = (process.stepped - process.asked) / 1e6
            self._fail(
                f"{host.name} asks node {rpc.named} for another block of producer ids, although it"
                f" has waited only {waits:.3f} s for the answer to its last request"
            )
        process.last, process.asked = rpc, process.stepped

    @rule("F18", simulated=True)
    def _on_step(self, host: Host, event: Any) -> None:
        """F18: a broker asks for a block in time while clients wait for one."""
        node = host.node
        if not isinstance(node, Node) or node.broker is None:
            return
        process, now = self._of(host.id, host.life), self._world.now
        process.stepped, last = now, process.last
        if is_from_shell(event):
            return
        call = host.tokens.get(event.token) if type(event) is ApiRequest else None
        if isinstance(call, ClientCall) and call.request.api == INIT:
            process.open[call.number] = now
        answered = (event.source, event.correlation) if type(event) is ApiResponseReceived else None
        if last is not None and answered == (last.named, last.correlation):
            # A broker ignores answers that come too late, or of a controller that was replaced.
            heard = process.asked > process.since and self._in_flight(host, process, now)
            process.refused = now if heard and _error(event.body) else None
            process.ended, process.last, last = now, None, None
        leader = _controller(host, node)
        if leader != process.leader:
            process.leader, process.since = leader, now
        if leader is None or not process.open or host.stopping:
            return
        if self._in_flight(host, process, now):
            return
        since = max(process.since, process.ended, host.resumed_at, min(process.open.values()))
        late = False
        if last is not None:
            if last.named == leader:
                since = max(since, last.sent + 1000 * node.config.request_timeout_ms)
            else:
                late = host.clock.elapsed(since, now) >= HANDED_OVER_US
        if late or host.waited(since, now, STEPS_US) > PRODUCER_IDS_BACKOFF_US:
            process.open.clear()  # Once.
            self._fail(
                f"{host.name} knows node {leader} as the active controller, and does not ask it for"
                f" producer ids, which clients have waited for since {since / 1e6:.3f} s"
            )

    def _in_flight(self, host: Host, process: _Process, now: int) -> bool:
        """Whether the broker waits at ``now`` for an answer of the controller that it knows."""
        last, node = process.last, host.node
        if last is None or last.named != process.leader or not isinstance(node, Node):
            return False
        waits = host.clock.elapsed(process.asked, now) + DRIFT_US
        return waits < 1000 * node.config.request_timeout_ms

    def _fail(self, explanation: str) -> None:
        self._failures.add("F18", self._world.now, explanation)


def _error(body: dict[str, Any] | None) -> bool:
    return body is None or body["error_code"] != NONE


def _controller(host: Host, node: Node) -> int | None:
    """Return the other node that a broker in service knows as the active controller."""
    broker, replica = node.broker, node.replica
    if broker is None or broker.state is not Life.RUNNING or broker.epoch == NO_EPOCH:
        return None
    return known_controller(host, replica)

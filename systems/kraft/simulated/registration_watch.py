"""Watches that brokers and controllers repeat a registration that failed or is incomplete (F14).

A request or its answer may be lost, or the controller refuses it. The node sends the registration
again after a back-off of 100 ms, which doubles with each failure. Without it a broker serves
nobody, and the features of a controller are unknown. A registration by an older level of
metadata.version lacks the directories of its broker, without which new replicas have none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from kraftwreck.checkers.kraft.limits import (
    LONGEST_REGISTRATION_BACKOFF_MS,
    REGISTRATION_BACKOFF_MS,
    STEPS_US,
)
from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.broker.lifecycle import Life
from kraftwreck.nodes.consensus.effects import ApiResponseReceived
from kraftwreck.nodes.metadata.eligibility import DIRECTORIES, metadata_version
from kraftwreck.nodes.metadata.features import CONTROLLER_REGISTRATION
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.protocol.errors import NONE
from kraftwreck.nodes.replication.events import is_from_shell
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.network import Rpc
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.api_message import ApiMessage
from kraftwreck.systems.kraft.simulated.known_controller import known_controller

BROKER: Final = "BrokerRegistration"
CONTROLLER: Final = "ControllerRegistration"


@dataclass(slots=True)
class _Registration:
    """The registrations of one kind that a process has sent, the last one as ``rpc``.

    ``sent`` is their number since one succeeded. ``failed`` is when the last one failed, None if it
    is open or succeeded.
    """

    rpc: Rpc
    sent: int = 0
    failed: int | None = None


@dataclass(slots=True)
class _Incomplete:
    """A registration without directories, by its broker epoch, which its broker knows ``since``.

    ``is_late``: a step has found the broker late; it may register by that step. ``is_over``: it has
    done so, or that was reported.
    """

    epoch: int
    since: int
    is_late: bool = False
    is_over: bool = False


class RegistrationWatch:
    """Judges the registrations of all processes of ``world``."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._sent: dict[int, dict[str, _Registration]] = {}
        """By host and request."""
        self._leaders: dict[int, tuple[int | None, int]] = {}
        """By host: the other node that it knows as the active controller and can reach, -1 without
        one, and since when."""
        self._incomplete: dict[int, _Incomplete] = {}
        world.wires.on_ask.append(self._on_ask)
        world.on_trace.append(self._on_trace)
        world.on_step.append(self._on_step)

    def _on_trace(self, host: Host, event: TraceEvent) -> None:
        if event.kind == "start":
            self._sent.pop(host.id, None)
            self._leaders.pop(host.id, None)
            self._incomplete.pop(host.id, None)

    def _on_ask(self, host: Host, rpc: Rpc) -> None:
        message = rpc.message
        if type(message) is ApiMessage and message.api in (BROKER, CONTROLLER):
            known = self._sent.setdefault(host.id, {}).setdefault(message.api, _Registration(rpc))
            known.rpc, known.failed = rpc, None
            known.sent += 1

    @rule(
        "F14",
        "RegistrationsRepeated",
        "A broker or controller whose registration failed, or was not answered, sends it again "
        "within a second after its back-off, as long as it knows an active controller. The "
        "back-off is 100 ms, doubled with each failure. A broker sends it again, too, once its "
        "metadata has a level with directories, if its registration there has none.",
        simulated=True,
    )
    def _on_step(self, host: Host, event: Any) -> None:
        sent, node = self._sent.get(host.id), host.node
        if sent is None or not isinstance(node, Node) or is_from_shell(event):
            return
        if type(event) is ApiResponseReceived:
            self._note_answer(sent, event)
        if host.stopping:
            return
        replica, now = node.replica, self._world.now
        leader = known_controller(host, replica)
        before = self._leaders.get(host.id)
        if before is None or before[0] != leader:
            before = self._leaders[host.id] = leader, now
        for api, known in sent.items():
            if known.failed is None or leader is None:
                continue
            since = max(known.failed, before[1])
            # A success doubles a controller's back-off, too, before the first failure.
            wait = 1000 * min(
                REGISTRATION_BACKOFF_MS << known.sent, LONGEST_REGISTRATION_BACKOFF_MS
            )
            if host.waited(since, now, STEPS_US) > wait and _is_missing(node, api, known.rpc):
                known.failed = None  # Once.
                self._failures.add(
                    "F14",
                    now,
                    f"{host.name} knows node {leader} as the active controller, but has not"
                    f" repeated its {api} for {(now - since) / 1e6:.3f} s after a failure"
                    f" ({known.sent} sent)",
                )
        self._judge_directories(host, node, before)

    def _judge_directories(self, host: Host, node: Node, leader: tuple[int | None, int]) -> None:
        """F14: a heartbeat may be in flight, or its back-off last, when the broker sees it."""
        epoch, now = _incomplete(node), self._world.now
        if epoch is None:
            self._incomplete.pop(host.id, None)
            return
        known = self._incomplete.get(host.id)
        if known is None or known.epoch != epoch:
            known = self._incomplete[host.id] = _Incomplete(epoch, now)
        if leader[0] is None or known.is_over:
            return
        config, since = node.config, max(known.since, leader[1])
        most = 1000 * (config.request_timeout_ms + config.heartbeat_interval_ms)
        last = self._sent[host.id].get(BROKER)
        if last is not None and last.rpc.sent >= known.since:
            known.is_over = True
        elif host.waited(since, now, STEPS_US) <= most:
            known.is_late = False
        elif not known.is_late:
            known.is_late = True
        else:
            known.is_over = True
            self._failures.add(
                "F14",
                now,
                f"{host.name} has known for {(now - since) / 1e6:.3f} s that it is registered"
                " without its directory, and has not registered again",
            )

    def _note_answer(self, sent: dict[str, _Registration], event: ApiResponseReceived) -> None:
        for known in sent.values():
            if (known.rpc.named, known.rpc.correlation) != (event.source, event.correlation):
                continue
            if event.body is not None and event.body["error_code"] == NONE:
                known.sent = 0
            else:
                known.failed = self._world.now


def _incomplete(node: Node) -> int | None:
    """Return the epoch of the node's broker if its metadata lacks its directory, None if not."""
    broker, image = node.broker, node.image.stable
    if broker is None or broker.state in (Life.PENDING_CONTROLLED_SHUTDOWN, Life.STOPPED):
        return None
    mine = image.brokers.get(node.config.node_id)
    if mine is None or mine.epoch != broker.epoch or mine.log_dirs:
        return None
    return mine.epoch if metadata_version(image) >= DIRECTORIES else None


def _is_missing(node: Node, api: str, rpc: Rpc) -> bool:
    """Whether ``node`` still needs the registration in ``rpc``."""
    if api == BROKER:
        broker = node.broker
        return broker is not None and broker.state is not Life.STOPPED and broker.epoch < 0
    if metadata_version(node.image.stable) < CONTROLLER_REGISTRATION:
        return False
    body = rpc.message.body
    known = node.image.stable.controllers.get(body["controller_id"])
    return known is None or known.incarnation != body["incarnation_id"]

"""Watches which brokers serve, and reports those that do not return (F3).

When a broker registers it names the epoch of its last process if that shut down cleanly, so that
its replicas count as complete (KIP-966), and none otherwise (F8).
"""

from __future__ import annotations

from typing import Any

from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.server import clean_shutdown
from kraftwreck.simulation.disk import ROOT, Disk
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.network import Rpc
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.api_message import ApiMessage
from kraftwreck.systems.kraft.simulated.binding import left_epoch

RUNNING = "running"
BROKERS = "PLAINTEXT"
"""The listener of hosts that are brokers."""


class ServiceWatch:
    """Follows the states that brokers report, and the controllers' answers."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._states: dict[int, tuple[int, str]] = {}
        self._refused: dict[int, str] = {}
        self._left: dict[int, tuple[int, int]] = {}
        """By process: the epoch that the previous process left."""
        world.on_trace.append(self._on_trace)
        world.wires.on_reply.append(self._on_reply)

    def _on_trace(self, host: Host, event: TraceEvent) -> None:
        if event.kind == "start":
            self._left[host.id] = host.life, left_epoch(host)
            self._judge_mark(host)
        elif event.kind == "broker":
            self._states[host.id] = host.life, str(event.detail.get("state"))

    def _on_reply(self, host: Host, rpc: Rpc, effect: Any) -> None:
        """Note the answer to a broker's own heartbeat; other heartbeats are clients'."""
        message = rpc.message
        if not isinstance(message, ApiMessage):
            return
        if message.api == "BrokerRegistration":
            self._judge_registration(rpc, message.body)
        elif message.api == "BrokerHeartbeat" and message.body["broker_id"] == rpc.source:
            code = effect.body["error_code"]
            fenced = code == 0 and effect.body["is_fenced"]
            self._refused[rpc.source] = "fenced" if fenced else f"refused, {code}" if code else ""

    @rule(
        "F8",
        "EpochOfLastProcess",
        "A registering broker reports the epoch of its previous process after a clean "
        "shutdown, and none otherwise. Once it has started, a loss of power does not bring the "
        "mark of that shutdown back. A process leaves no mark beside logs that no process has "
        "opened since a crash, and would leave none before it knows its logs.",
        simulated=True,
    )
    def _judge_registration(self, rpc: Rpc, body: dict[str, Any]) -> None:
        life, left = self._left.get(rpc.source, (-1, -1))
        told = body["previous_broker_epoch"]
        if body["broker_id"] == rpc.source and life == rpc.source_life and told != left:
            self._failures.add(
                "F8",
                self._world.now,
                f"Broker {rpc.source} registers with the epoch {told} of its last process, which"
                f" left {left} (-1: no clean shutdown)",
            )

    @rule("F8", simulated=True)
    def _judge_mark(self, host: Host) -> None:
        """F8: the mark of a clean shutdown is gone from the platter, too."""
        disk = host.disk
        if isinstance(disk, Disk) and disk.files.may_be_there(ROOT / clean_shutdown.NAME):
            self._failures.add(
                "F8",
                self._world.now,
                f"{host.name} has started, but after a loss of power the mark of its last shutdown"
                " would be there again",
            )

    def missing(self) -> list[str]:
        """Return the brokers that do not serve, each with its last reported state."""
        found = []
        for host in self._world.hosts:
            if host.listener == BROKERS:
                life, state = self._states.get(host.id, (-1, ""))
                if life != host.life:
                    state = "silent"
                elif state == RUNNING and self._refused.get(host.id):
                    state = f"{state}, but {self._refused[host.id]}"
                if state != RUNNING:
                    found.append(f"{host.name} ({state})")
        return found

    @rule(
        "F3",
        "BrokersServe",
        "Brokers are in service within 45 s after the cluster has recovered, by their own "
        "reports and by the controller's answers.",
        simulated=True,
    )
    def judge(self, seconds: int) -> None:
        """Judge, ``seconds`` after the recovery of the cluster, whether all brokers serve."""
        missing = self.missing()
        if missing:
            self._failures.add(
                "F3",
                self._world.now,
                f"{', '.join(missing)} did not serve within {seconds} s after the"
                " recovery of the cluster",
            )

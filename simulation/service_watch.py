"""Knows which brokers are in service, and says in the end who does not come back (F3)."""

from __future__ import annotations

from histories.trace import TraceEvent
from simulation.failures import Failures
from simulation.host import Host
from simulation.world import World

RUNNING = "running"
BROKERS = "PLAINTEXT"
"""The listener of hosts that are brokers."""


class ServiceWatch:
    """Takes in what brokers tell of their lives."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._states: dict[int, tuple[int, str]] = {}
        world.on_trace.append(self._on_trace)

    def _on_trace(self, host: Host, event: TraceEvent) -> None:
        if event.kind == "broker":
            self._states[host.id] = host.life, str(event.detail.get("state"))

    def missing(self) -> list[str]:
        """Return the brokers that are not in service, each with the state it last told."""
        found = []
        for host in self._world.hosts:
            if host.listener == BROKERS:
                life, state = self._states.get(host.id, (-1, ""))
                if life != host.life:
                    state = "silent"
                if state != RUNNING:
                    found.append(f"{host.name} ({state})")
        return found

    def judge(self, seconds: int) -> None:
        """So many ``seconds`` after the cluster has recovered all should be there."""
        missing = self.missing()
        if missing:
            self._failures.add(
                "F3",
                self._world.now,
                f"{', '.join(missing)} did not come into service within {seconds} s after the"
                " cluster had recovered",
            )

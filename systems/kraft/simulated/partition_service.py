"""Watches whether partitions serve again once the cluster is healthy (L13).

All faults have ended and all brokers are in service. Then a partition that anybody may lead gets a
leader, its replicas join the ISR and get its whole log, and no request waits beyond its own time.
A partition may need longer while it makes progress.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kraftwreck.checkers.kraft.limits import CAUGHT_UP_US, SERVING_US, STEPS_US
from kraftwreck.nodes.metadata.eligibility import elr_enabled
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.replication.events import FetchReceived, ProduceReceived
from kraftwreck.nodes.replication.headers import PartitionKey
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import ClientCall, Host
from kraftwreck.simulation.network import Rpc
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.binding import record_traffic
from kraftwreck.systems.kraft.simulated.data_requests import RecordMessage
from kraftwreck.systems.kraft.simulated.record_logs import RecordLogs, name_of, replicas_on
from kraftwreck.systems.kraft.simulated.service_watch import BROKERS

SECOND = 1_000_000
LOOK_US = SECOND // 4


class PartitionService:
    """Judges the partitions of ``world`` from :meth:`settle` on."""

    def __init__(self, world: World, failures: Failures, logs: RecordLogs) -> None:
        self._world = world
        self._failures = failures
        self._logs = logs
        self._brokers = {host.id: host for host in world.hosts if host.listener == BROKERS}
        self._since: int | None = None
        record_traffic(world).on_answer.append(self._answered)

    def settle(self) -> None:
        """Let all partitions serve; otherwise report a failure. All brokers are in service."""
        world = self._world
        self._since = world.now
        last, deadline = world.now + CAUGHT_UP_US, world.now + SERVING_US
        before = self._state()
        while (left := self.unsettled()) and world.now < deadline:
            world.run(min(world.now + LOOK_US, deadline))
            now = self._state()
            if now != before:
                before, deadline = now, min(last, world.now + SERVING_US)
        if left:
            self._fail(
                f"{(world.now - self._since) // SECOND} s after all brokers had returned to"
                f" service: {'; '.join(left)}"
            )

    def finish(self) -> None:
        """Judge the requests that are open at the end."""
        for host in self._world.hosts:
            for request in host.tokens.values():
                message = request.request if isinstance(request, ClientCall) else request.message
                if isinstance(request, ClientCall) and isinstance(request.message, RecordMessage):
                    message = request.message
                if isinstance(message, RecordMessage):
                    self._judge_wait(host, request, message)

    def _fail(self, explanation: str) -> None:
        self._failures.add("L13", self._world.now, explanation)

    # --- requests ---------------------------------------------------------------------------

    def _answered(self, host: Host, message: RecordMessage, effect: Any, body: Any) -> None:
        request = host.tokens.get(effect.token)
        if request is not None:
            self._judge_wait(host, request, message)

    def _judge_wait(self, host: Host, request: Rpc | ClientCall, message: RecordMessage) -> None:
        """No fetch and no produce waits beyond its own time, by the clock of the broker."""
        since = request.sent if isinstance(request, ClientCall) else request.arrived
        event = message.call.event if message.call is not None else None
        if self._since is None or since < self._since:
            return
        if isinstance(event, FetchReceived):
            most_ms = event.max_wait_ms
        elif isinstance(event, ProduceReceived):
            most_ms = event.timeout_ms
        else:
            return
        if host.waited(since, self._world.now, STEPS_US) > most_ms * 1000:
            self._fail(
                f"{host.name} let a {message.api} with {most_ms} ms wait for"
                f" {(self._world.now - since) / SECOND:.3f} s"
            )

    # --- partitions -------------------------------------------------------------------------

    def _state(self) -> tuple[Any, ...]:
        """Return all that changes while partitions make progress."""
        return tuple(
            (key, partition.hw, partition.leading, partition.in_sync.isr, partition.assignment,
             None if partition.log is None else partition.log.end)
            for host in self._brokers.values()
            for key, partition in sorted(replicas_on(host).items())
        )  # fmt: skip

    def unsettled(self) -> list[str]:
        """Return the partitions that have a candidate and do not serve, each with a reason.

        A partition serves when its leader leads, all replicas are in the ISR and have its whole
        log, and all of it is committed. No replica begins earlier. One that led before may begin
        later: it deleted records by itself, and a log start goes from leaders to followers only.
        The last known leader is a candidate as long as there may be eligible leader replicas.
        """
        nodes = (host.node for host in self._brokers.values())
        images = [node.image.stable for node in nodes if isinstance(node, Node)]
        if not images:
            return []
        image = max(images, key=lambda each: each.last_offset)
        found = []
        for key, each in sorted(image.partitions.items()):
            last = each.last_known_elr
            known = elr_enabled(image) and len(last) == 1 and last[0] in each.replicas
            if each.isr or each.elr or known:
                reason = self._unsettled(key, each.leader, each.isr, each.replicas)
                if reason:
                    found.append(f"{name_of(key)} {reason}")
        return found

    def _unsettled(
        self, key: PartitionKey, leader: int, isr: Sequence[int], replicas: Sequence[int]
    ) -> str:
        host = self._brokers.get(leader)
        if host is None:
            # Other brokers than those of the run are played by clients.
            return "has no leader" if all(each in self._brokers for each in replicas) else ""
        if host.node is None:
            return f"is led by {host.name}, which does not run"
        partition = replicas_on(host).get(key)
        if partition is None or partition.log is None or not partition.leading:
            return f"is not led by {host.name}"
        if any(each not in self._brokers for each in replicas):
            return ""
        if set(isr) != set(replicas):
            return f"has the ISR {tuple(isr)} of {tuple(replicas)}"
        if len(isr) >= partition.min_insync and partition.hw != partition.log.end:
            return f"is committed up to {partition.hw} of {partition.log.end}"
        ends = {each: log.end for each, log in self._logs.replicas(key)}
        behind = [each for each in replicas if ends.get(each) != partition.log.end]
        if behind:
            return f"has replicas {behind} that lag behind"
        starts = {each: log.start for each, log in self._logs.replicas(key)}
        older = [each for each in replicas if starts.get(each, 0) < partition.log.start]
        return f"has replicas {older} that begin before {partition.log.start}" if older else ""

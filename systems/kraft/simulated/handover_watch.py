"""Watches that brokers turn to a new controller at once (F11).

A request to the controller before it may wait for the whole request timeout: that node is cut off,
paused or slow. A broker without a heartbeat is fenced meanwhile, and a leader with an ISR that is
proposed only makes its producers wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kraftwreck.checkers.kraft.limits import HANDED_OVER_US
from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.nodes.broker.lifecycle import Life
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.replication.headers import PartitionKey
from kraftwreck.nodes.replication.partition import Partition
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.network import Rpc
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.api_message import ApiMessage
from kraftwreck.systems.kraft.simulated.known_controller import known_controller
from kraftwreck.systems.kraft.simulated.proposal_outcomes import ALTER, asked_for, asked_in
from kraftwreck.systems.kraft.simulated.record_logs import replicas_on

LIFE: Final = "BrokerHeartbeat"
KINDS: Final = {LIFE: LIFE, "BrokerRegistration": LIFE, ALTER: ALTER}
"""The requests of brokers by kind: of each kind one is in flight."""


class HandoverWatch:
    """Compares the last requests of brokers with the controllers that they know."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._last: dict[int, dict[str, Rpc]] = {}
        """By broker: its last request of each kind."""
        self._known: dict[int, tuple[int, int | None, int]] = {}
        """By broker: its life, the leader of the quorum that it can reach, None without one, and
        since when it knows that."""
        world.wires.on_ask.append(self._on_ask)
        world.on_step.append(self._on_step)

    def _on_ask(self, host: Host, rpc: Rpc) -> None:
        message = rpc.message
        if type(message) is ApiMessage and message.api in KINDS:
            self._last.setdefault(host.id, {})[KINDS[message.api]] = rpc

    @rule(
        "F11",
        "BrokersChangeController",
        "A broker that has known a new controller for 100 ms waits for no heartbeat, registration "
        "or AlterPartition that it has sent to another node: it has sent the request again.",
        simulated=True,
    )
    def _on_step(self, host: Host, event: Any) -> None:
        node = host.node
        if not isinstance(node, Node) or node.broker is None:
            return
        replica, now = node.replica, self._world.now
        leader = known_controller(host, replica)
        known = self._known.get(host.id)
        if known is None or known[:2] != (host.life, leader):
            self._known[host.id] = host.life, leader, now
            return
        last = self._last.get(host.id)
        if leader is None or last is None or node.broker.state is Life.STOPPED:
            return
        since = max(known[2], host.resumed_at)
        for kind, rpc in last.items():
            if (
                rpc.named != leader
                and host.requests.get(rpc.key) is rpc
                and host.clock.elapsed(since, now) >= HANDED_OVER_US
                and (kind != ALTER or waits_for(rpc.message, replicas_on(host)))
            ):
                del last[kind]  # Once.
                self._failures.add(
                    "F11",
                    now,
                    f"{host.name} has known node {leader} as the controller for"
                    f" {host.clock.elapsed(since, now) / 1_000_000:.3f} s, and still waits for"
                    f" {rpc.message.api} at node {rpc.named}",
                )
                return


def waits_for(request: ApiMessage, replicas: Mapping[PartitionKey, Partition]) -> bool:
    """Return whether a leader waits for the answer to a proposal in ``request``."""
    for key, asked in asked_in(request).items():
        partition = replicas.get(key)
        pending = partition.in_sync.pending if partition is not None else None
        if partition is None or pending is None or key in partition.with_.proposed:
            continue
        if asked_for(pending.proposal) == asked:
            return True
    return False

"""Lets another controller take over while copies of brokers wait for an answer (F11).

A broker then sends what it waits for to the new controller. In runs the earlier controller mostly
answers or refuses first: only one that hangs lets the broker wait. Compiled brokers cannot be
copied.
"""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from typing import Any, Final

from kraftwreck.checkers.kraft.limits import HANDED_OVER_US
from kraftwreck.nodes.broker.broker import Broker
from kraftwreck.nodes.broker.lifecycle import Life
from kraftwreck.nodes.consensus.effects import SendApi
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.node import Node
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.network import Rpc
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.api_message import ApiMessage
from kraftwreck.systems.kraft.simulated.handover_watch import KINDS, waits_for
from kraftwreck.systems.kraft.simulated.proposal_outcomes import ALTER
from kraftwreck.systems.kraft.simulated.replica_copies import INTERPRETED, MOVED

MOST: Final = 2
"""How many requests of each kind are judged in a run."""
ANOTHER: Final = 1 << 20
"""The id of a controller that no run has."""


class HandoverRehearsal:
    """Judges the brokers of ``world`` that have just asked the controller."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._judged: Counter[str] = Counter()
        if INTERPRETED:
            world.wires.on_ask.append(self._on_ask)

    def _on_ask(self, host: Host, rpc: Rpc) -> None:
        message, node = rpc.message, host.node
        if type(message) is not ApiMessage or message.api not in KINDS:
            return
        if self._judged[message.api] >= MOST or not isinstance(node, Node) or node.broker is None:
            return
        if node.broker.state is Life.STOPPED:
            return
        self._judged[message.api] += 1
        mono, wall = host.clock.both(self._world.now)
        if not turns(node.broker, node.image, message, mono, wall // 1000):
            self._failures.add(
                "F11",
                self._world.now,
                f"{host.name} would still wait for {message.api} at node {rpc.named} once it has"
                f" known another controller for {HANDED_OVER_US / 1_000_000:.3f} s",
            )


class _Replaced:
    """The quorum once a controller leads it that has just been elected."""

    def __init__(self, quorum: Any) -> None:
        self._quorum = quorum
        self.leader_id = ANOTHER
        self.leader_endpoint: Endpoint = MOVED

    def __getattr__(self, name: str) -> Any:
        return getattr(self._quorum, name)


def turns(broker: Broker, image: Any, message: ApiMessage, now: int, wall_ms: int) -> bool:
    """Return whether a copy of ``broker`` sends ``message`` to a new controller in time."""
    quorum = vars(broker)["_quorum"]
    memo = {id(image): image, id(quorum): _Replaced(quorum)}
    copy = deepcopy(broker, memo)
    end = now + HANDED_OVER_US
    while True:
        copy.tick(now, wall_ms)
        sent = [each for each in copy.take_effects() if isinstance(each, SendApi)]
        asked = {KINDS.get(each.api) for each in sent if each.destination == ANOTHER}
        if KINDS[message.api] in asked:
            return True
        if now >= end:
            break
        now = min(max(copy.deadline, now + 1), end)
    if message.api != ALTER or copy.data is None:
        return False
    return not waits_for(message, copy.data.core.partitions)

"""Lets copies of nodes without a leader look for one, many times over (F23).

A node that knows no leader, or gets no answer from it, asks a random member or bootstrap server
(KIP-595). If it always asked the same one first, it would learn nothing for as long as that one is
apart from the leader. Runs have few such requests in a row. So a copy of such a node stays in its
state and sends hundreds, without an answer to any of them. Compiled nodes cannot be copied.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Final

from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.consensus.effects import Send
from kraftwreck.nodes.consensus.kraft import poll
from kraftwreck.nodes.consensus.kraft.replica import Replica
from kraftwreck.nodes.consensus.kraft.states import NEVER, Unattached
from kraftwreck.nodes.node import Node
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.replica_copies import INTERPRETED, is_short

MOST: Final = 4
"""How many nodes of a run are judged."""
TIMES: Final = 400
"""Requests of a copy: by chance it leaves out one of ten nodes in one of 10^18 cases."""
PAUSE_US: Final = 137_000
"""The time between two of them."""


class ProbeRehearsal:
    """Judges the nodes of ``world`` that know no leader."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._left = MOST
        if INTERPRETED:
            world.on_trace.append(self._on_trace)

    @rule(
        "F23",
        "ProbesAreFair",
        "A node that knows no leader may ask each of the nodes next that it can ask: members of "
        "the quorum and bootstrap servers.",
        simulated=True,
    )
    def _on_trace(self, host: Host, event: TraceEvent) -> None:
        node = host.node
        if event.kind != "state" or event.state != "unattached" or not isinstance(node, Node):
            return
        replica = node.replica
        if not self._left or not isinstance(replica.state, Unattached) or not is_short(replica):
            return
        self._left -= 1
        never = sorted(set(may_ask(replica)) - asked(replica))
        if never:
            self._failures.add(
                "F23",
                self._world.now,
                f"{host.name} knows no leader of epoch {event.epoch}, and would send {TIMES}"
                f" requests without one to {never}",
                event,
            )


def may_ask(replica: Replica) -> list[int]:
    """Return the other members of the quorum and the bootstrap servers, by destination."""
    return [each for each in replica.bootstrap_ids() if replica.endpoint_of(each) is not None]


def asked(replica: Replica) -> set[int]:
    """Return the nodes to which a copy of ``replica`` sends requests while it knows no leader."""
    copy = deepcopy(replica)
    copy.state = Unattached(NEVER)
    found: set[int] = set()
    for _ in range(TIMES):
        copy.now += PAUSE_US
        copy.links.clear()
        copy.effects = []
        poll.poll(copy)
        found.update(each.destination for each in copy.effects if isinstance(each, Send))
    return found

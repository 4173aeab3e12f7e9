"""Faults by role: on the leader of the quorum, and on the broker that leads most partitions.

The metadata leader elects partition leaders by the heartbeats it receives. If a cut isolates it
together with the most important broker, or runs between the two, its decisions differ most from
what other nodes see. If both are killed, paused or slow at once, the next leader has no knowledge
of the broker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kraftwreck.harness.environment import Grudge
from kraftwreck.histories.disturbance import Disturbance
from kraftwreck.nemesis.network import slow
from kraftwreck.nemesis.partitions import Build, cut_link, isolate, leader_first, shuffled, union


def nobody(nodes: Sequence[str], targets: tuple[str, ...]) -> Grudge:
    """Cut no link."""
    return {}


@dataclass(frozen=True, slots=True)
class RoleShape:
    """One shape; ``least`` nodes, with a broker among them. Its targets are the leader of the
    quorum, unless it is ``alone``, and the broker that leads most partitions."""

    weight: int
    least: int
    grudge: Build = nobody
    alone: bool = False
    between: bool = False
    """For delays: whether only the link between the two is slow."""

    def pick(self, nodes: Sequence[str], draw: int, leader: str | None) -> tuple[str, ...]:
        """Return the leader and any other node, since the brokers are not known here."""
        return tuple(leader_first(nodes, draw, leader)[:2])

    def targets(
        self,
        controllers: Sequence[str],
        brokers: Sequence[str],
        draw: int,
        leader: str | None,
        busiest: str | None,
    ) -> tuple[str, ...]:
        """Return the targets; any nodes while the leaders are not known."""
        chosen = shuffled(brokers, draw)[0]
        if busiest is not None and busiest in brokers:
            chosen = busiest
        if self.alone:
            return (chosen,)
        return leader_first(controllers, draw, leader)[0], chosen

    def disturbances(
        self, nodes: Sequence[str], targets: tuple[str, ...], number: int
    ) -> list[Disturbance]:
        """Return the delays of messages from and to the targets."""
        first = targets[:1] if self.between else targets
        rest = targets[1:] if self.between else tuple(n for n in nodes if n not in targets)
        effects = slow(number)
        return [
            Disturbance(senders=first, receivers=rest, **effects),
            Disturbance(senders=rest, receivers=first, **effects),
        ]


def apart(nodes: Sequence[str], targets: tuple[str, ...]) -> Grudge:
    """Cut each of ``targets`` off from all nodes, including each other."""
    return union([isolate(nodes, (target,)) for target in targets], tuple(nodes))


ROLES: dict[str, RoleShape] = {
    "leader-with-busiest": RoleShape(40, 3, isolate),
    "leader-from-busiest": RoleShape(30, 3, cut_link),
    "leader-and-busiest": RoleShape(15, 3, apart),
    "busiest": RoleShape(15, 2, isolate, alone=True),
}
"""``with``: both are on one side, connected; ``from``: the link between them is cut; ``and``: each
is alone."""

ROLE_KILLS: dict[str, RoleShape] = {"leader-and-busiest": RoleShape(1, 2)}
ROLE_PAUSES: dict[str, RoleShape] = {"leader-and-busiest": RoleShape(1, 2)}
ROLE_DELAYS: dict[str, RoleShape] = {
    "leader-and-busiest": RoleShape(60, 3),
    "leader-from-busiest": RoleShape(40, 2, between=True),
}
"""``and``: all messages of both are slow; ``from``: only those between them."""

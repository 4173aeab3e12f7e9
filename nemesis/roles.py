"""Faults by what nodes are to each other: who leads the quorum, and who leads most partitions.

The metadata leader decides who leads partitions by the heartbeats it hears: a cut that it shares
with the broker that matters most, or one that runs between just these two, is where a decision
and what others see differ most. Where both end, stop or are slow at once, the next leader has
to find out about the broker what the last one knew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.environment import Grudge
from histories.disturbance import Disturbance
from nemesis.network import slow
from nemesis.partitions import Build, cut_link, isolate, leader_first, shuffled, union


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
    """Whether only the link between the two is slow, where messages are."""

    def pick(self, nodes: Sequence[str], draw: int, leader: str | None) -> tuple[str, ...]:
        """Return the leader and any other node: who knows no brokers can do no better."""
        return tuple(leader_first(nodes, draw, leader)[:2])

    def targets(
        self,
        controllers: Sequence[str],
        brokers: Sequence[str],
        draw: int,
        leader: str | None,
        busiest: str | None,
    ) -> tuple[str, ...]:
        """Return whom it hits; any of them while it is not known who leads what."""
        chosen = shuffled(brokers, draw)[0]
        if busiest is not None and busiest in brokers:
            chosen = busiest
        if self.alone:
            return (chosen,)
        return leader_first(controllers, draw, leader)[0], chosen

    def disturbances(
        self, nodes: Sequence[str], targets: tuple[str, ...], number: int
    ) -> list[Disturbance]:
        """Return by what messages from and to the targets are slow."""
        first = targets[:1] if self.between else targets
        rest = targets[1:] if self.between else tuple(n for n in nodes if n not in targets)
        effects = slow(number)
        return [
            Disturbance(senders=first, receivers=rest, **effects),
            Disturbance(senders=rest, receivers=first, **effects),
        ]


def apart(nodes: Sequence[str], targets: tuple[str, ...]) -> Grudge:
    """Cut each of ``targets`` off from everybody, the other one too."""
    return union([isolate(nodes, (target,)) for target in targets], tuple(nodes))


ROLES: dict[str, RoleShape] = {
    "leader-with-busiest": RoleShape(40, 3, isolate),
    "leader-from-busiest": RoleShape(30, 3, cut_link),
    "leader-and-busiest": RoleShape(15, 3, apart),
    "busiest": RoleShape(15, 2, isolate, alone=True),
}
"""``with``: both on one side, and they see each other; ``from``: the link between them is cut;
``and``: each is alone."""

ROLE_KILLS: dict[str, RoleShape] = {"leader-and-busiest": RoleShape(1, 2)}
ROLE_PAUSES: dict[str, RoleShape] = {"leader-and-busiest": RoleShape(1, 2)}
ROLE_DELAYS: dict[str, RoleShape] = {
    "leader-and-busiest": RoleShape(60, 3),
    "leader-from-busiest": RoleShape(40, 2, between=True),
}
"""``and``: all that both say and hear takes longer; ``from``: what they tell each other."""

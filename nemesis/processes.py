"""Whom a kill, a stop or a pause hits. Source: jepsen.nemesis.combined's node specs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nemesis.partitions import Pick, pick_leader, pick_minority, pick_one, pick_ring, shuffled


@dataclass(frozen=True, slots=True)
class ProcessShape:
    """One choice of victims. ``least`` is the number of nodes it needs to mean anything.

    With ``of_brokers`` it picks among the nodes that are brokers only.
    """

    weight: int
    least: int
    pick: Pick
    of_brokers: bool = False


def pick_majority(nodes: Sequence[str], draw: int, leader: str | None) -> tuple[str, ...]:
    """The smallest majority, of any nodes."""
    return tuple(shuffled(nodes, draw)[: len(nodes) // 2 + 1])


KILLS: dict[str, ProcessShape] = {
    "leader": ProcessShape(35, 1, pick_leader),
    "one": ProcessShape(40, 1, pick_one),
    "minority": ProcessShape(15, 3, pick_minority),
    "majority": ProcessShape(5, 3, pick_majority),
    "all": ProcessShape(10, 2, pick_ring),
    "broker": ProcessShape(20, 2, pick_one, of_brokers=True),
    "brokers": ProcessShape(10, 2, pick_ring, of_brokers=True),
}
"""``all`` picks every node in a drawn order: only what was synced to disk survives."""

PAUSES: dict[str, ProcessShape] = {
    "leader": ProcessShape(40, 1, pick_leader),
    "one": ProcessShape(40, 1, pick_one),
    "minority": ProcessShape(15, 3, pick_minority),
    "majority": ProcessShape(3, 3, pick_majority),
    "all": ProcessShape(2, 2, pick_ring),
    "broker": ProcessShape(20, 2, pick_one, of_brokers=True),
    "brokers": ProcessShape(10, 2, pick_ring, of_brokers=True),
}
"""Seldom all: a cluster that is wholly stopped does nothing, until all its timers have expired."""

TERMINATIONS: dict[str, ProcessShape] = {
    "leader": ProcessShape(35, 1, pick_leader),
    "one": ProcessShape(30, 1, pick_one),
    "minority": ProcessShape(10, 3, pick_minority),
    "all": ProcessShape(5, 2, pick_ring),
    "broker": ProcessShape(30, 2, pick_one, of_brokers=True),
    "brokers": ProcessShape(10, 2, pick_ring, of_brokers=True),
}
"""Often one that has something to hand over: a leader to the voters, a broker its partitions."""

POWER: dict[str, ProcessShape] = {
    "leader": ProcessShape(25, 1, pick_leader),
    "one": ProcessShape(30, 1, pick_one),
    "minority": ProcessShape(15, 3, pick_minority),
    "majority": ProcessShape(5, 3, pick_majority),
    "all": ProcessShape(30, 2, pick_ring),
    "broker": ProcessShape(15, 2, pick_one, of_brokers=True),
}
"""Often all: that everybody loses what was not flushed is what quorums survive by flushing."""

HOSTS: dict[str, ProcessShape] = {
    "leader": ProcessShape(30, 1, pick_leader),
    "one": ProcessShape(35, 1, pick_one),
    "minority": ProcessShape(15, 3, pick_minority),
    "all": ProcessShape(5, 2, pick_ring),
    "broker": ProcessShape(15, 2, pick_one, of_brokers=True),
}
"""Machines that crash, with their network: peers hear nothing, not even that a port is closed."""

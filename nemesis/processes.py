"""Targets of kills, stops and pauses. Source: jepsen.nemesis.combined's node specs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kraftwreck.nemesis.partitions import (
    Pick,
    pick_leader,
    pick_minority,
    pick_one,
    pick_ring,
    shuffled,
)


@dataclass(frozen=True, slots=True)
class ProcessShape:
    """One choice of targets. ``least`` is the number of nodes it needs.

    With ``of_brokers`` it picks among the nodes that are only brokers.
    """

    weight: int
    least: int
    pick: Pick
    of_brokers: bool = False


def pick_majority(nodes: Sequence[str], draw: int, leader: str | None) -> tuple[str, ...]:
    """Pick the smallest majority, of any nodes."""
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
"""``all`` picks every node in a random order: only data synced to disk survives."""

PAUSES: dict[str, ProcessShape] = {
    "leader": ProcessShape(40, 1, pick_leader),
    "one": ProcessShape(40, 1, pick_one),
    "minority": ProcessShape(15, 3, pick_minority),
    "majority": ProcessShape(3, 3, pick_majority),
    "all": ProcessShape(2, 2, pick_ring),
    "broker": ProcessShape(20, 2, pick_one, of_brokers=True),
    "brokers": ProcessShape(10, 2, pick_ring, of_brokers=True),
}
"""``all`` is rare: a completely paused cluster only waits until all its timers expire."""

TERMINATIONS: dict[str, ProcessShape] = {
    "leader": ProcessShape(35, 1, pick_leader),
    "one": ProcessShape(30, 1, pick_one),
    "minority": ProcessShape(10, 3, pick_minority),
    "all": ProcessShape(5, 2, pick_ring),
    "broker": ProcessShape(30, 2, pick_one, of_brokers=True),
    "brokers": ProcessShape(10, 2, pick_ring, of_brokers=True),
}
"""Targets often have something to hand over: a leader its role, a broker its partitions."""

POWER: dict[str, ProcessShape] = {
    "leader": ProcessShape(25, 1, pick_leader),
    "one": ProcessShape(30, 1, pick_one),
    "minority": ProcessShape(15, 3, pick_minority),
    "majority": ProcessShape(5, 3, pick_majority),
    "all": ProcessShape(30, 2, pick_ring),
    "broker": ProcessShape(15, 2, pick_one, of_brokers=True),
}
"""``all`` is frequent: quorums survive the loss of all unflushed data because they flush."""

HOSTS: dict[str, ProcessShape] = {
    "leader": ProcessShape(30, 1, pick_leader),
    "one": ProcessShape(35, 1, pick_one),
    "minority": ProcessShape(15, 3, pick_minority),
    "all": ProcessShape(5, 2, pick_ring),
    "broker": ProcessShape(15, 2, pick_one, of_brokers=True),
}
"""Machines crash with their network: peers get no reply, not even a closed port."""

"""Whom a kill or a pause hits. Source: jepsen.nemesis.combined's node specs."""

from __future__ import annotations

from dataclasses import dataclass

from nemesis.partitions import Pick, pick_leader, pick_minority, pick_one, pick_ring


@dataclass(frozen=True, slots=True)
class ProcessShape:
    """One choice of victims. ``least`` is the number of nodes it needs to mean anything.

    With ``of_brokers`` it picks among the nodes that are brokers only.
    """

    weight: int
    least: int
    pick: Pick
    of_brokers: bool = False


KILLS: dict[str, ProcessShape] = {
    "leader": ProcessShape(35, 1, pick_leader),
    "one": ProcessShape(40, 1, pick_one),
    "minority": ProcessShape(15, 3, pick_minority),
    "all": ProcessShape(10, 2, pick_ring),
    "broker": ProcessShape(20, 2, pick_one, of_brokers=True),
    "brokers": ProcessShape(10, 2, pick_ring, of_brokers=True),
}
"""``all`` picks every node in a drawn order: only what was synced to disk survives."""

PAUSES: dict[str, ProcessShape] = {
    "leader": ProcessShape(40, 1, pick_leader),
    "one": ProcessShape(40, 1, pick_one),
    "minority": ProcessShape(20, 3, pick_minority),
    "broker": ProcessShape(20, 2, pick_one, of_brokers=True),
    "brokers": ProcessShape(10, 2, pick_ring, of_brokers=True),
}
"""Never all: a cluster that is wholly stopped does nothing worth watching."""

POWER: dict[str, ProcessShape] = {
    "leader": ProcessShape(25, 1, pick_leader),
    "one": ProcessShape(30, 1, pick_one),
    "minority": ProcessShape(15, 3, pick_minority),
    "all": ProcessShape(30, 2, pick_ring),
    "broker": ProcessShape(15, 2, pick_one, of_brokers=True),
}
"""Often all: that everybody loses what was not flushed is what quorums survive by flushing."""

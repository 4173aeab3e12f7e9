"""Restarts in every order: one node after the other, all together, or with an upgrade.

Operators do this every week: they stop, perhaps upgrade, and start one node after the other. The
leader comes last, as documentation advises, or nodes go in order of names, as scripts do it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kraftwreck.nemesis.partitions import Pick, leader_first, pick_leader

How = Literal["stop", "kill"]


@dataclass(frozen=True, slots=True)
class RestartShape:
    """One shape; ``pick`` returns the nodes to restart, in order.

    ``how``: stop them with SIGTERM, or kill them. ``together``: stop all before the first one
    starts. ``upgrade``: start each with the other version of the code.
    """

    weight: int
    least: int
    pick: Pick
    how: How = "stop"
    together: bool = False
    upgrade: bool = False


def in_order(nodes: Sequence[str], draw: int, leader: str | None) -> tuple[str, ...]:
    """Return all nodes, by id."""
    return tuple(nodes)


def backwards(nodes: Sequence[str], draw: int, leader: str | None) -> tuple[str, ...]:
    """Return all nodes, the greatest id first."""
    return tuple(reversed(nodes))


def leader_begins(nodes: Sequence[str], draw: int, leader: str | None) -> tuple[str, ...]:
    """Return all nodes, the leader first."""
    return tuple(leader_first(nodes, draw, leader))


def leader_ends(nodes: Sequence[str], draw: int, leader: str | None) -> tuple[str, ...]:
    """Return all nodes, the leader last."""
    first, *rest = leader_first(nodes, draw, leader)
    return (*rest, first)


RESTARTS: dict[str, RestartShape] = {
    "rolling": RestartShape(25, 2, leader_ends),
    "rolling-leader-first": RestartShape(10, 2, leader_begins),
    "rolling-in-order": RestartShape(10, 2, in_order),
    "rolling-backwards": RestartShape(10, 2, backwards),
    "rolling-kill": RestartShape(10, 2, leader_ends, how="kill"),
    "bounce-leader": RestartShape(10, 1, pick_leader, how="kill"),
    "together": RestartShape(5, 2, in_order, together=True),
    "together-backwards": RestartShape(5, 2, backwards, how="kill", together=True),
    "upgrade": RestartShape(15, 1, leader_ends, upgrade=True),
}
"""``bounce-leader``: a fast restart is over before any timeout of a follower expires."""

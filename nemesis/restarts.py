"""Restarts in every order: one after the other, all together, and into another version.

What operators do every week: a node after the other is stopped, perhaps upgraded, and started,
the leader last as documentation has it, or in the order of names as scripts have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from nemesis.partitions import Pick, leader_first, pick_leader

How = Literal["stop", "kill"]


@dataclass(frozen=True, slots=True)
class RestartShape:
    """One shape; ``pick`` returns whom it restarts, in order.

    ``how`` they end: asked to (SIGTERM), or not. ``together``: all are down before the first one
    is started. ``upgrade``: each starts with the other version of the code.
    """

    weight: int
    least: int
    pick: Pick
    how: How = "stop"
    together: bool = False
    upgrade: bool = False


def in_order(nodes: Sequence[str], draw: int, leader: str | None) -> tuple[str, ...]:
    """All nodes, by id."""
    return tuple(nodes)


def backwards(nodes: Sequence[str], draw: int, leader: str | None) -> tuple[str, ...]:
    """All nodes, the greatest id first."""
    return tuple(reversed(nodes))


def leader_begins(nodes: Sequence[str], draw: int, leader: str | None) -> tuple[str, ...]:
    """All nodes, the leader first."""
    return tuple(leader_first(nodes, draw, leader))


def leader_ends(nodes: Sequence[str], draw: int, leader: str | None) -> tuple[str, ...]:
    """All nodes, the leader last."""
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
"""``bounce-leader`` is back before anybody's time-out has expired, if it starts fast enough."""

"""Shapes of faults: which nodes they hit, as pure functions of a draw.

Sources: jepsen.nemesis.combined's node specs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kraftwreck.nodes.draw import draw_below

Pick = Callable[[Sequence[str], int, str | None], tuple[str, ...]]
"""Chooses targets: (names, draw, leader if known) to targets."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One form of a fault; families with more settings have subclasses.

    ``weight`` is its relative frequency, ``least`` the number of nodes it needs, and ``pick``
    chooses the targets. With ``role`` it picks among the nodes that have only this role. ``most``
    says that it stops all or most nodes. ``features`` are the capabilities or parts of them, by
    name, that it needs in addition to its family.
    """

    weight: int
    least: int
    pick: Pick
    role: str | None = field(default=None, kw_only=True)
    most: bool = field(default=False, kw_only=True)
    features: frozenset[str] = field(default=frozenset(), kw_only=True)


def shuffled(nodes: Sequence[str], draw: int) -> list[str]:
    """Return ``nodes`` in the order that ``draw`` determines."""
    rest, order = list(nodes), []
    while rest:
        order.append(rest.pop(draw_below(len(rest), draw, "shuffle", len(rest))))
    return order


def leader_first(nodes: Sequence[str], draw: int, leader: str | None) -> list[str]:
    """Return ``nodes`` shuffled, with the leader (if known) first."""
    order = shuffled(nodes, draw)
    if leader in order:
        order.remove(leader)
        order.insert(0, leader)
    return order


def pick_one(nodes: Sequence[str], draw: int, leader: str | None) -> tuple[str, ...]:
    """Pick any node."""
    return (shuffled(nodes, draw)[0],)


def pick_leader(nodes: Sequence[str], draw: int, leader: str | None) -> tuple[str, ...]:
    """Pick the leader, or any node while none is known."""
    return (leader_first(nodes, draw, leader)[0],)


def pick_minority(nodes: Sequence[str], draw: int, leader: str | None) -> tuple[str, ...]:
    """Pick the largest minority, of any nodes."""
    return tuple(shuffled(nodes, draw)[: (len(nodes) - 1) // 2 or 1])


def pick_ring(nodes: Sequence[str], draw: int, leader: str | None) -> tuple[str, ...]:
    """Pick all nodes, in ring order."""
    return tuple(shuffled(nodes, draw))


def pick_majority(nodes: Sequence[str], draw: int, leader: str | None) -> tuple[str, ...]:
    """Pick the smallest majority, of any nodes."""
    return tuple(shuffled(nodes, draw)[: len(nodes) // 2 + 1])

"""Shapes of network partitions, as pure functions.

Every shape has two steps, so that a replay may name the targets itself: ``pick`` chooses the
targets (nodes, draw, leader → targets), and ``grudge`` determines which node drops packets from
which others (nodes, targets → :data:`~harness.environment.Grudge`). Sources: jepsen.nemesis
(``split-one``, ``bisect``, ``bridge``, ``majorities-ring``) and jepsen.nemesis.combined
(``:minority-third``). One-way and single-link cuts follow the partial partitions in "An Analysis
of Network-Partitioning Failures in Cloud Systems" (OSDI 2018).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations

from kraftwreck.harness.environment import Grudge
from kraftwreck.nemesis.cuts import Links, pattern_of
from kraftwreck.nodes.draw import draw_below

MOST_LINKED = 5
"""Shapes of single links choose among the first nodes, at most this many: the controllers."""

Pick = Callable[[Sequence[str], int, str | None], tuple[str, ...]]
Build = Callable[[Sequence[str], tuple[str, ...]], Grudge]


@dataclass(frozen=True, slots=True)
class PartitionShape:
    """One shape. ``least`` is the number of nodes it needs.

    With ``of_brokers`` it picks among the nodes that are only brokers.
    """

    weight: int
    least: int
    pick: Pick
    grudge: Build
    of_brokers: bool = False


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


# --- targets ----------------------------------------------------------------------------


def pick_one(nodes: Sequence[str], draw: int, leader: str | None) -> tuple[str, ...]:
    """Pick any node."""
    return (shuffled(nodes, draw)[0],)


def pick_leader(nodes: Sequence[str], draw: int, leader: str | None) -> tuple[str, ...]:
    """Pick the leader, or any node while none is known."""
    return (leader_first(nodes, draw, leader)[0],)


def pick_minority(nodes: Sequence[str], draw: int, leader: str | None) -> tuple[str, ...]:
    """Pick the largest minority, of any nodes."""
    return tuple(shuffled(nodes, draw)[: (len(nodes) - 1) // 2 or 1])


def pick_leader_side(nodes: Sequence[str], draw: int, leader: str | None) -> tuple[str, ...]:
    """Pick the leader and, if possible, some others, together less than a majority."""
    others = len(nodes) // 2 - 1
    count = 2 + draw_below(others, draw, "side") if others > 0 else 1
    return tuple(leader_first(nodes, draw, leader)[:count])


def pick_minority_third(nodes: Sequence[str], draw: int, leader: str | None) -> tuple[str, ...]:
    """Pick fewer than a third of the nodes (at least one)."""
    return tuple(shuffled(nodes, draw)[: (len(nodes) - 1) // 3 or 1])


def pick_bridge(nodes: Sequence[str], draw: int, leader: str | None) -> tuple[str, ...]:
    """Pick the bridge, then the nodes on one side of it."""
    order = shuffled(nodes, draw)
    return tuple(order[: 1 + (len(nodes) - 1) // 2])


def pick_ring(nodes: Sequence[str], draw: int, leader: str | None) -> tuple[str, ...]:
    """Pick all nodes, in ring order."""
    return tuple(shuffled(nodes, draw))


def pick_link(nodes: Sequence[str], draw: int, leader: str | None) -> tuple[str, ...]:
    """Pick the leader and one other node."""
    return tuple(leader_first(nodes, draw, leader)[:2])


def pick_pair(nodes: Sequence[str], draw: int, leader: str | None) -> tuple[str, ...]:
    """Pick a sender and a receiver."""
    return tuple(shuffled(nodes, draw)[:2])


def pick_links(nodes: Sequence[str], draw: int, leader: str | None) -> tuple[str, ...]:
    """Pick the ends of the links of a pattern (:func:`nemesis.cuts.pattern_of`), in pairs."""
    order = leader_first(nodes[:MOST_LINKED], draw, leader)
    return _flat(order, pattern_of(draw, len(order)))


def pick_one_ways(nodes: Sequence[str], draw: int, leader: str | None) -> tuple[str, ...]:
    """Pick pairs of senders and receivers, a few or about half of all pairs."""
    order = leader_first(nodes[:MOST_LINKED], draw, leader)
    pairs = list(permutations(range(len(order)), 2))
    percent = (15, 30, 50)[draw_below(3, draw, "one-ways")]
    cut = [pair for pair in pairs if draw_below(100, draw, "one-way", *pair) < percent]
    return _flat(order, frozenset(cut or pairs[:1]))


def _flat(order: Sequence[str], links: Links) -> tuple[str, ...]:
    return tuple(order[end] for link in sorted(links) for end in link)


# --- grudges ----------------------------------------------------------------------------


def isolate(nodes: Sequence[str], targets: tuple[str, ...]) -> Grudge:
    """Cut ``targets`` off from the others, both ways; the links among them stay."""
    inside = frozenset(targets)
    outside = frozenset(nodes) - inside
    return {node: outside if node in inside else inside for node in nodes}


def bridge(nodes: Sequence[str], targets: tuple[str, ...]) -> Grudge:
    """Split the nodes into two sides that are connected only through the first target."""
    middle, side = targets[0], frozenset(targets[1:])
    other = frozenset(nodes) - side - {middle}
    grudge = {node: other if node in side else side for node in nodes}
    grudge[middle] = frozenset()
    return grudge


def ring(nodes: Sequence[str], targets: tuple[str, ...]) -> Grudge:
    """Connect every node to a majority, such that no two nodes have the same one."""
    count = len(targets)
    majority = count // 2 + 1
    grudge = {}
    for place, node in enumerate(targets):
        first = place - majority // 2
        seen = {targets[(first + step) % count] for step in range(majority)}
        grudge[node] = frozenset(nodes) - seen
    return grudge


def cut_link(nodes: Sequence[str], targets: tuple[str, ...]) -> Grudge:
    """Cut one link, both ways."""
    left, right = targets
    return _only(nodes, {left: {right}, right: {left}})


def one_way(nodes: Sequence[str], targets: tuple[str, ...]) -> Grudge:
    """Drop packets from the first target at the second."""
    sender, receiver = targets
    return _only(nodes, {receiver: {sender}})


def cut_links(nodes: Sequence[str], targets: tuple[str, ...]) -> Grudge:
    """Cut the links between the pairs of targets, both ways."""
    held: dict[str, set[str]] = {}
    for left, right in zip(targets[::2], targets[1::2], strict=True):
        held.setdefault(left, set()).add(right)
        held.setdefault(right, set()).add(left)
    return _only(nodes, held)


def one_ways(nodes: Sequence[str], targets: tuple[str, ...]) -> Grudge:
    """Drop packets from the first target of each pair at the second."""
    held: dict[str, set[str]] = {}
    for sender, receiver in zip(targets[::2], targets[1::2], strict=True):
        held.setdefault(receiver, set()).add(sender)
    return _only(nodes, held)


def from_target(nodes: Sequence[str], targets: tuple[str, ...]) -> Grudge:
    """Drop all packets from the target; it still receives packets."""
    mute = frozenset(targets)
    return {node: mute - {node} for node in nodes}


def to_target(nodes: Sequence[str], targets: tuple[str, ...]) -> Grudge:
    """Drop all packets to the target; the others still receive its packets."""
    deaf = frozenset(targets)
    return {node: frozenset(nodes) - {node} if node in deaf else frozenset() for node in nodes}


def _only(nodes: Sequence[str], held: dict[str, set[str]]) -> Grudge:
    return {node: frozenset(held.get(node, ())) for node in nodes}


PARTITIONS: dict[str, PartitionShape] = {
    "leader": PartitionShape(30, 2, pick_leader, isolate),
    "one": PartitionShape(30, 2, pick_one, isolate),
    "bridge": PartitionShape(5, 3, pick_bridge, bridge),
    "ring": PartitionShape(5, 4, pick_ring, ring),
    "link": PartitionShape(4, 3, pick_link, cut_link),
    "links": PartitionShape(6, 3, pick_links, cut_links),
    "one-way": PartitionShape(2, 2, pick_pair, one_way),
    "one-ways": PartitionShape(2, 3, pick_one_ways, one_ways),
    "from-leader": PartitionShape(3, 2, pick_leader, from_target),
    "to-leader": PartitionShape(3, 2, pick_leader, to_target),
    "halves": PartitionShape(4, 3, pick_minority, isolate),
    "leader-side": PartitionShape(3, 4, pick_leader_side, isolate),
    "minority-third": PartitionShape(3, 3, pick_minority_third, isolate),
    "broker": PartitionShape(20, 2, pick_one, isolate, of_brokers=True),
    "mute-broker": PartitionShape(5, 2, pick_one, from_target, of_brokers=True),
}
"""Weights in percent without brokers: 60 for one isolated node (half of them the leader), 20
partial, 10 one-way, 10 wider; these are the proportions of published partition failures (OSDI
2018)."""


def partition(
    shape: str, nodes: Sequence[str], draw: int, leader: str | None
) -> tuple[tuple[str, ...], Grudge]:
    """Return the targets of the partition ``shape``, and its grudge."""
    known = PARTITIONS[shape]
    targets = known.pick(nodes, draw, leader)
    return targets, known.grudge(nodes, targets)


def union(grudges: Sequence[Grudge], nodes: Sequence[str]) -> Grudge:
    """Return the union of ``grudges``."""
    return {
        node: frozenset().union(*(grudge.get(node, frozenset()) for grudge in grudges))
        for node in nodes
    }

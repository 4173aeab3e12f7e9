"""Network partitions: shapes as pure functions, and the family.

Every shape has two steps, so that a replay may name the targets itself: ``pick`` chooses the
targets (nodes, draw, leader → targets), and ``grudge`` determines which node drops packets from
which others (nodes, targets → :data:`~harness.capabilities.Grudge`). Sources: jepsen.nemesis
(``split-one``, ``bisect``, ``bridge``, ``majorities-ring``) and jepsen.nemesis.combined
(``:minority-third``). One-way and single-link cuts follow the partial partitions in "An Analysis
of Network-Partitioning Failures in Cloud Systems" (OSDI 2018).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import ClassVar

from kraftwreck.harness.capabilities import PACKETS, Grudge
from kraftwreck.nemesis.cuts import Links, pattern_of
from kraftwreck.nemesis.family import Active, Aims, Effect, Family, FaultState, Needs, Shapes
from kraftwreck.nemesis.shapes import (
    Shape,
    leader_first,
    pick_leader,
    pick_minority,
    pick_one,
    pick_ring,
    shuffled,
)
from kraftwreck.nodes.draw import draw_below

MOST_LINKED = 5
"""Shapes of single links choose among the first nodes, at most this many."""

Build = Callable[[Sequence[str], tuple[str, ...]], Grudge]


@dataclass(frozen=True, slots=True)
class PartitionShape(Shape):
    """One shape; ``grudge`` determines which node drops packets from which others."""

    grudge: Build


# --- targets ----------------------------------------------------------------------------


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
}
"""Weights in percent: 60 for one isolated node (half of them the leader), 20
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


class Cuts(Effect):
    """The union of the partitions in force."""

    order = 1

    def __init__(self, state: FaultState) -> None:
        super().__init__(state)
        self.grudges: dict[Active, Grudge] = {}
        """The grudge of each partition in force."""
        self._cut = False

    def apply(self, active: Active) -> None:
        """Make the network drop what the partitions in force say, as ``active`` starts or ends."""
        env = self.state.env
        stopping = active not in self.grudges
        if self._cut and (stopping or not self._wanted()):
            # Heal first: this measures the dropped packets, and removes all old rules.
            self._cut = not active.call("heal", lambda: env[PACKETS].heal())
        if self._wanted():
            self._cut = True
            into = active.evidence if not stopping else active.evidence.setdefault("remaining", {})
            self._drop(active, into)

    def _wanted(self) -> list[Grudge]:
        return [grudge for grudge in self.grudges.values() if grudge]

    def _drop(self, active: Active, into: dict[str, object]) -> None:
        env = self.state.env
        wanted = union(self._wanted(), env.nodes)
        active.call("drop", lambda: env[PACKETS].drop(wanted), into)

    def renew(self, active: Active, nodes: Sequence[str], into: dict[str, object]) -> None:
        if self._wanted():
            self._drop(active, into)

    def remaining(self) -> set[str] | None:
        return set() if self._cut else None

    def heal(self, active: Active) -> None:
        if active.call("heal", lambda: self.state.env[PACKETS].heal()):
            self._cut = False


class Partition(Family):
    """Drops packets between nodes; simultaneous partitions cut the union of their links."""

    name = "partition"
    about = "drop packets between nodes"
    shapes: ClassVar[Shapes] = PARTITIONS
    needs: ClassVar[Needs] = (PACKETS,)
    aimed: ClassVar[Aims] = (
        ("one", ("@",)),
        ("one", ("@",)),
        ("one", ("@leader",)),
        ("leader", ()),
        ("halves", ()),
        ("leader-side", ()),
        ("link", ("@", "@leader")),
        ("one-way", ("@", "@leader")),
        ("one-way", ("@leader", "@")),
        ("to-leader", ("@",)),
        ("from-leader", ("@",)),
        ("bridge", ()),
        ("ring", ()),
        ("links", ()),
        ("one-ways", ()),
    )
    jepsen = ("one", "halves", "minority-third", "ring", "leader")

    @classmethod
    def describe(cls, shape: str, targets: str, duration: str) -> str:
        return f"{targets}: partition {shape}, for {duration}"

    def start(self, active: Active) -> None:
        cuts = self.state.effect(Cuts)
        grudge = self.grudge(active) if active.targets else {}
        cuts.grudges[active] = grudge
        active.detail["grudge"] = {node: sorted(held) for node, held in grudge.items()}
        cuts.apply(active)

    def grudge(self, active: Active) -> Grudge:
        """Return which node drops packets from which others."""
        shape = self.shapes[active.fault.shape]
        assert isinstance(shape, PartitionShape)
        return shape.grudge(self.state.env.nodes, active.targets)

    def stop(self, active: Active) -> None:
        cuts = self.state.effect(Cuts)
        if cuts.grudges.pop(active, None) is not None:
            cuts.apply(active)

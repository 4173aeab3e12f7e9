"""Faults by role: on the leader of the quorum, and on the broker that leads most partitions.

The metadata leader elects partition leaders by the heartbeats it receives. If a cut isolates it
together with the most important broker, or runs between the two, its decisions differ most from
what other nodes see. If both are killed, paused or slow at once, the next leader has no knowledge
of the broker. If followers cannot reach the most important broker, it may become the only in-sync
replica of its partitions; when it then dies, only replicas that lack its last records are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from kraftwreck.harness.capabilities import LOAD, PACKETS, PROCESSES, Grudge, host_of
from kraftwreck.histories.disturbance import Disturbance
from kraftwreck.nemesis.families.network import LINKS, Network, slow
from kraftwreck.nemesis.families.partitions import Build, Partition, cut_link, isolate, union
from kraftwreck.nemesis.families.processes import Kill, Pause, take
from kraftwreck.nemesis.family import Active, Aims, Family, Needs, Shapes
from kraftwreck.nemesis.shapes import Pick, Shape, leader_first, shuffled
from kraftwreck.systems.kraft.options import BROKER, CONTROLLER


def nobody(nodes: Sequence[str], targets: tuple[str, ...]) -> Grudge:
    """Cut no link."""
    return {}


def pick_leader_and_any(nodes: Sequence[str], draw: int, leader: str | None) -> tuple[str, ...]:
    """Pick the leader and any other node, since the brokers are not known here."""
    return tuple(leader_first(nodes, draw, leader)[:2])


@dataclass(frozen=True, slots=True)
class RoleShape(Shape):
    """One shape; ``least`` nodes, with a broker among them. Its targets are the leader of the
    quorum, unless it is ``alone``, and the broker that leads most partitions."""

    pick: Pick = field(default=pick_leader_and_any, init=False)
    grudge: Build = nobody
    alone: bool = False
    between: bool = False
    """For delays: whether only the link between the two is slow."""
    role: str | None = field(default=BROKER, kw_only=True)

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

ROLE_OUTRUNS: dict[str, RoleShape] = {"busiest": RoleShape(1, 3, alone=True)}


class _Roles(Family):
    """Chooses the leader and the broker that leads most partitions."""

    def candidates(self, active: Active) -> tuple[str, ...]:
        brokers = super().candidates(active)
        if brokers:
            active.detail["busiest"] = self.state.env[LOAD].busiest()
        return brokers

    def choose(self, active: Active, among: tuple[str, ...], leader: str | None) -> tuple[str, ...]:
        shape = self.shapes[active.fault.shape]
        assert isinstance(shape, RoleShape)
        controllers = self.state.env.roles[CONTROLLER]
        busiest = active.detail["busiest"]
        return shape.targets(controllers, among, active.fault.draw, leader, busiest)


class Roles(_Roles, Partition):
    """Partitions around the leader and the busiest broker."""

    name = "roles"
    about = "cut off the leader with or from the busiest broker"
    shapes: ClassVar[Shapes] = ROLES
    needs: ClassVar[Needs] = (LOAD, PACKETS)

    def grudge(self, active: Active) -> Grudge:
        shape = self.shapes[active.fault.shape]
        assert isinstance(shape, RoleShape)
        return shape.grudge(self.state.env.nodes, active.targets)


class RolesKill(_Roles, Kill):
    """Kills the leader and the busiest broker."""

    name = "roles-kill"
    about = "kill the leader and the busiest broker"
    shapes: ClassVar[Shapes] = ROLE_KILLS
    needs: ClassVar[Needs] = (LOAD, *Kill.needs)


class RolesPause(_Roles, Pause):
    """Pauses the leader and the busiest broker."""

    name = "roles-pause"
    about = "pause the leader and the busiest broker"
    shapes: ClassVar[Shapes] = ROLE_PAUSES
    needs: ClassVar[Needs] = (LOAD, *Pause.needs)


class RolesOutrun(_Roles, Partition):
    """Cuts the busiest broker off from the other brokers, and kills it when the cut ends.

    Controllers and clients still reach it, so it can shrink ISRs to itself. The followers are
    behind when it dies. It is started at once; its old session may still be valid.
    """

    name = "roles-outrun"
    about = "cut the busiest broker off from the other brokers, then kill it"
    shapes: ClassVar[Shapes] = ROLE_OUTRUNS
    needs: ClassVar[Needs] = (LOAD, PACKETS, PROCESSES)
    aimed: ClassVar[Aims] = ()
    keeps = "down"
    stops = True
    hits = "processes"

    @classmethod
    def describe(cls, shape: str, targets: str, duration: str) -> str:
        return f"{targets}: cut off from the other brokers for {duration}, then killed and started"

    def grudge(self, active: Active) -> Grudge:
        ahead = frozenset(map(host_of, active.targets))
        behind = frozenset(self.state.env.roles[BROKER]) - ahead
        return {**dict.fromkeys(ahead, behind), **dict.fromkeys(behind, ahead)}

    def stop(self, active: Active) -> None:
        # The followers must not fetch between the end of the cut and the kill.
        self.state.each(active, take(self.state, active), self.state.env[PROCESSES].kill)
        super().stop(active)


class RolesSlow(_Roles, Network):
    """Delays messages of the leader and the busiest broker."""

    name = "roles-slow"
    about = "slow down the leader and the busiest broker"
    shapes: ClassVar[Shapes] = ROLE_DELAYS
    needs: ClassVar[Needs] = (LOAD, *Network.needs)

    @classmethod
    def features(cls, shape: str) -> frozenset[str]:
        return frozenset({LINKS, *(each.name for each in cls.needs)})

    def disturbances(self, active: Active) -> list[Disturbance]:
        shape = self.shapes[active.fault.shape]
        assert isinstance(shape, RoleShape)
        return shape.disturbances(self.state.env.nodes, active.targets, active.fault.draw)

"""Fault families by name, ours and those of installed packages.

A package adds its own with an entry point of the group ``kraftwreck.nemeses`` that is a
:class:`Family`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Literal

from harness.environment import Grudge
from harness.options import OptionError
from nemesis.clocks import CLOCKS, ClockShape
from nemesis.disks import DISKS, STORAGE, DiskShape
from nemesis.membership import MEMBERSHIPS, MembershipShape
from nemesis.network import NETWORKS, NetworkShape
from nemesis.partitions import PARTITIONS, PartitionShape
from nemesis.processes import HOSTS, KILLS, PAUSES, POWER, TERMINATIONS, ProcessShape
from nemesis.restarts import RESTARTS, RestartShape
from nemesis.roles import ROLE_DELAYS, ROLE_KILLS, ROLE_PAUSES, ROLES, RoleShape
from nemesis.squeezes import SQUEEZES, SqueezeShape
from nemesis.wire import WIRES

Action = Literal[
    "cut",
    "kill",
    "terminate",
    "power",
    "pause",
    "members",
    "disturb",
    "clock",
    "disk",
    "squeeze",
    "restart",
    "host",
]
Shape = (
    PartitionShape
    | ProcessShape
    | MembershipShape
    | NetworkShape
    | ClockShape
    | DiskShape
    | SqueezeShape
    | RestartShape
    | RoleShape
)


@dataclass(frozen=True, slots=True)
class Family:
    """One kind of fault: what it does to a cluster, and the shapes it comes in.

    ``cut`` needs :class:`PartitionShape` or :class:`RoleShape` shapes, ``kill``,
    ``terminate``, ``power``, ``pause`` and ``host`` :class:`ProcessShape` ones, ``members``
    :class:`MembershipShape` ones, ``disturb`` :class:`NetworkShape` ones, ``clock``
    :class:`ClockShape` ones, ``disk`` :class:`DiskShape` ones, ``squeeze``
    :class:`SqueezeShape` ones, ``restart`` :class:`RestartShape` ones; ``kill``, ``pause`` and
    ``disturb`` take :class:`RoleShape` ones, too. What is ``only_on_hosts`` the simulator
    cannot do.
    """

    name: str
    about: str
    action: Action
    shapes: Mapping[str, Shape]
    only_on_hosts: bool = False

    def pick(
        self, shape: str, nodes: Sequence[str], draw: int, leader: str | None
    ) -> tuple[str, ...]:
        """Return whom a fault of ``shape`` hits."""
        return self.shapes[shape].pick(nodes, draw, leader)

    def usable(self, nodes: int, brokers: int) -> dict[str, Shape]:
        """Return the shapes that mean something in a cluster of so many, ``brokers`` of them
        brokers and no controllers."""
        return {
            name: shape
            for name, shape in self.shapes.items()
            if shape.least <= nodes and (brokers > 0 or not needs_brokers(shape))
        }

    def grudge(self, shape: str, nodes: Sequence[str], targets: tuple[str, ...]) -> Grudge:
        """Return who drops whose packets; nobody for kills and pauses."""
        known = self.shapes[shape]
        if isinstance(known, PartitionShape | RoleShape):
            return known.grudge(nodes, targets)
        return {}


def needs_brokers(shape: Shape | None) -> bool:
    """Whether a shape picks among nodes that are brokers only."""
    if isinstance(shape, PartitionShape | ProcessShape):
        return shape.of_brokers
    return isinstance(shape, RoleShape)


_OURS = (
    Family("partition", "nodes drop each other's packets", "cut", PARTITIONS),
    Family("kill", "kill -9 the process, start it again later", "kill", KILLS),
    Family(
        "terminate",
        "ask processes to end (SIGTERM), start them again later",
        "terminate",
        TERMINATIONS,
    ),
    Family("pause", "SIGSTOP the process, SIGCONT it later", "pause", PAUSES),
    Family("power", "cut the power: what was not flushed is lost", "power", POWER),
    Family("membership", "change the voters, replace machines", "members", MEMBERSHIPS),
    Family("network", "slow, lose, repeat and reorder messages", "disturb", NETWORKS),
    Family("wire", "spoil, hold back and refuse packets, on hosts", "disturb", WIRES, True),
    Family("clock", "put clocks ahead or back, let them drift", "clock", CLOCKS),
    Family("disk", "disks that are slow, full, broken, or change a bit", "disk", DISKS),
    Family(
        "squeeze",
        "little CPU, memory, files; out of memory; slow starts",
        "squeeze",
        SQUEEZES,
        True,
    ),
    Family("host", "machines crash and are booted later", "host", HOSTS, True),
    Family("restart", "restart nodes in order, perhaps upgraded", "restart", RESTARTS, True),
    Family("roles", "cut off the leader with or from the busiest broker", "cut", ROLES),
    Family("roles-kill", "kill the leader and the busiest broker", "kill", ROLE_KILLS),
    Family("roles-pause", "pause the leader and the busiest broker", "pause", ROLE_PAUSES),
    Family("roles-slow", "slow down the leader and the busiest broker", "disturb", ROLE_DELAYS),
    Family("storage", "disks that turn read-only, writes cut short", "disk", STORAGE),
)


@cache
def families() -> Mapping[str, Family]:
    """Return all families by name."""
    found = {family.name: family for family in _OURS}
    for point in entry_points(group="kraftwreck.nemeses"):
        family = point.load()
        found[family.name] = family
    return found


def parse(text: str) -> tuple[str, ...]:
    """Return the families of a comma list such as ``partition,kill``; ``none`` is empty.

    Raises :class:`OptionError` naming the known ones.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    if names == ["none"]:
        return ()
    for name in names:
        if name not in families():
            known = ", ".join([*sorted(families()), "none"])
            raise OptionError(f"unknown fault {name!r}; known faults: {known}")
    if not names:
        raise OptionError(f"no fault given; known faults: {', '.join(sorted(families()))}, none")
    return tuple(dict.fromkeys(names))


def check_static(names: Sequence[str]) -> None:
    """Raise :class:`OptionError` for a family among ``names`` that needs a dynamic quorum."""
    for name in names:
        if families()[name].action == "members":
            raise OptionError(f"the fault {name!r} changes voters: add --quorum dynamic")


def check_simulator(names: Sequence[str]) -> None:
    """Raise :class:`OptionError` for a family among ``names`` that the simulator cannot do."""
    for name in names:
        if families()[name].only_on_hosts:
            raise OptionError(f"the fault {name!r} works on real hosts only, such as -c netns")

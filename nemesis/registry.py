"""Fault families by name, built in and from installed packages.

A package adds a family with an entry point of the group ``kraftwreck.nemeses`` that is a
:class:`Family`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Literal

from kraftwreck.harness.environment import Grudge
from kraftwreck.harness.options import OptionError
from kraftwreck.nemesis.clocks import CLOCKS, ClockShape
from kraftwreck.nemesis.disks import DISKS, STORAGE, DiskShape
from kraftwreck.nemesis.membership import MEMBERSHIPS, MembershipShape
from kraftwreck.nemesis.network import NETWORKS, NetworkShape
from kraftwreck.nemesis.partitions import PARTITIONS, PartitionShape
from kraftwreck.nemesis.processes import HOSTS, KILLS, PAUSES, POWER, TERMINATIONS, ProcessShape
from kraftwreck.nemesis.restarts import RESTARTS, RestartShape
from kraftwreck.nemesis.roles import ROLE_DELAYS, ROLE_KILLS, ROLE_PAUSES, ROLES, RoleShape
from kraftwreck.nemesis.squeezes import SQUEEZES, SqueezeShape
from kraftwreck.nemesis.wire import WIRES

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
    """One kind of fault: its action on a cluster, and its shapes.

    The class of the shapes depends on the action:

    - ``cut``: :class:`PartitionShape` or :class:`RoleShape`
    - ``kill``, ``terminate``, ``power``, ``pause``, ``host``: :class:`ProcessShape`; ``kill`` and
      ``pause`` also :class:`RoleShape`
    - ``members``: :class:`MembershipShape`
    - ``disturb``: :class:`NetworkShape` or :class:`RoleShape`
    - ``clock``: :class:`ClockShape`
    - ``disk``: :class:`DiskShape`
    - ``squeeze``: :class:`SqueezeShape`
    - ``restart``: :class:`RestartShape`

    The simulator does not support families that are ``only_on_hosts``.
    """

    name: str
    about: str
    action: Action
    shapes: Mapping[str, Shape]
    only_on_hosts: bool = False

    def pick(
        self, shape: str, nodes: Sequence[str], draw: int, leader: str | None
    ) -> tuple[str, ...]:
        """Return the targets of a fault of ``shape``."""
        return self.shapes[shape].pick(nodes, draw, leader)

    def usable(self, nodes: int, brokers: int) -> dict[str, Shape]:
        """Return the shapes with an effect in a cluster of ``nodes``, of which ``brokers`` are
        brokers and not controllers."""
        return {
            name: shape
            for name, shape in self.shapes.items()
            if shape.least <= nodes and (brokers > 0 or not needs_brokers(shape))
        }

    def grudge(self, shape: str, nodes: Sequence[str], targets: tuple[str, ...]) -> Grudge:
        """Return which node drops packets from which others; empty for other faults than cuts."""
        known = self.shapes[shape]
        if isinstance(known, PartitionShape | RoleShape):
            return known.grudge(nodes, targets)
        return {}


def needs_brokers(shape: Shape | None) -> bool:
    """Return whether a shape picks among nodes that are only brokers."""
    if isinstance(shape, PartitionShape | ProcessShape):
        return shape.of_brokers
    return isinstance(shape, RoleShape)


_OURS = (
    Family("partition", "drop packets between nodes", "cut", PARTITIONS),
    Family("kill", "SIGKILL the process, start it again later", "kill", KILLS),
    Family(
        "terminate",
        "SIGTERM the process, start it again later",
        "terminate",
        TERMINATIONS,
    ),
    Family("pause", "SIGSTOP the process, SIGCONT it later", "pause", PAUSES),
    Family("power", "cut the power, which loses unflushed data", "power", POWER),
    Family("membership", "change the voters, replace machines", "members", MEMBERSHIPS),
    Family("network", "delay, lose, duplicate and reorder messages", "disturb", NETWORKS),
    Family("wire", "corrupt, throttle and reject packets", "disturb", WIRES, True),
    Family("clock", "make clocks jump and drift", "clock", CLOCKS),
    Family("disk", "make disks slow, full, failing or corrupted", "disk", DISKS),
    Family(
        "squeeze",
        "limit CPU, memory and files; out of memory; slow starts",
        "squeeze",
        SQUEEZES,
        True,
    ),
    Family("host", "crash machines, boot them later", "host", HOSTS, True),
    Family(
        "restart", "restart nodes in order, with or without an upgrade", "restart", RESTARTS, True
    ),
    Family("roles", "cut off the leader with or from the busiest broker", "cut", ROLES),
    Family("roles-kill", "kill the leader and the busiest broker", "kill", ROLE_KILLS),
    Family("roles-pause", "pause the leader and the busiest broker", "pause", ROLE_PAUSES),
    Family("roles-slow", "slow down the leader and the busiest broker", "disturb", ROLE_DELAYS),
    Family("storage", "make disks read-only, cut writes short", "disk", STORAGE),
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

    Raises :class:`OptionError`, which lists the known families.
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
            raise OptionError(f"the fault {name!r} changes voters; add --quorum dynamic")


def check_simulator(names: Sequence[str]) -> None:
    """Raise :class:`OptionError` for a family among ``names`` that the simulator lacks."""
    for name in names:
        if families()[name].only_on_hosts:
            raise OptionError(f"the fault {name!r} needs real hosts, such as -c netns")

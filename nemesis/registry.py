"""Fault families by name: those of any system, those of one system, and installed ones.

A package adds a family to all systems with an entry point of the group ``kraftwreck.nemeses`` that
is a subclass of :class:`~nemesis.family.Family`. It adds :class:`SystemFaults` to one system with
an entry point of the group ``kraftwreck.faults``, whose name is that of the system. A family
replaces others of the same name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from kraftwreck.harness.capabilities import Capability
from kraftwreck.harness.options import OptionError
from kraftwreck.histories.plugins import Plugins, by_own_name, plugins, unknown
from kraftwreck.nemesis.families.clocks import Clock
from kraftwreck.nemesis.families.disks import Disk, Storage
from kraftwreck.nemesis.families.hosts import Host
from kraftwreck.nemesis.families.network import Network
from kraftwreck.nemesis.families.partitions import Partition
from kraftwreck.nemesis.families.processes import Kill, Pause, Power, Terminate
from kraftwreck.nemesis.families.restarts import Restart
from kraftwreck.nemesis.families.squeezes import Squeeze
from kraftwreck.nemesis.families.wire import Wire
from kraftwreck.nemesis.family import Family
from kraftwreck.nemesis.shapes import Shape
from kraftwreck.nemesis.transitions import Transitions

GROUP = "kraftwreck.nemeses"
FAULTS = "kraftwreck.faults"

DEFAULT: Final = ("partition", "kill", "pause")
"""The families of a run that names none, of a system without a choice of its own."""

Families = Mapping[str, type[Family]]

_OURS: tuple[type[Family], ...] = (
    Partition,
    Kill,
    Terminate,
    Pause,
    Power,
    Network,
    Wire,
    Clock,
    Disk,
    Squeeze,
    Host,
    Restart,
    Storage,
)


@dataclass(frozen=True, slots=True)
class SystemFaults:
    """Additions of one system to the faults of any system.

    ``transitions`` is None if its nodes show none: then no fault waits for one. ``simulated`` are
    those of its core, which may show some in the simulator only. ``roles`` are the role of the
    nodes that elect a leader, and that of others, if there are any. ``default`` are the families of
    a run that names none.
    """

    families: tuple[type[Family], ...] = ()
    default: tuple[str, ...] = DEFAULT
    transitions: Transitions | None = None
    simulated: Transitions | None = None
    roles: tuple[str, ...] = ()


@cache
def faults_of(system: str) -> SystemFaults:
    """Return what ``system`` adds; nothing for a system that adds nothing."""
    found = plugins(FAULTS).found.get(system, SystemFaults())
    assert isinstance(found, SystemFaults), f"{system}: not a SystemFaults"
    return found


def installed() -> Plugins:
    """Return the families that other packages add, by name."""
    return by_own_name(GROUP, flaw)


def flaw(family: Any) -> str | None:
    """Return what is wrong with the declaration of a family, one line; None if nothing is."""
    if not (isinstance(family, type) and issubclass(family, Family)):
        return "it is not a subclass of Family"
    shapes: object = getattr(family, "shapes", None)
    if not (isinstance(shapes, Mapping) and shapes):
        return "its `shapes` must be a mapping from names to shapes, with at least one"
    if not all(isinstance(shape, Shape) for shape in shapes.values()):
        return "the values of its `shapes` must be of the class Shape"
    needs: object = family.needs
    if not (isinstance(needs, tuple) and all(isinstance(each, Capability) for each in needs)):
        return "its `needs` must be a tuple of capabilities, such as (PROCESSES,)"
    if family.hits not in ("nodes", "processes"):
        return f"its `hits` must be 'nodes' or 'processes', not {family.hits!r}"
    if family.start is Family.start:
        return "it does not define `start`"
    return None


@cache
def families(system: str | None = None) -> Families:
    """Return the families of ``system`` by name; without a system those of all systems."""
    found = {family.name: family for family in _OURS}
    found |= installed().found
    for name in sorted(plugins(FAULTS).found) if system is None else [system]:
        found |= {family.name: family for family in faults_of(name).families}
    return found


def chosen(text: str | None, system: str) -> tuple[str, ...]:
    """Return the families of the comma list ``text``, or those that ``system`` has by default.

    Raises :class:`OptionError` as :func:`parse`.
    """
    return faults_of(system).default if text is None else parse(text)


def parse(text: str, known: Families | None = None) -> tuple[str, ...]:
    """Return the families of a comma list such as ``partition,kill``; ``none`` is empty.

    ``known`` are the families to choose among (None: all). Raises :class:`OptionError`, which lists
    them.
    """
    known = families() if known is None else known
    names = [name.strip() for name in text.split(",") if name.strip()]
    if names == ["none"]:
        return ()
    for name in names:
        if name not in known:
            listed = [*sorted(known), "none"]
            raise OptionError(unknown("fault", name, installed(), listed))
    if not names:
        raise OptionError(f"no fault given; known faults: {', '.join(sorted(known))}, none")
    return tuple(dict.fromkeys(names))

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
from typing import Final

from kraftwreck.harness.options import OptionError
from kraftwreck.histories.plugins import by_own_name, plugins, unknown
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


@cache
def families(system: str | None = None) -> Families:
    """Return the families of ``system`` by name; without a system those of all systems."""
    found = {family.name: family for family in _OURS}
    found |= by_own_name(GROUP).found
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
            raise OptionError(unknown("fault", name, by_own_name(GROUP), listed))
    if not names:
        raise OptionError(f"no fault given; known faults: {', '.join(sorted(known))}, none")
    return tuple(dict.fromkeys(names))

"""Faults that a cluster does not support: rejected when named, and not chosen when drawn.

The reasons are known before a cluster is up: the system does not offer a capability with these
options, or the hosts lack a feature. Each has a name and one line with the reason.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from kraftwreck.harness.capabilities import CAPABILITIES
from kraftwreck.harness.clusters.providers import SIMULATOR_LACKS
from kraftwreck.harness.options import OptionError, RunOptions
from kraftwreck.harness.system import System
from kraftwreck.histories.fault import Fault
from kraftwreck.nemesis.registry import Families, families
from kraftwreck.nemesis.schedule import choose_by_weight
from kraftwreck.nodes.draw import draw_unit


def lacking_of(system: System, options: RunOptions, known: Families) -> dict[str, str]:
    """Return what ``system`` does not support, each with the reason: of the capabilities that any
    family needs those that it does not offer, and whatever else it declares."""
    reasons = system.lacking(options)
    offered = {capability.name for capability in system.offers} - set(reasons)
    names = {each.name for each in CAPABILITIES}
    names |= {each.name for family in known.values() for each in family.needs}
    return {name: f"it offers no {name}" for name in sorted(names - offered)} | dict(reasons)


def unsupported(name: str, families: Families, lacking: Mapping[str, str]) -> str | None:
    """Return why no shape of the family ``name`` is supported, None if some is."""
    if name in lacking:
        return lacking[name]
    if name not in families:
        return "it is a fault of other systems"
    family = families[name]
    missing = [family.features(shape) & set(lacking) for shape in family.shapes]
    if not all(missing):
        return None
    return "; ".join(lacking[each] for each in sorted(frozenset().union(*missing)))


def check(names: Sequence[str], families: Families, lacking: Mapping[str, str], where: str) -> None:
    """Raise :class:`OptionError`, one line, for a family of ``names`` without a supported shape.

    ``where`` says what lacks something: the system, the hosts or the simulator.
    """
    for name in names:
        why = unsupported(name, families, lacking)
        if why is not None:
            raise OptionError(f"{where} does not support the fault {name!r}: {why}")


def check_simulator(names: Sequence[str]) -> None:
    """Raise :class:`OptionError` for a family among ``names`` that the simulator lacks."""
    check(names, families(), SIMULATOR_LACKS, "the simulator")


def adapt(
    schedule: Sequence[Fault],
    families: Families,
    lacking: Collection[str],
    nodes: int,
    others: int,
) -> list[Fault]:
    """Return ``schedule`` with each unsupported fault replaced by another shape of its family.

    The fault's own draw chooses the shape. Families must have passed :func:`check`. A fault is
    left out if no other shape is supported in a cluster of ``nodes``, of which ``others`` do not
    elect a leader.
    """
    adapted = []
    for fault in schedule:
        family = families[fault.kind]
        if family.features(fault.shape).intersection(lacking):
            usable = {
                name: shape
                for name, shape in family.usable(nodes, others).items()
                if not family.features(name).intersection(lacking)
            }
            if not usable:
                continue
            shape = choose_by_weight(usable, draw_unit(fault.draw, "possible"))
            fault = msgspec.structs.replace(fault, shape=shape)
        adapted.append(fault)
    return adapted

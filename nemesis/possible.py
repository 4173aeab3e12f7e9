"""Faults that a cluster does not support: rejected when named, and not chosen when drawn.

The missing fault drivers are known before a cluster is up. They have names (``packets``,
``messages``, ``names``, ``drops``, ``memory``), each with one line that gives the reason
(:func:`harness.clusters.providers.lacking`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from kraftwreck.harness.options import OptionError
from kraftwreck.histories.disturbance import Disturbance
from kraftwreck.histories.fault import Fault
from kraftwreck.nemesis.network import NetworkShape
from kraftwreck.nemesis.partitions import PartitionShape
from kraftwreck.nemesis.registry import Family, Shape, families
from kraftwreck.nemesis.roles import RoleShape
from kraftwreck.nemesis.schedule import choose_by_weight
from kraftwreck.nemesis.squeezes import SqueezeShape
from kraftwreck.nodes.draw import draw_unit


def need(family: Family, shape: Shape) -> str:
    """Return the name of the driver that ``shape`` needs, "" for none."""
    if isinstance(shape, NetworkShape):
        does = Disturbance(senders=(), receivers=(), **shape.effects(0))
        return "names" if does.names else "messages" if does.of_messages else "packets"
    if isinstance(shape, RoleShape) and family.action == "disturb":
        return "packets"
    if isinstance(shape, PartitionShape | RoleShape) and family.action == "cut":
        return "drops"
    return "memory" if isinstance(shape, SqueezeShape) and shape.want == "memory" else ""


def check(names: Sequence[str], lacking: Mapping[str, str]) -> None:
    """Raise :class:`OptionError`, one line, for a family of ``names`` without a supported shape."""
    for name in names:
        family = families()[name]
        needs = {need(family, shape) for shape in family.shapes.values()}
        if needs <= set(lacking):
            why = "; ".join(lacking[kind] for kind in sorted(needs))
            raise OptionError(f"these hosts do not support the fault {name!r}: {why}")


def adapt(
    schedule: Sequence[Fault], lacking: Collection[str], nodes: int, brokers: int
) -> list[Fault]:
    """Return ``schedule`` with each unsupported fault replaced by another shape of its family.

    The fault's own draw chooses the shape. Families must have passed :func:`check`. A fault is
    left out if no other shape is supported in a cluster of this size.
    """
    adapted = []
    for fault in schedule:
        family = families()[fault.kind]
        if need(family, family.shapes[fault.shape]) in lacking:
            usable = {
                name: shape
                for name, shape in family.usable(nodes, brokers).items()
                if need(family, shape) not in lacking
            }
            if not usable:
                continue
            shape = choose_by_weight(usable, draw_unit(fault.draw, "possible"))
            fault = msgspec.structs.replace(fault, shape=shape)
        adapted.append(fault)
    return adapted

"""Faults that a cluster cannot do: refused when asked for by name, not chosen when drawn.

What a cluster lacks is known before it is up: kinds of means by name (``packets``, ``messages``,
``names``, ``drops``, ``memory``), each with one line that says why there is none
(:func:`harness.clusters.providers.lacking`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from harness.options import OptionError
from histories.disturbance import Disturbance
from histories.fault import Fault
from nemesis.network import NetworkShape
from nemesis.partitions import PartitionShape
from nemesis.registry import Family, Shape, families
from nemesis.roles import RoleShape
from nemesis.schedule import choose_by_weight
from nemesis.squeezes import SqueezeShape
from nodes.draw import draw_unit


def need(family: Family, shape: Shape) -> str:
    """Return the kind of means without which a fault of ``shape`` does nothing, "" for none."""
    if isinstance(shape, NetworkShape):
        does = Disturbance(senders=(), receivers=(), **shape.effects(0))
        return "names" if does.names else "messages" if does.of_messages else "packets"
    if isinstance(shape, RoleShape) and family.action == "disturb":
        return "packets"
    if isinstance(shape, PartitionShape | RoleShape) and family.action == "cut":
        return "drops"
    return "memory" if isinstance(shape, SqueezeShape) and shape.want == "memory" else ""


def check(names: Sequence[str], lacking: Mapping[str, str]) -> None:
    """Raise :class:`OptionError`, one line, for a family of ``names`` of which no shape can be
    done."""
    for name in names:
        family = families()[name]
        needs = {need(family, shape) for shape in family.shapes.values()}
        if needs <= set(lacking):
            why = "; ".join(lacking[kind] for kind in sorted(needs))
            raise OptionError(f"the fault {name!r} cannot be had on these hosts: {why}")


def adapt(
    schedule: Sequence[Fault], lacking: Collection[str], nodes: int, brokers: int
) -> list[Fault]:
    """Return ``schedule`` with another shape of its family for each fault that cannot be done.

    Which one, each fault's own draw decides. Families must have passed :func:`check`; a fault of
    which no other shape can be done in a cluster of so many nodes is left out.
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

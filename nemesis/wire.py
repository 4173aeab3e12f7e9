"""Networks that spoil, hold back or refuse packets: for real hosts, the simulator has none.

As ``packet-nemesis`` of jepsen.nemesis.combined, which has tc-netem corrupt, duplicate and
throttle; and what a firewall, a middlebox or a lost name server does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from histories.disturbance import Disturbance, Names
from nemesis.network import NetworkShape, choose, pick_links
from nemesis.partitions import pick_leader
from nodes.draw import draw_below

CORRUPT = (1, 5, 20)
TWICE = (10, 50, 100)
RATES = (5_000, 20_000, 100_000, 500_000)
"""Bytes a second: from some requests a second to what is hardly noticed."""
RESETS = (1, 5, 20, 100)


@dataclass(frozen=True, slots=True)
class NamesShape(NetworkShape):
    """Targets can find no address of a name; their links are as they were."""

    def disturbances(
        self, nodes: Sequence[str], targets: tuple[str, ...], number: int
    ) -> list[Disturbance]:
        """Return the targets' trouble: no other node has any."""
        return [Disturbance(senders=targets, receivers=(), **self.effects(number))]


def corrupt(number: int) -> dict[str, Any]:
    """A bit of some packets changes."""
    return {"corrupt": choose(CORRUPT, number, "corrupt")}


def twice(number: int) -> dict[str, Any]:
    """Some packets arrive twice."""
    return {"twice": choose(TWICE, number, "twice")}


def throttle(number: int) -> dict[str, Any]:
    """So many bytes a second pass."""
    return {"rate": choose(RATES, number, "rate")}


def reset(number: int) -> dict[str, Any]:
    """Some packets end their connection, which neither end asked for."""
    return {"loss": choose(RESETS, number, "reset"), "reset": 100}


def port(number: int) -> dict[str, Any]:
    """Packets of the controllers' port only are swallowed, as by a firewall."""
    return {"drop": 100, "port": "controller"}


def names(number: int) -> dict[str, Any]:
    """Questions for names get no answer, or are refused."""
    ways: tuple[Names, ...] = ("silent", "refused")
    return {"names": ways[draw_below(2, number, "names")]}


WIRES: dict[str, NetworkShape] = {
    "corrupt": NetworkShape(20, 2, pick_links, corrupt),
    "twice": NetworkShape(10, 2, pick_links, twice),
    "throttle": NetworkShape(25, 2, pick_links, throttle),
    "reset": NetworkShape(25, 2, pick_links, reset),
    "port": NetworkShape(15, 2, pick_links, port),
    "names": NamesShape(5, 1, pick_leader, names),
}

"""Corrupted, throttled and rejected packets, for real hosts only.

Like ``packet-nemesis`` of jepsen.nemesis.combined, in which tc-netem corrupts, duplicates and
throttles packets; and the effects of a middlebox or a failing name server.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from kraftwreck.histories.disturbance import Disturbance, Names
from kraftwreck.nemesis.families.network import Network, NetworkShape, choose, pick_links
from kraftwreck.nemesis.family import Aims, Shapes
from kraftwreck.nemesis.shapes import pick_leader
from kraftwreck.nodes.draw import draw_below

CORRUPT = (1, 5, 20)
TWICE = (10, 50, 100)
RATES = (5_000, 20_000, 100_000, 500_000)
"""Bytes per second: from a few requests per second to hardly noticeable."""
RESETS = (1, 5, 20, 100)


@dataclass(frozen=True, slots=True)
class NamesShape(NetworkShape):
    """Targets cannot resolve host names; their links are not affected."""

    def disturbances(
        self, nodes: Sequence[str], targets: tuple[str, ...], number: int
    ) -> list[Disturbance]:
        """Return the effect on the targets; no other node is affected."""
        return [Disturbance(senders=targets, receivers=(), **self.effects(number))]


def corrupt(number: int) -> dict[str, Any]:
    """Flip a bit of some packets."""
    return {"corrupt": choose(CORRUPT, number, "corrupt")}


def twice(number: int) -> dict[str, Any]:
    """Deliver some packets twice."""
    return {"twice": choose(TWICE, number, "twice")}


def throttle(number: int) -> dict[str, Any]:
    """Limit the bytes per second."""
    return {"rate": choose(RATES, number, "rate")}


def reset(number: int) -> dict[str, Any]:
    """Let some packets reset their connection."""
    return {"loss": choose(RESETS, number, "reset"), "reset": 100}


def names(number: int) -> dict[str, Any]:
    """Drop or refuse DNS queries."""
    ways: tuple[Names, ...] = ("silent", "refused")
    return {"names": ways[draw_below(2, number, "names")]}


WIRES: dict[str, NetworkShape] = {
    "corrupt": NetworkShape(20, 2, pick_links, corrupt),
    "twice": NetworkShape(10, 2, pick_links, twice),
    "throttle": NetworkShape(25, 2, pick_links, throttle),
    "reset": NetworkShape(25, 2, pick_links, reset),
    "names": NamesShape(5, 1, pick_leader, names),
}


class Wire(Network):
    """Damages packets between nodes."""

    name = "wire"
    about = "corrupt, throttle and reject packets"
    shapes: ClassVar[Shapes] = WIRES
    aimed: ClassVar[Aims] = ()

    @classmethod
    def features(cls, shape: str) -> frozenset[str]:
        return super().features(shape) | {"wire"}

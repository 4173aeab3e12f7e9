"""Slow, lossy and reordering networks, as TCP presents them, message by message.

A fault hits all links of one node, one link, or all links, in both directions or one. Its effects
are drawn when it starts. The ranges include ``slow!`` (50 ms) and ``flaky!`` (20 %) of jepsen.net.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import msgspec

from kraftwreck.harness.capabilities import MESSAGES
from kraftwreck.histories.disturbance import Disturbance
from kraftwreck.nemesis.family import (
    Active,
    Aims,
    Effect,
    Evidence,
    Family,
    FaultState,
    Needs,
    Shapes,
)
from kraftwreck.nemesis.shapes import Shape, leader_first, shuffled
from kraftwreck.nodes.draw import draw, draw_below

T = TypeVar("T")

MS = 1000
DELAYS_MS = (20, 50, 100, 200, 400, 800)
LOSSES = (5, 10, 20, 40, 60)
RESETS = (0, 0, 10, 50)
DUPLICATES = (10, 30, 100)
WINDOWS_MS = (5, 50, 200, 500)
AGAIN_MS = (5, 100, 1_000, 2_000)

LINKS, RELAY = "links", "relay"
"""Parts of the capability: delay and loss on links, and messages distinguished by a relay."""

Effects = Callable[[int], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class NetworkShape(Shape):
    """One shape; ``effects`` draws the effects on a message (fields of
    :class:`~histories.disturbance.Disturbance`)."""

    effects: Effects

    def disturbances(
        self, nodes: Sequence[str], targets: tuple[str, ...], number: int
    ) -> list[Disturbance]:
        """Return the effects: on all links of one target, the link of two, or all links among
        more."""
        effects = self.effects(number)
        if len(targets) > 2:
            return [Disturbance(senders=targets, receivers=targets, **effects)]
        first, rest = targets[0], targets[1:] or tuple(n for n in nodes if n != targets[0])
        there = Disturbance(senders=(first,), receivers=rest, **effects)
        back = Disturbance(senders=rest, receivers=(first,), **effects)
        return choose(([there, back], [there, back], [there], [back]), number, "direction")


def choose(options: Sequence[T], number: int, name: str) -> T:
    """Return one of ``options``, as the draw ``number`` decides for ``name``."""
    return options[draw_below(len(options), number, name)]


def pick_links(nodes: Sequence[str], number: int, leader: str | None) -> tuple[str, ...]:
    """Pick one node, the two ends of a link, or all nodes.

    The leader is mostly among them: there is little traffic between two followers.
    """
    led = draw(number, "led") & 3
    order = leader_first(nodes, number, leader) if led else shuffled(nodes, number)
    return tuple(order[: choose((1, 1, 2, len(nodes)), number, "ends")])


# --- what a message suffers ---------------------------------------------------------------


def slow(number: int) -> dict[str, Any]:
    """Delay messages by about the same time, or by anything up to twice that."""
    delay = choose(DELAYS_MS, number, "delay") * MS
    return {"delay": delay, "jitter": choose((delay // 10, delay // 2, delay), number, "jitter")}


def lossy(number: int) -> dict[str, Any]:
    """Lose messages, which are sent again, or reset their connection."""
    return {"loss": choose(LOSSES, number, "loss"), "reset": choose(RESETS, number, "reset")}


def duplicate(number: int) -> dict[str, Any]:
    """Deliver requests twice."""
    return {
        "duplicate": choose(DUPLICATES, number, "duplicate"),
        "again": choose(AGAIN_MS, number, "again") * MS,
    }


def reorder(number: int) -> dict[str, Any]:
    """Let messages overtake each other."""
    return {"window": choose(WINDOWS_MS, number, "window") * MS}


NETWORKS: dict[str, NetworkShape] = {
    "slow": NetworkShape(25, 2, pick_links, slow),
    "lossy": NetworkShape(20, 2, pick_links, lossy),
    "duplicate": NetworkShape(10, 2, pick_links, duplicate),
    "reorder": NetworkShape(15, 2, pick_links, reorder),
}


class Disturbances(Effect):
    """All disturbances in force; every change sends the complete list."""

    order = 2

    def __init__(self, state: FaultState) -> None:
        super().__init__(state)
        self.wanted: dict[Active, list[Disturbance]] = {}
        self._disturbed = False

    def apply(self, active: Active, into: Evidence | None = None) -> None:
        """Disturb messages as the faults in force say."""
        messages = self.state.env[MESSAGES]
        wanted = [each for disturbances in self.wanted.values() for each in disturbances]
        self._disturbed = True
        if active.call("disturb", lambda: messages.disturb(wanted), into):
            self._disturbed = bool(wanted)

    def renew(self, active: Active, nodes: Sequence[str], into: Evidence) -> None:
        if self._disturbed:
            self.apply(active, into)

    def remaining(self) -> set[str] | None:
        return set() if self._disturbed else None

    def heal(self, active: Active) -> None:
        self.apply(active)


class Network(Family):
    """Disturbs messages between nodes."""

    name = "network"
    about = "delay, lose, duplicate and reorder messages"
    shapes: ClassVar[Shapes] = NETWORKS
    needs: ClassVar[Needs] = (MESSAGES,)
    aimed: ClassVar[Aims] = (
        ("slow", ("@",)),
        ("slow", ("@", "@leader")),
        ("slow", ()),
        ("lossy", ("@",)),
        ("lossy", ("@", "@leader")),
        ("lossy", ()),
        ("duplicate", ("@", "@leader")),
        ("duplicate", ()),
        ("reorder", ("@",)),
        ("reorder", ()),
    )
    jepsen = ("slow", "lossy", "duplicate", "reorder")

    @classmethod
    def features(cls, shape: str) -> frozenset[str]:
        known = cls.shapes[shape]
        own = super().features(shape)
        assert isinstance(known, NetworkShape)
        does = Disturbance(senders=(), receivers=(), **known.effects(0))
        part = "names" if does.names else RELAY if does.of_messages else LINKS
        return own | {part} | ({"wire"} if does.of_packets else set())

    def disturbances(self, active: Active) -> list[Disturbance]:
        """Return what messages suffer from a fault."""
        shape = self.shapes[active.fault.shape]
        assert isinstance(shape, NetworkShape)
        return shape.disturbances(self.state.env.nodes, active.targets, active.fault.draw)

    def start(self, active: Active) -> None:
        effect = self.state.effect(Disturbances)
        effect.wanted[active] = self.disturbances(active) if active.targets else []
        active.detail["disturbances"] = msgspec.to_builtins(effect.wanted[active])
        effect.apply(active)

    def stop(self, active: Active) -> None:
        effect = self.state.effect(Disturbances)
        effect.wanted.pop(active, None)
        effect.apply(active)

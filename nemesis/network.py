"""Slow, lossy and reordering networks, as TCP presents them, message by message.

A fault hits all links of one node, one link, or all links, in both directions or one. Its effects
are drawn when it starts. The ranges include ``slow!`` (50 ms) and ``flaky!`` (20 %) of jepsen.net.
A middlebox, a full listener queue or a handler that hangs can make a single kind of RPC fail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from kraftwreck.histories.disturbance import Disturbance, Part
from kraftwreck.nemesis.partitions import Pick, leader_first, shuffled
from kraftwreck.nodes.draw import draw, draw_below

T = TypeVar("T")

MS = 1000
DELAYS_MS = (20, 50, 100, 200, 400, 800)
LOSSES = (5, 10, 20, 40, 60)
RESETS = (0, 0, 10, 50)
DUPLICATES = (10, 30, 100)
WINDOWS_MS = (5, 50, 200, 500)
AGAIN_MS = (5, 100, 1_000, 2_000)

RPCS = (
    *("Fetch", "Fetch", "Fetch", "Fetch", "Vote", "Vote", "Vote"),
    *("BeginQuorumEpoch", "BeginQuorumEpoch", "BeginQuorumEpoch"),
    *("EndQuorumEpoch", "FetchSnapshot", "AddRaftVoter", "UpdateRaftVoter", "ApiVersions"),
    *("BrokerRegistration", "BrokerHeartbeat", "ControllerRegistration", "Envelope"),
)
"""RPCs between nodes; those that elections and replication depend on are listed twice."""

Effects = Callable[[int], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class NetworkShape:
    """One shape. ``least`` is the number of nodes it needs; ``effects`` draws the effects on a
    message (fields of :class:`~histories.disturbance.Disturbance`)."""

    weight: int
    least: int
    pick: Pick
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
    """Deliver quorum requests twice."""
    return {
        "duplicate": choose(DUPLICATES, number, "duplicate"),
        "again": choose(AGAIN_MS, number, "again") * MS,
    }


def reorder(number: int) -> dict[str, Any]:
    """Let messages overtake each other."""
    return {"window": choose(WINDOWS_MS, number, "window") * MS}


def one_rpc(number: int) -> dict[str, Any]:
    """Drop or delay one kind of RPC only, or only its requests or responses."""
    parts: tuple[Part, ...] = ("both", "request", "response", "response")
    what: dict[str, Any] = choose(({"drop": 100}, {"drop": 100}, {"drop": 50}, {}), number, "what")
    apis = (choose(RPCS, number, "api"),)
    return (what or slow(number)) | {"apis": apis, "part": choose(parts, number, "part")}


NETWORKS: dict[str, NetworkShape] = {
    "slow": NetworkShape(25, 2, pick_links, slow),
    "lossy": NetworkShape(20, 2, pick_links, lossy),
    "duplicate": NetworkShape(10, 2, pick_links, duplicate),
    "reorder": NetworkShape(15, 2, pick_links, reorder),
    "rpc": NetworkShape(30, 2, pick_links, one_rpc),
}

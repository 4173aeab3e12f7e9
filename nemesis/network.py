"""Networks that are slow, lossy, and in no order: what TCP makes of each, message by message.

A fault hits all links of one node, one link, or all there are; both ways, or one. What it does
is drawn when it starts. Within the ranges lie the ``slow!`` (50 ms) and ``flaky!`` (20 %) of
jepsen.net; that one kind of RPC fails alone is what a middlebox, a full queue of one listener
or a handler that hangs looks like.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from histories.disturbance import Disturbance, Part
from nemesis.partitions import Pick, leader_first, shuffled
from nodes.draw import draw, draw_below

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
"""What nodes ask each other; what elections and replication hang on more than once."""

Effects = Callable[[int], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class NetworkShape:
    """One shape. ``least`` is the number of nodes it needs to mean anything; ``effects``
    draws what a message suffers (fields of :class:`~histories.disturbance.Disturbance`)."""

    weight: int
    least: int
    pick: Pick
    effects: Effects

    def disturbances(
        self, nodes: Sequence[str], targets: tuple[str, ...], number: int
    ) -> list[Disturbance]:
        """Return what the fault does: to all links of one target, the link of two, or all links
        among more."""
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
    """One node, the two ends of a link, or all nodes.

    The leader is mostly among them: between two followers there is little to disturb.
    """
    led = draw(number, "led") & 3
    order = leader_first(nodes, number, leader) if led else shuffled(nodes, number)
    return tuple(order[: choose((1, 1, 2, len(nodes)), number, "ends")])


# --- what a message suffers ---------------------------------------------------------------


def slow(number: int) -> dict[str, Any]:
    """It takes longer, by much the same or by anything up to twice that."""
    delay = choose(DELAYS_MS, number, "delay") * MS
    return {"delay": delay, "jitter": choose((delay // 10, delay // 2, delay), number, "jitter")}


def lossy(number: int) -> dict[str, Any]:
    """It is lost and sent again, or its connection is reset."""
    return {"loss": choose(LOSSES, number, "loss"), "reset": choose(RESETS, number, "reset")}


def duplicate(number: int) -> dict[str, Any]:
    """Quorum requests arrive twice."""
    return {
        "duplicate": choose(DUPLICATES, number, "duplicate"),
        "again": choose(AGAIN_MS, number, "again") * MS,
    }


def reorder(number: int) -> dict[str, Any]:
    """Messages overtake each other."""
    return {"window": choose(WINDOWS_MS, number, "window") * MS}


def one_rpc(number: int) -> dict[str, Any]:
    """One kind of RPC only is swallowed or slow, or its requests or answers only."""
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

"""The fate of messages on disturbed links.

The model has those effects of TCP that a node can notice. A lost segment is sent again after a
retransmission timeout of 200 ms that doubles each time (Linux, RFC 6298). So a message whose first
*k* transmissions are lost is 200 ms x (2^k - 1) late. After three of them the sender has closed the
connection, and the message is lost. A reset kills the connection: the message is lost, and the
sender of the request learns of it at once. A message that loses one place in the order stands for
requests over several connections. A duplicate request is the copy of a closed connection.
Disturbances delay no message by more than :data:`LATEST`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kraftwreck.histories.disturbance import Disturbance
from kraftwreck.nodes.draw import draw
from kraftwreck.simulation.binding import Binding
from kraftwreck.simulation.network import Network, Rpc

LATEST = 2_000_000
"""The longest delay (µs) that disturbances add to a message."""

RETRANSMISSION = 200_000
"""The time (µs) after which a lost message is sent again for the first time."""

RETRANSMISSIONS = 3

_RULE_PARTS = {
    "request": ("request", "both"),
    "response": ("response", "both"),
    "post": ("request", "both"),
}


class Fate(NamedTuple):
    """The times (µs) at which a message arrives, its connection is reset, and its copy arrives;
    -1: never."""

    arrival: int
    reset: int = -1
    copy: int = -1


@dataclass(slots=True)
class _Dice:
    """Random numbers for one message, each from its own key."""

    seed: int
    source: int
    destination: int
    count: int
    thrown: int = 0

    def below(self, bound: int) -> int:
        self.thrown += 1
        key = (self.source, self.destination, self.count, self.thrown)
        return draw(self.seed, "disturbed", *key) % bound

    def percent(self, chance: int) -> bool:
        return chance > 0 and self.below(100) < chance


class Disturbances:
    """The disturbances in force on ``network``; ``rules`` are those of each link."""

    def __init__(self, network: Network, binding: Binding) -> None:
        self._network = network
        self._binding = binding
        self.rules: dict[tuple[int, int], tuple[Disturbance, ...]] = {}
        self.counts: dict[str, int] = {}
        """How many messages were delayed, lost, reset, dropped, duplicated, reordered since
        disturbances were last set."""

    def set(self, wanted: Sequence[Disturbance], ids: Mapping[str, int]) -> dict[str, int]:
        """Put ``wanted``, and nothing else, in force; return :attr:`counts` until now."""
        rules: dict[tuple[int, int], tuple[Disturbance, ...]] = {}
        for each in wanted:
            for sender in each.senders:
                for receiver in each.receivers:
                    if sender != receiver:
                        link = ids[sender], ids[receiver]
                        rules[link] = (*rules.get(link, ()), each)
        counts, self.counts = self.counts, {}
        self.rules = rules
        return counts

    def fate(self, now: int, kind: str, rpc: Rpc, source: int, destination: int) -> Fate:
        """Return the fate of ``rpc`` sent at ``now``; ``kind`` is "request", "response" or "post"
        (a one-way message)."""
        network, binding = self._network, self._binding
        rules = [
            rule
            for rule in self.rules.get((source, destination), ())
            if rule.part in _RULE_PARTS[kind]
            and (not rule.apis or binding.name(rpc.message) in rule.apis)
        ]
        if not rules:
            return Fate(network.arrival(now, source, destination))
        dice = _Dice(network.seed, source, destination, network.sent(source, destination))
        extra = behind = again = 0
        ordered, gone, reset = True, False, False
        for rule in rules:
            if rule.delay or rule.jitter:
                extra += rule.delay + (dice.below(rule.jitter + 1) if rule.jitter else 0)
                self._count("delayed")
            # Only this kind of message is late: others overtake it.
            ordered = ordered and not rule.apis
            if rule.window:
                ordered = False
                behind += dice.below(rule.window + 1)
                self._count("reordered")
            lost = 0
            while lost <= RETRANSMISSIONS and dice.percent(rule.loss):
                lost += 1
            if lost:
                self._count("lost")
                gone = gone or lost > RETRANSMISSIONS
                behind += RETRANSMISSION * ((1 << lost) - 1)
                if dice.percent(rule.reset):
                    self._count("reset")
                    reset = True
            if dice.percent(rule.drop):
                self._count("dropped")
                gone = True
            if kind != "response" and dice.percent(rule.duplicate):
                again = 1 + dice.below(rule.again + 1)
        extra = min(extra, LATEST)
        at = network.arrival(now, source, destination, extra, ordered=ordered)
        if reset:
            return Fate(-1, at)
        if gone:
            return Fate(-1)
        behind = min(behind, LATEST - extra)
        at += behind
        if not again or not binding.copies(rpc.message):
            return Fate(at)
        self._count("duplicated")
        return Fate(at, -1, at + min(again, LATEST - extra - behind + 1))

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

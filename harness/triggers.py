"""Faults that start when a node makes a certain transition, instead of at a certain time.

Timed faults almost never hit the microseconds in which a protocol is vulnerable: between a vote
and the next election, or between an election and its first commit. A trigger waits for the
transition itself, as it appears in the nodes' traces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import NamedTuple

import msgspec

from kraftwreck.histories.fault import Fault
from kraftwreck.histories.plugins import plugins
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.draw import draw, draw_below

Matches = Callable[[TraceEvent], bool]

TRIGGERS: dict[str, Matches] = {
    "prospective": lambda e: e.kind == "state" and e.state == "prospective",
    "candidate": lambda e: e.kind == "state" and e.state == "candidate",
    "grant": lambda e: e.kind == "grant" and not e.detail.get("pre"),
    "elected": lambda e: e.kind == "elected",
    "follow": lambda e: e.kind == "state" and e.state == "follower",
    "resign": lambda e: e.kind == "resign",
    "append": lambda e: e.kind == "append" and e.state == "leader",
    "replicate": lambda e: e.kind == "append" and e.state == "follower",
    "hw": lambda e: e.kind == "hw" and e.state == "leader",
    "truncate": lambda e: e.kind == "truncate",
    "start": lambda e: e.kind == "start",
    "claim": lambda e: e.kind == "claim",
    "snapshot": lambda e: e.kind == "snapshot",
    "install": lambda e: e.kind == "install",
    "load": lambda e: e.kind == "load",
    "clean": lambda e: e.kind == "clean",
    "download": lambda e: e.kind == "download",
}
"""Transitions by name. ``append`` and ``hw`` are the leader's, ``replicate`` a follower's.
``snapshot`` is a written one, ``download`` one about to be fetched, ``install`` a fetched one.
Systems add others (:class:`Trigger`)."""

KINDS: dict[str, str] = {
    "prospective": "state",
    "candidate": "state",
    "follow": "state",
    "replicate": "append",
}
"""The kind of trace event of a trigger, if its name differs from the trigger's."""

GROUP = "kraftwreck.triggers"
"""Entry points of systems with transitions of their own: each a table of :class:`Trigger` by
name."""


class Trigger(NamedTuple):
    """A transition of one system's nodes: the ``kind`` of its trace events, and which match."""

    kind: str
    matches: Matches


@cache
def known() -> Mapping[str, Trigger]:
    """Return all transitions by name: those of any system, and those that systems add."""
    found = {name: Trigger(KINDS.get(name, name), test) for name, test in TRIGGERS.items()}
    for own in plugins(GROUP).found.values():
        found |= own
    return found


DELAYS_US = (0, 0, 0, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000)
"""How long after the transition a fault may start; its ``draw`` chooses."""


class TriggerError(ValueError):
    """A schedule names a trigger that does not exist."""


def parse(trigger: str) -> tuple[str, int]:
    """Return (name, count) of a trigger such as ``"elected#2"``.

    Raises :class:`TriggerError`, which lists the known ones.
    """
    name, _, count = trigger.partition("#")
    if name not in known():
        raise TriggerError(f"unknown trigger {name!r}; known: {', '.join(known())}")
    if count and not (count.isdigit() and int(count) > 0):
        raise TriggerError(f"trigger {trigger!r}: the count must be a positive number")
    return name, int(count or 1)


def delay_us(fault: Fault) -> int:
    """Return how long after its trigger ``fault`` starts."""
    return DELAYS_US[draw_below(len(DELAYS_US), fault.draw, "delay")]


class Armed:
    """A triggered fault that waits for its transition, an event of kind ``kind``."""

    __slots__ = ("fault", "kind", "left", "matches", "number")

    def __init__(self, number: int, fault: Fault) -> None:
        assert fault.trigger is not None
        name, self.left = parse(fault.trigger)
        self.number = number
        self.fault = fault
        self.kind, self.matches = known()[name]

    def sees(self, event: TraceEvent) -> bool:
        """Process a trace event; return whether it is the awaited one."""
        if not self.matches(event):
            return False
        self.left -= 1
        return self.left == 0


def aim(fault: Fault, event: TraceEvent, nodes: tuple[str, ...]) -> Fault:
    """Replace the targets ``"@"`` and ``"@leader"`` by the names that ``event`` gives.

    If the leader is unknown or is the node itself, another node is drawn.
    """
    if not any(target.startswith("@") for target in fault.targets):
        return fault
    others = [node for node in nodes if node != event.node]
    leader = nodes[event.leader - 1] if 1 <= event.leader <= len(nodes) else event.node
    if leader == event.node and others:
        leader = others[draw(fault.draw, "other") % len(others)]
    names = {"@": event.node, "@leader": leader}
    targets = tuple(dict.fromkeys(names.get(target, target) for target in fault.targets))
    return msgspec.structs.replace(fault, targets=targets)

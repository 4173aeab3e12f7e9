"""Watches that a success resets the back-off between members of the quorum (F13).

A member that does not answer is asked again after ``reconnect.backoff.ms``. Each further failure
doubles that, up to ``reconnect.backoff.max.ms``. Once it has answered, the next failure is the
first one. A node that remembers the failures before waits long, although the other node was away
for a moment only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.consensus.effects import ResponseReceived, Send
from kraftwreck.nodes.consensus.kraft.messages import (
    ApiVersionsResponse,
    Response,
    VoterChangeResponse,
)
from kraftwreck.nodes.consensus.kraft.replica import Replica
from kraftwreck.nodes.consensus.links import NEVER
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.protocol.errors import NONE
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.election_watch import quorum_settings

FIRST: Final = "reconnect_backoff_ms"
LONGEST: Final = "reconnect_backoff_max_ms"


@dataclass(slots=True)
class _Link:
    """The requests of a process to one member.

    ``latest`` is the correlation id of the last one, ``asked`` their number since the last answer:
    no more than that can have failed. Both are None at first, ``asked`` until the first answer.
    """

    latest: int | None = None
    asked: int | None = None


class BackoffWatch:
    """Judges the back-offs of the members of ``world`` after each failed request."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._links: dict[int, dict[int, _Link]] = {}
        """By host and destination."""
        self._failed: dict[int, _Link] = {}
        """By host: the link whose request fails in the step that it begins."""
        self._waits = {
            host.id: (1000 * settings[FIRST], 1000 * settings[LONGEST])
            for host in world.hosts
            for settings in (quorum_settings(world, host),)
        }
        world.wires.on_send.append(self._on_send)
        world.on_response.append(self._on_response)
        world.on_step.append(self._on_step)
        world.on_trace.append(self._on_trace)

    def _on_trace(self, host: Host, event: TraceEvent) -> None:
        if event.kind == "start":
            self._links.pop(host.id, None)

    def _on_send(self, host: Host, effect: Send) -> None:
        link = self._links.setdefault(host.id, {}).setdefault(effect.destination, _Link())
        link.latest = effect.correlation
        if link.asked is not None:
            link.asked += 1

    def _on_response(self, host: Host, event: ResponseReceived) -> None:
        self._failed.pop(host.id, None)
        link = self._links.get(host.id, {}).get(event.source)
        node = host.node
        if link is None or not isinstance(node, Node) or link.latest != event.correlation:
            return
        if node.replica.links.is_ready(event.source, NEVER):
            return  # It no longer waits for this answer.
        if event.message is None:
            self._failed[host.id] = link
        elif is_success(node.replica, event.message):
            link.asked = 0

    @rule(
        "F13",
        "BackoffsReset",
        "A member of the quorum whose request failed may ask the same node again after the "
        "shortest back-off, doubled for each earlier request since that node's last answer.",
        simulated=True,
    )
    def _on_step(self, host: Host, event: Any) -> None:
        if type(event) is not ResponseReceived:
            return
        link, node = self._failed.pop(host.id, None), host.node
        if link is None or not link.asked or not isinstance(node, Node):
            return
        first, longest = self._waits[host.id]
        wait = min(first << min(link.asked - 1, longest.bit_length()), longest)
        if not node.replica.links.is_ready(event.source, host.clock.mono(self._world.now) + wait):
            self._failures.add(
                "F13",
                self._world.now,
                f"{host.name} has asked node {event.source} {link.asked} times since its last"
                f" answer, but waits longer than {wait // 1000} ms after the last failure",
            )


def is_success(replica: Replica, answer: Response) -> bool:
    """Return whether ``answer`` is one that ``replica`` uses."""
    if isinstance(answer, ApiVersionsResponse):
        return True
    if isinstance(answer, VoterChangeResponse):
        return answer.error == NONE
    fits = answer.leader_epoch == replica.epoch
    return fits and answer.error == NONE == answer.partition_error

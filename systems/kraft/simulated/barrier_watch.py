"""Watches that the active controller answers by committed metadata only (F32).

A controller may not know yet that another one has deposed it, so an answer at once may be stale.
Once a record is committed that it appended after the arrival of a request, nobody else had led
until then. Histories show a stale answer only if clients ask both controllers at the right moment.
"""

from __future__ import annotations

from typing import Any, Final

from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.nodes.consensus.effects import ApiRequest
from kraftwreck.nodes.metadata.controller import DEFAULT_TIMEOUT_MS
from kraftwreck.nodes.metadata.served import READS, WRITES
from kraftwreck.nodes.node import Node
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import ClientCall, Host
from kraftwreck.simulation.network import Rpc
from kraftwreck.simulation.world import World

JUDGED: Final = frozenset((*READS, *WRITES))
Target = Rpc | ClientCall


class BarrierWatch:
    """Judges the answers of active controllers of ``world``."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._heads: dict[int, tuple[int, int, int]] = {}
        """By host: its life, epoch and last record, proposals included, after the last step as an
        active controller."""
        self._asked: dict[int, tuple[Target, ApiRequest, int, tuple[int, int, int]]] = {}
        """By identity of what asked: the request, when (µs of the node's clock) it arrived, and
        the controller before that step."""
        world.on_step.append(self._on_step)
        world.wires.on_reply.append(lambda host, rpc, _: self._answered(host, rpc))
        world.wires.on_client_reply.append(lambda host, call, _: self._answered(host, call))

    def _on_step(self, host: Host, event: Any) -> None:
        before, head = self._heads.get(host.id), _head(host)
        if type(event) is ApiRequest and event.api in JUDGED and not _discovers(event):
            target = host.tokens.get(event.token)
            if target is not None and before is not None and head is not None:
                now = host.clock.mono(self._world.now)
                self._asked[id(target)] = target, event, now, before
        if head is None:
            self._heads.pop(host.id, None)
        else:
            self._heads[host.id] = head

    @rule(
        "F32",
        "AnswersAreCommitted",
        "An active controller answers a request about metadata only once a record is committed "
        "that it has appended after the arrival of the request, unless the request takes too long.",
        simulated=True,
    )
    def _answered(self, host: Host, target: Target) -> None:
        asked, head = self._asked.pop(id(target), None), _head(host)
        if asked is None or head is None:
            return
        _, request, arrived, (life, epoch, last) = asked
        patience_ms = max(0, request.body.get("timeout_ms", DEFAULT_TIMEOUT_MS))
        if head[:2] != (life, epoch):
            return
        if host.clock.mono(self._world.now) >= arrived + patience_ms * 1000:
            return
        assert isinstance(host.node, Node)
        committed = host.node.image.stable_offset
        if committed <= last:
            self._failures.add(
                "F32",
                self._world.now,
                f"{host.name} answers a {request.api} by its metadata up to {committed}; the last"
                f" record before the request was {last}",
            )


def _head(host: Host) -> tuple[int, int, int] | None:
    """Return the life, epoch and last record of an active controller; None: it is none."""
    node = host.node
    controller, replica = getattr(node, "controller", None), getattr(node, "replica", None)
    if not isinstance(node, Node) or replica is None or not getattr(controller, "is_active", False):
        return None
    return host.life, replica.epoch, node.image.last_offset


def _discovers(request: ApiRequest) -> bool:
    """Return whether a request for Metadata names no topic: it is answered at once."""
    return request.api == "Metadata" and request.body["topics"] == [] and request.version > 0

"""Watches followers that cut their logs as their leader says (I28, KIP-101, KIP-279).

A leader names the end of an epoch in its own log. It has no record of this epoch beyond that end,
and none of the follower's newer epochs. A follower that keeps one of these asks again from there,
and may get the same answer forever. If older records are left, the next answer is about their
epoch.
"""

from __future__ import annotations

from kraftwreck.nodes.consensus.effects import ResponseReceived
from kraftwreck.nodes.consensus.kraft.messages import FetchResponse
from kraftwreck.nodes.consensus.kraft.replica import Replica
from kraftwreck.nodes.node import Node
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World


class DivergenceWatch:
    """Judges the followers of ``world``."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._before: dict[int, tuple[ResponseReceived, int]] = {}
        """By host: the answer that it is handling, and the end of its log before."""
        world.on_response.append(self._on_response)
        world.on_step.append(self._on_step)

    def _on_response(self, host: Host, event: ResponseReceived) -> None:
        self._before.pop(host.id, None)
        answer = event.message
        if isinstance(answer, FetchResponse) and answer.diverging_epoch >= 0:
            replica = _replica_on(host)
            if replica is not None:
                self._before[host.id] = event, replica.log.end_offset

    def _on_step(self, host: Host, event: object) -> None:
        known = self._before.pop(host.id, None)
        if known is None or known[0] is not event:
            return
        answer, replica = known[0].message, _replica_on(host)
        if replica is None or not isinstance(answer, FetchResponse):
            return
        if replica.log.end_offset < known[1]:
            self.judge(host.name, answer, replica)

    def judge(self, name: str, answer: FetchResponse, replica: Replica) -> None:
        """Judge the log of the follower ``name``, which has been cut because of ``answer``."""
        log = replica.log
        most = max(answer.diverging_end, replica.high_watermark, log.start_offset)
        left = log.end_offset > log.start_offset
        newer = left and log.last_epoch > answer.diverging_epoch
        longer = log.last_epoch == answer.diverging_epoch and log.end_offset > most
        if longer or newer:
            self._failures.add(
                "I28",
                self._world.now,
                f"{name} cuts its log at offset {log.end_offset}, after a record of epoch"
                f" {log.last_epoch}; its leader has epoch {answer.diverging_epoch} up to"
                f" {answer.diverging_end}.",
            )


def _replica_on(host: Host) -> Replica | None:
    node = host.node
    return node.replica if isinstance(node, Node) else None

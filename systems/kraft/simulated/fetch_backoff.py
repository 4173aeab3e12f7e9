"""Watches that followers wait after a failed fetch before they fetch again (L8).

A fetch has failed if no answer came, or if the answer has an error for the partition. The follower
then leaves the partition out for ``replica.fetch.backoff.ms`` by its own clock. It need not wait
for another leader, or once its log was opened again.
"""

from __future__ import annotations

from typing import Any

from kraftwreck.checkers.kraft.limits import FETCH_BACKOFF_MS
from kraftwreck.nodes.protocol.errors import NONE, OFFSET_OUT_OF_RANGE
from kraftwreck.nodes.replication.effects import FetchFrom
from kraftwreck.nodes.replication.events import FetchAnswered, FetchPart, LogOpened
from kraftwreck.nodes.replication.headers import PartitionKey
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.binding import record_traffic
from kraftwreck.systems.kraft.simulated.record_logs import name_of, replicas_on

Failed = tuple[int, int, int, int]
"""Life of the process, leader, leader epoch, and the time by its clock."""


class FetchBackoff:
    """Judges the fetches of all followers of ``world``."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._sent: dict[tuple[int, int], tuple[int, FetchFrom]] = {}
        """By host and leader: the life of the process, and its last fetch."""
        self._failed: dict[tuple[int, PartitionKey], Failed] = {}
        record_traffic(world).followers.on_fetch.append(self._on_fetch)
        world.on_step.append(self._on_step)
        world.on_caused.append(self._on_caused)

    def _on_caused(self, host: Host, event: Any) -> None:
        if type(event) is LogOpened:
            self._failed.pop((host.id, event.key), None)

    def _on_step(self, host: Host, event: Any) -> None:
        if type(event) is not FetchAnswered:
            return
        sent = self._fetch(host, event.correlation)
        if sent is None:
            return
        errors = {part.key: part.error for part in event.parts or () if part.diverging is None}
        now = host.clock.mono(self._world.now)
        for part in sent.parts:
            failed = event.parts is None
            if errors.get(part.key, NONE) not in (NONE, OFFSET_OUT_OF_RANGE):
                failed = _has_not_moved(host, part)
            if failed:
                self._failed[host.id, part.key] = host.life, sent.leader, part.leader_epoch, now

    def _fetch(self, host: Host, correlation: int) -> FetchFrom | None:
        """Return the fetch of this process that has the number."""
        for (source, _), (life, sent) in self._sent.items():
            if source == host.id and life == host.life and sent.correlation == correlation:
                return sent
        return None

    def _on_fetch(self, host: Host, fetch: FetchFrom) -> None:
        now = host.clock.mono(self._world.now)
        for part in fetch.parts:
            known = self._failed.pop((host.id, part.key), None)
            if known is None or known[:3] != (host.life, fetch.leader, part.leader_epoch):
                continue
            if now - known[3] < 1000 * FETCH_BACKOFF_MS:
                self._failures.add(
                    "L8",
                    self._world.now,
                    f"{host.name} fetches {name_of(part.key)} from {fetch.leader} again"
                    f" {(now - known[3]) / 1_000_000:.6f} s after that has failed",
                )
        self._sent[host.id, fetch.leader] = host.life, fetch


def _has_not_moved(host: Host, part: FetchPart) -> bool:
    """Return whether the follower uses the answer: it is where it was when it sent the fetch."""
    partition = replicas_on(host).get(part.key)
    log = None if partition is None else partition.log
    if partition is None or log is None:
        return False
    epoch = partition.assignment.leader_epoch
    now = epoch, log.end, log.epochs.latest
    return now == (part.leader_epoch, part.offset, part.last_fetched_epoch)

"""Asks the leaders of partitions once a second about requests that nobody has sent.

Requests that a leader must refuse are in flight for a moment only, if at all. To ask a leader for
its answers changes nothing, so they may be invented. Each question is a function that yields the
rules which a leader would break, and how.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from kraftwreck.nodes.replication.partition import Partition
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.record_logs import name_of, replicas_on

Question = Callable[[Partition], Iterator[tuple[str, str]]]
ASKED_US: Final = 1_000_000
"""How often the leaders of a host are asked."""


class LeaderRehearsal:
    """Asks the leaders of ``world`` all ``questions``."""

    def __init__(self, world: World, failures: Failures, *questions: Question) -> None:
        self._world = world
        self._failures = failures
        self._questions = questions
        self._next: dict[int, int] = {}
        """By host: when its leaders are asked next."""
        world.on_emit.append(self._on_emit)

    def _on_emit(self, host: Host) -> None:
        now = self._world.now
        if now < self._next.get(host.id, 0) or not (replicas := replicas_on(host)):
            return
        self._next[host.id] = now + ASKED_US
        for partition in replicas.values():
            if not partition.leading or partition.log is None:
                continue
            for ask in self._questions:
                for rule, wrong in ask(partition):
                    where = f"{host.name} leads {name_of(partition.key)}, and"
                    self._failures.add(rule, now, f"{where} {wrong}")

"""Controlled shutdowns (SIGTERM): a leader resigns first, a broker hands over its partitions.

On hosts a shutdown takes seconds, and must not delay other faults. So the signal is sent at once,
and the result is recorded when the fault ends. A node starts again only after it has stopped or
was killed.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait

from kraftwreck.nemesis.active import Active
from kraftwreck.nemesis.injection.ground import Detail, Evidence, Ground, Means
from kraftwreck.nemesis.injection.processes import struck


class Terminations(Means):
    """Shuts processes down. ``Relief`` brings them back."""

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        self._ends: dict[int, dict[str, Future[Evidence]]] = {}

    def start(self, entry: Active, detail: Detail, evidence: Evidence) -> None:
        ground = self.ground
        nodes = struck(ground, entry, detail)
        if not ground.env.concurrent:
            ground.each(entry, nodes, ground.env.stop, evidence)
            return
        if nodes:
            threads = ThreadPoolExecutor(len(nodes), thread_name_prefix="terminations")
            self._ends[id(entry)] = {node: threads.submit(ground.env.stop, node) for node in nodes}
            threads.shutdown(wait=False)

    def settle(self, entry: Active) -> None:
        wait(self._ends.get(id(entry), {}).values())

    def stopped(self, entry: Active, detail: Detail, evidence: Evidence) -> None:
        for node, end in self._ends.pop(id(entry), {}).items():
            self.ground.call(entry, node, end.result, evidence)

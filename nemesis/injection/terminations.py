"""Processes that are asked to end: who leads hands over first, a broker leaves its partitions.

On hosts that takes seconds, which hold up no other fault: the request goes out at once, what came
of it is told when the fault ends. A node is started again only after it has ended, or was killed.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait

from nemesis.active import Active
from nemesis.injection.ground import Detail, Evidence, Ground, Means
from nemesis.injection.processes import struck


class Terminations(Means):
    """Ends processes in good order. That they come back is up to ``Relief``."""

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

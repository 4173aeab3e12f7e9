"""Restarts, on threads of their own: they take too long to delay other faults.

A node that another fault holds is skipped. While a node restarts it counts as down, and as rising:
other faults do not hit it, and nothing else starts it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kraftwreck.harness.run_errors import Trouble
from kraftwreck.nemesis.active import Active
from kraftwreck.nemesis.injection.ground import Detail, Evidence, Ground, Means, trouble
from kraftwreck.nemesis.restarts import RestartShape
from kraftwreck.nodes.draw import draw_below

GAPS_S = (0.0, 0.0, 0.3, 1.0)
"""Seconds from the start of one node to the stop of the next."""
LONGEST_S = 90.0
"""How long the end of a fault waits for the current restart."""


@dataclass(slots=True, eq=False)
class _Round:
    """A series of restarts; when ``ends`` is set, no further one begins."""

    ends: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread | None = None
    restarted: dict[str, Any] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    errors: list[Trouble] = field(default_factory=list)


class Restarts(Means):
    """Restarts nodes on one thread per fault; ``lock`` protects the shared state."""

    def __init__(self, ground: Ground, lock: threading.RLock) -> None:
        super().__init__(ground)
        self._lock = lock
        self._rounds: dict[int, _Round] = {}

    def start(self, entry: Active, detail: Detail, evidence: Evidence) -> None:
        shape = entry.family.shapes[entry.fault.shape]
        assert isinstance(shape, RestartShape)
        gap_s = GAPS_S[draw_below(len(GAPS_S), entry.fault.draw, "gap")]
        detail["order"], detail["gap_s"] = list(entry.targets), gap_s
        known = self._rounds[id(entry)] = _Round()
        work = self._together if shape.together else self._one_by_one
        known.thread = threading.Thread(
            target=work, args=(known, entry.targets, shape, gap_s), name="restarts", daemon=True
        )
        known.thread.start()

    def settle(self, entry: Active) -> None:
        known = self._rounds[id(entry)]
        known.ends.set()
        assert known.thread is not None
        known.thread.join(LONGEST_S)

    def stopped(self, entry: Active, detail: Detail, evidence: Evidence) -> None:
        known = self._rounds.pop(id(entry))
        evidence |= known.restarted
        if known.skipped:
            detail["skipped"] = known.skipped
        entry.errors.extend(known.errors)
        if known.thread is not None and known.thread.is_alive():
            entry.errors.append(Trouble(f"a restart has not finished after {LONGEST_S:.0f} s"))

    # --- on the thread --------------------------------------------------------------------

    def _one_by_one(
        self, known: _Round, nodes: Sequence[str], shape: RestartShape, gap_s: float
    ) -> None:
        for node in nodes:
            if known.ends.is_set():
                return
            if self._take(known, node):
                if self._end(known, node, shape):
                    self._begin(known, node)
                self._let_go(known, node)
            known.ends.wait(gap_s)

    def _together(
        self, known: _Round, nodes: Sequence[str], shape: RestartShape, gap_s: float
    ) -> None:
        taken = [node for node in nodes if self._take(known, node)]
        # A leader contacts the others before it stops; do not wait for that before stopping them.
        threads = [
            threading.Thread(target=self._end, args=(known, node, shape), daemon=True)
            for node in taken
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for node in taken:
            self._begin(known, node)
            self._let_go(known, node)

    def _take(self, known: _Round, node: str) -> bool:
        """Claim a node that no other fault holds."""
        ground = self.ground
        with self._lock:
            if node in ground.down | ground.stopped | ground.rising:
                known.skipped[node] = "it is held by another fault"
                return False
            ground.down.add(node)
            ground.rising.add(node)
            return True

    def _let_go(self, known: _Round, node: str) -> None:
        """Release a node that is up; any other is started when everything is healed."""
        with self._lock:
            self.ground.rising.discard(node)
            if known.restarted.get(node, {}).get("up"):
                self.ground.down.discard(node)

    def _end(self, known: _Round, node: str, shape: RestartShape) -> bool:
        env = self.ground.env
        try:
            told = dict((env.kill if shape.how == "kill" else env.stop)(node)[node])
            known.restarted[node] = told
            if shape.upgrade:
                told |= env.upgrade(node)[node]
            return True
        except Exception as error:
            known.errors.append(trouble(error, node))
            return False

    def _begin(self, known: _Round, node: str) -> None:
        try:
            told = self.ground.env.start(node)[node]
            known.restarted.setdefault(node, {}).update(told, up=True)
        except Exception as error:
            known.errors.append(trouble(error, node))

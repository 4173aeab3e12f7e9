"""Restarts in every order: one node after the other, all together, or with an upgrade.

Operators do this every week: they stop, perhaps upgrade, and start one node after the other. The
leader comes last, as documentation advises, or nodes go in order of names, as scripts do it.

Restarts run on threads of their own: they take too long to delay other faults. A process that
another fault holds is skipped. While it restarts it counts as down, and as starting: other faults
do not hit it, and nothing else starts it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from kraftwreck.harness.capabilities import PROCESSES, UPGRADES
from kraftwreck.harness.run_errors import Trouble
from kraftwreck.nemesis.family import Active, Family, FaultState, Needs, Shapes, trouble
from kraftwreck.nemesis.shapes import Shape, leader_first, pick_leader
from kraftwreck.nodes.draw import draw_below

How = Literal["stop", "kill"]

GAPS_S = (0.0, 0.0, 0.3, 1.0)
"""Seconds from the start of one node to the stop of the next."""
LONGEST_S = 90.0
"""How long the end of a fault waits for the current restart."""


@dataclass(frozen=True, slots=True)
class RestartShape(Shape):
    """One shape; ``pick`` returns the nodes to restart, in order.

    ``how``: stop them with SIGTERM, or kill them. ``together``: stop all before the first one
    starts. ``upgrade``: start each with the other version of the code.
    """

    how: How = "stop"
    together: bool = False
    upgrade: bool = False


def in_order(nodes: Sequence[str], draw: int, leader: str | None) -> tuple[str, ...]:
    """Return all nodes, by id."""
    return tuple(nodes)


def backwards(nodes: Sequence[str], draw: int, leader: str | None) -> tuple[str, ...]:
    """Return all nodes, the greatest id first."""
    return tuple(reversed(nodes))


def leader_begins(nodes: Sequence[str], draw: int, leader: str | None) -> tuple[str, ...]:
    """Return all nodes, the leader first."""
    return tuple(leader_first(nodes, draw, leader))


def leader_ends(nodes: Sequence[str], draw: int, leader: str | None) -> tuple[str, ...]:
    """Return all nodes, the leader last."""
    first, *rest = leader_first(nodes, draw, leader)
    return (*rest, first)


RESTARTS: dict[str, RestartShape] = {
    "rolling": RestartShape(25, 2, leader_ends),
    "rolling-leader-first": RestartShape(10, 2, leader_begins),
    "rolling-in-order": RestartShape(10, 2, in_order),
    "rolling-backwards": RestartShape(10, 2, backwards),
    "rolling-kill": RestartShape(10, 2, leader_ends, how="kill"),
    "bounce-leader": RestartShape(10, 1, pick_leader, how="kill"),
    "together": RestartShape(5, 2, in_order, together=True, most=True),
    "together-backwards": RestartShape(5, 2, backwards, how="kill", together=True, most=True),
    "upgrade": RestartShape(15, 1, leader_ends, upgrade=True, features=frozenset({UPGRADES.name})),
}
"""``bounce-leader``: a fast restart is over before any timeout of a follower expires."""


@dataclass(slots=True, eq=False)
class _Round:
    """A series of restarts; when ``ends`` is set, no further one begins."""

    ends: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread | None = None
    restarted: dict[str, Any] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    errors: list[Trouble] = field(default_factory=list)


class Restart(Family):
    """Restarts processes on one thread per fault."""

    name = "restart"
    about = "restart nodes in order, with or without an upgrade"
    shapes: ClassVar[Shapes] = RESTARTS
    needs: ClassVar[Needs] = (PROCESSES,)
    hits = "processes"
    stops = True

    def __init__(self, state: FaultState) -> None:
        super().__init__(state)
        self._rounds: dict[Active, _Round] = {}

    @classmethod
    def features(cls, shape: str) -> frozenset[str]:
        return super().features(shape) | {"real time"}

    def start(self, active: Active) -> None:
        shape = self.shapes[active.fault.shape]
        assert isinstance(shape, RestartShape)
        gap_s = GAPS_S[draw_below(len(GAPS_S), active.fault.draw, "gap")]
        active.detail |= {"order": list(active.targets), "gap_s": gap_s}
        known = self._rounds[active] = _Round()
        work = self._together if shape.together else self._one_by_one
        known.thread = threading.Thread(
            target=work, args=(known, active.targets, shape, gap_s), name="restarts", daemon=True
        )
        known.thread.start()

    def settle(self, active: Active) -> None:
        known = self._rounds.get(active)
        if known is None:
            return
        known.ends.set()
        assert known.thread is not None
        known.thread.join(LONGEST_S)

    def finish(self, active: Active) -> None:
        known = self._rounds.pop(active, None)
        if known is None:
            return
        active.evidence |= known.restarted
        for node, why in known.skipped.items():
            if node not in known.restarted:
                active.miss(node, why)
        active.errors.extend(known.errors)
        if known.thread is not None and known.thread.is_alive():
            active.errors.append(Trouble(f"a restart has not finished after {LONGEST_S:.0f} s"))

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
        state = self.state
        with state.lock:
            if state.held(node) or node in state.starting:
                known.skipped[node] = "it is held by another fault"
                return False
            state.down.add(node)
            state.starting.add(node)
            return True

    def _let_go(self, known: _Round, node: str) -> None:
        """Release a node that is up; any other is started when everything is healed."""
        with self.state.lock:
            self.state.starting.discard(node)
            if known.restarted.get(node, {}).get("up"):
                self.state.down.discard(node)

    def _end(self, known: _Round, node: str, shape: RestartShape) -> bool:
        env = self.state.env
        try:
            end = env[PROCESSES].kill if shape.how == "kill" else env[PROCESSES].stop
            evidence = known.restarted[node] = dict(end(node)[node])
            if shape.upgrade:
                evidence |= env[UPGRADES].upgrade(node)[node]
            return True
        except Exception as error:
            known.errors.append(trouble(error, node))
            return False

    def _begin(self, known: _Round, node: str) -> None:
        try:
            evidence = self.state.env[PROCESSES].start(node)[node]
            known.restarted.setdefault(node, {}).update(evidence, up=True)
        except Exception as error:
            known.errors.append(trouble(error, node))

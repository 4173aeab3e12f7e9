"""An operator in virtual time: carries out voter changes, one after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from kraftwreck.harness.capabilities import MemberChange
from kraftwreck.harness.client import Answer
from kraftwreck.harness.simulated.calls import virtual_call
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.faults.voter_changes import Members, Pause, Steps, carry_out

ADMIN = 1_000_000
"""The number of the operator's connections, distinct from those of clients."""


class VirtualAdmin:
    """Accepts voter changes, and retries each until it is done or refused."""

    def __init__(self, world: World, members: Members) -> None:
        self._world = world
        self._members = members
        self._queue: deque[MemberChange] = deque()
        self._steps: Steps | None = None
        self._ended: list[dict[str, Any]] = []

    @property
    def open(self) -> int:
        """The number of changes that are not done yet."""
        return len(self._queue) + (self._steps is not None)

    def ask(self, changes: Sequence[MemberChange]) -> None:
        """Queue ``changes`` after earlier ones."""
        self._queue.extend(changes)
        if self._steps is None:
            self._next()

    def take_ended(self) -> list[dict[str, Any]]:
        """Return the results of changes since the last call."""
        ended, self._ended = self._ended, []
        return ended

    def _next(self) -> None:
        self._steps = None
        if self._queue:
            change = self._queue.popleft()
            self._world.fact(f"admin {change.action} {change.node}")
            self._steps = carry_out(change, self._members, self._following)
            self._advance(None)

    def _following(self) -> MemberChange | None:
        return self._queue[0] if self._queue else None

    def _advance(self, answer: Answer | None) -> None:
        steps = self._steps
        assert steps is not None
        try:
            step = next(steps) if answer is None else steps.send(answer)
        except StopIteration as stop:
            self._ended.append(stop.value.as_evidence())
            self._next()
            return
        if isinstance(step, Pause):
            at = self._world.now + step.ms * 1000
            self._world.at(at, lambda: self._advance(None), "admin")
        else:
            virtual_call(self._world, ADMIN, step, self._advance)

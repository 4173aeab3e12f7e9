"""One member of the store: a client's request in, one answer out. Pure, like the core below it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kraftwreck.nodes.consensus.effects import Effect, Event
from kraftwreck.nodes.consensus.embedded import Core, Embedded, NotLeaderError, Outcome
from kraftwreck.nodes.store.machine import COMMANDS, Command, Store, encode

Answer = Callable[[dict[str, Any]], None]
UNKNOWN: Final = "unknown"
"""The error of a command that may or may not happen."""
NOT_LEADER: Final = "not leader"


class StoreService:
    """A member; :meth:`ask` takes a client's request and answers it once, in this step or later.

    Requests are ``read`` (key) and the commands of :class:`~nodes.store.machine.Store`. Answers
    have ``ok``, and ``value`` for a read. If ``ok`` is false, ``error`` gives the reason: with
    :data:`NOT_LEADER` nothing was done; ``leader`` is the id of the leader (-1: unknown), ``host``
    where it listens (or None). With :data:`UNKNOWN` the command may or may not happen.
    ``machine`` is the state, by default empty.
    """

    def __init__(
        self, core: Core, *, machine: Store | None = None, snapshot_bytes: int = 1 << 20
    ) -> None:
        self.machine = Store() if machine is None else machine
        self.consensus = Embedded(core, self.machine, snapshot_bytes=snapshot_bytes)

    @property
    def deadline(self) -> int:
        """The time at which the next Tick is due, monotonic microseconds."""
        return self.consensus.deadline

    def start(self, now: int, wall_ms: int) -> list[Effect]:
        """Start from the recovered state."""
        return self.consensus.start(now, wall_ms)

    def step(self, event: Event, now: int, wall_ms: int) -> list[Effect]:
        """Handle an event of the core, or a Tick."""
        return self.consensus.step(event, now, wall_ms)

    def ask(self, request: Command, answer: Answer, now: int) -> list[Effect]:
        """Handle a client's request."""
        do = request.get("do")
        try:
            if do == "read" and "key" in request:
                key = str(request["key"])
                self.consensus.barrier(lambda fresh: answer(self._read(key, fresh)))
            elif isinstance(do, str) and do in COMMANDS:
                self.consensus.propose([encode(request)], lambda told: answer(_answer(told)))
            else:
                answer({"ok": False, "error": f"unknown request {do!r}"})
        except NotLeaderError:
            where = self.consensus.leader_endpoint
            leader = {"leader": self.consensus.leader_id, "host": where.host if where else None}
            answer({"ok": False, "error": NOT_LEADER, **leader})
        return self.consensus.settle()

    def _read(self, key: str, fresh: Outcome) -> dict[str, Any]:
        if not fresh.certain:
            return {"ok": False, "error": UNKNOWN}
        return {"ok": True, "value": self.machine.read(key)}


def _answer(outcome: Outcome) -> dict[str, Any]:
    """Return the answer to a command: the result of applying it."""
    return dict(outcome.results[0]) if outcome.certain else {"ok": False, "error": UNKNOWN}

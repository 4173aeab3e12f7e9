"""Turns of the event loops of processes: requests that arrive within one are handled by one step.

A real process receives from all of its connections in one turn of its loop, and may pass some kinds
of requests to its core together. The code that gathers them is that of the real process.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from kraftwreck.simulation.host import Gathering, Host
from kraftwreck.simulation.timeline import TIMER, Timeline

EndTurn = Callable[[], None]


class MakeGathering(Protocol):
    """Makes the gathering of a process. ``step`` passes an event to the core; ``defer`` calls a
    function when the turn is over."""

    def __call__(
        self, step: Callable[[Any], None], defer: Callable[[EndTurn], None]
    ) -> Gathering: ...


class Turns:
    """Gathers requests of the types ``kinds`` for each process, during a turn of ``length`` µs.

    ``step`` lets a process handle an event. ``ended`` is called for a process whose turn is over:
    it calls :attr:`Host.turn_end` once it runs.
    """

    def __init__(
        self,
        time: Timeline,
        length: int,
        kinds: frozenset[type],
        make: MakeGathering,
        step: Callable[[Host, Any], None],
        ended: Callable[[Host], None],
    ) -> None:
        self._time = time
        self._length = length
        self._kinds = kinds
        self._make = make
        self._step = step
        self._ended = ended
        time.register("turn", TIMER, self._on_turn)

    def gathers(self, event: Any) -> bool:
        """Whether ``event`` waits for the end of the turn."""
        return type(event) in self._kinds

    def add(self, host: Host, event: Any) -> None:
        """Let the process on ``host`` handle ``event`` when its turn is over."""
        gathering = host.gathering
        if gathering is None:
            gathering = host.gathering = self._make(
                partial(self._step, host), partial(self._defer, host)
            )
        gathering.add(event)

    def _defer(self, host: Host, end: EndTurn) -> None:
        self._time.schedule(self._time.now + self._length, "turn", host, host.life, end)

    def _on_turn(self, host: Host, life: int, end: EndTurn) -> None:
        if host.life == life and host.node is not None:
            host.turn_end = end
            self._ended(host)

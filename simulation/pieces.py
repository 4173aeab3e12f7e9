"""Work on a disk beside the process of a host, as a thread of a real node does it.

Pieces of work are carried out in order, one at a time, while the process handles events. A piece
changes files when its time is over; then its process learns of the result, once it has time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(slots=True, eq=False)
class Piece:
    """``work`` changes files, and ``done`` gets its result in the process. ``cause`` is the effect
    that the process requested.

    As an event of the process it means that the work is over.
    """

    work: Callable[[], Any]
    done: Callable[[Any], None]
    cause: Any
    result: Any = None


class WorkBeside(Protocol):
    """The work of a disk beside its process. ``pieces`` are those that have not ended, in order."""

    pieces: deque[Piece]

    def begin_work(self) -> None:
        """Begin the first of the pieces."""
        ...

    def work(self) -> Piece:
        """Carry out the first of the pieces and return it. Raises OSError if the hardware fails."""
        ...

    def interrupt_work(self, draw: int) -> None:
        """Let the process die during the first of the pieces."""
        ...

    def take_events(self) -> list[Any]:
        """Return the events that the disk caused since the last call, in order."""
        ...

    def stopped(self, effect: Any) -> None:
        """End the work as a process does that stops in good order. Raises OSError."""
        ...

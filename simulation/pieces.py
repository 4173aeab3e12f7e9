"""Work on a disk beside the process of a host, as a thread of a real node does it.

Pieces of work are carried out in order, one at a time, while the process handles events. A piece
changes files when its time is over; then its process learns of the result, once it has time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


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

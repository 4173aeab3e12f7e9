"""Defects put into single operations of the active controller, in virtual time.

Code that is right never fails for a reason nobody foresaw, so what a controller does when it does
would never be seen: it gives up its lead, and leaves the rest to another (KAFKA-13104). A request
that cannot be read stands for the defect. Trace and checkers know it by :data:`TEXT`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from nodes.draw import draw_below
from simulation.world import World

TEXT: Final = "a defect that was put in"
CLIENT: Final = 3_000_000
"""The number of the connection, beside those of clients and operators."""
VERSION: Final = 1
TIMEOUT_US: Final = 5_000_000
EARLIEST_US: Final = 2_000_000


class _Defect(list[Any]):
    """A list that fails whoever looks at what is in it, until its request is over."""

    armed = True

    def __iter__(self) -> Iterator[Any]:
        if self.armed:
            raise RuntimeError(TEXT)
        return iter(())


def plant(world: World, controllers: tuple[str, ...], seed: int, count: int, until: int) -> None:
    """Let ``count`` operations fail before ``until`` (µs), each on whoever is asked: all are, and
    only the active controller tries to carry it out."""
    for number in range(count):
        span = max(1, until - EARLIEST_US)
        at = EARLIEST_US + draw_below(span, seed, "defect", number)
        world.at(at, lambda: _ask_all(world, controllers), f"defect {number}")


def _ask_all(world: World, controllers: tuple[str, ...]) -> None:
    for name in controllers:
        broken = _Defect()
        body = {"timeout_ms": 1000, "feature_updates": broken, "validate_only": False}

        def done(status: str, answer: dict[str, Any], error: str | None, b: Any = broken) -> None:
            b.armed = False

        world.call(CLIENT, name, "UpdateFeatures", VERSION, body, TIMEOUT_US, done)

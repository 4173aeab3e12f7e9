"""Planted defects: single operations of the active controller fail, in virtual time.

Correct code never fails unexpectedly, so a controller's reaction to a failure would never be
tested: it resigns, and another one takes over (KAFKA-13104). A request that cannot be read
simulates the failure. Traces and checkers recognize it by :data:`TEXT`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kraftwreck.nodes.draw import draw_below
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.api_message import ApiMessage

TEXT: Final = "a defect that was put in"
CLIENT: Final = 3_000_000
"""The number of the connection, distinct from those of clients and operators."""
VERSION: Final = 1
TIMEOUT_US: Final = 5_000_000
EARLIEST_US: Final = 2_000_000


class _Defect(list[Any]):
    """A list that raises an error when it is read, until its request has ended."""

    armed = True

    def __iter__(self) -> Iterator[Any]:
        if self.armed:
            raise RuntimeError(TEXT)
        return iter(())


def plant(world: World, controllers: tuple[str, ...], seed: int, count: int, until: int) -> None:
    """Let ``count`` operations fail before ``until`` (µs).

    All controllers get each request, but only the active one tries to carry it out.
    """
    for number in range(count):
        span = max(1, until - EARLIEST_US)
        at = EARLIEST_US + draw_below(span, seed, "defect", number)
        world.at(at, lambda: _ask_all(world, controllers), f"defect {number}")


def _ask_all(world: World, controllers: tuple[str, ...]) -> None:
    for name in controllers:
        broken = _Defect()
        body = {"timeout_ms": 1000, "feature_updates": broken, "validate_only": False}

        def done(status: str, answer: Any, error: str | None, b: Any = broken) -> None:
            b.armed = False

        request = ApiMessage("UpdateFeatures", VERSION, body)
        world.call(CLIENT, name, request, TIMEOUT_US, done)

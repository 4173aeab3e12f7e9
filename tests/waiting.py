"""Wait for what other threads and processes do, however busy the machine is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LIMIT_S = 300.0
"""Only a hang takes longer, also at a load of 30."""
LIMIT_MS = int(1000 * LIMIT_S)
"""The time-out of a request that must succeed."""


def wait_until(condition: Callable[[], T], what: str = "it happens") -> T:
    """Return the first true value of ``condition``; fail if there is none in :data:`LIMIT_S`."""
    deadline = time.monotonic() + LIMIT_S
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {LIMIT_S:g} s: {what}"
        time.sleep(0.01)
    return value


async def wait_in_loop(condition: Callable[[], object]) -> None:
    """Let the event loop run until ``condition`` is true."""
    async with asyncio.timeout(LIMIT_S):
        while not condition():
            await asyncio.sleep(0.01)

"""The limit to which other nodes may raise this node's epoch.

An epoch is a durable int32 that only grows. A single request with the last epoch would leave the
quorum without an epoch for the next election. Real epochs take time, one election each. So a node
accepts ``START_LEAP`` epochs beyond the one it started with, and one more for each ``PERIOD_US`` of
its running time (docs/decisions/0030-frames-that-kill.md).
"""

from __future__ import annotations

from typing import Final

MAX_EPOCH: Final = 2**31 - 1
"""The largest epoch Kafka's messages and files can carry."""
START_LEAP: Final = 1 << 20
"""Epochs a node can have missed before it started: twelve days of an election per second."""
PERIOD_US: Final = 100_000
"""At this pace all epochs last 6.8 years."""


class EpochLimit:
    """The largest epoch accepted by a node that started with ``epoch`` at ``now`` (µs)."""

    __slots__ = ("_epoch", "_started")

    def __init__(self, epoch: int, now: int) -> None:
        self._epoch = epoch
        self._started = now

    def at(self, now: int) -> int:
        """Return the largest epoch accepted at ``now``."""
        earned = (now - self._started) // PERIOD_US
        return min(self._epoch + START_LEAP + earned, MAX_EPOCH - 1)

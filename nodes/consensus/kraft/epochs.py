"""How far other nodes may raise this node's epoch (docs/decisions/0030-frames-that-kill.md).

An epoch is an int32, only grows and is durable: a single request that names the last one would
leave the quorum no epoch to elect a leader in. Real epochs cost time, one election each. So a node
believes in ``START_LEAP`` epochs beyond the one it started with, and in one more for each
``PERIOD_US`` it has been running.
"""

from __future__ import annotations

from typing import Final

MAX_EPOCH: Final = 2**31 - 1
"""The largest epoch Kafka's messages and files can carry."""
START_LEAP: Final = 1 << 20
"""Epochs a node can have missed before it started: twelve days of an election per second."""
PERIOD_US: Final = 100_000
"""The space of epochs lasts 6.8 years at this pace."""


class EpochLimit:
    """The largest epoch believed by a node that started with ``epoch`` at ``now`` (µs)."""

    __slots__ = ("_epoch", "_started")

    def __init__(self, epoch: int, now: int) -> None:
        self._epoch = epoch
        self._started = now

    def at(self, now: int) -> int:
        """Return the largest epoch that is believed at ``now``."""
        earned = (now - self._started) // PERIOD_US
        return min(self._epoch + START_LEAP + earned, MAX_EPOCH - 1)

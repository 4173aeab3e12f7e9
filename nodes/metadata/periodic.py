"""The periodic tasks of the active controller.

Each run computes one change on the head of the image. If there is more to do it runs again at once,
on the resulting state (KAFKA-13173).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kraftwreck.nodes.metadata.brokers import fence_stalest
from kraftwreck.nodes.metadata.elections import MAX_ELECTIONS, elect_preferred, elect_unclean
from kraftwreck.nodes.metadata.operation import Context, Record, Settings

MILLISECOND: Final = 1000
SECOND: Final = 1_000_000
NEVER: Final = 2**63 - 1
CHECKS_PER_SESSION: Final = 8
"""Checks for expired sessions per session timeout."""

Run = tuple[list[Record], bool]
"""The records of one run, and whether the task is to run again at once."""


def fence_stale_broker(context: Context) -> Run:
    """Fence the broker that has been silent for longest, if its session has expired."""
    records = fence_stalest(context)
    return records, bool(records)


def elect_preferred_leaders(context: Context) -> Run:
    """Elect preferred leaders where they do not lead (``auto.leader.rebalance.enable``)."""
    records = elect_preferred(context)
    return records, len(records) >= MAX_ELECTIONS


def elect_unclean_leaders(context: Context) -> Run:
    """Elect any replica as leader of leaderless partitions whose topics permit it."""
    records = elect_unclean(context)
    return records, len(records) >= MAX_ELECTIONS


@dataclass(slots=True)
class Task:
    """A periodic task; ``period`` and ``due`` are microseconds."""

    name: str
    period: int
    run: Callable[[Context], Run]
    due: int = NEVER


class Schedule:
    """The periodic tasks of one controller; none is due before :meth:`start`."""

    def __init__(self, settings: Settings) -> None:
        rebalance = settings.leader_imbalance_check_interval_seconds
        periods = (
            (
                "fence-stale-broker",
                settings.session_timeout_ms * MILLISECOND // CHECKS_PER_SESSION,
                fence_stale_broker,
            ),
            (
                "elect-preferred",
                rebalance * SECOND if settings.auto_leader_rebalance_enable else 0,
                elect_preferred_leaders,
            ),
            (
                "elect-unclean",
                settings.unclean_leader_election_interval_ms * MILLISECOND,
                elect_unclean_leaders,
            ),
        )
        self._tasks = [Task(name, period, run) for name, period, run in periods if period > 0]

    @property
    def deadline(self) -> int:
        """When the next task is due."""
        due = NEVER
        for task in self._tasks:
            if task.due < due:
                due = task.due
        return due

    def start(self, now: int) -> None:
        """Let every task run for the first time one period from ``now``."""
        for task in self._tasks:
            task.due = now + task.period

    def stop(self) -> None:
        """Stop all tasks."""
        for task in self._tasks:
            task.due = NEVER

    def take_due(self, now: int) -> list[Task]:
        """Return the tasks to run now; each is due again one period later."""
        due = [task for task in self._tasks if task.due <= now]
        for task in due:
            task.due = now + task.period
        return due

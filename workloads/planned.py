"""The base of workloads whose operations depend on thread and position only."""

from __future__ import annotations

from abc import ABC, abstractmethod

from kraftwreck.harness.generator import Generator, Planned
from kraftwreck.harness.workload import Load
from kraftwreck.workloads.generators import EachThread, Plans, Stagger


class PlannedWorkload(ABC):
    """Each thread invokes its own operations, one after the other, at the rate of the run."""

    @abstractmethod
    def plan(self, seed: int, thread: int, count: int) -> Planned:
        """Return the ``count``-th operation of ``thread``; random choices by key."""

    def generator(self, load: Load) -> Generator:
        """Return the operations of all threads."""
        return EachThread(Stagger(Plans(self.plan), load.period_s))

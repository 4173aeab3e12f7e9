"""Coverage of each test of a night.

Coverage by kind of cluster steers the order of runs. This one is for the store's page, whose heat
maps follow a filter.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from kraftwreck.histories.store import write_json
from kraftwreck.histories.undecodable import UNDECODABLE
from kraftwreck.nemesis.coverage import Counts, Coverage
from kraftwreck.nightly.record import Record

FILE = "coverage_by_test.json"
MOST_TESTS = 1000
"""Further tests are not counted: the file is written every half minute."""


class Reached(msgspec.Struct, kw_only=True):
    """A test, and in how many of its ``runs`` each item of its coverage was reached
    (:class:`nemesis.coverage.Coverage`)."""

    system: str
    workload: str
    faults: list[str]
    cluster: str
    tree: str
    runs: int = 0
    follows: Counts = {}
    struck: Counts = {}


class ByTest:
    """The tests of a night by their properties."""

    def __init__(self, tests: list[Reached]) -> None:
        self._tests = {(t.system, t.workload, tuple(t.faults), t.cluster, t.tree): t for t in tests}

    @classmethod
    def read(cls, night: Path) -> ByTest:
        """Return the contents of the folder ``night``; empty if they are missing or unreadable."""
        try:
            return cls(msgspec.json.decode((night / FILE).read_bytes(), type=list[Reached]))
        except (OSError, *UNDECODABLE):
            return cls([])

    def add(self, record: Record, coverage: Coverage) -> None:
        """Count the coverage of a run."""
        key = (
            record.system, record.workload, tuple(record.faults), record.cluster, record.tree
        )  # fmt: skip
        test = self._tests.get(key)
        if test is None:
            if len(self._tests) >= MOST_TESTS:
                return
            test = self._tests[key] = Reached(
                system=record.system,
                workload=record.workload,
                faults=record.faults,
                cluster=record.cluster,
                tree=record.tree,
            )
        test.runs += coverage.runs
        for mine, new in ((test.follows, coverage.follows), (test.struck, coverage.struck)):
            for name, count in new.items():
                mine[name] = mine.get(name, 0) + count

    def write(self, night: Path) -> None:
        """Write the file. Raises StoreError."""
        write_json(night / FILE, list(self._tests.values()))

"""A pytest plugin for a foreign suite: it writes when each test ran, and how it ended.

The file is named by the environment variable SUITE_OUTCOMES; a line is a JSON object.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

_MOST = 300
_WORST = ("passed", "skipped", "failed")


class Outcomes:
    """The phases of each test, written to ``path`` when the last one is over.

    Messages name files relative to ``root``, so that records are the same on all machines.
    """

    def __init__(self, path: Path, root: Path) -> None:
        self._path = path
        self._root = f"{root}/"
        self._began: dict[str, float] = {}
        self._outcome: dict[str, str] = {}
        self._said: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take in one phase: an error of a fixture fails the test."""
        test = report.nodeid
        self._began.setdefault(test, report.start)
        before = self._outcome.get(test, "passed")
        self._outcome[test] = max(before, report.outcome, key=_WORST.index)
        if report.failed:
            said = report.longreprtext.replace(self._root, "").strip().splitlines()
            errors = [line for line in said if line.startswith("E ")]
            self._said.setdefault(test, (errors or said or [""])[0][2:].strip()[:_MOST])
        if report.when != "teardown":
            return
        line = {
            "test": test,
            "outcome": self._outcome[test],
            "began": self._began[test],
            "ended": report.stop,
            "said": self._said.get(test, ""),
        }
        with self._path.open("a") as out:
            out.write(json.dumps(line) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    """Register the writer."""
    config.pluginmanager.register(Outcomes(Path(os.environ["SUITE_OUTCOMES"]), config.rootpath))

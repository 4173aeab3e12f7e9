"""Shrink failures with ``kraftwreck shrink``, within the night's budget."""

from __future__ import annotations

import threading
from pathlib import Path

from kraftwreck.harness.archive import PROJECT_TREE
from kraftwreck.nightly.attempt import ChildRegistry, InterruptedRun
from kraftwreck.nightly.child import Child
from kraftwreck.nightly.config import Limits
from kraftwreck.nightly.record import Failure
from kraftwreck.nightly.request import Tools

SHRUNK = "shrunk"
LAST_RUNS_S = 120.0
"""Time for a search after a request to end: it repeats its best case, with and without the bug."""
_SLACK, _SLACK_S = 6.0, 60.0
"""A search of some CPU seconds gets this many times as much wall clock time, plus this much."""


class Shrinker:
    """Shrinks one failure after the other, each for at most ``limits.shrink_s`` CPU seconds."""

    def __init__(self, limits: Limits, tools: Tools, children: ChildRegistry) -> None:
        self._limits = limits
        self._tools = tools
        self._children = children
        self._spent_s = 0.0
        self._lock = threading.Lock()

    def shrink(self, case: Path, failure: Failure, output: Path) -> tuple[Path | None, float]:
        """Return the file of the smallest case, None for none, and the CPU seconds spent.

        Raises :class:`~nightly.attempt.InterruptedRun` when the night ends meanwhile.
        """
        limits = self._limits
        with self._lock:
            budget_s = min(limits.shrink_s, limits.shrink_total_s - self._spent_s)
            if budget_s <= 0:
                return None, 0.0
            self._spent_s += budget_s
        command = [*self._tools.shrink, str(case), "--budget", f"{budget_s:g}"]
        command += ["--failure", f"{failure.checker}:{failure.type}"]
        command += ["--save", str(case.parent), "--name", SHRUNK]
        # When told to end, the search keeps the best case so far.
        child = Child(polite=True, group=True, grace_s=LAST_RUNS_S)
        self._children.add(child)
        try:
            ended = child.run(
                command,
                given=b"",
                output=output,
                limit_s=_SLACK * budget_s + _SLACK_S,
                environment=self._tools.environment(PROJECT_TREE),
            )
        finally:
            self._children.remove(child)
        with self._lock:
            self._spent_s += ended.cpu_s - budget_s
        if ended.stopped:
            raise InterruptedRun
        file = case.with_name(f"{SHRUNK}.json")
        return (file if file.is_file() else None), ended.cpu_s

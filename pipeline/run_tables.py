"""Spark beside a run: started when the test begins, used when it ends."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from kraftwreck.histories.verdict import Verdict
from kraftwreck.pipeline.background import Handle, start
from kraftwreck.pipeline.java import PipelineError


class SparkTables:
    """The tables of one run. A problem with Spark is printed, and never fails the run."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._pool = ThreadPoolExecutor(1, "spark")
        self._starting: Future[Handle | None] | None = None
        self._summary: Future[dict[str, Any] | None] | None = None

    def begin(self, folder: Path) -> None:
        """Start Spark in the background for the run in ``folder``; return at once."""
        self._starting = self._pool.submit(self._start, folder)

    def _start(self, folder: Path) -> Handle | None:
        try:
            return start(folder)
        except (PipelineError, OSError) as error:
            self._say(f"no Spark tables: {error}")
            return None

    def compute(self, folder: Path) -> None:
        """Start computing the tables of the complete run, in the background."""
        if self._starting is not None:
            self._summary = self._pool.submit(self._compute, self._starting, folder)

    def _compute(self, starting: Future[Handle | None], folder: Path) -> dict[str, Any] | None:
        handle = starting.result()
        return None if handle is None else handle.finish(folder)

    def finish(self, verdict: Verdict) -> dict[str, Any] | None:
        """Wait for the tables; return their summary, None without them.

        The same checkers judged the run in this process and in Spark; if the verdicts differ,
        an error is printed.
        """
        if self._summary is None:
            return None
        try:
            summary = self._summary.result()
        except PipelineError as error:
            self._say(f"no Spark tables: {error}")
            return None
        if summary is None:
            return None
        found = ""
        if summary["tables"]["leaders"]:
            found = (
                f"; {summary['epochs_with_two_leaders']} epochs with two leaders,"
                f" {summary['lost_commits']} lost commits"
            )
        self._say(f"tables:  {summary['analysis']} (Spark, {summary['seconds']:.1f} s{found})")
        if summary["valid"] != verdict.valid:
            self._say(
                f"error: Spark's verdict is {summary['valid']}, this process's {verdict.valid}:"
                " the checkers are not deterministic, please report it"
            )
        return summary

    def close(self) -> None:
        """Release Spark, whatever its state."""
        self._pool.shutdown(wait=False)
        handle = self._starting.result() if self._starting is not None else None
        if handle is not None:
            handle.close()

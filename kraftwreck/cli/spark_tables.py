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
        self._handle: Handle | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._summary: Future[dict[str, Any]] | None = None

    def begin(self, folder: Path) -> None:
        """Start Spark in the background for the run in ``folder``."""
        try:
            self._handle = start(folder)
        except (PipelineError, OSError) as error:
            self._say(f"no Spark tables: {error}")

    def compute(self, folder: Path) -> None:
        """Start computing the tables of the complete run, in the background."""
        if self._handle is not None:
            self._pool = ThreadPoolExecutor(1, "spark")
            self._summary = self._pool.submit(self._handle.finish, folder)

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
        self._say(
            f"tables:  {summary['analysis']} (Spark, {summary['seconds']:.1f} s;"
            f" {summary['epochs_with_two_leaders']} epochs with two leaders,"
            f" {summary['lost_commits']} lost commits)"
        )
        if summary["valid"] != verdict.valid:
            self._say(
                f"error: Spark's verdict is {summary['valid']}, this process's {verdict.valid}:"
                " the checkers are not deterministic, please report it"
            )
        return summary

    def close(self) -> None:
        """Release Spark, whatever its state."""
        if self._handle is not None:
            self._handle.close()
        if self._pool is not None:
            self._pool.shutdown(wait=False)

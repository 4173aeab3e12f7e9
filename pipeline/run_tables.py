"""Spark beside a run: started when the test begins, used when it ends."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from kraftwreck.pipeline.background import Handle, start
from kraftwreck.pipeline.java import PipelineError


class SparkTables:
    """The tables of one run. A problem with Spark is printed, and never fails the run."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._pool = ThreadPoolExecutor(1, "spark")
        self._starting: Future[Handle | None] | None = None
        self._measuring: tuple[Handle, Path] | None = None

    def begin(self, folder: Path, seconds: float) -> None:
        """Start Spark in the background for the run in ``folder``, whose test takes so many
        seconds; return at once."""
        self._starting = self._pool.submit(self._start, folder, seconds)

    def _start(self, folder: Path, seconds: float) -> Handle | None:
        try:
            return start(folder, spare_s=seconds)
        except (PipelineError, OSError) as error:
            self._say(f"no Spark tables: {error}")
            return None

    def compute(self, folder: Path) -> None:
        """Start computing the tables of the complete run, in the background."""
        handle = self._starting.result() if self._starting is not None else None
        if handle is not None:
            handle.measure(folder)
            self._measuring = handle, folder

    def finish(self) -> dict[str, Any] | None:
        """Complete the tables of the run, which has been judged; return their summary, None without
        them."""
        if self._measuring is None:
            return None
        handle, folder = self._measuring
        try:
            summary = handle.finish_judged(folder)
        except PipelineError as error:
            self._say(f"no Spark tables: {error}")
            return None
        found = ""
        if summary["tables"]["leaders"]:
            found = (
                f"; {summary['epochs_with_two_leaders']} epochs with two leaders,"
                f" {summary['lost_commits']} lost commits"
            )
        self._say(f"tables:  {summary['analysis']} (Spark, {summary['seconds']:.1f} s{found})")
        return summary

    def close(self) -> None:
        """Release Spark, whatever its state."""
        self._pool.shutdown(wait=False)
        handle = self._starting.result() if self._starting is not None else None
        if handle is not None:
            handle.close()

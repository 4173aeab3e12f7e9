"""One whole test: run, tables, verdict and pages, with the exit code that they give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from kraftwreck.harness.archive import PROJECT_TREE
from kraftwreck.harness.clusters.cluster import Cluster
from kraftwreck.harness.options import RunOptions
from kraftwreck.harness.run import Outcome
from kraftwreck.histories.exit_codes import INTERRUPTED, INVALID, of_verdict
from kraftwreck.histories.store import UNWRITTEN, link_latest
from kraftwreck.histories.verdict import CheckerResult, Verdict
from kraftwreck.runs.judge import judge, measured_strength
from kraftwreck.runs.node_replay import ReplayAhead
from kraftwreck.runs.one_run import run_on_hosts
from kraftwreck.runs.simulated import simulated_run
from kraftwreck.systems import registry as systems

_NOTHING = {"run": CheckerResult(valid="unknown", error="the run is too incomplete to be judged")}

Say = Callable[[str], None]


class Tables(Protocol):
    """Computes the tables of one run while it is judged."""

    def begin(self, folder: Path, seconds: float) -> None:
        """Prepare while the test runs in ``folder``, for so many seconds."""
        ...

    def compute(self, folder: Path) -> None:
        """Begin to compute, if it was prepared; return at once."""
        ...

    def finish(self) -> Any:
        """Complete the tables of the judged run; return a summary as plain values."""
        ...

    def close(self) -> None:
        """End whatever still computes."""
        ...


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """A test that was run and judged; ``summary`` is that of its tables."""

    outcome: Outcome
    verdict: Verdict
    summary: Any

    @property
    def exit_code(self) -> int:
        """The exit code of the command: a proven anomaly outranks a harness failure."""
        if self.outcome.interrupted:
            return INTERRUPTED
        if self.verdict.valid is False:
            return INVALID
        if self.outcome.errors:
            return self.outcome.failure
        return of_verdict(self.verdict.valid)

    def as_json(self, repeat: str, instead: str | None) -> dict[str, Any]:
        """Return it as plain values; ``instead`` is why it ran in the simulator."""
        return {
            "valid": self.verdict.valid,
            "run": str(self.outcome.folder),
            "repeat": repeat,
            "checkers": {name: c.valid for name, c in self.verdict.checkers.items()},
            "suspicions": self.verdict.suspected,
            "strength": measured_strength(self.verdict),
            "errors": self.outcome.errors,
            "simulated_because": instead,
            "tables": self.summary,
        }


def run_and_judge(
    options: RunOptions,
    cluster: Cluster | None,
    tree: Path,
    say: Say,
    tables: Tables,
    write_pages: Callable[[Path, Say], None],
) -> JudgedRun:
    """Run one test on ``cluster`` (None: in the simulator) with the node code in ``tree``; judge
    it, and write its pages and ``tables``."""
    unwritten: list[str] = []

    def note(line: str) -> None:
        say(line)
        if line.startswith(UNWRITTEN):
            unwritten.append(line.removeprefix("error: "))

    ahead = ReplayAhead()
    verdicts: list[Verdict] = []

    def complete(folder: Path) -> None:
        tables.compute(folder)
        verdicts.append(judge(folder, note, ahead))

    try:
        if cluster is None:
            # Finished before Spark would be ready; kraftwreck analyze makes tables of such runs.
            outcome = simulated_run(options, tree)
            complete(outcome.folder)
        else:

            def began(folder: Path) -> None:
                if options.tables:
                    tables.begin(folder, options.time_limit_s)
                if _replayed_here(options, tree):
                    ahead.prepare(folder)

            def collected(folder: Path) -> None:
                ahead.begin()

            outcome = run_on_hosts(options, cluster, tree, say, began, collected, complete)
        if not verdicts:
            return JudgedRun(outcome, Verdict.of(_NOTHING), None)
        write_pages(outcome.folder, note)
        outcome.errors += unwritten
        summary = tables.finish()
        link_latest(outcome.folder)
        return JudgedRun(outcome, verdicts[0], summary)
    finally:
        tables.close()
        ahead.close()


def _replayed_here(options: RunOptions, tree: Path) -> bool:
    """Return whether the nodes' records can be replayed with the node code of this process."""
    system = systems.find(options.system)
    return tree == PROJECT_TREE and bool(getattr(system, "replayable", False))

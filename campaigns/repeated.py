"""Shrink a run of a system without a simulator: repeat it on hosts, each time with less.

Such a run does not fail from its seed alone. So every smaller test is tried with several seeds and
kept if one of them fails in the same way. The smallest test is run again to count its failures.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kraftwreck.campaigns.shrinking import PassesError, Say
from kraftwreck.harness.command_line import command_words
from kraftwreck.harness.options import RunOptions, run_options
from kraftwreck.histories.undecodable import UNDECODABLE
from kraftwreck.histories.verdict import stored_verdict

TRIES = 3
"""Seeds for each smaller test."""
COUNTED = 5
"""Runs of the smallest test that the hit rate counts."""
SHORTEST_S = 15.0
"""No test is made shorter than this."""
_RUN_S = 300.0
"""How much longer than its time limit one run may take."""


@dataclass(frozen=True, slots=True)
class Repeated:
    """The outcome of one run: its folder and its failures, each ``CHECKER:TYPE``."""

    folder: Path
    failures: frozenset[str]


Again = Callable[[RunOptions], Repeated]


@dataclass(slots=True)
class Shrunk:
    """The smallest test found, how many of its ``runs`` failed, and one that did."""

    options: RunOptions
    failing: Path
    hits: int = 0
    runs: int = 0
    tried: list[str] = field(default_factory=list)
    """Every smaller test that was tried, with what came of it, one line each."""


def failures_of(folder: Path) -> frozenset[str]:
    """Return the failures in ``results.json`` of a run; none if it has no verdict."""
    try:
        verdict = stored_verdict(folder)
    except (OSError, *UNDECODABLE):
        return frozenset()
    return frozenset(
        f"{checker}:{anomaly.type}"
        for checker, result in verdict.checkers.items()
        if result.valid is False
        for anomaly in result.anomalies
    )


def shrink_repeated(
    options: RunOptions,
    folder: Path,
    failure: str,
    again: Again,
    budget_s: float,
    say: Say,
    clock: Callable[[], float] = time.monotonic,
) -> Shrunk:
    """Return the smallest test found in ``budget_s`` seconds that fails by ``failure``.

    ``options`` and ``folder`` are those of the failing run. Once the time is over no run begins.
    """
    end = clock() + budget_s
    best = Shrunk(options, folder)
    known: list[RunOptions] = []
    smaller = _smaller(best.options)
    while (candidate := next(smaller, None)) is not None and clock() < end:
        if candidate in known:
            continue
        known.append(candidate)
        hits, runs, failing = _attempts(candidate, failure, again, TRIES, lambda: clock() < end)
        line = f"{_named(candidate)}: {hits} of {runs} runs"
        say(line)
        best.tried.append(line)
        if failing is not None:
            best.options, best.failing, best.hits, best.runs = candidate, failing, hits, runs
            smaller = _smaller(candidate)
    left = COUNTED - best.runs
    later = replace(best.options, seed=best.options.seed + best.runs)
    hits, runs, _ = _attempts(later, failure, again, left, lambda: clock() < end, to_end=True)
    best.hits, best.runs = best.hits + hits, best.runs + runs
    return best


def _attempts(
    options: RunOptions,
    failure: str,
    again: Again,
    most: int,
    on: Callable[[], bool],
    to_end: bool = False,
) -> tuple[int, int, Path | None]:
    """Run up to ``most`` seeds, until one fails unless ``to_end``: hits, runs, a failing run."""
    hits, runs, failing = 0, 0, None
    while runs < most and on() and (to_end or not hits):
        told = again(replace(options, seed=options.seed + runs))
        runs += 1
        if failure in told.failures:
            hits, failing = hits + 1, failing or told.folder
    return hits, runs, failing


def _smaller(options: RunOptions) -> Iterator[RunOptions]:
    """Yield tests with one family less, half the time, half the threads."""
    for family in options.faults:
        rest = tuple(name for name in options.faults if name != family)
        if rest:
            yield replace(options, faults=rest)
    if options.time_limit_s / 2 >= SHORTEST_S:
        yield replace(options, time_limit_s=options.time_limit_s / 2)
    if options.concurrency > 1:
        yield replace(options, concurrency=options.concurrency // 2)


def _named(options: RunOptions) -> str:
    threads = "threads" if options.concurrency > 1 else "thread"
    faults = ",".join(options.faults)
    return f"{faults}, {options.time_limit_s:g} s, {options.concurrency} {threads}"


def on_hosts(store: Path, say: Say) -> Again:
    """Return a function that repeats tests by ``kraftwreck run``, with run folders in ``store``."""

    def again(options: RunOptions) -> Repeated:
        wanted = replace(options, store=store, tables=False)
        words = command_words("run", options.system, options=run_options(wanted))
        command = [sys.executable, "-m", "kraftwreck", *words, "--json"]
        limit = options.time_limit_s + _RUN_S
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=limit, check=False
            )
            told: dict[str, Any] = json.loads(done.stdout)
        except (subprocess.TimeoutExpired, ValueError):
            return Repeated(store, frozenset())
        if done.returncode not in (0, 1, 2):
            raise PassesError(f"a repeated run failed: {done.stderr.strip().splitlines()[-1:]}")
        folder = Path(told["run"])
        say(f"  seed {options.seed}: {', '.join(sorted(failures_of(folder))) or 'no failure'}")
        return Repeated(folder, failures_of(folder))

    return again

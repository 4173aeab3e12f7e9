"""A pytest session that collects tests once, and tries each mutant in a forked process.

The forked process puts the mutant in (:mod:`bench.mutation.swap`) and runs the tests that reach it
(:mod:`bench.mutation.reach`) until one fails, which kills the mutant. So does a test that takes
much more CPU time than without the change, or hardly any for a while. A busy machine makes no
mutant endless.
"""

from __future__ import annotations

import gc
import math
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import FunctionType

import pytest

from bench.mutation.globals import bindings, rebind
from bench.mutation.places import Mutant, value_of
from bench.mutation.reach import (
    ARGUMENTS,
    Reached,
    SameExamples,
    measured,
    passed,
    reaching,
    uses,
)
from bench.mutation.swap import functions, import_judges, key_of, replacements, swap
from bench.mutation.trial import fails

GRACE_S = 10.0
TIMES_SLOWER = 5.0
"""A test is endless after its own CPU time, this many times, and the grace."""
LOOK_S = 30.0
ASLEEP = 0.01
"""A test waits for ever if it has less than this share of a processor for some seconds."""

Outcome = Callable[[Mutant, "bool | None"], None]
"""Receives a mutant and whether it was killed; None if it cannot be put into imported modules."""


class Trials:
    """A plugin of pytest that tries ``mutants`` in place of running the tests.

    Tests of more than ``most_s`` CPU seconds are left out.
    """

    def __init__(
        self, mutants: Iterable[Mutant], record: Path, outcome: Outcome, most_s: float
    ) -> None:
        self._mutants = mutants
        self._record = record
        self._outcome = outcome
        self._most_s = most_s

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Measure the tests and try all mutants."""
        items = sorted(session.items, key=lambda item: (str(item.path), item.nodeid))
        reached = measured(items, self._record)
        for item in items:
            if not reached[item.nodeid].passed:
                print(f"fails without any change: {item.nodeid}", flush=True)
        items = [item for item in items if reached[item.nodeid].seconds <= self._most_s]
        import_judges()
        known = functions()
        gc.freeze()  # A collection in a forked process would copy the memory of this one.
        for mutant in self._mutants:
            put_in, tests = self._way(mutant, known, items, reached)
            self._outcome(mutant, put_in and killed(put_in, tests, reached))
        return True

    def _way(
        self,
        mutant: Mutant,
        known: Mapping[str, list[FunctionType]],
        items: Sequence[pytest.Item],
        reached: Mapping[str, Reached],
    ) -> tuple[Callable[[], int] | None, list[pytest.Item]]:
        """Return how to put a mutant in (None: by a new import only), and the tests for it."""
        if mutant.kind == "constant":
            bound, value = bindings(mutant), value_of(mutant)
            if bound is None or value is None:
                return None, []
            lines = uses(mutant.scope)
            return partial(rebind, bound, value), reaching(lines, items, reached)
        new, mine = replacements(mutant), known.get(mutant.path, [])
        if not any(key_of(function.__code__) in new for function in mine):
            return None, []
        lines = {mutant.path: set(range(mutant.line, mutant.last_line + 1))}
        return partial(swap, mine, new), reaching(lines, items, reached)


def killed(
    put_in: Callable[[], int], items: Sequence[pytest.Item], reached: Mapping[str, Reached]
) -> bool:
    """Return whether one of the tests ``items`` fails after ``put_in``."""
    if not items:
        return False
    return fails(lambda: _try(items, reached) if put_in() else 0, raised=0)


def _try(items: Sequence[pytest.Item], reached: Mapping[str, Reached]) -> int:
    _end_when_asleep()
    following = [*items[1:], None]
    for item, next_item in zip(items, following, strict=True):
        # The signal ends the process.
        limit = GRACE_S + TIMES_SLOWER * reached[item.nodeid].seconds
        signal.setitimer(signal.ITIMER_PROF, limit)
        if not passed(item, next_item):
            return 1
    return 0


def _end_when_asleep() -> None:
    """End this process when it waits for something that does not happen."""
    spent = time.process_time()

    def look(*_: object) -> None:
        nonlocal spent
        before, spent = spent, time.process_time()
        if spent - before < ASLEEP * LOOK_S:
            os._exit(1)

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, LOOK_S, LOOK_S)


def run(
    files: Sequence[str],
    mutants: Iterable[Mutant],
    record: Path,
    outcome: Outcome,
    *,
    most_s: float = math.inf,
) -> None:
    """Collect the tests of ``files`` and try ``mutants`` with those of at most ``most_s`` CPU
    seconds. Raises SystemExit without tests."""
    plugins = [SameExamples(), Trials(mutants, record, outcome, most_s)]
    code = pytest.main([*ARGUMENTS, *files], plugins=plugins)
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise SystemExit(f"the tests cannot be collected: exit code {code}")

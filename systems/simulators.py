"""The simulator of each system: that of KRaft, and that of any core of one's own."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from pathlib import Path

from kraftwreck.harness.options import OptionError, RunOptions
from kraftwreck.harness.simulated import store
from kraftwreck.harness.simulated.core import is_core, load_core
from kraftwreck.harness.simulated.core_run import simulate_core
from kraftwreck.harness.simulated.driver import InjectorFactory
from kraftwreck.harness.simulated.result import SimResult
from kraftwreck.harness.simulated.store import read_test
from kraftwreck.harness.workload import Workload
from kraftwreck.histories.fault import Fault
from kraftwreck.histories.verdict import Verdict
from kraftwreck.simulation.knobs import WorldKnobs
from kraftwreck.systems.kraft.simulated import run as kraft_run
from kraftwreck.systems.kraft.simulated import store as kraft_store
from kraftwreck.systems.kraft.simulated.knobs import Knobs

KRAFT = "kraft"

ALWAYS = ("epochs", "committed", "invariants", "conformance", "recovery")
"""Checkers of every simulated run of KRaft, in addition to those of its workload."""


def has_simulator(system: str) -> bool:
    """Whether ``system`` brings a core."""
    return system == KRAFT or is_core(system)


def knobs_type(system: str) -> type[WorldKnobs]:
    """Return the type of the settings of a simulated run of ``system``."""
    return WorldKnobs if is_core(system) else Knobs


def always(system: str) -> Sequence[str]:
    """Return the checkers of every simulated run of ``system``. Raises OptionError."""
    return load_core(system).checkers if is_core(system) else ALWAYS


def simulate(
    options: RunOptions,
    workload: Workload,
    schedule: Sequence[Fault],
    injector: InjectorFactory,
    *,
    knobs: WorldKnobs | None = None,
    eager: bool = False,
    only: Set[tuple[int, int]] | None = None,
) -> SimResult:
    """Run one test of ``options.system`` in virtual time.

    See :func:`systems.kraft.simulated.run.simulate` and
    :func:`harness.simulated.core_run.simulate_core`. Raises OptionError.
    """
    if is_core(options.system):
        core = load_core(options.system)
        core = replace(core, workload=workload)
        return simulate_core(core, options, schedule, injector, knobs=knobs, eager=eager, only=only)
    assert knobs is None or isinstance(knobs, Knobs)
    return kraft_run.simulate(
        options, workload, schedule, injector, knobs=knobs, eager=eager, only=only
    )


def save(
    options: RunOptions,
    workload: Workload,
    result: SimResult,
    *,
    verdict: Verdict | None = None,
    repeat: str | None = None,
) -> Path:
    """Write ``result`` as a run folder: see :func:`harness.simulated.store.save`."""
    write = store.save if is_core(options.system) else kraft_store.save
    return write(options, workload, result, verdict=verdict, repeat=repeat)


def load(folder: Path) -> tuple[RunOptions, list[Fault], WorldKnobs, str]:
    """Return options, schedule, knobs and digest of the simulated run in ``folder``.

    Raises :class:`OptionError`, one line.
    """
    system = read_test(folder).get("system")
    if not isinstance(system, str):
        raise OptionError(f"{folder / 'test.json'}: system is missing")
    return store.load(folder, knobs_type(system))

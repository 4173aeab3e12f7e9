"""The simulator of each system: one of its own, or that of any core.

A package adds a simulator of its own with an entry point of the group ``kraftwreck.simulators``,
whose name is that of the system.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from pathlib import Path

from kraftwreck.harness.options import OptionError, RunOptions
from kraftwreck.harness.simulated import store
from kraftwreck.harness.simulated.core import is_core, is_spec, load_core
from kraftwreck.harness.simulated.driver import InjectorFactory
from kraftwreck.harness.simulated.result import SimResult
from kraftwreck.harness.simulated.store import read_test
from kraftwreck.harness.workload import Workload
from kraftwreck.histories.fault import Fault
from kraftwreck.histories.plugins import plugins
from kraftwreck.histories.system_name import DEFAULT_SYSTEM
from kraftwreck.histories.verdict import Verdict
from kraftwreck.simulation.knobs import WorldKnobs
from kraftwreck.systems.campaign import Campaign
from kraftwreck.systems.core_simulator import CoreSimulator
from kraftwreck.systems.simulator import Simulator

GROUP = "kraftwreck.simulators"


def has_simulator(system: str) -> bool:
    """Whether ``system`` brings a simulator, or a core."""
    return (not is_spec(system) and system in plugins(GROUP).found) or is_core(system)


def simulator(system: str) -> Simulator:
    """Return the simulator of ``system``. Raises OptionError for one that brings no core."""
    found: Simulator | None = None if is_spec(system) else plugins(GROUP).found.get(system)
    if found is not None:
        return found
    load_core(system)
    return CoreSimulator(system)


def everything(system: str = DEFAULT_SYSTEM) -> Campaign:
    """Return the campaign with all defaults, which hunts unknown bugs: nothing in it depends on a
    particular bug. A core has its own families of faults."""
    if is_core(system):
        return simulator(system).campaign(system=system, faults=tuple(load_core(system).faults))
    return simulator(system).campaign(system=system)


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
    """Run one test of ``options.system`` in virtual time. Raises OptionError."""
    return simulator(options.system).simulate(
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
    write = simulator(options.system).save
    return write(options, workload, result, verdict=verdict, repeat=repeat)


def load(folder: Path) -> tuple[RunOptions, list[Fault], WorldKnobs, str]:
    """Return options, schedule, knobs and digest of the simulated run in ``folder``.

    Raises :class:`OptionError`, one line.
    """
    system = read_test(folder).get("system")
    if not isinstance(system, str):
        raise OptionError(f"{folder / 'test.json'}: system is missing")
    return store.load(folder, simulator(system).knobs)

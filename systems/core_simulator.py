"""The simulator of a core: a ``CoreSystem`` as the commands run it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kraftwreck.harness.options import RunOptions
from kraftwreck.harness.simulated import store
from kraftwreck.harness.simulated.core import load_core
from kraftwreck.harness.simulated.core_run import simulate_core
from kraftwreck.harness.simulated.driver import InjectorFactory
from kraftwreck.harness.simulated.result import SimResult
from kraftwreck.harness.workload import Workload
from kraftwreck.histories.fault import Fault
from kraftwreck.histories.verdict import Verdict
from kraftwreck.nemesis.plan import core_faults
from kraftwreck.simulation.knobs import WorldKnobs
from kraftwreck.systems.campaign import Campaign
from kraftwreck.systems.core_campaign import CoreCampaign

NODE = "node"


@dataclass(frozen=True, slots=True)
class CoreSimulator:
    """The :class:`~systems.simulator.Simulator` of the core ``spec``, its name or
    ``MODULE:NAME``."""

    spec: str

    @property
    def knobs(self) -> type[WorldKnobs]:
        """The settings of any world."""
        return WorldKnobs

    @property
    def checkers(self) -> Sequence[str]:
        """The checkers that the core names. Raises OptionError."""
        return load_core(self.spec).checkers

    @property
    def campaign(self) -> Callable[..., Campaign]:
        """The campaigns of a core."""
        return CoreCampaign

    def check(self, options: RunOptions) -> None:
        """Accept all options."""

    def schedule(self, options: RunOptions) -> list[Fault]:
        """Return faults by time."""
        return core_faults(options)

    def draw(self, options: RunOptions) -> WorldKnobs:
        """Return the settings that the core draws. Raises OptionError."""
        return load_core(self.spec).draw(options.seed, options.nodes)

    def redraw(self, seed: int, nodes: int, known: WorldKnobs, *, snapshots: bool) -> WorldKnobs:
        """Draw other settings. Raises OptionError."""
        return load_core(self.spec).draw(seed, nodes)

    def simulate(
        self,
        options: RunOptions,
        workload: Workload,
        schedule: Sequence[Fault],
        injector: InjectorFactory,
        *,
        knobs: WorldKnobs | None = None,
        eager: bool = False,
        only: Set[tuple[int, int]] | None = None,
    ) -> SimResult:
        """Run one test: see :func:`harness.simulated.core_run.simulate_core`."""
        core = replace(load_core(self.spec), workload=workload)
        return simulate_core(core, options, schedule, injector, knobs=knobs, eager=eager, only=only)

    def save(
        self,
        options: RunOptions,
        workload: Workload,
        result: SimResult,
        *,
        verdict: Verdict | None = None,
        repeat: str | None = None,
    ) -> Path:
        """Write ``result`` as a run folder."""
        return store.save(options, workload, result, verdict=verdict, repeat=repeat)

    def position(self, event: Mapping[str, Any], result: SimResult) -> str:
        """Return the state that the trace event names."""
        return str(event["state"]) or NODE

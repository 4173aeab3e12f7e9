"""Campaigns of a core of one's own: only what is known of any core is drawn."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from kraftwreck.harness.options import OptionError, RunOptions
from kraftwreck.harness.simulated.core import load_core
from kraftwreck.histories.fault import Fault
from kraftwreck.nemesis.plan import core_faults
from kraftwreck.nodes.draw import draw_below
from kraftwreck.simulation.knobs import WorldKnobs
from kraftwreck.systems.campaign import ALL, Campaign

_RATES = (3.0, 5.0, 10.0, 10.0, 20.0)
_THREADS = (1, 3, 5, 10)

_NOT_OF_CORES = {
    "snapshots": "--snapshots",
    "corpus": "--steer",
    "compiled": "--compiled",
}
"""Options of a campaign, by parameter, that a core has no use for."""


def refuse_options(system: str, given: Set[str], workload: str) -> None:
    """Raise :class:`OptionError` for a parameter among ``given`` that the core ``system`` has no
    use for."""
    for name, option in _NOT_OF_CORES.items():
        if name in given:
            raise OptionError(f"{option} has no meaning for the core {system}")
    if workload != ALL and load_core(system).client is None:
        raise OptionError(f"-w has no meaning for the core {system}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreCampaign(Campaign):
    """Settings of all tests of a core. ``workload`` ``all``: the core's own one, or by seed.
    ``nodes`` 0: one of the core's own numbers. Faults come by time alone if the core declares no
    transitions.
    """

    def options(self, seed: int) -> RunOptions:
        """Return the options of the test with this ``seed``. Raises OptionError."""
        core = load_core(self.system)
        names = core.workloads if self.workload == ALL else (self.workload,)
        sizes = core.sizes or (core.nodes,)
        return RunOptions(
            system=self.system,
            workload=names[seed % len(names)],
            patch=self.patch,
            faults=self.faults,
            time_limit_s=self.time_limit_s,
            cluster="sim",
            nodes=self.nodes or sizes[draw_below(len(sizes), seed, "nodes")],
            seed=seed,
            rate=self.rate or _RATES[draw_below(len(_RATES), seed, "rate")],
            concurrency=self.concurrency or _THREADS[draw_below(len(_THREADS), seed, "threads")],
            style=self.style,
            interval_s=self.interval_s,
            governed=self.governed,
            floor=self.floor,
            store=self.store,
        )

    def knobs(self, seed: int) -> WorldKnobs:
        """Return the settings of the simulated world for the test with this ``seed``."""
        if self.style == "timed":
            return WorldKnobs()
        return load_core(self.system).draw(seed, self.options(seed).nodes)

    def schedule(self, seed: int) -> list[Fault]:
        """Return the faults of the test with this ``seed``."""
        return core_faults(self.options(seed))

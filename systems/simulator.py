"""The interface between the simulator of one system and the commands that run it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, Protocol

from kraftwreck.harness.options import RunOptions
from kraftwreck.harness.simulated.driver import InjectorFactory
from kraftwreck.harness.simulated.result import SimResult
from kraftwreck.harness.workload import Workload
from kraftwreck.histories.fault import Fault
from kraftwreck.histories.verdict import Verdict
from kraftwreck.simulation.knobs import WorldKnobs
from kraftwreck.systems.campaign import Campaign


class Simulator(Protocol):
    """The simulator of one system.

    ``knobs`` is the type of the settings of its runs. ``checkers`` judge every run, in addition to
    those of the workload. ``campaign`` makes a campaign from the fields of :class:`Campaign`.
    """

    @property
    def knobs(self) -> type[WorldKnobs]: ...

    @property
    def checkers(self) -> Sequence[str]: ...

    @property
    def campaign(self) -> Callable[..., Campaign]: ...

    def check(self, options: RunOptions) -> None:
        """Raise OptionError, one line, for an option of the system's own that needs hosts."""
        ...

    def schedule(self, options: RunOptions) -> list[Fault]:
        """Return the faults of ``kraftwreck run -c sim`` with these options."""
        ...

    def draw(self, options: RunOptions) -> WorldKnobs:
        """Return the settings of a run with these options, drawn from its seed."""
        ...

    def redraw(self, seed: int, nodes: int, known: WorldKnobs, *, snapshots: bool) -> WorldKnobs:
        """Draw other settings for a cluster like that of ``known``."""
        ...

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
        """Run one test in virtual time. Raises OptionError."""
        ...

    def save(
        self,
        options: RunOptions,
        workload: Workload,
        result: SimResult,
        *,
        verdict: Verdict | None = None,
        repeat: str | None = None,
    ) -> Path:
        """Write ``result`` as a run folder: see :func:`harness.simulated.store.save`."""
        ...

    def position(self, event: Mapping[str, Any], result: SimResult) -> str:
        """Return the position of a node at its trace event, such as ``leader``."""
        ...

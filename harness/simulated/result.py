"""The result of a simulated run, whatever the system."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kraftwreck.checkers.recorded.captured import Captured
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.histories.fault import FaultEvent
from kraftwreck.histories.operation import Op
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.simulation.failures import Failure
from kraftwreck.simulation.knobs import WorldKnobs


@dataclass(slots=True)
class SimResult:
    """The result of a simulated run. Times in ``ops`` and ``faults`` are nanoseconds of virtual
    time; ``sim_s`` is the virtual duration in seconds. ``derived`` has what checkers would derive
    from the run (:meth:`RunData.derived`), as far as the simulator made it already."""

    ops: list[Op]
    events: list[TraceEvent]
    faults: list[FaultEvent]
    images: list[Any]
    failures: list[Failure]
    digest: str
    sim_s: float
    processed: int
    knobs: WorldKnobs
    test: dict[str, Any]
    capture: Captured
    derived: dict[str, Any] = field(default_factory=dict)

    def data(self) -> RunData:
        """Return the run as checkers need it."""
        return RunData.from_memory(
            self.ops,
            self.events,
            self.faults,
            self.images,
            self.test,
            ordered=True,
            capture=self.capture,
            derived=self.derived,
        )

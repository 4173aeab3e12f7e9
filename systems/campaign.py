"""The settings of many simulated tests of one system; by default the seed decides everything."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

from kraftwreck.harness.command_line import command_line
from kraftwreck.harness.options import RunOptions, Style
from kraftwreck.harness.own_options import as_flags, declared
from kraftwreck.histories.fault import Fault
from kraftwreck.histories.system_name import DEFAULT_SYSTEM
from kraftwreck.simulation.knobs import WorldKnobs

ALL = "all"
NO_FLOOR = "none"
FAULTS = (
    "partition", "kill", "terminate", "pause", "membership", "power", "network", "clock", "disk",
)  # fmt: skip
"""The families of a campaign that names none. Families of installed packages are not among them: a
seed stands for the same test on every machine, whatever is installed there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign(ABC):
    """Settings of all tests in a campaign.

    ``workload`` may be ``all``: the seed chooses one. With ``nodes``, ``rate`` or ``concurrency`` 0
    the seed chooses. ``system_options`` are those of the system's campaigns, each ``NAME=VALUE``.
    Without ``snapshots`` nodes make none. ``patch`` is the planted bug of the node code.
    ``style``, ``interval_s``, ``governed`` and ``floor`` are as in
    :class:`~harness.options.RunOptions`; runs below the floor of their workload are weak.
    """

    system: str = DEFAULT_SYSTEM
    workload: str = ALL
    faults: tuple[str, ...] = FAULTS
    time_limit_s: float = 30.0
    nodes: int = 0
    rate: float = 0.0
    concurrency: int = 0
    system_options: tuple[str, ...] = ()
    snapshots: bool = True
    patch: Path | None = None
    style: Style = "swarm"
    interval_s: float | None = None
    governed: bool = False
    floor: str = NO_FLOOR
    store: Path = Path("store")

    @abstractmethod
    def options(self, seed: int) -> RunOptions:
        """Return the options of the test with this ``seed``. Raises OptionError."""

    @abstractmethod
    def knobs(self, seed: int) -> WorldKnobs:
        """Return the settings of its simulated world."""

    @abstractmethod
    def schedule(self, seed: int) -> list[Fault]:
        """Return its faults."""

    def repeat(self, seed: int) -> str:
        """Return the command that runs the test with this ``seed`` again."""
        options: dict[str, object] = {
            "-w": self.workload,
            "-n": self.faults,
            "-t": self.time_limit_s,
            "--nodes": self.nodes,
            "--rate": self.rate,
            "--concurrency": self.concurrency,
            **as_flags(declared(self.system).campaign, self.system_options),
            "--no-snapshots": not self.snapshots,
            "--style": self.style,
            "--interval": self.interval_s,
            "--governed": self.governed,
            "--floor": self.floor,
            "--store": self.store,
            "--patch": self.patch,
            "--seeds": f"{seed}..{seed}",
        }
        return command_line("sim", self.system, options=options)

"""The options of one test: every choice that is needed to repeat it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from kraftwreck.harness.command_line import command_line
from kraftwreck.harness.own_options import OptionError, as_flags, declared
from kraftwreck.histories.system_name import DEFAULT_SYSTEM

__all__ = ["OptionError", "RunOptions", "Style", "repeat_command", "run_options"]

DEFAULT_FAULTS = ("partition", "kill", "pause")

LONGEST_S = 10_000_000.0
"""Seconds; 115 days."""
MOST_NODES, MOST_CLIENTS = 200, 1000
MOST_RATE = 1_000_000.0
MOST_SEED = (1 << 63) - 1
TRANSACTION, MOST_TRANSACTION = 4, 1000

Style = Literal["storms", "swarm", "timed"]
"""How faults follow each other. ``storms``: with calm between them (:mod:`nemesis.storms`).
``swarm``: by time and by trigger, with settings of the simulator drawn for each run
(:mod:`nemesis.generator`). ``timed``: by the clock with one configuration for all runs, as in
Jepsen (:mod:`nemesis.timed`)."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of one run. Equal options and equal code give equal schedules.

    - ``faults``: fault families (empty: none)
    - ``time_limit_s``: seconds of clients and faults, without healing and final reads
    - ``rate``: operations per second of all clients together
    - ``concurrency``: number of client threads
    - ``transaction``: the largest number of micro-operations of a transaction, for the workloads
      ``append`` and ``txn`` of any system
    - ``nodes``: number of nodes that elect a leader, named ``n1`` … ``nN`` with ids 1 … N; a
      system may add hosts with other roles (:class:`harness.layout.Layout`)
    - ``snapshots``: nodes on hosts write one every few kilobytes, and keep little of their log
    - ``cluster``: ``netns``, ``vagrant``, ``sim`` or ``hosts:FILE``
    - ``mutant``: a planted bug of ``mutants/``; ``patch``: a patch file for ``nodes/``; at most
      one of them is set
    - ``other``: a folder with another version of ``nodes/``, to which ``restart`` upgrades
    - ``store``: the folder in which the run folder is written
    - ``tables``: Spark computes the tables of a run on hosts
    - ``lacking``: fault drivers that the hosts lack
      (:func:`harness.clusters.providers.lacking`); no fault that needs them is drawn
    - ``floor``: changes to the least values of a valid run (:func:`checkers.floor.parse_floor`)
    - ``style``: how faults follow each other (:data:`Style`); ``interval_s``: approximate seconds
      between them (None: the style's default)
    - ``governed``: faults of the style ``swarm`` come in storms, too
    - ``system_options``: the system's own options, each as ``NAME=VALUE``
    """

    system: str = DEFAULT_SYSTEM
    workload: str = "metadata"
    faults: tuple[str, ...] = DEFAULT_FAULTS
    time_limit_s: Annotated[float, Meta(gt=0, le=LONGEST_S)] = 60.0
    cluster: str = "netns"
    nodes: Annotated[int, Meta(ge=1, le=MOST_NODES)] = 5
    snapshots: bool = True
    seed: Annotated[int, Meta(ge=0, le=MOST_SEED)] = 0
    rate: Annotated[float, Meta(gt=0, le=MOST_RATE)] = 20.0
    concurrency: Annotated[int, Meta(ge=1, le=MOST_CLIENTS)] = 5
    transaction: Annotated[int, Meta(ge=1, le=MOST_TRANSACTION)] = TRANSACTION
    mutant: str | None = None
    patch: Path | None = None
    other: Path | None = None
    store: Path = Path("store")
    tables: bool = True
    lacking: tuple[str, ...] = ()
    floor: str | None = None
    style: Style = "storms"
    interval_s: Annotated[float, Meta(ge=0.5, le=LONGEST_S)] | None = None
    governed: bool = True
    system_options: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The test's name, which is the folder of all runs of this system and workload."""
        if ":" in self.system:  # MODULE:NAME, which is also the name of its workload
            return self.system.replace(":", "-")
        return f"{self.system}-{self.workload}"

    @property
    def node_names(self) -> tuple[str, ...]:
        """The nodes that elect a leader, in order; node id = position + 1."""
        return tuple(f"n{i}" for i in range(1, self.nodes + 1))

    def as_json(self) -> dict[str, Any]:
        """Return the options as plain JSON values, for ``test.json``."""
        plain = asdict(self)
        plain["faults"] = list(self.faults)
        plain["lacking"] = list(self.lacking)
        plain["system_options"] = list(self.system_options)
        plain["patch"] = None if self.patch is None else str(self.patch)
        plain["other"] = None if self.other is None else str(self.other)
        plain["store"] = str(self.store)
        return plain


def run_options(options: RunOptions) -> dict[str, object]:
    """Return the option values of ``kraftwreck run`` that give these ``options``."""
    own = as_flags(declared(options.system).run, options.system_options)
    others = own.pop("--option")
    return {
        "-w": options.workload,
        "-n": options.faults,
        "-t": options.time_limit_s,
        "-c": options.cluster,
        "--nodes": options.nodes,
        **own,
        "--no-snapshots": not options.snapshots,
        "--seed": options.seed,
        "--rate": options.rate,
        "--concurrency": options.concurrency,
        "--transaction": options.transaction if options.transaction != TRANSACTION else None,
        "--mutant": options.mutant,
        "--patch": options.patch,
        "--other": options.other,
        "--style": options.style if options.style != "storms" else None,
        "--interval": options.interval_s,
        "--floor": options.floor,
        "--option": others,
        "--no-tables": not options.tables,
        "--store": options.store,
    }


def repeat_command(options: RunOptions) -> str:
    """Return the shell command that runs the same test again."""
    return command_line("run", options.system, options=run_options(options))

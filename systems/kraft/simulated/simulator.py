"""KRaft's simulator, as the commands run it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, Final

from kraftwreck.harness.options import OptionError, RunOptions
from kraftwreck.harness.simulated.driver import InjectorFactory
from kraftwreck.harness.simulated.result import SimResult
from kraftwreck.harness.workload import Workload
from kraftwreck.histories.fault import Fault
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.histories.verdict import Verdict
from kraftwreck.nemesis.plan import plan_faults
from kraftwreck.simulation.knobs import WorldKnobs
from kraftwreck.systems.campaign import Campaign
from kraftwreck.systems.kraft.options import KraftOptions, Quorum
from kraftwreck.systems.kraft.simulated import run, store
from kraftwreck.systems.kraft.simulated.campaign import KraftCampaign
from kraftwreck.systems.kraft.simulated.knobs import Knobs, draw_knobs


class KraftSimulator:
    """The :class:`~systems.simulator.Simulator` of KRaft."""

    knobs: type[WorldKnobs] = Knobs
    checkers: Sequence[str] = ("topics", "invariants", "conformance", "recovery")
    campaign: Callable[..., Campaign] = KraftCampaign

    def check(self, options: RunOptions) -> None:
        """Refuse combined roles, since simulated nodes have one each, and options of records that
        need hosts."""
        own = KraftOptions.of(options)
        if own.needs_hosts:
            raise OptionError(
                "--client, --min-insync, --commit-mode and --unclean need real hosts, such as -c"
                " netns"
            )
        if own.combined:
            raise OptionError("--combined needs real hosts; use --brokers in the simulator")

    def schedule(self, options: RunOptions) -> list[Fault]:
        """Return the faults of one run with these options."""
        return plan_faults(options, KraftOptions.of(options).brokers)

    def draw(self, options: RunOptions) -> Knobs:
        """Return the settings of a run with these options, drawn from its seed."""
        return run.drawn(options)

    def redraw(self, seed: int, nodes: int, known: WorldKnobs, *, snapshots: bool) -> Knobs:
        """Draw other settings for the same kind of quorum and number of brokers."""
        assert isinstance(known, Knobs)
        quorum: Quorum = "dynamic" if known.dynamic else "static"
        return draw_knobs(
            seed,
            nodes,
            quorum=quorum,
            brokers=known.brokers,
            records=known.records,
            snapshots=snapshots,
        )

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
        """Run one test: see :func:`systems.kraft.simulated.run.simulate`."""
        assert knobs is None or isinstance(knobs, Knobs)
        return run.simulate(
            options, workload, schedule, injector, knobs=knobs, eager=eager, only=only
        )

    def save(
        self,
        options: RunOptions,
        workload: Workload,
        result: SimResult,
        *,
        verdict: Verdict | None = None,
        repeat: str | None = None,
    ) -> Path:
        """Write ``result`` as a run folder, with messages and disk images."""
        return store.save(options, workload, result, verdict=verdict, repeat=repeat)

    def position(self, event: Mapping[str, Any], result: SimResult) -> str:
        """Return the state that the trace event names; ``observer`` for a follower that is not in
        its own voter set."""
        state = str(event["state"]) or "node"
        voters = _voters_known(event, result.events)
        node_id = result.test["nodes"].index(event["node"]) + 1
        return "observer" if state == "follower" and voters and node_id not in voters else state


def _voters_known(shown: Mapping[str, Any], events: Iterable[TraceEvent]) -> frozenset[int]:
    """Return the voters that a node knew at its event ``shown``; empty if its trace has none."""
    last = (shown["incarnation"], shown["seq"])
    known: frozenset[int] = frozenset()
    for event in events:
        if event.node == shown["node"] and event.kind == "voters":
            if (event.incarnation, event.seq) > last:
                break
            known = frozenset(voter for voter, _ in event.detail.get("voters", ()))
    return known


SIMULATOR: Final = KraftSimulator()
"""The entry point ``kraft``."""

"""One simulated test of a campaign: its options by seed, its run and its verdict."""

from __future__ import annotations

import gc
import hashlib
import time
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import msgspec

from kraftwreck.campaigns.steering import Proposal
from kraftwreck.checkers import strength
from kraftwreck.checkers.registry import check
from kraftwreck.harness.capabilities import MEMBERSHIP
from kraftwreck.harness.command_line import command_line
from kraftwreck.harness.options import RunOptions, Style
from kraftwreck.harness.simulated.result import SimResult
from kraftwreck.harness.workload import Workload, floor
from kraftwreck.histories.fault import Fault
from kraftwreck.histories.verdict import Anomaly, CheckerResult, Verdict
from kraftwreck.nemesis import triggers
from kraftwreck.nemesis.coverage import Coverage, coverage
from kraftwreck.nemesis.inject import Injector
from kraftwreck.nemesis.plan import host_names, plan_faults
from kraftwreck.nemesis.scope import Scope
from kraftwreck.nodes.draw import draw, draw_below
from kraftwreck.simulation.knobs import WorldKnobs
from kraftwreck.systems.kraft.simulated.knobs import Knobs, Quorum, draw_knobs
from kraftwreck.systems.registry import simulated_workload
from kraftwreck.systems.simulators import always, save, simulate
from kraftwreck.workloads.registry import find, workloads

ALL = "all"
BY_SEED = "seed"
SIMULATOR = "simulator"
"""The name under which the simulator's own invariants appear among the checkers."""

REPLAY = "kraftwreck replay RUN"
"""The repeat command of a run without a seed: its folder has the schedule and the settings."""

FAULTS = (
    "partition", "kill", "terminate", "pause", "membership", "power", "network", "clock", "disk",
)  # fmt: skip
"""The families of a campaign that names none. Families of installed packages are not among them: a
seed stands for the same test on every machine, whatever is installed there."""
NO_FLOOR = "none"
LONELY = 16
"""One run in this many has a single controller."""

STANDALONE = 5
"""One dynamic quorum in this many starts with one voter, like ``kafka-storage format
--standalone``, and grows."""

_RATES = (3.0, 5.0, 10.0, 10.0, 20.0)
_THREADS = (3, 5, 10, 20, 40)


_TIMED_NODES = {"snapshot_bytes": 8_000, "retention_bytes": 1, "clean_interval_ms": 500}
"""Manual settings for tests that need snapshots: with the defaults no short run makes one."""


class Tests(Protocol):
    """The tests of a campaign, by seed."""

    def options(self, seed: int) -> RunOptions:
        """Return the options of the test with this ``seed``."""
        ...

    def knobs(self, seed: int) -> WorldKnobs:
        """Return the settings of its simulated world."""
        ...

    def schedule(self, seed: int) -> list[Fault]:
        """Return its faults."""
        ...

    def repeat(self, seed: int) -> str:
        """Return the command that runs it again."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """Settings of all tests in a campaign. By default the seed of a test decides everything.

    ``workload`` may be ``all``: the seed chooses one. With ``nodes`` 0 the seed chooses three to
    five, or a single one in one run of sixteen. With ``rate`` or ``concurrency`` 0 the seed
    chooses, because fast and slow clients find different bugs.
    ``quorum``, ``brokers`` (None: by seed) and ``snapshots`` are as in
    :func:`~systems.kraft.simulated.knobs.draw_knobs`.
    ``style``, ``interval_s``, ``governed`` and ``floor`` are as in
    :class:`~harness.options.RunOptions`; runs below the floor of their workload are weak.
    """

    system: str = "kraft"
    workload: str = ALL
    faults: tuple[str, ...] = FAULTS
    time_limit_s: float = 30.0
    nodes: int = 0
    rate: float = 0.0
    concurrency: int = 0
    quorum: Quorum = "mixed"
    brokers: int | None = None
    snapshots: bool = True
    style: Style = "swarm"
    interval_s: float | None = None
    governed: bool = False
    floor: str = NO_FLOOR
    store: Path = Path("store")

    def options(self, seed: int) -> RunOptions:
        """Return the options of the test with this ``seed``."""
        names = sorted(workloads())
        name = names[seed % len(names)] if self.workload == ALL else self.workload
        threads, rate = _load(find(name), seed)
        return RunOptions(
            system=self.system,
            workload=name,
            faults=self.faults,
            time_limit_s=self.time_limit_s,
            cluster="sim",
            nodes=self.nodes or _controllers(seed),
            seed=seed,
            rate=self.rate or rate,
            concurrency=self.concurrency or threads,
            style=self.style,
            interval_s=self.interval_s,
            governed=self.governed,
            floor=self.floor,
            store=self.store,
        )

    def knobs(self, seed: int) -> Knobs:
        """Return the settings of the simulated world for the test with this ``seed``."""
        drawn = draw_knobs(
            seed,
            self.options(seed).nodes,
            quorum=self.quorum,
            brokers=self.brokers,
            snapshots=self.snapshots,
        )
        if self.style != "timed":
            grows = drawn.dynamic and "membership" in self.faults
            alone = grows and draw_below(STANDALONE, seed, "standalone") == 0
            return msgspec.structs.replace(drawn, first_voters=1) if alone else drawn
        return Knobs(
            segment_bytes=4_000,
            dynamic=drawn.dynamic,
            first_voters=drawn.first_voters,
            auto_join=drawn.auto_join,
            brokers=drawn.brokers,
            through_brokers=drawn.through_brokers,
            node=dict(_TIMED_NODES) if self.snapshots else {},
        )

    def schedule(self, seed: int) -> list[Fault]:
        """Return the faults of the test with this ``seed``."""
        options, knobs = self.options(seed), self.knobs(seed)
        if self.style == "timed":
            return plan_faults(options, knobs.brokers)
        grows = knobs.dynamic and knobs.first_voters < min(2, options.nodes)
        if options.nodes == 1 or grows:
            # The only voter can neither be removed nor lose its disk.
            spared = tuple(f for f in options.faults if f not in ("membership", "disk"))
            options = replace(options, faults=spared)
        fixed = {} if knobs.dynamic else {MEMBERSHIP.name: "the members are fixed"}
        faults = plan_faults(options, knobs.brokers, lacking=fixed)
        if grows:
            faults = _growth(seed, "partition" in options.faults, faults)
        if knobs.upgrade:
            scope = Scope.of(options.system, host_names(options, knobs.brokers), knobs.brokers)
            faults = [*triggers.upheavals(options.faults, seed, scope), *faults]
        return faults

    def repeat(self, seed: int) -> str:
        """Return the command that runs the test with this ``seed`` again."""
        options: dict[str, object] = {
            "-w": self.workload,
            "-n": self.faults,
            "-t": self.time_limit_s,
            "--nodes": self.nodes,
            "--rate": self.rate,
            "--concurrency": self.concurrency,
            "--quorum": self.quorum,
            "--brokers": BY_SEED if self.brokers is None else self.brokers,
            "--no-snapshots": not self.snapshots,
            "--style": self.style,
            "--interval": self.interval_s,
            "--governed": self.governed,
            "--floor": self.floor,
            "--store": self.store,
            "--seeds": f"{seed}..{seed}",
        }
        return command_line("sim", self.system, options=options)


def _growth(seed: int, cuts: bool, others: list[Fault]) -> list[Fault]:
    """Return ``others`` with a fault that adds all controllers as voters.

    Sometimes the first leader, which was the only voter, is cut off soon afterwards, when it has
    followers to fetch from it; then only the ``others`` after that cut are returned.
    """
    second = 1_000_000_000
    at = second // 2 + draw_below(5 * second // 2, seed, "growth")
    order = draw(seed, "growth", "order")
    growth = Fault(at=at, kind="membership", shape="grow", duration=3 * second, draw=order)
    if not cuts or draw_below(2, seed, "growth", "cut"):
        return sorted([growth, *others], key=lambda fault: (fault.at, fault.kind))
    later = at + second + draw_below(3 * second, seed, "growth", "later")
    cut = Fault(at=later, kind="partition", shape="leader", duration=8 * second, draw=order)
    return [growth, cut, *(fault for fault in others if fault.at >= later + cut.duration)]


def _controllers(seed: int) -> int:
    """Return the number of controllers, by seed: three to five, sometimes only one."""
    alone = draw_below(LONELY, seed, "alone") == 0
    return 1 if alone else 3 + draw_below(3, seed, "nodes")


def _load(workload: Workload, seed: int) -> tuple[int, float]:
    """Return the number of clients and the operations per second, by seed.

    A workload may limit the clients, and set the least rate for each.
    """
    threads = getattr(workload, "clients", _THREADS)
    count = threads[draw_below(len(threads), seed, "threads")]
    least = getattr(workload, "rate_per_client", 0.0) * count
    return count, max(_RATES[draw_below(len(_RATES), seed, "rate")], least)


EVERYTHING = Campaign()
"""Every fault family, both kinds of quorum, brokers and snapshots: the campaign that hunts
unknown bugs. Nothing in it depends on a particular bug."""


@dataclass(slots=True)
class Tested:
    """The result of one test. ``found`` are (checker, anomaly type, explanation), the first
    of each kind; ``unknown`` the checkers without a verdict, with the reason. ``coverage`` is set
    if it was requested; ``events`` is how many events the run processed; ``weak`` how the run
    missed the floor of its workload."""

    seed: int
    workload: str
    digest: str
    sim_s: float
    cpu_s: float
    found: list[tuple[str, str, str]] = field(default_factory=list)
    unknown: list[tuple[str, str]] = field(default_factory=list)
    run: str | None = None
    coverage: Coverage | None = None
    events: int = 0
    weak: list[str] = field(default_factory=list)


def judge(result: SimResult, workload: Workload) -> Verdict:
    """Check a finished run with its workload's checkers, those of every run, and the simulator's.

    ``stats`` is left out: its demands are for one long run. Many runs of a campaign are short and
    have no leader most of the time.
    """
    every = [*workload.checkers, *always(result.test["system"])]
    names = [name for name in dict.fromkeys(every) if name != "stats"]
    names.append(strength.NAME)
    verdict = check(result.data(), names)
    anomalies = [
        Anomaly(
            type=failure.type,
            explanation=f"{failure.explanation} (at {failure.time / 1e6:.3f} s)",
            events=failure.events,
            time=failure.time,
        )
        for failure in result.failures
    ]
    own = CheckerResult(valid=not anomalies, anomalies=anomalies)
    return Verdict.of({SIMULATOR: own, **verdict.checkers})


@dataclass(slots=True)
class Judged:
    """A run with its verdict and the summary of both."""

    result: SimResult
    verdict: Verdict
    tested: Tested


def run_schedule(
    options: RunOptions,
    workload: Workload,
    knobs: WorldKnobs,
    schedule: Sequence[Fault],
    *,
    eager: bool = False,
    only: Set[tuple[int, int]] | None = None,
    cover: bool = False,
) -> Judged:
    """Simulate and judge one test with exactly this ``schedule``; save nothing.

    All random choices come from ``options.seed``, so equal arguments give equal runs: ``knobs``
    and ``schedule`` from a run folder reproduce that run. With ``eager`` the test ends at the
    first failure that the simulator detects, and only that one is judged. ``only`` selects the
    client operations to begin, see :func:`~systems.kraft.simulated.run.simulate`. With ``cover``
    the coverage of the run is counted.
    """
    gc.set_threshold(200_000, 50, 100)  # Short-lived objects by the million, and no cycles.
    begun = time.process_time()
    result = simulate(options, workload, schedule, Injector, knobs=knobs, eager=eager, only=only)
    cut_short = eager and result.failures
    verdict = judge_failures(result) if cut_short else judge(result, workload)
    tested = Tested(
        options.seed,
        options.workload,
        result.digest,
        result.sim_s,
        0.0,
        found=sorted(_first_of_each(verdict), key=_by_checker),
        unknown=[
            (name, checked.error or "no reason given")
            for name, checked in verdict.checkers.items()
            if checked.valid == "unknown"
        ],
        events=result.processed,
    )
    if not cut_short:
        tested.weak = _shortfalls(workload, verdict)
    if cover:
        tested.coverage = coverage(result.events, result.faults, result.test)
    tested.cpu_s = time.process_time() - begun
    return Judged(result, verdict, tested)


def _shortfalls(workload: Workload, verdict: Verdict) -> list[str]:
    """Return where a run is below the floor of its workload."""
    return strength.below(verdict.checkers[strength.NAME].stats, floor(workload, None))


def run_seed(
    campaign: Tests,
    seed: int,
    *,
    keep: bool = True,
    eager: bool = False,
    cover: bool = False,
) -> Tested:
    """Run and judge the test with this ``seed``; with ``keep`` save it if it fails.

    With ``eager`` the test ends at the first failure that the simulator detects. With ``cover``
    the coverage of the run is counted.
    """
    options, knobs = campaign.options(seed), campaign.knobs(seed)
    workload = simulated_workload(options.system, options.workload)
    faults = campaign.schedule(seed)
    judged = run_schedule(options, workload, knobs, faults, eager=eager, cover=cover)
    if judged.tested.found and keep:
        _keep(judged, options, workload, campaign.repeat(seed))
    return judged.tested


def run_proposal(proposal: Proposal) -> Tested:
    """Run and judge a test that coverage guidance proposed; save it if it fails."""
    options = proposal.options
    workload = simulated_workload(options.system, options.workload)
    judged = run_schedule(options, workload, proposal.knobs, proposal.schedule, cover=True)
    if judged.tested.found:
        _keep(judged, options, workload, REPLAY)
    return judged.tested


def _keep(judged: Judged, options: RunOptions, workload: Workload, repeat: str) -> None:
    saved = save(options, workload, judged.result, verdict=judged.verdict, repeat=repeat)
    judged.tested.run = str(saved)


def judge_failures(result: SimResult) -> Verdict:
    """Judge by the simulator's invariants alone, for a run that was cut short."""
    anomalies = [
        Anomaly(type=failure.type, explanation=failure.explanation) for failure in result.failures
    ]
    return Verdict.of({SIMULATOR: CheckerResult(valid=not anomalies, anomalies=anomalies)})


def _first_of_each(verdict: Verdict) -> Iterable[tuple[str, str, str]]:
    seen: set[tuple[str, str]] = set()
    for name, checked in verdict.checkers.items():
        if checked.valid is not False:
            continue
        for anomaly in checked.anomalies:
            if (name, anomaly.type) not in seen:
                seen.add((name, anomaly.type))
                yield name, anomaly.type, anomaly.explanation


def _by_checker(found: tuple[str, str, str]) -> tuple[bool, str, str]:
    """Sort key: checkers that also judge real runs first, the simulator's invariants last."""
    return found[0] == SIMULATOR, found[0], found[1]


def combined_digest(tested: Iterable[Tested]) -> str:
    """Return one digest of many tests; the order in which they ended does not matter."""
    whole = hashlib.blake2b(digest_size=16)
    for each in sorted(tested, key=lambda t: t.seed):
        whole.update(f"{each.seed} {each.digest}\n".encode())
    return whole.hexdigest()


def as_json(tested: Tested) -> dict[str, Any]:
    """Return a test that failed as plain values."""
    plain: dict[str, Any] = msgspec.to_builtins(tested)
    for name in ("coverage", "events", "weak"):
        del plain[name]
    plain["found"] = [
        {"checker": checker, "type": kind, "explanation": text}
        for checker, kind, text in tested.found
    ]
    return plain

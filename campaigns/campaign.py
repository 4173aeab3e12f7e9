"""One simulated test of a campaign: its run and its verdict."""

from __future__ import annotations

import gc
import hashlib
import time
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kraftwreck.campaigns.steering import Proposal
from kraftwreck.checkers import strength
from kraftwreck.checkers.registry import check
from kraftwreck.harness.options import RunOptions
from kraftwreck.harness.simulated.result import SimResult
from kraftwreck.harness.workload import Workload, floor
from kraftwreck.histories.fault import Fault
from kraftwreck.histories.verdict import Anomaly, CheckerResult, Verdict
from kraftwreck.nemesis.coverage import Coverage, coverage
from kraftwreck.nemesis.inject import Injector
from kraftwreck.simulation.knobs import WorldKnobs
from kraftwreck.systems.campaign import Campaign
from kraftwreck.systems.registry import simulated_workload
from kraftwreck.systems.simulators import save, simulate, simulator

SIMULATOR = "simulator"
"""The name under which the simulator's own invariants appear among the checkers."""

REPLAY = "kraftwreck replay RUN"
"""The repeat command of a run without a seed: its folder has the schedule and the settings."""


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
    every = [*workload.checkers, *simulator(result.test["system"]).checkers]
    names = [name for name in dict.fromkeys(every) if name != "stats"]
    names.append(strength.NAME)
    verdict = check(result.data(), names)
    # A rule over traces that the simulator judged during the run is reported once.
    reported = {
        anomaly.type for checked in verdict.checkers.values() for anomaly in checked.anomalies
    }
    anomalies = [
        Anomaly(
            type=failure.type,
            explanation=f"{failure.explanation} (at {failure.time / 1e6:.3f} s)",
            events=failure.events,
            time=failure.time,
        )
        for failure in result.failures
        if not (failure.traced and failure.type in reported)
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
    client operations to begin, see :class:`~harness.operations.Operations`. With ``cover``
    the coverage of the run is counted.
    """
    gc.set_threshold(200_000, 50, 100)  # Short-lived objects by the million, and no cycles.
    gc.collect(1)  # The world of the run before is a cycle, which would stay for long.
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
    campaign: Campaign,
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

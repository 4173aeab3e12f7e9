"""Run and judge one case; report each failure by checker, anomaly type and roles.

The roles are those of the nodes in the anomaly. If the anomaly shows trace events of a node, the
role is the state in the last of them (``leader``, ``follower``, ``candidate`` …), or a finer one
that the system's simulator knows. A node that does not elect a leader, or that only the
explanation names, has its role in the cluster. If the explanation names all nodes of the cluster,
these names are ignored.
"""

from __future__ import annotations

import gc
import re
import time
from dataclasses import dataclass
from typing import Any

from kraftwreck.campaigns.campaign import SIMULATOR, judge
from kraftwreck.campaigns.case import Case
from kraftwreck.campaigns.case_file import Expected
from kraftwreck.campaigns.loop_guard import LOOP_S, loop_guard
from kraftwreck.checkers.registry import check
from kraftwreck.harness.simulated.result import SimResult
from kraftwreck.histories.verdict import Anomaly, Verdict
from kraftwreck.nemesis.inject import Injector
from kraftwreck.systems.registry import simulated_workload
from kraftwreck.systems.simulators import simulate, simulator

_NODE = re.compile(r"\b[nb]\d+\b")
_LEAST_LIMIT_S = 5.0


@dataclass(frozen=True, slots=True)
class CaseRun:
    """The result of a case: every failure, the recorded run, and its CPU time."""

    failures: tuple[Expected, ...]
    result: SimResult
    cpu_s: float

    def shows(self, expected: Expected) -> bool:
        """Whether the run failed in this way."""
        return any(failure.same(expected) for failure in self.failures)


def run_case(case: Case, *, checker: str | None = None, limit_s: float = LOOP_S) -> CaseRun:
    """Simulate and judge ``case`` with the node code that this process imports.

    If ``checker`` is given, only that checker judges; with :data:`SIMULATOR` the run ends at the
    first failure that the simulator detects. A node that loops dies, which is a failure
    (I29); see :func:`~campaigns.loop_guard.loop_guard` for ``limit_s``.

    Raises :class:`~harness.options.OptionError` for an unknown workload, and
    :class:`FatalError` when code outside of the nodes loops.
    """
    gc.set_threshold(200_000, 50, 100)  # Short-lived objects by the million, and no cycles.
    workload = simulated_workload(case.system, case.workload)
    begun = time.process_time()
    with loop_guard(limit_s):
        result = simulate(
            case.options(),
            workload,
            case.schedule,
            Injector,
            knobs=case.knobs,
            eager=checker == SIMULATOR,
            only=None if case.operations is None else frozenset(case.operations),
        )
        if checker == SIMULATOR:
            judged = Verdict.of({})
        elif checker is None:
            judged = judge(result, workload)
        else:
            judged = check(result.data(), [checker])
    found = [
        (name, anomaly)
        for name, checked in judged.checkers.items()
        if checked.valid is False and name != SIMULATOR
        for anomaly in checked.anomalies
    ]
    # Checkers that also judge real runs come first, the simulator's invariants last.
    if checker in (None, SIMULATOR):
        found += [
            (SIMULATOR, Anomaly(type=f.type, explanation=f.explanation, events=f.events))
            for f in result.failures
        ]
    failures = [
        Expected(
            checker=name,
            type=anomaly.type,
            roles=roles_of(anomaly, result),
            explanation=anomaly.explanation,
        )
        for name, anomaly in found
    ]
    return CaseRun(tuple(failures), result, time.process_time() - begun)


def limit_for(run: CaseRun) -> float:
    """Return after how many CPU seconds a case smaller than that of ``run`` loops."""
    return max(_LEAST_LIMIT_S, 5 * run.cpu_s)


# --- roles -------------------------------------------------------------------------------------


def roles_of(anomaly: Anomaly, result: SimResult) -> tuple[str, ...]:
    """Return the roles of the nodes in ``anomaly``, each once, sorted."""
    roles: dict[str, str] = result.test["roles"]
    hosts = result.test["nodes"]
    electing = frozenset(result.test["electing"])
    known = simulator(result.test["system"])
    shown: dict[str, dict[str, Any]] = {}
    for event in anomaly.events:
        if event.get("node") in hosts:
            shown[event["node"]] = event
    named = frozenset(hosts) & set(_NODE.findall(anomaly.explanation))
    if named == frozenset(hosts):
        named = frozenset()
    found = {
        known.position(event, result) if node in electing else roles[node]
        for node, event in shown.items()
    }
    return tuple(sorted(found | {roles[node] for node in named - shown.keys()}))

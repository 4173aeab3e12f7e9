"""Run and judge one case; report each failure by checker, anomaly type and roles.

The roles are those of the nodes in the anomaly. If the anomaly shows trace events of a node, the
role is the state in the last of them (``leader``, ``follower``, ``candidate`` …), or a finer one
that the system's simulator knows. A node that does not elect a leader, or that only the
explanation names, has its role in the cluster. If the explanation names all nodes of the cluster,
these names are ignored.
"""

from __future__ import annotations

import _weakrefset
import gc
import re
import signal
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from kraftwreck.campaigns.campaign import SIMULATOR, judge
from kraftwreck.campaigns.case import Case
from kraftwreck.campaigns.case_file import Expected
from kraftwreck.checkers.registry import check
from kraftwreck.harness.simulated.result import SimResult
from kraftwreck.histories.verdict import Anomaly, Verdict
from kraftwreck.nemesis.inject import Injector
from kraftwreck.nodes.consensus.effects import FatalError
from kraftwreck.systems.registry import simulated_workload
from kraftwreck.systems.simulators import simulate, simulator

_NODE = re.compile(r"\b[nb]\d+\b")
_LEAST_LIMIT_S = 5.0
_SOON_S = 0.01
_WEAK = frozenset((weakref.__file__, _weakrefset.__file__))
"""Modules whose functions are callbacks of weak references."""


@dataclass(frozen=True, slots=True)
class CaseRun:
    """The result of a case: every failure, the recorded run, and its CPU time."""

    failures: tuple[Expected, ...]
    result: SimResult
    cpu_s: float

    def shows(self, expected: Expected) -> bool:
        """Whether the run failed in this way."""
        return any(failure.same(expected) for failure in self.failures)


def run_case(case: Case, *, checker: str | None = None, limit_s: float = 60.0) -> CaseRun:
    """Simulate and judge ``case`` with the node code that this process imports.

    If ``checker`` is given, only that checker judges; with :data:`SIMULATOR` the run ends at the
    first failure that the simulator detects. A node that uses ``limit_s`` CPU seconds in one step
    dies, which is a failure (I29).

    Raises :class:`~harness.options.OptionError` for an unknown workload, and
    :class:`FatalError` when code outside of the nodes loops.
    """
    gc.set_threshold(200_000, 50, 100)  # Short-lived objects by the million, and no cycles.
    workload = simulated_workload(case.system, case.workload)
    begun = time.process_time()
    with cpu_limit(limit_s):
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
    """Return the limit in CPU seconds for a case smaller than that of ``run``."""
    return max(_LEAST_LIMIT_S, 5 * run.cpu_s)


@contextmanager
def cpu_limit(seconds: float) -> Iterator[None]:
    """Make a step that never ends fatal to its node, so that a run takes seconds, not minutes.

    Python drops an exception that leaves a finalizer, a callback of the garbage collector or
    one of a weak reference. So the signal that interrupts one raises none, and another follows
    soon.
    """

    def expired(_: int, frame: FrameType | None) -> None:
        if any(_is_dropped_in(code) for code in _running(frame)):
            signal.setitimer(signal.ITIMER_VIRTUAL, _SOON_S, seconds)
        else:
            raise FatalError(f"a simulated run has used {seconds:.0f} CPU seconds: endless loop?")

    before = signal.signal(signal.SIGVTALRM, expired)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _running(frame: FrameType | None) -> Iterator[CodeType]:
    """Yield the code of ``frame`` and of its callers, innermost first."""
    while frame is not None:
        yield frame.f_code
        frame = frame.f_back


def _is_dropped_in(code: CodeType) -> bool:
    """Return whether an exception that leaves ``code`` may be dropped."""
    if code.co_name == "__del__":
        return True
    if any(getattr(callback, "__code__", None) is code for callback in gc.callbacks):
        return True
    return code.co_filename in _WEAK


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

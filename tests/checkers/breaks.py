"""Which invariants a run made by hand breaks."""

from __future__ import annotations

from collections.abc import Callable

from kraftwreck.checkers.kraft.invariants import check
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.histories.verdict import Anomaly, CheckerResult


def broken(run: RunData) -> set[str]:
    """Return the ids of the invariants that ``run`` breaks."""
    return {finding.type for finding in findings(run)}


def findings(run: RunData, judge: Callable[[RunData], CheckerResult] = check) -> list[Anomaly]:
    """Return the anomalies and the suspicions of ``run``.

    Each suspicion on hosts must be a proof for the same run in virtual time, where none is left.
    """
    result = judge(run)
    assert (result.valid is False) == bool(result.anomalies)
    if result.suspicions:
        virtual = judge(in_virtual_time(run))
        assert run.test.get("simulated") is not True
        assert (virtual.valid, virtual.suspicions) == (False, [])
        assert {s.type for s in result.suspicions} <= {a.type for a in virtual.anomalies}
        assert all(s.why.endswith(".") for s in result.suspicions)
    return [*result.anomalies, *result.suspicions]


def in_virtual_time(run: RunData) -> RunData:
    """Return ``run`` as if it had been simulated, with links and disks that are never slow."""
    test = {**run.test, "simulated": True}
    if isinstance(test.get("knobs"), dict):
        test["knobs"] = {"fsync_max": 1000, "slow_factor": 1, "latency_max": 1000, **test["knobs"]}
    return RunData.from_memory(
        run.ops,
        run.events,
        run.faults,
        run.images,
        test,
        ordered=run.ordered,
        capture=run.capture,
    )

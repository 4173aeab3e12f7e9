"""Which invariants a run made by hand breaks."""

from __future__ import annotations

from kraftwreck.checkers.kraft.invariants import check
from kraftwreck.checkers.recorded.run_data import RunData


def broken(run: RunData) -> set[str]:
    """Return the ids of the invariants that ``run`` breaks."""
    return {anomaly.type for anomaly in check(run).anomalies}

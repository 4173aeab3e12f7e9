"""The folders of tests that ``make test-compiled`` runs with compiled modules."""

from __future__ import annotations

import pytest

SUITES = (
    "broker", "checkers", "consensus", "log", "metadata", "nemesis", "protocol", "simulation",
    "systems/kraft/faults", "workloads",
)  # fmt: skip
"""Tests of what is compiled; those marked ``interpreted`` cannot be."""

LEFT_OUT = ("checkers/elle", "checkers/jepsen")
"""Tests of what is not compiled."""


def run_nowhere(item: pytest.Item) -> bool:
    """Return whether a test marked ``many_runs`` is in neither make test nor make test-compiled."""
    if item.get_closest_marker("many_runs") is None:
        return False
    path = item.path.as_posix()
    inside, outside = (
        any(f"/tests/{name}/" in path for name in names) for names in (SUITES, LEFT_OUT)
    )
    return not inside or outside or item.get_closest_marker("interpreted") is not None

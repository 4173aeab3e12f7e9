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
    """Return whether ``make test-compiled`` lacks a test that is marked ``many_runs``.

    It runs those that are also marked ``interpreted`` with the sources.
    """
    marked = {mark.name for mark in item.iter_markers()}
    if "many_runs" not in marked or "interpreted" in marked:
        return False
    path = item.path.as_posix()
    inside, outside = (
        any(f"/tests/{name}/" in path for name in names) for names in (SUITES, LEFT_OUT)
    )
    return not inside or outside

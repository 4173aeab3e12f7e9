"""The folders of tests that ``make test-compiled`` runs with compiled modules."""

from __future__ import annotations

SUITES = (
    "broker", "checkers", "consensus", "log", "metadata", "nemesis", "protocol", "simulation",
    "systems/kraft/faults", "workloads",
)  # fmt: skip
"""Tests of what is compiled; those marked ``interpreted`` cannot be."""

LEFT_OUT = ("checkers/elle", "checkers/jepsen")
"""Tests of what is not compiled."""

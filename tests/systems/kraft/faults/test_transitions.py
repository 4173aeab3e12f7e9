"""Faults that wait for transitions of KRaft."""

from __future__ import annotations

from kraftwreck.harness.triggers import parse
from kraftwreck.nemesis import generator
from kraftwreck.nemesis.scope import Scope

FIVE = Scope.of("kraft", ("n1", "n2", "n3", "n4", "n5"))


def test_triggers_that_cannot_fire_fall_back_to_times() -> None:
    """No family here deposes a leader, so most of the triggers see no election."""
    for seed in range(200):
        planned = generator.plan(("clock",), seed, 60, FIVE, style="triggered")
        assert planned
        rare = {"candidate", "grant", "elected", "truncate", "claim", "download", "voters"}
        assert not all(f.trigger and parse(f.trigger)[0] in rare for f in planned), seed

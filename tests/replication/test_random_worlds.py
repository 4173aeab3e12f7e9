"""The invariants of replication hold, whatever is delivered, lost, killed and elected."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.replication import judge
from tests.replication.judge import Judged, Unclean, judged_run
from tests.replication.world import NUMBERS


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, NUMBERS - 1), max_size=250), st.integers(1, 2))
def test_any_actions(numbers: list[int], min_insync: int) -> None:
    world = Judged(min_insync)
    world.run(numbers)
    world.finish()


@pytest.mark.parametrize("first", range(0, 80, 10))
def test_long_random_runs(first: int) -> None:
    acknowledged = sum(len(judged_run(seed).acked) for seed in range(first, first + 10))
    assert acknowledged > 50


def test_logs_converge_after_unclean_elections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Acknowledged records may be lost then, but replicas never stay different."""
    monkeypatch.setattr(judge, "IGNORED", frozenset({"D1", "D2", "D3", "D11", "D13"}))
    elections = 0
    for seed in range(100):
        world = judged_run(seed, kind=Unclean)
        assert isinstance(world, Unclean)
        elections += world.elections
    assert elections > 50

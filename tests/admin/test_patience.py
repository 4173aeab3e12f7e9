"""A command waits for moves as long as some partition is completed now and then."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.admin import balance
from kraftwreck.nodes.admin.balance import Balancer
from kraftwreck.nodes.admin.failure import AdminError

TIMEOUT_S = 10.0
KEYS = [("t", number) for number in range(5)]


def waits(seconds_each: float, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let each move take so long, one after the other; return the progress."""
    clock, said = SimpleNamespace(now=0.0), list[str]()

    def sleep(seconds: float) -> None:
        clock.now += seconds

    def moving() -> dict[Any, Any]:
        done = int(clock.now / seconds_each)
        return {key: {"adding_replicas": [4]} for key in KEYS[done:]}

    monkeypatch.setattr(balance, "time", SimpleNamespace(monotonic=lambda: clock.now, sleep=sleep))
    cluster: Any = SimpleNamespace(moving=moving)
    Balancer(cluster, said.append, TIMEOUT_S, len(KEYS))._wait(KEYS)
    return said


def test_moves_that_take_longer_together_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    said = waits(0.6 * TIMEOUT_S, monkeypatch)
    assert said[-1] == "4 of 5 partition(s) moved"


def test_a_move_that_takes_too_long_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AdminError, match="no partition was completed for 10 s"):
        waits(1.5 * TIMEOUT_S, monkeypatch)

"""Time for recovery: a cluster that makes progress gets more of it, a stuck one does not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kraftwreck.systems.kraft.simulated.run import SECOND, _recover

GOAL = 200


class Slow:
    """Two nodes; one fetches ``pace`` records a second, and nothing commits until it has all."""

    def __init__(self, pace: float) -> None:
        self.now = 0
        self.pace = pace
        self.hosts = [self.host("n1", "leader", GOAL), self.host("n2", "follower", 0)]

    def host(self, name: str, state: str, leo: int) -> Any:
        trace = SimpleNamespace(state=state, epoch=3, leader=1, leo=leo, hw=-1)
        return SimpleNamespace(name=name, node=object(), last_trace=trace)

    def run(self, until: int) -> None:
        self.now = until
        behind = self.hosts[1].last_trace
        behind.leo = min(GOAL, int(self.pace * self.now / SECOND))
        if behind.leo == GOAL:
            for host in self.hosts:
                host.last_trace.hw = GOAL


@pytest.mark.interpreted
@pytest.mark.parametrize(("pace", "recovers"), [(1.0, True), (0.0, False), (0.05, False)])
def test_a_voter_that_others_need_may_take_its_time_to_fetch(pace: float, recovers: bool) -> None:
    found: list[str] = []
    watch = SimpleNamespace(
        quorum=SimpleNamespace(high_watermark=GOAL),
        failures=SimpleNamespace(add=lambda kind, at, why: found.append(kind)),
    )
    _recover(cast(Any, Slow(pace)), cast(Any, watch))
    assert found == ([] if recovers else ["L1"])

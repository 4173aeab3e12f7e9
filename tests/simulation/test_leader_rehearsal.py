"""Leaders are asked all questions, once a second."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.replication.partition import Partition
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import leader_rehearsal
from kraftwreck.systems.kraft.simulated.fetch_rehearsal import wrong_fetches
from kraftwreck.systems.kraft.simulated.leader_rehearsal import LeaderRehearsal
from kraftwreck.systems.kraft.simulated.sequence_rehearsal import wrong_sequences
from tests.replication.world import KEY
from tests.simulation import test_fetch_rehearsal as fetches
from tests.simulation import test_sequence_rehearsal as sequences

pytestmark = pytest.mark.interpreted

Patch = pytest.MonkeyPatch


@pytest.mark.parametrize(
    ("leader", "plant", "counts"),
    [
        (fetches.leader, fetches.answers_replaced_processes, [2, 2, 4]),
        (sequences.leader, sequences.takes_all, [5, 5, 10]),
    ],
)
def test_leaders_are_asked_once_a_second(
    leader: Callable[[], Partition],
    plant: Callable[[Patch], None],
    counts: list[int],
    monkeypatch: Patch,
) -> None:
    one, failures = leader(), Failures()
    plant(monkeypatch)
    world: Any = SimpleNamespace(now=0, on_emit=[])
    host: Any = SimpleNamespace(id=4, name="b4")
    monkeypatch.setattr(leader_rehearsal, "replicas_on", lambda _: {KEY: one})
    LeaderRehearsal(world, failures, wrong_fetches, wrong_sequences)

    def asked(now: int) -> int:
        world.now = now
        world.on_emit[0](host)
        return len(failures.items)

    assert [asked(now) for now in (0, 999_999, 1_000_000)] == counts
    one.leading = False
    assert asked(2_000_000) == counts[-1]
    one.leading, one.log = True, None
    assert asked(3_000_000) == counts[-1]

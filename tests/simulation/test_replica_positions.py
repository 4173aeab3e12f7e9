"""The replicas of a broker before and after a step."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.replication.headers import PartitionKey
from kraftwreck.systems.kraft.simulated import replica_positions
from kraftwreck.systems.kraft.simulated.replica_positions import Position, ReplicaPositions

pytestmark = pytest.mark.interpreted

KEY, OTHER = (bytes(16), 0), (bytes(16), 1)
NOTHING: Mapping[PartitionKey, Any] = {}


def replica(hw: int, *, opened: bool = True, isr: tuple[int, ...] = (4,)) -> Any:
    """Return a leader of epoch 3, whose log has the records 1 to 8."""
    log = SimpleNamespace(start=1, end=9) if opened else None
    leader = SimpleNamespace(leading=True, hw=hw, log=log)
    leader.assignment = SimpleNamespace(leader_epoch=3)
    leader.in_sync = SimpleNamespace(isr=isr, pending=None)
    return leader


class Broker:
    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.replicas: dict[PartitionKey, Any] = {}
        self.host: Any = SimpleNamespace(id=4, life=1)
        world: Any = SimpleNamespace(on_emit=[])
        patch.setattr(replica_positions, "replicas_on", lambda host: self.replicas)
        self.positions = ReplicaPositions(world)
        (self.emit,) = world.on_emit

    def step(self, changed: Mapping[PartitionKey, Any] = NOTHING) -> None:
        self.replicas.update(changed)
        self.emit(self.host)

    def seen(self, key: PartitionKey = KEY) -> tuple[Position | None, Position | None]:
        return self.positions.before(self.host, key), self.positions.now(self.host, key)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    return Broker(monkeypatch)


def test_a_step_changes_one_replica_and_leaves_another(broker: Broker) -> None:
    broker.step({KEY: replica(5), OTHER: replica(2)})
    assert broker.seen() == (None, Position(True, 3, 5, 1, 9, 1))
    broker.step({KEY: replica(6)})
    assert broker.seen() == (Position(True, 3, 5, 1, 9, 1), Position(True, 3, 6, 1, 9, 1))
    assert broker.seen(OTHER) == (Position(True, 3, 2, 1, 9, 1),) * 2
    broker.step()
    assert broker.seen() == (Position(True, 3, 6, 1, 9, 1),) * 2
    assert broker.positions.steps(broker.host) == 3


def test_a_replica_that_enters_the_isr_is_counted(broker: Broker) -> None:
    broker.step({KEY: replica(5)})
    broker.step({KEY: replica(5, isr=(4, 6))})
    assert broker.seen() == (Position(True, 3, 5, 1, 9, 1), Position(True, 3, 5, 1, 9, 2))


def test_a_replica_without_an_open_log_does_not_lead(broker: Broker) -> None:
    broker.step({KEY: replica(5, opened=False)})
    assert broker.seen()[1] == Position(False, 3, 5, 0, 0, 1)


def test_a_removed_replica_was_there_before_the_step(broker: Broker) -> None:
    broker.step({KEY: replica(5)})
    del broker.replicas[KEY]
    broker.step()
    assert broker.seen() == (Position(True, 3, 5, 1, 9, 1), None)
    broker.step()
    assert broker.seen() == (None, None)


def test_a_new_process_begins_without_replicas(broker: Broker) -> None:
    broker.step({KEY: replica(5)})
    broker.host.life = 2
    assert broker.seen() == (None, None)
    assert broker.positions.steps(broker.host) == 0

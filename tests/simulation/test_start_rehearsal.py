"""F31: a start empties a log that is not the one which the latest snapshot covers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.consensus.effects import FinishSnapshot, InstallSnapshot
from kraftwreck.nodes.consensus.kraft.config import QuorumConfig
from kraftwreck.nodes.consensus.kraft.replica import Replica
from kraftwreck.nodes.consensus.log import ReplicatedLog
from kraftwreck.nodes.consensus.recovered import Recovered
from kraftwreck.nodes.log.batch import encode_batch
from kraftwreck.simulation.disk import Disk
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import start_rehearsal
from kraftwreck.systems.kraft.simulated.start_rehearsal import StartRehearsal, judge
from tests.consensus.conftest import Cluster
from tests.simulation.watched import snapshot

pytestmark = pytest.mark.interpreted


def config() -> QuorumConfig:
    return Cluster(3).replicas[1].config


def batches(start: int = 0) -> list[bytes]:
    return [
        encode_batch(offset, 2, 1, [(None, b"r")], control=False)
        for offset in range(start, start + 4)
    ]


@pytest.mark.parametrize("start", [0, 7])
def test_a_start_empties_another_log_and_keeps_its_own(start: int) -> None:
    assert list(judge(config(), batches(start), start, snapshot(2))) == []


def keeps_each(self: Replica, recovered: Recovered) -> None:
    LOAD(self, recovered)
    self.effects.clear()
    self.log = ReplicatedLog(recovered.batches, recovered.start_offset)


def empties_each(self: Replica, recovered: Recovered) -> None:
    LOAD(self, recovered)
    latest = self.snapshots[-1].id
    if latest[0] > self.log.start_offset:
        self.effects.append(InstallSnapshot(*latest))
        self.log.restart(latest[0], latest)


LOAD = Replica._load


@pytest.mark.parametrize(
    ("load", "said"),
    [
        (
            keeps_each,
            "would keep a log from 0 to 4 whose last record has epoch 2, with the snapshot (4, 3)",
        ),
        (
            empties_each,
            "would empty a log from 0 to 4 whose last record has epoch 2, with the snapshot (4, 2)",
        ),
    ],
)
def test_a_start_that_does_otherwise_is_found(
    load: Any, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = config()
    monkeypatch.setattr(Replica, "_load", load)
    assert list(judge(own, batches(), 0, snapshot(2))) == [said]


def test_the_first_snapshot_with_a_log_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk()
    disk.recover()
    node = SimpleNamespace(replica=SimpleNamespace(config=config()))
    host: Any = SimpleNamespace(name="n1", node=node, disk=disk)
    world: Any = SimpleNamespace(now=0, on_write=[])
    failures = Failures()
    monkeypatch.setattr(start_rehearsal, "Node", SimpleNamespace)
    monkeypatch.setattr(start_rehearsal, "judge", lambda *_: ["is wrong"])
    StartRehearsal(world, failures)
    for log in ([], batches(), batches()):
        disk.log = log
        disk.parts[4, 2] = bytearray(snapshot(2))
        world.on_write[0](host, FinishSnapshot(4, 2))
    assert [failure.type for failure in failures.items] == ["F31"]

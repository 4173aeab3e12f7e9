"""I27: a leader counts requests of its epoch, from voters with the disks of the voters."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nemesis.inject import Injector
from kraftwreck.nodes.consensus.effects import RequestReceived
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.kraft.leader import Leader
from kraftwreck.nodes.consensus.kraft.messages import (
    FetchRequest,
    FetchSnapshotRequest,
    UpdateRaftVoterRequest,
)
from kraftwreck.nodes.consensus.kraft.states import NEVER
from kraftwreck.nodes.consensus.kraft.voters import LISTENER, Voter, VoterSet
from kraftwreck.nodes.node import Node
from kraftwreck.systems.kraft.simulated.campaign import KraftCampaign
from kraftwreck.systems.kraft.simulated.run import simulate
from kraftwreck.systems.kraft.workloads.metadata import WORKLOAD
from tests.simulation.watched import Watched

pytestmark = pytest.mark.interpreted

EPOCH = 5
OTHER = b"x" * 16


def disk(node: int) -> bytes:
    return bytes([node]) * 16


class Led:
    """n1 leads epoch 5; the voters are n1 to n3 with their disks."""

    def __init__(self) -> None:
        self.run = Watched()
        self.run.voters(1, "123")
        voters = {i: Voter(i, disk(i), ((LISTENER, Endpoint("h", i)),)) for i in (1, 2, 3)}
        self.leader = Leader(1, VoterSet(voters), (1, 2), 3, 0, 1000)
        node: Any = Node.__new__(Node)
        node.broker, node.controller = None, SimpleNamespace(is_active=False)
        snapshots = [SimpleNamespace(id=name, size=SIZE) for name in ((0, 0), (9, 2))]
        self.replica: Any = SimpleNamespace(
            state=self.leader,
            epoch=EPOCH,
            now=1,
            snapshots=snapshots,
            config=SimpleNamespace(cluster_id="own"),
            shutting_down=False,
        )
        node.replica = self.replica
        self.run.host(1).node = node

    def fetch(self, node: int, directory: bytes, *, counts: int = 0, epoch: int = EPOCH) -> None:
        """Let n1 handle a fetch, and count it as one of the voter ``counts``."""
        message = FetchRequest(None, node, directory, 0, 1, epoch, 7, EPOCH, -1)
        self.handle(message, counts)

    def handle(self, message: Any, counts: int) -> None:
        for told in self.run.world.on_request:
            told(self.run.host(1), message)
        if counts:
            self.leader.record_fetch(counts, disk(counts), 7, 9, self.replica.now, 1)
        for told in self.run.world.on_step:
            told(self.run.host(1), RequestReceived(1, message))

    @property
    def found(self) -> list[str]:
        return self.run.found


def test_fetches_of_voters_count() -> None:
    led = Led()
    led.fetch(2, disk(2), counts=2)
    led.fetch(3, disk(3), counts=3)
    assert led.found == []


def test_other_fetches_do_not_count() -> None:
    led = Led()
    led.fetch(2, OTHER)
    led.fetch(7, disk(7))
    led.fetch(2, disk(2), epoch=EPOCH - 1)
    assert led.found == []


def test_the_disk_of_a_voter_must_be_right() -> None:
    led = Led()
    led.fetch(2, OTHER, counts=2)
    assert led.found == ["I27"]


@pytest.mark.parametrize("epoch", [EPOCH - 1, EPOCH + 1])
def test_a_fetch_of_another_epoch_counts_for_nothing(epoch: int) -> None:
    led = Led()
    led.fetch(2, disk(2), counts=2, epoch=epoch)
    assert led.found == ["I27"]


def test_a_voter_that_reports_itself_is_heard() -> None:
    led = Led()
    update = UpdateRaftVoterRequest(None, EPOCH, 2, disk(2), (), 0, 1)
    led.handle(update, counts=2)
    assert led.found == []
    led = Led()
    led.handle(UpdateRaftVoterRequest(None, EPOCH, 2, OTHER, (), 0, 1), counts=2)
    assert led.found == ["I27"]


def test_a_leader_that_resigns_is_not_judged() -> None:
    led = Led()
    message = FetchRequest(None, 2, OTHER, 0, 1, EPOCH, 7, EPOCH, -1)
    for told in led.run.world.on_request:
        told(led.run.host(1), message)
    led.leader.heard_from(2, disk(2), 1)
    led.run.host(1).node.replica.state = None  # type: ignore[union-attr]
    for told in led.run.world.on_step:
        told(led.run.host(1), RequestReceived(1, message))
    assert led.found == []


PIECE: Any = {"replica_id": 2, "directory": disk(2), "position": 0, "snapshot_end": 9}
SIZE = 100


def piece(**fields: Any) -> FetchSnapshotRequest:
    given = {"cluster_id": None, "max_bytes": 7, "current_leader_epoch": EPOCH, "snapshot_epoch": 2}
    return FetchSnapshotRequest(**{**given, **PIECE, **fields})


@pytest.mark.parametrize("counts", [0, 2])
@pytest.mark.parametrize("position", [0, SIZE - 1])
def test_each_piece_of_a_snapshot_that_a_voter_fetches_counts(counts: int, position: int) -> None:
    led = Led()
    led.handle(piece(), counts=2)
    led.replica.now = 2
    led.handle(piece(position=position), counts)
    assert led.found == ([] if counts else ["I27"])


def test_a_piece_that_ends_a_round_of_the_check_counts() -> None:
    """n2 alone is a majority beside the leader, so it is forgotten at once."""
    led = Led()
    led.handle(piece(), counts=2)
    assert not led.leader.fetched
    led.handle(piece(), counts=2)
    assert led.found == []


@pytest.mark.parametrize(
    "fields",
    [
        {"position": SIZE},
        {"position": -1},
        {"snapshot_end": 8},
        {"snapshot_end": 0, "snapshot_epoch": 0},
        {"current_leader_epoch": EPOCH - 1},
        {"current_leader_epoch": EPOCH + 1},
        {"cluster_id": "another"},
        {"directory": OTHER},
        {"replica_id": 7, "directory": disk(7)},
    ],
)
def test_a_piece_that_is_not_sent_to_a_voter_need_not_count(fields: dict[str, Any]) -> None:
    led = Led()
    led.handle(piece(), counts=2)
    led.replica.now = 2
    led.handle(piece(**fields), 0)
    assert led.found == []


def test_a_leader_that_stops_or_is_alone_need_not_count_pieces() -> None:
    led = Led()
    led.replica.shutting_down = True
    led.handle(piece(), 0)
    led.replica.shutting_down = False
    led.leader.check_quorum_deadline = NEVER
    led.handle(piece(), 0)
    assert led.found == []


def replaced() -> set[str]:
    """Return the rules that break in a run in which machines are replaced."""
    drawn = KraftCampaign(
        system="kraft", workload="metadata", faults=("membership",), time_limit_s=30.0
    )
    options, knobs = drawn.options(10), drawn.knobs(10)
    run = simulate(options, WORKLOAD, drawn.schedule(10), Injector, knobs=knobs)
    return {failure.type for failure in run.failures}


def test_a_replaced_machine_does_not_count_as_the_voter_that_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert replaced() == set()
    heard_from = Leader.heard_from

    def planted(self: Leader, replica_id: int, directory: bytes, now: int) -> None:
        """Count voters by their ids."""
        known = self.voter_set.get(replica_id)
        heard_from(self, replica_id, directory if known is None else known.directory, now)

    monkeypatch.setattr(Leader, "heard_from", planted)
    assert replaced() == {"I27"}

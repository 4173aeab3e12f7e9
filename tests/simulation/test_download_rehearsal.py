"""L11: copies of leaders clean up while a snapshot is fetched from them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.consensus.effects import RequestReceived, Tick
from kraftwreck.nodes.consensus.kraft import snapshots
from kraftwreck.nodes.consensus.kraft.messages import FetchSnapshotRequest
from kraftwreck.nodes.consensus.kraft.replica import Replica
from kraftwreck.nodes.consensus.kraft.requests import handle_request
from kraftwreck.nodes.consensus.recovered import SnapshotFile
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import download_rehearsal, replica_copies
from kraftwreck.systems.kraft.simulated.download_rehearsal import DownloadRehearsal
from tests.consensus.conftest import Cluster

pytestmark = pytest.mark.interpreted

SIZE = 100


def fake(**fields: Any) -> Any:
    return SimpleNamespace(**fields)


class Run:
    """A leader with a snapshot of its first record."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(download_rehearsal, "Node", SimpleNamespace)
        cluster = Cluster(3)
        cluster.elect()
        cluster.run(1000)
        leader = cluster.leader()
        assert leader is not None
        self.leader: Replica = leader
        leader.append_records(leader.epoch, [b"r"])
        cluster.run(1000)
        header = leader.log.header_at(0)
        assert header is not None
        end = header.last_offset + 1
        assert end < leader.high_watermark
        leader.snapshots = [SnapshotFile(end, header.epoch, SIZE, 0)]
        self.name = end, header.epoch
        self.failures = Failures()
        self.host = fake(name="n1", node=fake(replica=leader))
        self.world = fake(now=0, on_step=[])
        DownloadRehearsal(self.world, self.failures)

    def request(self, position: int = 0) -> FetchSnapshotRequest:
        return FetchSnapshotRequest(None, 2, b"d" * 16, 10, self.leader.epoch, *self.name, position)

    def serve(self, *positions: int) -> list[str]:
        """Let the leader send pieces, each 10 ms after the one before; return what is wrong."""
        for position in positions:
            self.leader.now += 10_000
            self.take(self.request(position))
        return [each.explanation for each in self.failures.items]

    def take(self, request: FetchSnapshotRequest) -> list[str]:
        handle_request(self.leader, 1, request)
        for judge in self.world.on_step:
            judge(self.host, RequestReceived(1, request))
        return [each.explanation for each in self.failures.items]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(monkeypatch)


def test_a_leader_keeps_a_snapshot_that_it_sends(run: Run) -> None:
    files, end = list(run.leader.snapshots), run.leader.log.end_offset
    assert run.serve(0, 10, 20) == []
    assert (run.leader.snapshots, run.leader.log.end_offset) == (files, end), "copies cleaned up"


def test_a_leader_that_forgets_later_pieces_is_found(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve = snapshots.serve

    def planted(replica: Replica, request: FetchSnapshotRequest) -> Any:
        before = dict(replica.served)
        answer = serve(replica, request)
        if request.position:
            replica.served = before
        return answer

    monkeypatch.setattr(snapshots, "serve", planted)
    assert run.serve(0) == []
    (found,) = run.serve(10)
    assert "has sent byte 10 of snapshot" in found


def test_a_leader_that_forgets_too_early_is_found(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean = snapshots.clean

    def planted(replica: Replica) -> None:
        replica.served = {each: at - 1 for each, at in replica.served.items()}
        clean(replica)

    monkeypatch.setattr(snapshots, "clean", planted)
    assert len(run.serve(0)) == 1


def test_a_log_that_is_cleaned_too_far_is_found(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    clean = snapshots.clean

    def planted(replica: Replica) -> None:
        clean(replica)
        replica.log.clean(replica.snapshots[-1].id)

    monkeypatch.setattr(snapshots, "clean", planted)
    assert len(run.serve(0)) == 1


def _never_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(download_rehearsal, "keeps", lambda copy, request: False)


def test_two_first_pieces_and_two_later_ones_are_judged(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    _never_kept(monkeypatch)
    assert len(run.serve(0, 0, 0)) == 2
    assert len(run.serve(10, 20, 30)) == 4


@pytest.mark.parametrize(
    "other",
    [
        {"current_leader_epoch": 99},
        {"snapshot_end": 99},
        {"position": SIZE},
        {"cluster_id": "another"},
    ],
)
def test_refused_requests_are_not_judged(
    run: Run, monkeypatch: pytest.MonkeyPatch, other: dict[str, Any]
) -> None:
    _never_kept(monkeypatch)
    assert run.take(replace(run.request(), **other)) == []


def test_only_leaders_with_newer_records_are_judged(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    _never_kept(monkeypatch)
    run.world.on_step[0](run.host, Tick())
    kept = run.leader.snapshots[0]
    end, hw = run.leader.log.end_offset, run.leader.high_watermark
    run.leader.snapshots.append(replace(kept, end_offset=hw))
    assert run.serve(0) == []
    del run.leader.snapshots[1:]
    monkeypatch.setattr(replica_copies, "LONGEST", end - 1)
    assert run.serve(0) == []
    monkeypatch.setattr(replica_copies, "LONGEST", end)
    run.leader.shutting_down = True
    assert run.serve(0) == []
    run.leader.shutting_down = False
    run.leader.resign("test")
    assert run.serve(0) == []
    run.host.node = None
    assert run.serve(0) == []

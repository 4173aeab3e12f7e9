"""I27: a leader counts no fetch of a voter that has another disk."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.consensus.effects import RequestReceived
from kraftwreck.nodes.consensus.kraft import poll
from kraftwreck.nodes.consensus.kraft.member import Member
from kraftwreck.nodes.consensus.kraft.messages import FetchRequest
from kraftwreck.nodes.consensus.kraft.replica import Replica
from kraftwreck.nodes.consensus.kraft.states import Follower
from kraftwreck.nodes.consensus.kraft.voters import Voter
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import other_disk_rehearsal
from kraftwreck.systems.kraft.simulated.other_disk_rehearsal import (
    MOST,
    OtherDiskRehearsal,
    counts_another_disk,
    may_be_judged,
    may_get_another_disk,
    with_another_disk,
)
from tests.consensus.conftest import Cluster

pytestmark = pytest.mark.interpreted

Patch = pytest.MonkeyPatch


def leader_and_fetch(*, dynamic: bool = True) -> tuple[Replica, FetchRequest]:
    """Return a leader of three voters, and a fetch of one of the others."""
    cluster = Cluster(3, dynamic=dynamic)
    cluster.elect()
    cluster.run(1000)
    leader = cluster.leader()
    assert leader is not None
    voter = next(each for each in cluster.replicas.values() if each is not leader)
    fetch = FetchRequest(
        None,
        voter.node_id,
        voter.config.directory_id,
        0,
        1000,
        leader.epoch,
        leader.log.end_offset,
        leader.log.last_epoch,
        leader.high_watermark,
    )
    return leader, fetch


def test_a_fetch_of_another_disk_does_not_count_and_changes_nothing() -> None:
    leader, fetch = leader_and_fetch()
    end = leader.log.end_offset
    assert may_be_judged(leader, fetch)
    assert not counts_another_disk(leader, fetch)
    assert leader.log.end_offset == end


def follower(*, dynamic: bool = True) -> Replica:
    """Return a voter that follows."""
    cluster = Cluster(3, dynamic=dynamic)
    cluster.elect()
    cluster.run(1000)
    found = next(each for each in cluster.replicas.values() if not each.is_leader)
    assert isinstance(found.state, Follower)
    return found


def test_a_voter_without_its_disk_lets_its_former_self_be_removed() -> None:
    voter = follower()
    assert may_get_another_disk(voter)
    directory = voter.config.directory_id
    assert list(with_another_disk(voter)) == []
    assert voter.config.directory_id == directory
    assert not may_get_another_disk(follower(dynamic=False))


def test_a_voter_without_its_disk_is_none(monkeypatch: Patch) -> None:
    def by_id(self: Any) -> None:
        self.voters = self.history.latest.ids
        self.is_voter = self.node_id in self.voters
        self.other_voters = [each for each in self.voters if each != self.node_id]

    voter = follower()
    monkeypatch.setattr(Member, "note_voters", by_id)
    assert [kind for kind, _ in with_another_disk(voter)] in (["F6"], ["F7"])


def test_a_new_disk_is_not_removed(monkeypatch: Patch) -> None:
    tell = poll._tell

    def own(replica: Replica) -> Any:
        asked: Any = tell(replica)
        return replace(asked, directory=replica.config.directory_id)

    monkeypatch.setattr(poll, "_tell", own)
    assert [kind for kind, _ in with_another_disk(follower())] == ["F7"]


def test_a_static_voter_has_any_disk() -> None:
    assert not may_be_judged(*leader_and_fetch(dynamic=False))


def test_a_leader_that_knows_voters_by_id_only_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """V07."""
    leader, fetch = leader_and_fetch()
    monkeypatch.setattr(Voter, "is_replica", lambda self, known, disk: self.voter_id == known)
    assert counts_another_disk(leader, fetch)


def test_few_fetches_of_a_run_are_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    leader, fetch = leader_and_fetch()
    failures = Failures()
    world: Any = SimpleNamespace(now=0, on_step=[])
    host: Any = SimpleNamespace(name="n1", node=SimpleNamespace(replica=leader))
    monkeypatch.setattr(other_disk_rehearsal, "Node", SimpleNamespace)
    monkeypatch.setattr(other_disk_rehearsal, "counts_another_disk", lambda *_: True)
    OtherDiskRehearsal(world, failures)
    for number in range(MOST + 3):
        world.on_step[0](host, RequestReceived(number, fetch))
    assert [failure.type for failure in failures.items] == ["I27"] * MOST

"""F24: copies of quorum members move to another address, or hear that another one has."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.kraft import membership, poll
from kraftwreck.nodes.consensus.kraft.leader import VoterChange
from kraftwreck.nodes.consensus.kraft.member import Member
from kraftwreck.nodes.consensus.kraft.replica import Replica
from kraftwreck.nodes.consensus.kraft.voters import Voter
from kraftwreck.nodes.local_quorum import LocalQuorum
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import endpoint_rehearsal, replica_copies
from kraftwreck.systems.kraft.simulated.endpoint_rehearsal import EndpointRehearsal, judge
from tests.consensus.conftest import Cluster

pytestmark = pytest.mark.interpreted

KINDS = pytest.mark.parametrize("dynamic", [True, False])


def cluster_of(*, dynamic: bool) -> Cluster:
    cluster = Cluster(3, dynamic=dynamic)
    cluster.elect()
    cluster.run(1000)
    for replica in cluster.replicas.values():
        replica.config = replace(replica.config, listener=Endpoint("here", 9))
        replica.effects = []
    return cluster


def leader_of(cluster: Cluster) -> Replica:
    leader = cluster.leader()
    assert leader is not None
    return leader


def follower_of(cluster: Cluster) -> Replica:
    leader = leader_of(cluster)
    return next(each for each in cluster.replicas.values() if each is not leader)


@KINDS
def test_members_follow_addresses(dynamic: bool) -> None:
    cluster = cluster_of(dynamic=dynamic)
    for replica in cluster.replicas.values():
        state, end = replica.state, replica.log.end_offset
        assert list(judge(replica)) == []
        assert (replica.state, replica.log.end_offset, replica.effects) == (state, end, [])


@KINDS
def test_a_voter_that_does_not_report_its_address_is_found(
    dynamic: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = follower_of(cluster_of(dynamic=dynamic))
    monkeypatch.setattr(poll, "_wants_to_tell", lambda replica, state: False)
    (found,) = judge(follower)
    assert "would not report that to its leader" in found


def test_a_voter_that_reports_an_old_address_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    follower = follower_of(cluster_of(dynamic=False))
    own = membership.own_voter(follower)
    monkeypatch.setattr(membership, "own_voter", lambda replica: own)
    assert len(list(judge(follower))) == 1


def test_a_follower_that_uses_an_old_address_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    follower = follower_of(cluster_of(dynamic=True))
    monkeypatch.setattr(
        Member, "endpoint_of", lambda self, destination: self.voter_set.endpoint(destination)
    )
    (found,) = judge(follower)
    assert f"although the leader of epoch {follower.epoch + 1} has named" in found


def test_a_leader_that_ignores_a_reported_address_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    leader = leader_of(cluster_of(dynamic=True))
    monkeypatch.setattr(membership, "_append_voters", lambda *_: None)
    (found,) = judge(leader)
    assert "although that has reported" in found


def test_a_leader_of_static_voters_that_ignores_an_address_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    leader = leader_of(cluster_of(dynamic=False))
    monkeypatch.setattr(membership, "update_voter", lambda replica, request: 0)
    assert len(list(judge(leader))) == 1


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_leader_that_names_an_old_address_to_clients_is_found(
    dynamic: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has remembered the addresses for as long as the voters are the same ones."""
    leader = leader_of(cluster_of(dynamic=dynamic))
    assert list(judge(leader)) == []

    def remembered(self: LocalQuorum) -> Any:
        known = vars(self).setdefault("known", {})
        voters = self._replica.voter_set
        return known.setdefault(voters.ids, {each: voters.endpoint(each) for each in voters.ids})

    monkeypatch.setattr(LocalQuorum, "voters", property(remembered))
    found = list(judge(leader))
    assert len(found) == dynamic
    assert all("to clients for voter" in each for each in found)


def test_a_leader_that_changes_its_voters_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    leader: Any = leader_of(cluster_of(dynamic=True))
    monkeypatch.setattr(membership, "_append_voters", lambda *_: None)
    high_watermark, leader.high_watermark = leader.high_watermark, -1
    assert list(judge(leader)) == []
    leader.high_watermark = high_watermark
    leader.state.change = VoterChange("add", None, Voter(7, b"d" * 16, ()), 1 << 60)
    assert list(judge(leader)) == []


def test_a_leader_that_has_committed_nothing_of_its_epoch_is_not_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    leader: Any = leader_of(cluster_of(dynamic=False))
    monkeypatch.setattr(membership, "update_voter", lambda replica, request: 0)
    leader.high_watermark = leader.state.epoch_start
    assert list(judge(leader)) == []
    leader.high_watermark = leader.state.epoch_start + 1
    assert len(list(judge(leader))) == 1


def fake(**fields: Any) -> Any:
    return SimpleNamespace(**fields)


class Run:
    """A run in which ``replica`` learns of commits."""

    def __init__(self, patch: pytest.MonkeyPatch, replica: Replica) -> None:
        patch.setattr(endpoint_rehearsal, "Node", SimpleNamespace)
        patch.setattr(endpoint_rehearsal, "judge", lambda _: ["is wrong"])
        self.failures, self.replica = Failures(), replica
        self.host = fake(name="n1", node=fake(replica=replica))
        self.world = fake(now=0, on_trace=[])
        EndpointRehearsal(self.world, self.failures)

    def tell(self, kind: str = "hw") -> int:
        event = TraceEvent(
            node="n1",
            incarnation=1,
            seq=1,
            mono=0,
            wall=0,
            kind=kind,
            state=self.replica.state.name,
            epoch=1,
            leader=-1,
            voted=-1,
            leo=0,
            hw=0,
            detail={},
        )
        for told in self.world.on_trace:
            told(self.host, event)
        return len(self.failures.items)


def test_three_leaders_and_three_followers_are_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = cluster_of(dynamic=True)
    run = Run(monkeypatch, leader_of(cluster))
    for _ in range(5):
        run.tell()
    run.host.node.replica = run.replica = follower_of(cluster)
    assert [run.tell() for _ in range(5)] == [4, 5, 6, 6, 6]


def test_other_events_and_nodes_are_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    replica = follower_of(cluster_of(dynamic=True))
    run = Run(monkeypatch, replica)
    run.tell("state")
    replica.shutting_down = True
    run.tell()
    replica.shutting_down = False
    monkeypatch.setattr(replica_copies, "LONGEST", -1)
    run.tell()
    monkeypatch.setattr(replica_copies, "LONGEST", 2_000)
    replica.become_unattached(replica.epoch + 1)
    run.tell()
    run.host.node = None
    assert run.tell() == 0

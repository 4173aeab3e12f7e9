"""Voters that come and go (KIP-853, KRAFT 2.12 and 2.13)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.kraft import membership
from kraftwreck.nodes.consensus.kraft.messages import (
    AddRaftVoterRequest,
    RemoveRaftVoterRequest,
    UpdateRaftVoterRequest,
)
from kraftwreck.nodes.consensus.kraft.states import Follower, Unattached
from kraftwreck.nodes.consensus.kraft.voters import LISTENER, STATIC, Voter, VoterHistory, VoterSet
from kraftwreck.nodes.protocol import errors
from tests.consensus.disks import Disk

Make = Callable[..., Any]


def dynamic(cluster_of: Make, voters: int = 3, **settings: Any) -> Any:
    cluster = cluster_of(voters, dynamic=True, **settings)
    cluster.elect()
    cluster.run(1000)
    return cluster


def follower_of(cluster: Any) -> int:
    leader = cluster.leader().node_id
    found: int = next(i for i in cluster.replicas if i != leader)
    return found


def agreed(cluster: Any, *ids: int) -> bool:
    return all(r.voters == ids for r in cluster.replicas.values() if r.is_voter)


def test_a_bootstrap_snapshot_names_the_first_voters_and_the_first_leader_logs_them(
    cluster_of: Make,
) -> None:
    cluster = dynamic(cluster_of)
    leader = cluster.leader()
    assert (leader.voters, leader.kraft_version) == ((1, 2, 3), 1)
    assert leader.history.offset == 2, "after LeaderChange and KRaftVersion, in one batch"
    assert all(r.history.offset == 2 for r in cluster.replicas.values())
    assert cluster.disks[leader.node_id].quorum_state.kraft_version == 1


def test_an_observer_finds_the_leader_through_the_bootstrap_servers(cluster_of: Make) -> None:
    cluster = dynamic(cluster_of)
    cluster.append(cluster.leader(), b"x")
    observer = cluster.start(4)
    assert cluster.run(3000, lambda: observer.high_watermark == cluster.leader().high_watermark)
    assert isinstance(observer.state, Follower)
    assert not observer.is_voter
    assert observer.voters == (1, 2, 3)


def test_an_observer_that_has_lost_its_log_follows_the_leader_it_remembers(
    cluster_of: Make,
) -> None:
    """The leader's address was in the log, which was not flushed; the quorum state was."""
    cluster = dynamic(cluster_of, voters=1)
    observer = cluster.start(4)
    assert cluster.run(3000, lambda: observer.high_watermark == cluster.leader().high_watermark)
    remembered = cluster.disks[4].quorum_state
    cluster.kill(4)
    cluster.wipe(4)
    cluster.disks[4] = Disk(quorum_state=remembered)
    observer = cluster.start(4)
    assert cluster.run(3000, lambda: observer.high_watermark == cluster.leader().high_watermark)
    assert isinstance(observer.state, Follower)


def test_a_leader_that_removed_itself_stays_an_observer(cluster_of: Make) -> None:
    cluster = dynamic(cluster_of)
    old = cluster.leader()
    assert cluster.change(lambda: cluster.remove(old.node_id)) == errors.NONE
    for i in (1, 2, 3):
        if i != old.node_id:
            cluster.kill(i)
    cluster.run(10_000)
    assert isinstance(old.state, Unattached | Follower)
    assert not old.is_voter


def test_a_wiped_disk_is_no_voter(cluster_of: Make) -> None:
    """V07, I27."""
    cluster = dynamic(cluster_of)
    lost = follower_of(cluster)
    cluster.kill(lost)
    cluster.wipe(lost)
    fresh = cluster.start(lost)
    cluster.run(3000)
    assert not fresh.is_voter
    leader = cluster.leader()
    assert (lost, fresh.config.directory_id) in leader.state.observers
    other = next(i for i in (1, 2, 3) if i not in (lost, leader.node_id))
    cluster.kill(other)
    committed = leader.high_watermark
    cluster.append(leader, b"x")
    cluster.run(1000)
    assert leader.high_watermark == committed, "only one of three voters has it"


def test_the_only_voter_with_another_disk_starts_as_an_observer(cluster_of: Make) -> None:
    """It is no voter, so it must not try to be elected."""
    cluster = dynamic(cluster_of, 1)
    cluster.kill(1)
    cluster.disk_number[1] += 1
    cluster.disks[1].quorum_state = None
    fresh = cluster.start(1)
    cluster.run(3000)
    assert (fresh.is_voter, fresh.voters) == (False, (1,))
    assert isinstance(fresh.state, Unattached | Follower)


def test_a_wiped_leader_returns_as_another_replica(cluster_of: Make) -> None:
    """The others still say that its id leads; it is not that replica."""
    cluster = dynamic(cluster_of)
    old = cluster.leader().node_id
    cluster.kill(old)
    cluster.wipe(old)
    fresh = cluster.start(old)
    assert cluster.run(10_000, lambda: cluster.leader() is not None and fresh.leader_id > 0)
    assert not fresh.is_voter
    cluster.run(3000)
    assert (old, bytes(16)) not in cluster.leader().state.observers


def test_an_observer_of_a_removed_leader_finds_the_next_leader(cluster_of: Make) -> None:
    """It followed the leader of the voter set, which no longer contains that leader."""
    cluster = dynamic(cluster_of)
    observer = cluster.start(4)
    cluster.run(2000)
    old = cluster.leader()
    assert isinstance(observer.state, Follower)
    observer.state.leader_endpoint = None
    assert cluster.change(lambda: cluster.remove(old.node_id)) == errors.NONE
    assert cluster.run(10_000, lambda: cluster.leader() not in (None, old))
    new = cluster.leader()
    assert cluster.run(10_000, lambda: observer.high_watermark == new.high_watermark > 0)
    assert observer.leader_id == new.node_id


def test_a_new_voter_without_its_voter_set_blocks_no_election(cluster_of: Make) -> None:
    """It follows as an observer, has fetched from the leader, and is needed when that is gone."""
    cluster = dynamic(cluster_of)
    fresh = cluster.start(4)
    old = cluster.leader()
    assert cluster.run(2000, lambda: fresh.high_watermark == old.high_watermark)
    cluster.cut = lambda source, target: 4 in (source, target) and 4 in old.voters
    assert cluster.change(lambda: cluster.add(4)) == errors.NONE
    cluster.run(500)  # Everybody else knows that it is committed.
    cluster.kill(old.node_id)
    cluster.cut = lambda source, target: False
    assert not fresh.is_voter
    assert isinstance(fresh.state, Follower)
    assert fresh.state.has_fetched
    assert cluster.run(10_000, lambda: cluster.leader() is not None)
    assert cluster.run(10_000, lambda: fresh.is_voter)


def test_an_observer_with_a_live_leader_grants_no_pre_vote(cluster_of: Make) -> None:
    cluster = dynamic(cluster_of)
    observer = cluster.start(4)
    cluster.run(10_000)
    assert isinstance(observer.state, Follower)
    assert observer.state.has_fetched
    cluster.cut = lambda source, target: 4 in (source, target)
    period = observer.config.fetch_timeout_ms
    cluster.run(period // 2)
    assert isinstance(observer.state, Follower)
    assert observer.state.has_fetched
    cluster.run(period)
    assert isinstance(observer.state, Follower)
    assert not observer.state.has_fetched


def test_a_new_controller_joins_by_itself(cluster_of: Make) -> None:
    cluster = dynamic(cluster_of, 1, auto_join=True)
    for i in (2, 3):
        cluster.start(i)
    assert cluster.run(60_000, lambda: agreed(cluster, 1, 2, 3))
    assert len([r for r in cluster.replicas.values() if r.is_voter]) == 3


def test_snapshots_carry_the_voters(cluster_of: Make) -> None:
    """S20: after cleaning, a restart still knows who votes."""
    cluster = dynamic(cluster_of)
    cluster.start(4)
    cluster.run(2000)
    assert cluster.change(lambda: cluster.add(4)) == errors.NONE
    cluster.run(1000)
    leader = cluster.leader()
    for _ in range(2):
        cluster.append(leader, b"x")
        cluster.run(1500)
        for i in list(cluster.replicas):
            cluster.snapshot(i)
    for i in list(cluster.replicas):
        cluster.clean(i)
        cluster.kill(i)
    for i in (1, 2, 3, 4):
        assert cluster.start(i).voters == (1, 2, 3, 4)
    assert cluster.elect().voters == (1, 2, 3, 4)


def test_a_voter_sends_its_new_address_to_the_leader(cluster_of: Make) -> None:
    cluster = dynamic(cluster_of)
    moved = follower_of(cluster)
    leader = cluster.leader()
    key = (moved, cluster.replicas[moved].config.directory_id)
    endpoints = ((LISTENER, Endpoint(f"n{moved}", 9999)),)

    def update(epoch: int, versions: tuple[int, int] = (0, 1)) -> int:
        asked = UpdateRaftVoterRequest("cluster", epoch, *key, endpoints, *versions)
        cluster.ask(leader.node_id, asked)
        error: int = cluster.outcomes[-1].error
        return error

    assert update(leader.epoch - 1) == errors.FENCED_LEADER_EPOCH
    assert update(leader.epoch + 1) == errors.UNKNOWN_LEADER_EPOCH
    assert update(leader.epoch, (2, 3)) == errors.INVALID_REQUEST
    assert update(leader.epoch) == errors.NONE
    assert leader.voter_set.endpoint(moved) == Endpoint(f"n{moved}", 9999)


def test_a_static_quorum_changes_no_voters_but_can_be_upgraded(cluster_of: Make) -> None:
    cluster = cluster_of(3)
    for i in (1, 2, 3):
        cluster.kill(i)
        cluster.start(i, listener=Endpoint(f"n{i}", 9093))
    leader = cluster.elect()
    cluster.ask(leader.node_id, RemoveRaftVoterRequest("cluster", 2, bytes(16)))
    assert cluster.outcomes[-1].error == errors.UNSUPPORTED_VERSION
    fault = membership.upgrade_fault
    assert cluster.run(15_000, lambda: fault(cluster.leader(), 1) is None), "all voters told"
    leader = cluster.leader()
    assert fault(leader, 2) is not None
    cluster.handle(leader.node_id, lambda r: membership.upgrade(r, 1))
    assert cluster.run(3000, lambda: all(r.kraft_version == 1 for r in cluster.replicas.values()))
    assert fault(leader, 0) is not None, "there is no way back"
    assert all(v.directory != bytes(16) for v in map(leader.voter_set.get, (1, 2, 3)))
    cluster.run(1000)
    gone = follower_of(cluster)
    assert cluster.change(lambda: cluster.remove(gone)) in (
        errors.NONE,
        errors.VOTER_NOT_FOUND,
    )


def test_requests_without_a_voter_are_invalid(cluster_of: Make) -> None:
    cluster = dynamic(cluster_of)
    leader = cluster.leader().node_id
    endpoints = ((LISTENER, Endpoint("n9", 9093)),)
    for voter, directory, where in (
        (-1, b"d" * 16, endpoints),
        (9, bytes(16), endpoints),
        (9, b"d" * 16, ()),
        (9, b"d" * 16, (("OTHER", Endpoint("n9", 1)),)),
    ):
        cluster.ask(leader, AddRaftVoterRequest("cluster", 1000, voter, directory, where))
        assert cluster.outcomes[-1].error == errors.INVALID_REQUEST
    cluster.ask(leader, AddRaftVoterRequest("other", 1000, 9, b"d" * 16, endpoints))
    assert cluster.outcomes[-1].error == errors.INCONSISTENT_CLUSTER_ID
    follower = follower_of(cluster)
    cluster.ask(follower, AddRaftVoterRequest("cluster", 1000, 9, b"d" * 16, endpoints))
    assert cluster.outcomes[-1].error == errors.NOT_LEADER_OR_FOLLOWER


def test_voter_histories_return_the_set_in_force_at_an_offset() -> None:
    def of(*ids: int) -> VoterSet:
        return VoterSet({i: Voter(i, bytes([i] * 16), ()) for i in ids})

    history = VoterHistory(of(1))
    history.add_level(5, 1)
    history.add_voters(6, of(1, 2))
    history.add_voters(20, of(1, 2, 3))
    assert (history.latest, history.offset, history.level) == (of(1, 2, 3), 20, 1)
    assert history.at(20) == (of(1, 2), 1)
    assert history.at(5) == (of(1), 0)
    history.clean(15)
    assert history.at(20) == (of(1, 2), 1)
    history.truncate(20)
    assert (history.latest, history.offset) == (of(1, 2), 6)
    history.restart(0, of(7), 1)
    assert (history.latest, history.offset, history.level) == (of(7), STATIC, 1)
    history.restart(30, of(8), 1)
    assert (history.latest, history.offset) == (of(8), 29)

"""A quorum at work: elections, replication, divergence, resignation, restart."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from kraftwreck.nodes.consensus.effects import WriteQuorumState
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.kraft import poll
from kraftwreck.nodes.consensus.kraft.config import QuorumConfig
from kraftwreck.nodes.consensus.kraft.leader import Leader
from kraftwreck.nodes.consensus.kraft.messages import (
    NO_DIRECTORY,
    VoteRequest,
)
from kraftwreck.nodes.consensus.kraft.replica import Replica
from kraftwreck.nodes.consensus.kraft.requests import handle_request
from kraftwreck.nodes.consensus.kraft.states import Follower, Unattached
from kraftwreck.nodes.consensus.kraft.voters import VoterSet
from kraftwreck.nodes.consensus.recovered import Recovered
from kraftwreck.nodes.log.batch import encode_batch

if TYPE_CHECKING:
    from tests.consensus.conftest import Cluster
else:
    Cluster = object

Make = Callable[..., "Cluster"]


def logs(cluster: Cluster) -> list[bytes]:
    return [r.log.read(0, 1 << 30) for r in cluster.replicas.values()]


@pytest.mark.parametrize("voters", [1, 2, 3, 4, 5])
def test_a_leader_is_elected_and_everybody_follows(cluster_of: Make, voters: int) -> None:
    cluster = cluster_of(voters)
    leader = cluster.elect()
    last = cluster.append(leader, b"a", b"b")
    cluster.run(1000)
    assert {r.high_watermark for r in cluster.replicas.values()} == {last + 1}
    assert len(set(logs(cluster))) == 1
    followers = [r for r in cluster.replicas.values() if r is not leader]
    assert all(isinstance(r.state, Follower) for r in followers)
    assert all(r.leader_id == leader.node_id for r in followers)


def test_a_new_leader_has_no_high_watermark_before_its_own_record_is_shared(
    cluster_of: Make,
) -> None:
    five = VoterSet.static({i: Endpoint(f"n{i}", 9093) for i in (1, 2, 3, 4, 5)})
    leader = Leader(1, five, (1, 2, 3), epoch_start=7, now=0, check_quorum_us=1)
    for voter in (1, 2, 3):
        leader.voters[voter].end_offset = 7
    assert leader.high_watermark(-1) == -1, "records of older epochs do not commit by counting"
    for voter in (1, 2):
        leader.voters[voter].end_offset = 8
    assert leader.high_watermark(-1) == -1
    leader.voters[3].end_offset = 8
    assert leader.high_watermark(-1) == 8


def test_the_leader_dies_and_another_one_takes_over_with_everything_committed(
    cluster_of: Make,
) -> None:
    cluster = cluster_of(3)
    leader = cluster.elect()
    last = cluster.append(leader, b"kept")
    cluster.run(500)
    cluster.kill(leader.node_id)
    follower = cluster.elect()
    assert follower.epoch > leader.epoch
    assert follower.high_watermark > last
    cluster.start(leader.node_id)
    cluster.run(3000)
    assert len(set(logs(cluster))) == 1


def test_an_isolated_resigned_leader_retries_with_back_off(cluster_of: Make) -> None:
    cluster = cluster_of(3)
    leader = cluster.elect()
    cluster.run(500)
    for other in set(cluster.ids) - {leader.node_id}:
        cluster.kill(other)
    cluster.handle(leader.node_id, lambda r: r.stop())
    cluster.run(10_000)
    assert (leader.stopped, leader.state.name) == (False, "resigned")
    assert poll.deadline(leader) > leader.now


def test_a_vote_is_on_disk_before_it_is_sent(cluster_of: Make) -> None:
    cluster = cluster_of(3)
    replica = cluster.replicas[1]
    ask = VoteRequest("cluster", 1, 7, 2, bytes([2] * 16), NO_DIRECTORY, 0, 0, False)
    replica.now = cluster.now
    handle_request(replica, 99, ask)
    kinds = [type(e).__name__ for e in replica.effects]
    written = [e for e in replica.effects if isinstance(e, WriteQuorumState)]
    assert (written[-1].epoch, written[-1].voted_id) == (7, 2)
    assert kinds.index("WriteQuorumState") < kinds.index("Reply")


@pytest.mark.parametrize("seed", range(12))
def test_kills_and_restarts_never_lose_committed_records(cluster_of: Make, seed: int) -> None:
    from kraftwreck.nodes.draw import draw_below

    cluster = cluster_of(5, seed=seed, fetch_max_bytes=1)
    committed: dict[int, bytes] = {}
    for step in range(12):
        if len(cluster.replicas) < 3:
            for i in cluster.ids:
                if i not in cluster.replicas:
                    cluster.start(i)
        leader = cluster.elect()
        for k in range(3):
            cluster.append(leader, f"{seed}-{step}-{k}".encode())
        cluster.run(draw_below(60, seed, step, "run"))
        high = max(r.high_watermark for r in cluster.replicas.values())
        for replica in cluster.replicas.values():
            for batch, _ in replica.log.batches_between(0, min(high, replica.high_watermark)):
                base = int.from_bytes(batch[:8], "big")
                assert committed.setdefault(base, batch) == batch
        victim = draw_below(5, seed, step, "victim") + 1
        if victim in cluster.replicas:
            cluster.kill(victim)
        cluster.run(draw_below(2500, seed, step, "wait"))
    for i in cluster.ids:
        if i not in cluster.replicas:
            cluster.start(i)
    cluster.elect()
    cluster.run(5000)
    assert len(set(logs(cluster))) == 1
    final = {
        int.from_bytes(b[:8], "big"): b
        for b, _ in cluster.replicas[1].log.batches_between(0, 10**9)
    }
    assert committed.items() <= final.items()


@pytest.mark.parametrize("leader_id", [-1, 9])
def test_a_candidate_that_lost_does_not_ask_again_in_its_epoch(leader_id: int) -> None:
    """Its disk still holds its vote for itself, beside records of the epoch's leader.

    The leader may be unknown there (9 is no voter): a leader that has removed itself.
    """
    record = encode_batch(0, 3, 0, [(None, b"v")], control=False)
    voters = {i: Endpoint(f"n{i}", 9093) for i in (1, 2, 3)}
    config = QuorumConfig(1, "cluster", bytes([1] * 16), voters)
    saved = WriteQuorumState(3, leader_id, 1, bytes([1] * 16), (1, 2, 3))
    replica = Replica(config, Recovered(saved, [record]), 0, 0)
    replica.start()
    assert isinstance(replica.state, Unattached)
    assert (replica.epoch, replica.state.voted_id) == (3, 1)
    newer = WriteQuorumState(4, -1, 1, bytes(16), (1, 2, 3))
    never = Replica(config, Recovered(newer, [record]), 0, 0)
    never.start()
    assert never.state.name == "candidate", "nothing says that it has lost epoch 4"

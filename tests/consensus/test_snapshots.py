"""Snapshots: made, served, fetched; the log cleaned up below them (KIP-630, KRAFT 2.6, 2.10)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraftwreck.nodes.consensus.effects import FatalError
from kraftwreck.nodes.consensus.kraft import snapshots
from kraftwreck.nodes.consensus.kraft.messages import FetchSnapshotRequest, FetchSnapshotResponse
from kraftwreck.nodes.consensus.kraft.responses import handle_response
from kraftwreck.nodes.consensus.kraft.states import Follower
from kraftwreck.nodes.protocol import errors

Make = Callable[..., Any]


def filled(cluster_of: Make, voters: int = 3, **settings: Any) -> Any:
    """A cluster whose leader has committed twenty values."""
    cluster = cluster_of(voters, **settings)
    leader = cluster.elect()
    for k in range(10):
        cluster.append(leader, b"a%d" % k, b"b%d" % k)
        cluster.run(30)
    assert cluster.run(2000, lambda: leader.high_watermark == leader.log.end_offset)
    return cluster


def others(cluster: Any) -> list[int]:
    return [i for i in cluster.replicas if i != cluster.leader().node_id]


def test_a_snapshot_replaces_the_records_below_its_end(cluster_of: Make) -> None:
    cluster = filled(cluster_of)
    leader = cluster.leader()
    made = cluster.snapshot(leader.node_id)
    assert made == (leader.high_watermark, leader.epoch)
    assert cluster.disks[leader.node_id].snapshots.keys() == {made}


def test_no_snapshot_of_uncommitted_records_or_another_epoch(cluster_of: Make) -> None:
    cluster = filled(cluster_of)
    leader = cluster.leader()
    cluster.cut = lambda source, target: True
    cluster.append(leader, b"tail")
    cluster.run(100)
    end = leader.log.end_offset
    assert end > leader.high_watermark
    with pytest.raises(FatalError, match="high watermark"):
        snapshots.begin(leader, end, leader.epoch)
    with pytest.raises(FatalError, match="epoch"):
        snapshots.begin(leader, leader.high_watermark, leader.epoch + 1)
    with pytest.raises(FatalError, match="no batch ends there"):
        snapshots.begin(leader, leader.high_watermark - 1, leader.epoch)


def test_a_new_leader_makes_no_snapshot_before_it_knows_a_high_watermark(cluster_of: Make) -> None:
    cluster = filled(cluster_of)
    leader = cluster.leader()
    end, leader.high_watermark = leader.high_watermark, -1
    assert snapshots.begin(leader, end, leader.epoch) is None


def test_a_snapshot_that_new_is_not_made_twice(cluster_of: Make) -> None:
    cluster = filled(cluster_of)
    node = cluster.leader().node_id
    assert cluster.snapshot(node) is not None
    assert cluster.snapshot(node) is None


def test_the_log_is_cleaned_up_to_the_second_oldest_snapshot_only(cluster_of: Make) -> None:
    cluster = filled(cluster_of)
    leader = cluster.leader()
    node = leader.node_id
    first = cluster.snapshot(node)
    cluster.clean(node)
    assert leader.log.start_offset == 0, "one snapshot alone is never a reason to forget"
    cluster.append(leader, b"more")
    cluster.run(1000)
    second = cluster.snapshot(node)
    cluster.clean(node)
    assert (leader.log.start_offset, [s.id for s in leader.snapshots]) == (second[0], [second])
    assert first not in cluster.disks[node].snapshots


def test_a_follower_behind_the_log_start_is_brought_in_by_the_snapshot(cluster_of: Make) -> None:
    cluster = filled(cluster_of, fetch_snapshot_max_bytes=50)
    leader = cluster.leader()
    behind = others(cluster)[0]
    cluster.kill(behind)
    for _ in range(2):
        cluster.append(leader, b"while away")
        cluster.run(1500)
        cluster.snapshot(leader.node_id)
    cluster.clean(leader.node_id)
    replica = cluster.start(behind)
    assert replica.log.end_offset < leader.log.start_offset
    assert cluster.run(3000, lambda: replica.high_watermark == leader.high_watermark)
    assert replica.log.start_offset == leader.log.start_offset
    assert cluster.loaded[behind] == cluster.loaded[leader.node_id]
    assert cluster.kinds(behind).count("install") == 1
    pieces = [m for _, _, m in cluster.sent if isinstance(m, FetchSnapshotRequest)]
    assert len(pieces) > 3, "it came in pieces"


def test_a_snapshot_that_is_being_fetched_stays_until_the_fetcher_has_caught_up(
    cluster_of: Make,
) -> None:
    """New ones come faster than a single one travels; still the follower gets there."""
    cluster = filled(cluster_of, fetch_snapshot_max_bytes=20, fetch_timeout_ms=5000)
    leader = cluster.leader()
    behind = others(cluster)[0]
    cluster.kill(behind)

    def newer() -> None:
        cluster.append(leader, b"goes on")
        cluster.run(100)
        cluster.snapshot(leader.node_id)
        cluster.clean(leader.node_id)

    newer()
    newer()
    wanted = leader.snapshots[0].id

    def cut(source: int, target: int) -> bool:
        pieces = sum(isinstance(message, FetchSnapshotRequest) for _, _, message in cluster.sent)
        return behind in (source, target) and pieces == 3

    cluster.cut = cut
    replica = cluster.start(behind)
    assert cluster.run(1000, lambda: wanted in leader.served)
    assert "install" not in cluster.kinds(behind)
    newer()
    newer()
    assert leader.snapshots[0].id == wanted
    assert leader.log.start_offset == wanted[0]
    cluster.cut = lambda source, target: False
    assert cluster.run(4000, lambda: replica.high_watermark == leader.high_watermark)
    assert cluster.kinds(behind).count("download") == 1
    assert cluster.kinds(behind).count("install") == 1
    cluster.run(5000)
    newer()
    assert wanted not in {s.id for s in leader.snapshots}, "nobody asks for it any more"
    assert not leader.served


def test_a_node_that_restarts_begins_with_its_snapshot_and_the_log_after_it(
    cluster_of: Make,
) -> None:
    cluster = filled(cluster_of)
    leader = cluster.leader()
    node = others(cluster)[0]
    cluster.run(600)
    for _ in range(2):
        cluster.append(leader, b"x")
        cluster.run(1000)
        cluster.snapshot(node)
    cluster.clean(node)
    cluster.append(leader, b"last")
    cluster.run(1000)
    cluster.kill(node)
    replica = cluster.start(node)
    assert replica.log.start_offset > 0
    assert cluster.run(3000, lambda: replica.high_watermark == leader.high_watermark)
    assert cluster.loaded[node] == cluster.loaded[leader.node_id]
    assert "install" not in cluster.kinds(node)


def test_a_download_does_not_outlive_its_leader(cluster_of: Make) -> None:
    """S10: pieces of two leaders' snapshots must not meet in one file."""
    cluster = filled(cluster_of, fetch_snapshot_max_bytes=20)
    leader = cluster.leader()
    behind = others(cluster)[0]
    cluster.kill(behind)
    for _ in range(2):
        cluster.append(leader, b"while away")
        cluster.run(1000)
        for node in cluster.replicas:
            cluster.snapshot(node)
    for node in cluster.replicas:
        cluster.clean(node)

    def cut(source: int, target: int) -> bool:
        pieces = sum(isinstance(message, FetchSnapshotRequest) for _, _, message in cluster.sent)
        return behind in (source, target) and pieces >= 3

    cluster.cut = cut
    replica = cluster.start(behind)
    cluster.run(500)
    state = replica.state
    assert isinstance(state, Follower)
    assert state.download is not None
    assert state.download.content
    assert cluster.disks[behind].parts
    old = leader.node_id
    cluster.kill(old)
    cluster.run(100)
    cluster.start(old)
    cluster.cut = lambda source, target: False
    assert cluster.run(
        15_000, lambda: bool(cluster.leader()) and cluster.loaded[behind] == cluster.loaded[old]
    )
    assert cluster.disks[behind].parts == {}


def request(leader: Any, **changes: Any) -> FetchSnapshotRequest:
    end, epoch = leader.snapshots[-1].id
    values = {
        "cluster_id": "cluster",
        "replica_id": 9,
        "directory": bytes(16),
        "max_bytes": 10,
        "current_leader_epoch": leader.epoch,
        "snapshot_end": end,
        "snapshot_epoch": epoch,
        "position": 0,
    }
    return FetchSnapshotRequest(**values | changes)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({}, errors.NONE),
        ({"position": -1}, errors.POSITION_OUT_OF_RANGE),
        ({"position": 1 << 30}, errors.POSITION_OUT_OF_RANGE),
        ({"snapshot_end": 1}, errors.SNAPSHOT_NOT_FOUND),
        ({"snapshot_end": 0, "snapshot_epoch": 0}, errors.SNAPSHOT_NOT_FOUND),
        ({"current_leader_epoch": 0}, errors.FENCED_LEADER_EPOCH),
        ({"current_leader_epoch": 99}, errors.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_answers_of_fetch_snapshot(cluster_of: Make, changes: dict[str, Any], error: int) -> None:
    cluster = filled(cluster_of)
    leader = cluster.leader()
    cluster.snapshot(leader.node_id)
    response, allowed = snapshots.serve(leader, request(leader, **changes))
    assert (response.partition_error, allowed) == (error, None if error else 10)


def test_fetch_snapshot_of_a_foreign_cluster_or_from_a_follower_is_refused(
    cluster_of: Make,
) -> None:
    cluster = filled(cluster_of)
    leader = cluster.leader()
    cluster.snapshot(leader.node_id)
    asked = request(leader)
    follower = cluster.replicas[others(cluster)[0]]
    assert snapshots.serve(follower, asked)[0].partition_error == errors.NOT_LEADER_OR_FOLLOWER
    foreign = request(leader, cluster_id="another")
    assert snapshots.serve(leader, foreign)[0].error == errors.INCONSISTENT_CLUSTER_ID


def test_a_crash_between_download_and_installation_is_repaired(cluster_of: Make) -> None:
    """The log goes beyond the snapshot, but in an epoch in which nothing was committed."""
    cluster = filled(cluster_of)
    leader = cluster.leader()
    node = leader.node_id
    cluster.cut = lambda source, target: node in (source, target)
    for k in range(10):
        cluster.append(leader, b"lost%d" % k)
        cluster.run(30)
    tail = leader.log.end_offset
    assert cluster.run(10_000, lambda: cluster.leader() is not leader)
    cluster.kill(node)
    new = cluster.elect()
    cluster.append(new, b"kept")
    cluster.run(1000)
    end, epoch = cluster.snapshot(new.node_id)
    assert end < tail
    content = cluster.disks[new.node_id].snapshots[end, epoch]
    cluster.disks[node].snapshots[end, epoch] = content
    replica = cluster.start(node)
    assert (replica.log.start_offset, replica.log.end_offset) == (end, end)
    cluster.cut = lambda source, target: False
    assert cluster.run(5000, lambda: replica.high_watermark == new.high_watermark)
    assert cluster.loaded[node] == cluster.loaded[new.node_id]


def test_a_fetch_of_an_unreadable_snapshot_is_retried_after_a_back_off(
    cluster_of: Make,
) -> None:
    cluster = filled(cluster_of)
    leader = cluster.leader()
    follower = cluster.replicas[others(cluster)[0]]
    gone = FetchSnapshotResponse(
        0, errors.SNAPSHOT_NOT_FOUND, leader.node_id, leader.epoch, 9, leader.epoch
    )
    follower.links.clear()
    correlation = follower.links.open(leader.node_id, follower.now)
    assert correlation is not None
    handle_response(follower, leader.node_id, correlation, gone)
    assert not follower.links.is_ready(leader.node_id, follower.now)
    assert follower.links.is_ready(leader.node_id, follower.now + 20_000)


@pytest.mark.parametrize("data", [b"none", b""])
def test_a_damaged_snapshot_is_fetched_again_after_a_back_off(
    cluster_of: Make, data: bytes
) -> None:
    cluster = filled(cluster_of)
    leader = cluster.leader()
    follower = cluster.replicas[others(cluster)[0]]
    assert isinstance(follower.state, Follower)
    end = follower.log.end_offset + 5
    snapshots.start_download(follower, follower.state, end, leader.epoch)
    follower.links.clear()
    correlation = follower.links.open(leader.node_id, follower.now)
    assert correlation is not None
    piece = FetchSnapshotResponse(0, 0, leader.node_id, leader.epoch, end, leader.epoch)
    piece.size, piece.data = 4, data
    handle_response(follower, leader.node_id, correlation, piece)
    assert follower.state.download is None
    assert not follower.links.is_ready(leader.node_id, follower.now)
    assert follower.links.is_ready(leader.node_id, follower.now + 20_000)

"""Rules whose breach does harm only in rare states; each is shown here by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraftwreck.nodes.consensus.effects import FatalError
from kraftwreck.nodes.consensus.log import ReplicatedLog
from kraftwreck.nodes.log.batch import encode_batch, parse_header
from kraftwreck.nodes.protocol import errors

Make = Callable[..., Any]
Damage = Callable[[bytes], bytes]


def settled(cluster_of: Make, voters: int = 3, **settings: Any) -> Any:
    cluster = cluster_of(voters, **settings)
    cluster.elect()
    cluster.run(1000)
    return cluster


def followers(cluster: Any) -> list[Any]:
    return [r for r in cluster.replicas.values() if not r.is_leader]


def test_a_new_high_watermark_answers_waiting_fetches_at_once(cluster_of: Make) -> None:
    """R31: a waiting fetch is answered at the commit, not only at the end of its wait."""
    cluster = settled(cluster_of, 5, fetch_max_wait_ms=10_000, fetch_timeout_ms=30_000)
    leader = cluster.leader()
    last = cluster.append(leader, b"x")
    assert cluster.run(100, lambda: leader.high_watermark == last + 1)
    assert cluster.run(10, lambda: all(r.high_watermark == last + 1 for r in followers(cluster)))


def of_a_newer_epoch(records: bytes) -> bytes:
    header = parse_header(records)
    return encode_batch(header.base_offset, header.epoch + 1, 0, [(None, b"x")], control=False)


def with_a_flipped_bit(records: bytes) -> bytes:
    return records[:-1] + bytes([records[-1] ^ 1])


@pytest.mark.interpreted
@pytest.mark.parametrize("damage", [of_a_newer_epoch, with_a_flipped_bit])
def test_a_follower_appends_nothing_damaged_or_of_a_newer_epoch(
    cluster_of: Make, monkeypatch: pytest.MonkeyPatch, damage: Damage
) -> None:
    """R27, S14."""
    cluster = settled(cluster_of)
    leader = cluster.leader()
    before = leader.log.end_offset
    sound = ReplicatedLog.read
    damaged = 0

    def read(log: ReplicatedLog, offset: int, max_bytes: int) -> bytes:
        nonlocal damaged
        records = sound(log, offset, max_bytes)
        if not records or damaged == 2:
            return b""  # Once for each: who got damaged records asks again at once.
        damaged += 1
        return damage(records)

    monkeypatch.setattr(ReplicatedLog, "read", read)
    cluster.append(leader, b"x")
    cluster.run(200)
    assert leader.log.end_offset > before
    assert damaged == 2
    assert [r.log.end_offset for r in followers(cluster)] == [before, before]
    monkeypatch.undo()
    assert cluster.run(5000, lambda: leader.high_watermark == leader.log.end_offset)


def test_nothing_committed_is_ever_cut(cluster_of: Make) -> None:
    """R20."""
    cluster = settled(cluster_of)
    follower = followers(cluster)[0]
    committed = follower.high_watermark
    assert committed > 0
    with pytest.raises(FatalError, match="below the committed"):
        follower.truncate(committed - 1)
    assert follower.log.end_offset >= committed


def test_a_timed_out_voter_change_still_blocks_the_next(cluster_of: Make) -> None:
    """V02: its client got a timeout, and its record is not committed yet."""
    cluster = settled(cluster_of, 5, dynamic=True)
    leader = cluster.leader()
    first, second, *_ = [i for i in cluster.replicas if i != leader.node_id]
    cluster.cut = lambda source, target: leader.node_id in (source, target)
    cluster.remove(first)
    assert cluster.run(2500, lambda: len(cluster.outcomes) == 1)
    assert leader.is_leader, "it does not know that it is cut off"
    cluster.remove(second)
    assert [o.error for o in cluster.outcomes] == [errors.REQUEST_TIMED_OUT] * 2
    assert first not in leader.voters
    assert second in leader.voters


def test_a_voter_that_has_not_caught_up_is_not_added(cluster_of: Make) -> None:
    """V08."""
    cluster = settled(cluster_of, dynamic=True)
    cluster.cut = lambda source, target: source == 4
    cluster.start(4)
    cluster.add(4)
    assert cluster.run(1000, lambda: len(cluster.outcomes) == 1)
    assert cluster.outcomes[0].error == errors.REQUEST_TIMED_OUT
    assert cluster.leader().voters == (1, 2, 3)


def test_a_new_voter_is_not_acknowledged_before_it_is_committed(cluster_of: Make) -> None:
    """V11: the leader and the new voter are two of four."""
    cluster = settled(cluster_of, dynamic=True)
    cluster.start(4)
    cluster.run(1000)
    leader = cluster.leader()
    joined = {leader.node_id, 4}
    cluster.cut = lambda source, target: not joined >= {source, target}
    cluster.add(4)
    cluster.run(500)
    assert leader.voters == (1, 2, 3, 4)
    assert leader.high_watermark <= leader.history.offset
    assert cluster.outcomes == []

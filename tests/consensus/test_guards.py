"""Rules whose breach does harm only in rare states; each is shown here by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraftwreck.nodes.consensus.effects import FatalError
from kraftwreck.nodes.consensus.log import ReplicatedLog
from kraftwreck.nodes.log.batch import encode_batch, parse_header

Make = Callable[..., Any]
Damage = Callable[[bytes], bytes]


def settled(cluster_of: Make, voters: int = 3, **settings: Any) -> Any:
    cluster = cluster_of(voters, **settings)
    cluster.elect()
    cluster.run(1000)
    return cluster


def followers(cluster: Any) -> list[Any]:
    return [r for r in cluster.replicas.values() if not r.is_leader]


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

"""InstallSnapshot: pieces, restarts, damage, and the term at the log's start."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kraftwreck.nodes.consensus.effects import (
    AppendSnapshot,
    DropSnapshot,
    FatalError,
    FinishSnapshot,
    InstallSnapshot,
    WriteQuorumState,
)
from kraftwreck.nodes.consensus.raft.messages import (
    InstallSnapshotRequest,
    InstallSnapshotResponse,
)
from kraftwreck.nodes.consensus.recovered import Recovered, SnapshotFile
from kraftwreck.nodes.log.snapshots import data_batch, footer_batch, header_batch
from tests.consensus.raft.invariants import Watch
from tests.consensus.raft.network import Group
from tests.consensus.raft.rig import CLUSTER, Member, entry, log_of

CONTENT = header_batch(3, 0, 0) + data_batch(1, 3, 0, [b"7"]) + footer_batch(2, 3, 0)
"""A snapshot (10, 3)."""


def piece(start: int, stop: int, **others: object) -> InstallSnapshotRequest:
    request = InstallSnapshotRequest(CLUSTER, 4, 2, 10, 3, len(CONTENT), start, CONTENT[start:stop])
    return replace(request, **others)  # type: ignore[arg-type]


def test_pieces_are_written_checked_and_installed() -> None:
    member = Member([1, 1])
    assert member.ask(piece(0, 50)) == InstallSnapshotResponse(4, 50)
    assert member.ask(piece(50, len(CONTENT))) == InstallSnapshotResponse(4, len(CONTENT))
    kinds = (AppendSnapshot, FinishSnapshot, InstallSnapshot)
    assert [type(e) for e in member.effects if isinstance(e, kinds)] == [
        AppendSnapshot,
        AppendSnapshot,
        FinishSnapshot,
        InstallSnapshot,
    ]
    log = member.core.log
    assert (log.start_offset, log.end_offset, log.last_epoch) == (10, 10, 3)
    assert member.core.commit_offset == 10


def test_entries_follow_a_snapshot() -> None:
    """X08: the term before the log's first entry is the snapshot's."""
    member = Member()
    member.ask(piece(0, len(CONTENT)))
    wrong = member.append(4, (10, 2), [entry(10, 4)])
    assert wrong is not None and not wrong.success
    right = member.append(4, (10, 3), [entry(10, 4)])
    assert right is not None and right.success


def test_entries_that_the_snapshot_covers_are_passed_over() -> None:
    member = Member()
    member.ask(piece(0, len(CONTENT)))
    response = member.append(4, (8, 3), [entry(8, 3), entry(9, 3), entry(10, 4)])
    assert response is not None
    assert response.match_offset == 11
    assert member.terms == [4]


def test_lost_or_repeated_piece_is_sent_again_from_the_position_needed() -> None:
    member = Member()
    assert member.ask(piece(50, 90)).position == 0, "the first piece is missing"
    member.ask(piece(0, 50))
    assert member.ask(piece(90, 120)).position == 50
    assert member.ask(piece(0, 50)).position == 50


def test_pieces_of_two_leaders_are_not_mixed() -> None:
    member = Member()
    member.ask(piece(0, 50))
    assert member.ask(piece(50, 90, term=5, leader_id=3)).position == 0
    assert any(isinstance(e, DropSnapshot) for e in member.effects)


def test_damaged_snapshot_is_not_installed() -> None:
    member = Member([1])
    damaged = bytearray(CONTENT)
    damaged[70] ^= 1
    response = member.ask(piece(0, 0, data=bytes(damaged)))
    assert response.position == 0
    assert member.terms == [1]
    assert isinstance(member.effects[-2], DropSnapshot)


def test_follower_that_has_the_last_entry_keeps_its_log() -> None:
    """Figure 13, rule 6."""
    member = Member([1] * 9 + [3, 3], term=4)
    assert member.ask(piece(0, 50)).position == len(CONTENT)
    assert len(member.terms) == 11
    assert member.core.commit_offset == 10


def test_old_snapshot_is_not_installed() -> None:
    member = Member([3] * 11, term=4)
    member.append(4, (11, 3), commit=11)
    assert member.ask(piece(0, 50)).position == len(CONTENT)
    assert member.core.log.end_offset == 11


@pytest.mark.parametrize(
    "others",
    [{"position": -1}, {"data": b""}, {"size": 3}, {"end_offset": 0}, {"end_term": 0},
     {"end_term": 5}],
    ids=["position", "empty", "size", "end", "no term", "newer term"],
)  # fmt: skip
def test_impossible_piece_is_rejected(others: dict[str, object]) -> None:
    assert Member().ask(piece(0, 50, **others)) is None


def test_snapshot_of_an_older_term_is_rejected() -> None:
    member = Member(term=9)
    assert member.ask(piece(0, 50)) == InstallSnapshotResponse(9, 0)


def test_crash_before_installation_is_completed_at_start() -> None:
    """A snapshot is there, and the log is not the one that it covers."""
    state = WriteQuorumState(4, -1, -1, bytes(16), ())
    files = [SnapshotFile(10, 3, len(CONTENT))]
    recovered = Recovered(state, log_of([1] * 12), 0, files, CONTENT)
    member = Member(recovered=recovered)
    assert InstallSnapshot(10, 3) in member.effects
    assert member.core.log_end == (3, 10)


def test_log_that_does_not_reach_its_snapshot_is_fatal() -> None:
    state = WriteQuorumState(4, -1, -1, bytes(16), ())
    files = [SnapshotFile(10, 3, len(CONTENT))]
    with pytest.raises(FatalError, match="does not continue snapshot"):
        Member(recovered=Recovered(state, log_of([1]), 0, files, CONTENT))


def filled(group: Group, count: int) -> int:
    """Let a group write ``count`` values; return its leader."""
    leader = group.elect()
    for value in range(count):
        group.propose(leader, f"write {value}".encode())
        group.run(20)
    return leader


def test_follower_that_was_away_too_long_gets_a_snapshot_in_pieces() -> None:
    group = Group(3, watch=Watch(), snapshot_bytes=500, snapshot_piece_bytes=64)
    group.start_all()
    away = next(i for i in group.addresses if i != group.elect())
    group.kill(away)
    leader = filled(group, 30)
    assert group.core(leader).log.start_offset > 1
    group.start(away)
    assert group.run(5000, lambda: group.machine(away).value == 29)
    pieces = [p for p in group.sent if isinstance(p.message, InstallSnapshotRequest)]
    assert len(pieces) > 2
    assert all(p.target == away for p in pieces)


def test_transfer_survives_newer_snapshots_of_the_leader() -> None:
    group = Group(3, watch=Watch(), snapshot_bytes=300, snapshot_piece_bytes=16)
    group.start_all()
    away = next(i for i in group.addresses if i != group.elect())
    group.kill(away)
    filled(group, 20)
    group.start(away)
    filled(group, 20)
    assert group.run(5000, lambda: group.machine(away).value == 19)


def test_member_starts_from_its_snapshot() -> None:
    group = Group(3, watch=Watch(), snapshot_bytes=300)
    group.start_all()
    leader = filled(group, 20)
    for i in group.addresses:
        group.kill(i)
    group.start(leader)
    assert group.machine(leader).value > 10, "before any message"

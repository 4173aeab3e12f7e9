"""AppendEntries: the consistency check, conflicts, hints, and the six logs of figure 7."""

from __future__ import annotations

import pytest

from kraftwreck.nodes.consensus.effects import (
    AppendLog,
    FatalError,
    FlushLog,
    Reply,
    TruncateLog,
    WriteQuorumState,
)
from kraftwreck.nodes.consensus.raft.messages import (
    AppendEntriesRequest,
    AppendEntriesResponse,
    RequestVoteRequest,
)
from tests.consensus.raft.network import Disk, Group
from tests.consensus.raft.rig import Member, entry, log_of, sends


def test_leader_of_an_older_term_is_rejected() -> None:
    member = Member([1], term=4)
    assert member.append(3, (1, 1)) == AppendEntriesResponse(4, False)


def test_missing_entry_is_reported_with_the_end_of_the_log() -> None:
    member = Member([1, 1])
    assert member.append(3, (7, 2)) == AppendEntriesResponse(3, False, -1, -1, 2)


def test_conflict_is_reported_with_its_term_and_the_first_offset_of_that_term() -> None:
    member = Member([1, 2, 2, 2])
    assert member.append(4, (4, 3)) == AppendEntriesResponse(4, False, -1, 2, 1)
    assert member.terms == [1, 2, 2, 2], "a failed check removes nothing"


def test_new_entries_are_appended_flushed_and_then_acknowledged() -> None:
    member = Member([1])
    seen = len(member.effects)
    response = member.append(1, (1, 1), [entry(1, 1), entry(2, 1)])
    assert response == AppendEntriesResponse(1, True, 3)
    durable = (AppendLog, FlushLog, Reply)
    kinds = [type(e) for e in member.effects[seen:] if isinstance(e, durable)]
    assert kinds == [AppendLog, AppendLog, FlushLog, Reply]


def test_conflicting_entry_and_all_after_it_are_removed() -> None:
    member = Member([1, 2, 2, 2])
    response = member.append(3, (1, 1), [entry(1, 3)])
    assert response == AppendEntriesResponse(3, True, 2)
    assert member.terms == [1, 3]
    assert [e.end_offset for e in member.effects if isinstance(e, TruncateLog)] == [1]


def test_old_request_removes_nothing() -> None:
    """X01: entries after those of a late duplicate stay."""
    member = Member()
    member.append(1, (0, 0), [entry(0, 1)])
    member.append(1, (1, 1), [entry(1, 1), entry(2, 1)])
    response = member.append(1, (0, 0), [entry(0, 1)])
    assert response == AppendEntriesResponse(1, True, 1)
    assert member.terms == [1, 1, 1]


def test_commit_offset_stops_at_the_last_new_entry() -> None:
    """X02: the tail of a deposed leader is not committed by a heartbeat."""
    member = Member([1, 2, 2])
    member.append(3, (1, 1), commit=3)
    assert member.core.commit_offset == 1


def test_commit_offset_follows_the_leader_and_never_falls() -> None:
    member = Member([1, 1, 1])
    member.append(1, (3, 1), commit=2)
    assert member.core.commit_offset == 2
    member.append(1, (3, 1), commit=1)
    assert member.core.commit_offset == 2


def test_committed_entry_is_never_removed() -> None:
    member = Member([1, 1])
    member.append(1, (2, 1), commit=2)
    with pytest.raises(FatalError, match="below the committed 2"):
        member.append(2, (0, 0), [entry(0, 2)])


def test_leader_never_truncates() -> None:
    member = Member([1])
    member.lead()
    with pytest.raises(FatalError, match="append-only"):
        member.core.truncate(0)


def test_two_entries_of_one_offset_and_term_are_fatal() -> None:
    member = Member([1])
    with pytest.raises(FatalError, match="two entries"):
        member.append(1, (0, 0), [entry(0, 1, b"another")])


@pytest.mark.parametrize(
    "entries",
    [
        [entry(1, 1)],
        [entry(0, 1), entry(2, 1)],
        [entry(0, 9)],
        [entry(0, 2), entry(1, 1)],
        [entry(0, 1)[:-1]],
        [entry(0, 1)[:-1] + b"?"],
        [entry(0, 1), b"rest"],
    ],
    ids=["gap", "hole", "newer term", "older term", "cut off", "damaged", "rest"],
)
def test_entries_that_no_leader_sends_are_rejected_whole(entries: list[bytes]) -> None:
    member = Member()
    assert member.append(3, (0, 0), entries) is None
    assert (member.terms, member.core.term) == ([], 0)


@pytest.mark.parametrize(("prev", "commit"), [((-1, 0), 0), ((0, -1), 0), ((0, 0), -1)])
def test_negative_numbers_are_rejected(prev: tuple[int, int], commit: int) -> None:
    assert Member().append(1, prev, commit=commit) is None


def test_entry_is_a_whole_batch() -> None:
    member = Member([1])
    member.append(2, (1, 1), [entry(1, 2, count=3)])
    assert member.terms == [1, 2, 2, 2]
    response = member.append(3, (2, 2))
    assert response is not None and not response.success, "inside of a batch"
    member.append(3, (1, 1), [entry(1, 3)])
    assert member.terms == [1, 3]


# --- the leader's side --------------------------------------------------------------------


def answered(member: Member, response: AppendEntriesResponse) -> AppendEntriesRequest | None:
    """Answer the leader's request to member 2; return its next request to that member."""
    sent = [s for s in sends(member.effects, AppendEntriesRequest) if s.destination == 2][-1]
    following = sends(member.answer(sent, response), AppendEntriesRequest)
    return next((s.message for s in following if s.destination == 2), None)


def leader_with(terms: list[int]) -> Member:
    """A leader of term 9 that has sent its first request to member 2."""
    member = Member(terms, term=8)
    member.lead()
    member.wait(100)
    return member


def test_hint_of_an_unknown_term_skips_all_of_it() -> None:
    member = leader_with([1, 1, 4, 4, 5])
    request = answered(member, AppendEntriesResponse(9, False, -1, 3, 2))
    assert request is not None
    assert (request.prev_offset, request.prev_term) == (2, 1)


def test_hint_of_a_known_term_goes_to_its_last_entry() -> None:
    member = leader_with([1, 1, 4, 4, 5])
    request = answered(member, AppendEntriesResponse(9, False, -1, 1, 0))
    assert request is not None
    assert (request.prev_offset, request.prev_term) == (2, 1)


def test_hint_of_a_short_log_goes_to_its_end() -> None:
    member = leader_with([1, 1, 4, 4, 5])
    request = answered(member, AppendEntriesResponse(9, False, -1, -1, 1))
    assert request is not None
    assert (request.prev_offset, request.prev_term) == (1, 1)


def test_impossible_hint_is_rejected() -> None:
    member = leader_with([1, 1])
    assert answered(member, AppendEntriesResponse(9, False, -1, -1, 7)) is None
    assert any(getattr(e, "kind", "") == "contradiction" for e in member.effects)


def test_impossible_success_is_rejected() -> None:
    member = leader_with([1, 1])
    assert answered(member, AppendEntriesResponse(9, True, 99)) is None
    assert member.core.commit_offset == 0


def test_one_request_to_a_follower_is_in_flight() -> None:
    member = leader_with([1])
    seen = len(member.effects)
    member.propose(b"a")
    member.propose(b"b")
    assert not [s for s in sends(member.effects[seen:], AppendEntriesRequest) if s.destination == 2]
    request = answered(member, AppendEntriesResponse(9, True, 2))
    assert request is not None
    assert request.prev_offset == 2
    assert request.entries == member.core.log.read(2, 1 << 20)


def test_lost_request_is_repeated() -> None:
    member = leader_with([1])
    again = [s for s in sends(member.wait(500), AppendEntriesRequest) if s.destination == 2]
    assert again
    assert again[0].message.prev_offset == 1


def test_idle_leader_sends_heartbeats() -> None:
    member = leader_with([1])
    assert answered(member, AppendEntriesResponse(9, True, 2)) is None
    beats = [s for s in sends(member.wait(160), AppendEntriesRequest) if s.destination == 2]
    assert [s.message.entries for s in beats] == [b""]


# --- figure 7 -----------------------------------------------------------------------------

LEADER = [1, 1, 1, 4, 4, 5, 5, 6, 6, 6]
FIGURE_7 = {
    "a": [1, 1, 1, 4, 4, 5, 5, 6, 6],
    "b": [1, 1, 1, 4],
    "c": [1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 6],
    "d": [1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 7, 7],
    "e": [1, 1, 1, 4, 4, 4, 4],
    "f": [1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3],
}


@pytest.mark.parametrize("shape", FIGURE_7)
def test_leader_repairs_each_log_of_figure_7(shape: str) -> None:
    """Within one failed check for each foreign term of the follower, and one for a short log."""
    group = Group(2, pre_vote=False)
    group.disks = {
        1: Disk(WriteQuorumState(7, -1, -1, bytes(16), ()), log_of(LEADER), len(LEADER)),
        2: Disk(
            WriteQuorumState(7, -1, -1, bytes(16), ()),
            log_of(FIGURE_7[shape]),
            len(FIGURE_7[shape]),
        ),
    }
    group.start_all()
    core = group.core(1)
    core.now = group.now
    core.become_candidate()
    core.count_votes()
    state = core.state
    assert state.name == "candidate"
    state.granted.add(2)  # type: ignore[union-attr]  # figure 7 has seven members
    group.core(2).become_follower(core.term)
    core.count_votes()
    group.settle(1)
    group.settle(2)
    group.run(1000, lambda: group.core(2).log_end == core.log_end)
    terms = [[group.core(i).log.epoch_at(o) for o in range(11)] for i in (1, 2)]
    assert terms == [[*LEADER, 8], [*LEADER, 8]]
    failed = [
        p
        for p in group.sent
        if isinstance(p.message, AppendEntriesResponse) and not p.message.success
    ]
    assert len(failed) <= {"a": 1, "b": 1, "c": 1, "d": 1, "e": 2, "f": 2}[shape]
    assert not any(isinstance(p.message, RequestVoteRequest) and p.source == 2 for p in group.sent)

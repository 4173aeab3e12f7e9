"""RequestVote, pre-votes and elections: the rules of figure 2, and of the thesis, 9.6."""

from __future__ import annotations

import pytest

from kraftwreck.nodes.consensus.effects import FatalError, Reply, WriteQuorumState
from kraftwreck.nodes.consensus.raft.messages import (
    AppendEntriesRequest,
    RequestVoteRequest,
    RequestVoteResponse,
)
from tests.consensus.raft.network import Group
from tests.consensus.raft.rig import Member, entry, sends


def test_candidate_of_an_older_term_is_rejected_and_learns_the_term() -> None:
    member = Member([1, 1], term=5)
    assert member.vote(4, (9, 9)) == RequestVoteResponse(5, False)


def test_candidate_of_a_newer_term_is_granted_the_vote_durably() -> None:
    member = Member([1, 1])
    assert member.vote(3, (1, 2)) == RequestVoteResponse(3, True)
    assert member.saved == (3, 2)


def test_vote_is_written_before_it_is_sent() -> None:
    member = Member()
    member.vote(1, (0, 0))
    kinds = [type(e) for e in member.effects]
    last_write = len(kinds) - 1 - kinds[::-1].index(WriteQuorumState)
    assert last_write < kinds.index(Reply)


def test_second_candidate_of_a_term_is_rejected() -> None:
    member = Member(size=5)
    assert member.vote(1, (0, 0), candidate=2).granted
    assert not member.vote(1, (9, 9), candidate=3).granted


def test_same_candidate_is_granted_its_vote_again() -> None:
    member = Member()
    assert member.vote(1, (0, 0)).granted
    assert member.vote(1, (0, 0)).granted


def test_vote_is_remembered_after_a_restart() -> None:
    member = Member([1], term=4, voted=3)
    assert not member.vote(4, (9, 9), candidate=2).granted
    assert member.vote(4, (9, 9), candidate=3).granted


@pytest.mark.parametrize(
    ("last", "granted"),
    [((2, 1), True), ((1, 9), False), ((2, 0), False), ((3, 1), True), ((2, 3), True)],
    ids=["equal", "longer, older term", "shorter", "newer term", "longer"],
)
def test_log_of_the_candidate_must_be_as_up_to_date(last: tuple[int, int], granted: bool) -> None:
    """Section 5.4.1: the last term decides, then the length."""
    member = Member([2])
    assert member.vote(5, last).granted is granted
    assert member.core.term == 5, "the newer term counts in any case"


def test_newer_term_clears_the_vote() -> None:
    member = Member(term=1, voted=2)
    assert member.vote(2, (0, 0), candidate=3).granted


def test_only_a_granted_vote_restarts_the_election_timer() -> None:
    member = Member([2])
    before = member.core.deadline
    member.wait(500)
    member.vote(7, (1, 1))
    assert member.core.deadline == before
    member.vote(7, (2, 1))
    assert member.core.deadline > before


def test_election_timeouts_are_drawn_by_key() -> None:
    again = [Member(size=3, seed=s).core.deadline for s in range(20)]
    assert again == [Member(size=3, seed=s).core.deadline for s in range(20)]
    assert len(set(again)) > 15
    assert all(1_000_000 <= deadline < 2_000_000 for deadline in again)


def test_candidate_votes_for_itself_durably_before_it_asks() -> None:
    member = Member(pre_vote=False)
    effects = member.wait(2000)
    requests = sends(effects, RequestVoteRequest)
    assert {sent.destination for sent in requests} == {2, 3}
    assert member.saved == (1, 1)
    written = next(e for e in effects if isinstance(e, WriteQuorumState))
    assert effects.index(written) < effects.index(requests[0])


def test_majority_of_votes_makes_a_leader_that_begins_with_a_no_op() -> None:
    member = Member([1, 1])
    first = member.lead()
    assert member.core.term == 2
    assert member.terms == [1, 1, 2]
    requests = [sent.message for sent in first]
    assert {(r.prev_offset, r.prev_term) for r in requests} == {(2, 1)}
    assert all(r.entries for r in requests)


def test_vote_of_an_earlier_term_does_not_count() -> None:
    member = Member(pre_vote=False)
    old = sends(member.wait(2000), RequestVoteRequest)
    member.wait(4000)
    assert member.core.term > 1
    for sent in old:
        member.answer(sent, RequestVoteResponse(1, True))
    assert member.core.state.name == "candidate"


def test_candidate_follows_a_leader_of_its_term() -> None:
    member = Member(pre_vote=False)
    member.wait(2000)
    response = member.append(member.core.term, (0, 0))
    assert response is not None and response.success
    assert (member.core.state.name, member.core.leader_id) == ("follower", 2)


def test_leader_follows_a_newer_term() -> None:
    """Not a candidate of it, as some articles say."""
    member = Member()
    (first, *_) = member.lead()
    member.answer(first, RequestVoteResponse(9, False))
    assert (member.core.state.name, member.core.term) == ("follower", 9)


def test_second_leader_of_a_term_is_rejected() -> None:
    member = Member(size=5)
    member.append(3, (0, 0), leader=2)
    assert member.append(3, (0, 0), [entry(0, 3)], leader=4) is None
    assert member.terms == []
    assert any(getattr(e, "kind", "") == "contradiction" for e in member.effects)


@pytest.mark.parametrize("candidate", [1, 9])
def test_vote_for_a_stranger_or_in_the_own_name_is_rejected(candidate: int) -> None:
    assert Member().vote(3, (9, 9), candidate) is None


def test_term_that_no_group_can_reach_is_rejected() -> None:
    member = Member()
    assert member.vote(2**31 - 2, (9, 9)) is None
    assert member.append(2**31 - 2, (0, 0)) is None
    assert member.core.term == 0


def test_request_of_another_cluster_is_rejected() -> None:
    member = Member()
    assert member.ask(RequestVoteRequest("other", 1, 2, 0, 0, False)) is None
    assert member.ask(AppendEntriesRequest("other", 1, 2, 0, 0, 0, b"")) is None


# --- pre-vote -----------------------------------------------------------------------------


def test_pre_vote_changes_nothing() -> None:
    member = Member([1])
    before = (member.core.term, member.core.voted_for, member.core.deadline)
    assert member.vote(2, (1, 1), pre=True).granted
    assert (member.core.term, member.core.voted_for, member.core.deadline) == before


def test_pre_vote_is_refused_while_the_leader_is_heard() -> None:
    member = Member([1])
    member.append(1, (1, 1))
    assert not member.vote(2, (1, 1), candidate=3, pre=True).granted
    member.now += 1_000_000
    assert member.vote(2, (1, 1), candidate=3, pre=True).granted


def test_pre_vote_follows_the_rules_of_a_vote() -> None:
    member = Member([2], term=5, voted=3)
    assert not member.vote(4, (9, 9), pre=True).granted, "an older term"
    assert not member.vote(6, (1, 9), pre=True).granted, "an older log"
    assert not member.vote(5, (2, 1), candidate=2, pre=True).granted, "the vote is given"


def test_pre_candidate_does_not_raise_its_term_without_a_majority() -> None:
    member = Member([1])
    member.wait(20_000)
    assert (member.core.state.name, member.core.term) == ("prospective", 1)


def test_member_that_returns_from_a_partition_does_not_disrupt_the_leader() -> None:
    group = Group(3)
    group.start_all()
    leader = group.elect()
    away = next(i for i in group.members if i != leader)
    group.isolate(away)
    group.run(10_000)
    group.heal()
    group.run(5_000)
    assert group.core(leader).term == group.core(away).term == 1
    assert group.members[leader].leads


def test_without_pre_vote_it_does() -> None:
    group = Group(3, pre_vote=False)
    group.start_all()
    leader = group.elect()
    term = group.core(leader).term
    group.isolate(next(i for i in group.members if i != leader))
    group.run(10_000)
    group.heal()
    group.run(5_000)
    assert group.core(group.elect()).term > term + 1


def test_single_member_leads_at_once() -> None:
    member = Member([1], size=1)
    assert member.core.state.name == "leader"
    assert member.core.commit_offset == 2


def test_log_newer_than_the_term_on_disk_is_fatal() -> None:
    with pytest.raises(FatalError, match="quorum-state"):
        Member([1, 2], term=1)


def test_second_vote_is_fatal_in_any_case() -> None:
    member = Member(term=3, voted=2)
    with pytest.raises(FatalError, match="already voted"):
        member.core.grant_vote(3)

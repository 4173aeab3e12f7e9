"""ReadIndex (thesis 6.4): a read is as new as everything committed before it began."""

from __future__ import annotations

import pytest

from kraftwreck.nodes.consensus.effects import Tick
from kraftwreck.nodes.consensus.embedded import NotLeaderError, Outcome
from kraftwreck.nodes.consensus.raft.messages import AppendEntriesRequest, AppendEntriesResponse
from kraftwreck.nodes.consensus.raft.replica import RaftReplica
from kraftwreck.nodes.consensus.raft.states import Leader
from kraftwreck.systems.raft.invariants import BrokenError
from tests.consensus.raft.invariants import Watch
from tests.consensus.raft.network import Group
from tests.consensus.raft.rig import Member, sends


def ready() -> Member:
    """A leader that has committed its no-op; a heartbeat to member 2 is in flight."""
    member = Member()
    member.lead()
    for sent in sends(member.effects, AppendEntriesRequest)[-2:]:
        member.answer(sent, AppendEntriesResponse(1, True, 1))
    assert member.core.leads
    member.wait(150)
    return member


def test_read_is_confirmed_by_a_round_that_began_after_it() -> None:
    member = ready()
    before = sends(member.effects, AppendEntriesRequest)[-2:]
    number = member.core.read()
    member._settle()
    for sent in before:
        assert member.core.confirmed == []
        member.answer(sent, AppendEntriesResponse(1, True, 1))
    assert member.core.confirmed == [], "heartbeats that were under way confirm nothing"
    after = sends(member.effects, AppendEntriesRequest)[-2:]
    assert after != before, "the next round leaves at once"
    member.answer(after[0], AppendEntriesResponse(1, True, 1))
    assert member.core.confirmed == [number]


def test_failed_consistency_check_confirms_the_leadership() -> None:
    member = ready()
    member.core.read()
    for sent in sends(member.effects, AppendEntriesRequest)[-2:]:
        member.answer(sent, AppendEntriesResponse(1, True, 1))
    sent = sends(member.effects, AppendEntriesRequest)[-1]
    member.answer(sent, AppendEntriesResponse(1, False, -1, -1, 0))
    assert member.core.confirmed == [1]


def test_new_leader_serves_no_reads_before_its_no_op_is_committed() -> None:
    member = Member()
    member.lead()
    with pytest.raises(ValueError, match="committed in its term"):
        member.core.read()


def test_read_writes_nothing() -> None:
    group = Group(3)
    group.start_all()
    leader = group.elect()
    end = group.core(leader).log.end_offset
    outcomes = group.read(leader)
    group.run(200)
    assert outcomes == [Outcome(True)]
    assert group.core(leader).log.end_offset == end


def test_without_read_index_a_read_is_an_entry() -> None:
    group = Group(3, read_index=False)
    group.start_all()
    leader = group.elect()
    end = group.core(leader).log.end_offset
    outcomes = group.read(leader)
    group.run(200)
    assert [outcome.certain for outcome in outcomes] == [True]
    assert group.core(leader).log.end_offset == end + 1


def test_deposed_leader_confirms_no_read() -> None:
    """X06: it would return the value before the new leader's writes."""
    group = Group(3, check_quorum=False)
    group.start_all()
    old = group.elect()
    group.propose(old, b"write 1")
    group.run(200)
    group.isolate(old)
    assert group.run(10_000, lambda: group.leader() != old)
    new = group.elect()
    group.propose(new, b"write 2")
    group.run(200)
    stale = group.read(old)
    group.run(2000)
    assert stale == []
    group.heal()
    group.run(1000)
    assert stale == [Outcome(False)]


def test_follower_serves_no_reads() -> None:
    group = Group(3)
    group.start_all()
    follower = next(i for i in group.addresses if i != group.elect())
    with pytest.raises(NotLeaderError):
        group.read(follower)


def test_single_member_confirms_reads_alone() -> None:
    group = Group(1)
    group.start_all()
    outcomes = group.read(group.elect())
    assert outcomes == [Outcome(True)]


def test_a_read_that_waits_for_an_earlier_round_breaks_the_rule(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its requests left before the read began, so they do not show that the member leads now."""
    read = RaftReplica.read

    def hasty(self: RaftReplica) -> int:
        leader = self.state
        assert isinstance(leader, Leader)
        leader.round_begun = leader.round_begun and not leader.reads
        return read(self)

    monkeypatch.setattr(RaftReplica, "read", hasty)
    group = Group(3)
    group.start_all()
    member = group.elect()
    rules = Watch()
    rules(group, member)
    group.core(member).read()
    group.step(member, Tick())
    rules(group, member)
    group.core(member).read()
    with pytest.raises(BrokenError, match="linearizable reads: read 2 of"):
        rules(group, member)

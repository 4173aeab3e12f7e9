"""Commitment: figure 8, results for clients, shutdown, and durability."""

from __future__ import annotations

import pytest

from kraftwreck.nodes.consensus.effects import FatalError, FlushLog, Send, Stopped, WriteQuorumState
from kraftwreck.nodes.consensus.embedded import NotLeaderError, Outcome
from kraftwreck.nodes.consensus.raft.messages import AppendEntriesRequest, AppendEntriesResponse
from kraftwreck.nodes.log.batch import parse_header
from tests.consensus.raft.invariants import Watch
from tests.consensus.raft.network import Disk, Group
from tests.consensus.raft.rig import Member, entry, log_of, sends


def answer_all(member: Member, match: int) -> None:
    """Let member 2 acknowledge all below ``match``."""
    sent = [s for s in sends(member.effects, AppendEntriesRequest) if s.destination == 2][-1]
    member.answer(sent, AppendEntriesResponse(member.core.term, True, match))


def test_entry_is_committed_by_a_majority() -> None:
    member = Member(size=3)
    member.lead()
    assert member.core.commit_offset == 0
    answer_all(member, 1)
    assert member.core.commit_offset == 1


def test_entries_of_older_terms_are_not_committed_by_counting() -> None:
    """Section 5.4.2: figure 8, c."""
    member = Member([1, 2], term=3)
    member.lead()
    answer_all(member, 2)
    assert member.core.commit_offset == 0, "two of three have the entry of term 2"
    answer_all(member, 3)
    assert member.core.commit_offset == 3, "with the no-op of term 4, all before it"


def test_figure_8() -> None:
    """An entry on a majority (c) is overwritten by the leader of a later term (d)."""
    group = Group(5, watch=Watch(), append_max_bytes=1)
    disks = {1: [1, 2], 2: [1, 2], 3: [1], 4: [1], 5: [1, 3]}
    for i, terms in disks.items():
        state = WriteQuorumState(3, -1, 5 if i > 2 else -1, bytes(16), ())
        group.disks[i] = Disk(state, log_of(terms), len(terms))
    for i in disks:
        group.start(i)
    # (c): member 1 leads term 4 and replicates the entry of term 2 to member 3, no more.
    group.isolate(4, 5)
    core = group.core(1)
    core.now = group.now
    core.become_candidate()
    group.settle(1)
    while 2 not in [group.core(3).log.epoch_at(1)] or group.sent[-1].source != 1:
        group.deliver(group.packets.pop(0))
    assert (core.term, core.state.name) == (4, "leader")
    have = [i for i in group.addresses if group.core(i).log.epoch_at(1) == 2]
    assert have == [1, 2, 3], "a majority has it, but it is of an older term"
    assert core.commit_offset == 0
    group.kill(1)
    group.kill(2)
    # (d): member 5 leads term 5 with the votes of 3 and 4, and overwrites the entry of term 2.
    group.packets.clear()
    group.heal()
    assert group.run(20_000, lambda: group.members[5].leads)
    assert group.run(5000, lambda: group.core(3).log.epoch_at(1) == 3)


def test_result_of_the_state_machine_is_the_answer() -> None:
    group = Group(3)
    group.start_all()
    leader = group.elect()
    outcomes = group.propose(leader, b"write 7")
    assert outcomes == [], "not before it is committed and applied"
    group.run(100)
    again = group.propose(leader, b"cas 7 8", b"cas 7 9")
    group.run(100)
    assert outcomes == [Outcome(True, (True,))]
    assert again == [Outcome(True, (True, False))]
    group.run(500)
    assert {group.machine(i).value for i in group.members} == {8}


def test_follower_accepts_no_command() -> None:
    group = Group(3)
    group.start_all()
    follower = next(i for i in group.addresses if i != group.elect())
    with pytest.raises(NotLeaderError):
        group.propose(follower, b"write 1")
    assert group.members[follower].leader_id == group.leader()


def test_command_of_a_deposed_leader_is_uncertain() -> None:
    group = Group(3)
    group.start_all()
    old = group.elect()
    group.isolate(old)
    outcomes = group.propose(old, b"write 1")
    assert group.run(10_000, lambda: bool(outcomes))
    assert outcomes == [Outcome(False)]


def test_leader_that_hears_no_majority_steps_down() -> None:
    group = Group(3)
    group.start_all()
    old = group.elect()
    group.isolate(old)
    assert group.run(1500, lambda: not group.members[old].leads)
    assert group.core(old).state.name != "leader"


def test_without_check_quorum_it_stays_until_it_hears_of_a_newer_term() -> None:
    group = Group(3, check_quorum=False)
    group.start_all()
    old = group.elect()
    group.isolate(old)
    group.run(10_000)
    assert group.core(old).state.name == "leader"
    group.heal()
    assert group.run(1000, lambda: group.core(old).state.name == "follower")


def test_leader_counts_its_own_log_once_it_is_flushed() -> None:
    member = Member(size=1)
    effects = member.propose(b"a")
    assert [type(e) for e in effects].count(FlushLog) == 1
    assert member.core.commit_offset == member.core.log.end_offset


def test_leader_flushes_before_it_sends() -> None:
    member = Member()
    member.lead()
    answer_all(member, 1)
    effects = member.propose(b"a")
    kinds = [type(e) for e in effects]
    assert kinds.index(FlushLog) < kinds.index(Send)


def test_members_without_a_majority_commit_nothing() -> None:
    group = Group(5)
    group.start_all()
    leader = group.elect()
    group.isolate(leader, next(i for i in group.addresses if i != leader))
    before = group.core(leader).commit_offset
    group.propose(leader, b"write 1")
    group.run(900)
    assert group.core(leader).commit_offset == before


def test_shutdown_of_the_leader_ends_at_once() -> None:
    member = Member()
    member.lead()
    member.core.stop()
    assert isinstance(member._settle()[-1], Stopped)
    assert member.core.state.name == "follower"
    assert member.wait(10_000) == []


def test_commit_offset_outside_of_the_log_is_fatal() -> None:
    member = Member([1, 1])
    with pytest.raises(FatalError, match="commit offset"):
        member.core.set_commit(3)


def test_entry_that_is_too_large_is_refused_with_nothing_done() -> None:
    member = Member(batch_max_bytes=200)
    member.lead()
    with pytest.raises(ValueError, match="exceeds 200"):
        member.propose(b"x" * 200)
    assert member.core.log.end_offset == 1


def test_entries_of_a_term_above_the_own_are_fatal() -> None:
    member = Member()
    batch = entry(0, 5)
    with pytest.raises(FatalError, match="term 5 in term 0"):
        member.core.append(batch, parse_header(batch), "test")

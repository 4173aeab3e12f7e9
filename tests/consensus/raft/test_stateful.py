"""Hypothesis drives a group: it shrinks a failure to the fewest steps."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.consensus.raft.invariants import Watch
from tests.consensus.raft.network import MS, Group

MEMBERS = st.integers(1, 3)


class Faults(RuleBasedStateMachine):
    """Three members; every step of one is checked by :class:`Watch`."""

    @initialize(pre_vote=st.booleans(), piece=st.sampled_from([1, 1 << 20]))
    def begin(self, pre_vote: bool, piece: int) -> None:
        self.group = Group(
            3, watch=Watch(), pre_vote=pre_vote, append_max_bytes=piece, snapshot_bytes=600
        )
        self.group.start_all()
        self.value = 0

    @rule(milliseconds=st.integers(1, 2500))
    def wait(self, milliseconds: int) -> None:
        self.group.now += milliseconds * MS
        self.group.tick()

    @rule(count=st.integers(1, 12))
    def deliver(self, count: int) -> None:
        for _ in range(min(count, len(self.group.packets))):
            self.group.deliver(self.group.packets.pop(0))

    @precondition(lambda self: self.group.packets)
    @rule(data=st.data(), kept=st.booleans())
    def deliver_out_of_order(self, data: st.DataObject, kept: bool) -> None:
        place = data.draw(st.integers(0, len(self.group.packets) - 1))
        packet = self.group.packets[place]
        if not kept:
            del self.group.packets[place]
        self.group.deliver(packet)

    @precondition(lambda self: self.group.packets)
    @rule()
    def lose(self) -> None:
        del self.group.packets[0]

    @rule(member=MEMBERS, keep=st.integers(0, 2))
    def kill_or_start(self, member: int, keep: int) -> None:
        if member in self.group.members:
            self.group.kill(member, keep)
        else:
            self.group.start(member)

    @rule(member=MEMBERS)
    def isolate(self, member: int) -> None:
        self.group.isolate(member)

    @rule()
    def heal(self) -> None:
        self.group.heal()

    @rule()
    def write(self) -> None:
        leader = self.group.leader()
        if leader is not None:
            self.value += 1
            self.group.propose(leader, f"write {self.value}".encode())

    @rule()
    def write_and_replicate(self) -> None:
        """Write, if there is a leader, and let the links that are not cut work for a while."""
        self.write()
        self.group.run(200)

    @rule()
    def lose_the_leader(self) -> None:
        """Cut the leader off until the others have elected another one."""
        leader = self.group.leader()
        if leader is not None:
            self.group.isolate(leader)
            self.group.run(4000, lambda: self.group.leader() != leader)

    @rule()
    def calm(self) -> None:
        """Without faults the group elects a leader, from whatever state."""
        self.group.heal()
        for member in set(self.group.addresses) - set(self.group.members):
            self.group.start(member)
        self.group.elect()


TestFaults = Faults.TestCase
TestFaults.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)

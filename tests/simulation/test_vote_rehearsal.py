"""F29: members answer invented votes by the table of KIP-996, and write what they promise."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.consensus.effects import Tick
from kraftwreck.nodes.consensus.kraft import election, poll
from kraftwreck.nodes.consensus.kraft.leader import Leader, VoterChange
from kraftwreck.nodes.consensus.kraft.replica import Replica
from kraftwreck.nodes.consensus.kraft.states import Candidate, Follower, Prospective, Unattached
from kraftwreck.nodes.consensus.kraft.voters import Voter
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import vote_rehearsal
from kraftwreck.systems.kraft.simulated.vote_rehearsal import VoteRehearsal, judge
from tests.consensus.conftest import Cluster

pytestmark = pytest.mark.interpreted

Patch = pytest.MonkeyPatch


def led() -> Cluster:
    cluster = Cluster(3, dynamic=True)
    cluster.elect()
    cluster.run(1000)
    return cluster


def member(state: str) -> Replica:
    """Return a member in this state."""
    cluster = led()
    leader = cluster.leader()
    assert leader is not None
    if state == "leader":
        return leader
    replica = next(each for each in cluster.replicas.values() if each is not leader)
    directory = replica.config.directory_id
    states: dict[str, Any] = {
        "follower": replica.state,
        "new follower": Follower(1 << 40, leader.node_id),
        "unattached": Unattached(1 << 40),
        "voted": Unattached(1 << 40, -1, leader.node_id, leader.config.directory_id),
        "prospective": Prospective(1 << 40, -1, -1, bytes(16)),
        "candidate": Candidate(1 << 40, replica.node_id, directory),
    }
    replica.state = states[state]
    if "follower" not in state:
        replica.epoch += 1  # Its log ends in an older epoch, as that of each candidate does.
    return replica


STATES = ("leader", "follower", "new follower", "unattached", "voted", "prospective", "candidate")


@pytest.mark.parametrize("state", STATES)
def test_a_member_answers_by_the_table(state: str) -> None:
    replica = member(state)
    before = replica.state, replica.epoch, list(replica.effects)
    assert list(judge(replica)) == []
    assert (replica.state, replica.epoch, replica.effects) == before, "copies were asked"


def test_a_leader_that_changes_its_voters_refuses_that_change() -> None:
    replica = member("leader")
    assert isinstance(replica.state, Leader)
    replica.state.change = VoterChange("add", 5, Voter(7, b"d" * 16, ()), 1 << 60)
    assert list(judge(replica)) == []


def grants_each_pre_vote(patch: Patch) -> None:
    grants = election.grants
    patch.setattr(
        election, "grants", lambda state, asked, own: asked.pre_vote or grants(state, asked, own)
    )


def grants_each_vote(patch: Patch) -> None:
    patch.setattr(election, "grants", lambda *_: True)


def grants_to_nobody(patch: Patch) -> None:
    patch.setattr(election, "grants", lambda *_: False)


def compares_ends_only(patch: Patch) -> None:
    patch.setattr(election, "is_up_to_date", lambda candidate, own: candidate[1] >= own[1])


def writes_no_vote(patch: Patch) -> None:
    patch.setattr(Replica, "write_quorum_state", lambda _: None)


def writes_no_vote_of_a_prospective(patch: Patch) -> None:
    write = Replica.write_quorum_state

    def planted(self: Replica) -> None:
        if not isinstance(self.state, Prospective):
            write(self)

    patch.setattr(Replica, "write_quorum_state", planted)


@pytest.mark.parametrize(
    ("state", "plant", "said"),
    [
        ("leader", grants_each_pre_vote, "would grant"),
        ("follower", grants_each_pre_vote, "would grant"),
        ("voted", grants_each_vote, "would grant"),
        ("prospective", grants_to_nobody, "would refuse"),
        ("new follower", grants_to_nobody, "would refuse"),
        ("unattached", compares_ends_only, "would grant"),
        ("unattached", writes_no_vote, "its quorum-state would not have that"),
        ("prospective", writes_no_vote_of_a_prospective, "its quorum-state would not have that"),
    ],
)
def test_a_wrong_answer_is_found(
    state: str, plant: Callable[[Patch], None], said: str, monkeypatch: Patch
) -> None:
    replica = member(state)
    plant(monkeypatch)
    found = list(judge(replica))
    assert any(said in each for each in found), found


def observer() -> Replica:
    """Return an observer that has fetched from its leader."""
    cluster = led()
    cluster.start(9)
    cluster.run(1000)
    replica = cluster.replicas[9]
    assert isinstance(replica.state, Follower)
    assert replica.state.has_fetched
    return replica


def test_an_observer_of_a_silent_leader_grants_pre_votes(monkeypatch: Patch) -> None:
    replica = observer()
    assert list(judge(replica)) == []
    monkeypatch.setattr(poll, "poll", lambda _: None)
    assert any("although its leader is silent" in each for each in judge(replica))


def test_each_situation_is_judged_twice_in_a_run(monkeypatch: Patch) -> None:
    replica, failures = member("leader"), Failures()
    world: Any = SimpleNamespace(now=0, on_step=[])
    host: Any = SimpleNamespace(id=1, name="n1", node=SimpleNamespace(replica=replica))
    monkeypatch.setattr(vote_rehearsal, "Node", SimpleNamespace)
    monkeypatch.setattr(vote_rehearsal, "judge", lambda _: ["is wrong"])
    VoteRehearsal(world, failures)
    counts = []
    for enters in (True, False, True, True):
        if enters:
            replica.state = Unattached(1 << 40)
        world.on_step[0](host, Tick())
        counts.append(len(failures.items))
    assert counts == [1, 1, 2, 2]
    assert {failure.type for failure in failures.items} == {"F29"}

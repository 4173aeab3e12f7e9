"""I26, C17: leaders are asked to change the voters, or deposed, while a change is under way."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.consensus.effects import Tick
from kraftwreck.nodes.consensus.kraft import membership
from kraftwreck.nodes.consensus.kraft.leader import Leader, VoterChange
from kraftwreck.nodes.consensus.kraft.replica import Replica
from kraftwreck.nodes.consensus.kraft.voters import Voter
from kraftwreck.nodes.protocol import errors
from kraftwreck.nodes.replication.events import LogFlushed
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import replica_copies, voter_rehearsal
from kraftwreck.systems.kraft.simulated.voter_rehearsal import VoterRehearsal, reason
from tests.consensus.conftest import Cluster

pytestmark = pytest.mark.interpreted


def led(*, dynamic: bool = True) -> Replica:
    """Return the leader of three voters, which may change the voters."""
    cluster = Cluster(3, dynamic=dynamic)
    cluster.elect()
    cluster.run(1000)
    leader = cluster.leader()
    assert leader is not None
    return leader


def _leader(replica: Replica) -> Leader:
    assert isinstance(replica.state, Leader)
    return replica.state


def waits(replica: Replica, kind: str = "add") -> None:
    """Let a change be under way that has appended nothing yet."""
    _leader(replica).change = VoterChange(kind, None, Voter(7, b"d" * 16, ()), 1 << 60)


def has_committed_nothing(replica: Replica) -> None:
    replica.high_watermark = -1


def has_uncommitted_voters(replica: Replica) -> None:
    voters = replica.voter_set
    replica.history.add_voters(replica.high_watermark, voters)


STATES = pytest.mark.parametrize("enter", [waits, has_committed_nothing, has_uncommitted_voters])


def fake(**fields: Any) -> Any:
    return SimpleNamespace(**fields)


class Watch:
    """A run in which ``replica`` leads."""

    def __init__(self, patch: pytest.MonkeyPatch, replica: Replica) -> None:
        self.failures = Failures()
        node = SimpleNamespace(replica=replica)
        self.host = fake(id=1, name="n1", node=node)
        self.world = fake(now=0, on_step=[])
        patch.setattr(voter_rehearsal, "Node", SimpleNamespace)
        VoterRehearsal(self.world, self.failures)

    def step(self, event: Any = None) -> list[str]:
        for judge in self.world.on_step:
            judge(self.host, event or Tick())
        return [each.explanation for each in self.failures.items]


@STATES
def test_a_leader_refuses_other_changes(
    monkeypatch: pytest.MonkeyPatch, enter: Callable[[Replica], None]
) -> None:
    replica = led()
    enter(replica)
    end, voters = replica.log.end_offset, replica.voters
    assert Watch(monkeypatch, replica).step() == []
    assert (replica.log.end_offset, replica.voters) == (end, voters), "a copy was asked"
    assert replica.effects == []


@STATES
def test_a_leader_that_forgets_a_condition_is_found(
    monkeypatch: pytest.MonkeyPatch, enter: Callable[[Replica], None]
) -> None:
    replica = led()
    enter(replica)
    monkeypatch.setattr(membership, "_not_possible", lambda _: errors.NONE)
    found = Watch(monkeypatch, replica).step()
    assert any("would append" in each and "RemoveRaftVoterRequest" in each for each in found)
    assert any("AddRaftVoterRequest" in each for each in found)


def _update_at_once(replica: Any, request: Any) -> int:
    """Update a voter without a look at other changes."""
    voter = Voter(request.voter_id, request.directory, request.endpoints)
    membership._append_voters(replica, replica.state, replica.voter_set.with_voter(voter))
    return errors.NONE


@STATES
def test_an_update_beside_another_change_is_found(
    monkeypatch: pytest.MonkeyPatch, enter: Callable[[Replica], None]
) -> None:
    replica = led()
    enter(replica)
    monkeypatch.setattr(membership, "update_voter", _update_at_once)
    (found,) = Watch(monkeypatch, replica).step()
    assert found.endswith("for a UpdateRaftVoterRequest")


def reports_success(replica: Any, leader: Any) -> None:
    if leader.change is not None:
        membership._finish(replica, leader, errors.NONE)


def says_nothing(replica: Any, leader: Any) -> None:
    leader.change = None


def test_a_deposed_leader_refuses_the_change_under_way() -> None:
    replica = led()
    waits(replica)
    assert list(voter_rehearsal.abandoned(replica)) == []
    assert _leader(replica).change is not None, "copies were deposed"


@pytest.mark.parametrize(("give_up", "codes"), [(reports_success, "[0]"), (says_nothing, "[]")])
def test_a_deposed_leader_that_does_not_refuse_the_change_is_found(
    monkeypatch: pytest.MonkeyPatch, give_up: Callable[..., None], codes: str
) -> None:
    replica = led()
    waits(replica)
    monkeypatch.setattr(membership, "give_up", give_up)
    found = list(voter_rehearsal.abandoned(replica))
    assert [each.rpartition(" once ")[2] for each in found] == ["node 2 leads", "it has resigned"]
    assert all(f"the errors {codes}" in each for each in found)
    assert [each for each in Watch(monkeypatch, replica).step() if codes in each] != []


def test_a_leader_without_a_change_has_none_to_refuse() -> None:
    assert list(voter_rehearsal.abandoned(led())) == []


def test_a_leader_that_may_change_its_voters_is_not_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(membership, "update_voter", _update_at_once)
    assert Watch(monkeypatch, led()).step() == []


def test_static_voters_do_not_change() -> None:
    replica = led(dynamic=False)
    waits(replica)
    assert reason(replica, _leader(replica)) == ""


def test_each_state_is_judged_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    replica = led()
    watch = Watch(monkeypatch, replica)
    monkeypatch.setattr(membership, "update_voter", _update_at_once)
    counts = []
    for _ in range(4):
        waits(replica)
        counts += [len(watch.step()), len(watch.step())]
        _leader(replica).change = None
        watch.step()
    assert counts == [1, 1, 2, 2, 2, 2, 2, 2]
    waits(replica, "remove")
    assert len(watch.step()) == 3


def test_steps_without_a_leader_are_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    replica = led()
    waits(replica)
    monkeypatch.setattr(membership, "update_voter", _update_at_once)
    watch = Watch(monkeypatch, replica)
    assert watch.step(LogFlushed.__new__(LogFlushed)) == []
    monkeypatch.setattr(replica_copies, "LONGEST", 0)
    assert watch.step() == []
    watch.host.node = None
    assert watch.step() == []

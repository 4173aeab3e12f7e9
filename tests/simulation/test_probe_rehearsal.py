"""F23: copies of nodes that know no leader look for one, many times over."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.consensus.kraft import poll
from kraftwreck.nodes.consensus.kraft.replica import Replica
from kraftwreck.nodes.consensus.kraft.states import Unattached
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import probe_rehearsal, replica_copies
from kraftwreck.systems.kraft.simulated.probe_rehearsal import ProbeRehearsal, may_ask
from tests.consensus.conftest import Cluster

pytestmark = pytest.mark.interpreted


def fake(**fields: Any) -> Any:
    return SimpleNamespace(**fields)


class Run:
    """A member of a quorum of five that knows no leader."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(probe_rehearsal, "Node", SimpleNamespace)
        cluster = Cluster(5)
        cluster.elect()
        cluster.run(1000)
        leader = cluster.leader()
        others = [each for each in cluster.replicas.values() if each is not leader]
        self.replica: Replica = others[0]
        self.replica.become_unattached(self.replica.epoch + 1)
        self.replica.effects = []
        self.failures = Failures()
        self.host = fake(name="n1", node=fake(replica=self.replica))
        self.world = fake(now=0, on_trace=[])
        ProbeRehearsal(self.world, self.failures)

    def tell(self, kind: str = "state", state: str = "unattached") -> list[str]:
        event = TraceEvent(
            node="n1",
            incarnation=1,
            seq=1,
            mono=0,
            wall=0,
            kind=kind,
            state=state,
            epoch=self.replica.epoch,
            leader=-1,
            voted=-1,
            leo=0,
            hw=-1,
            detail={},
        )
        for judge in self.world.on_trace:
            judge(self.host, event)
        return [each.explanation for each in self.failures.items]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(monkeypatch)


def _first(config: Any, *key: Any) -> int:
    return 0


def test_a_node_asks_all_others_in_time(run: Run) -> None:
    before = run.replica.state
    assert run.tell() == []
    assert run.replica.state is before and run.replica.effects == [], "a copy was asked"


def test_a_node_that_asks_the_same_one_first_is_found(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poll, "draw", _first)
    (found,) = run.tell()
    assert f"without one to {sorted(may_ask(run.replica))[1:]}" in found


def test_a_node_that_leaves_one_out_is_found(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    others = run.replica.other_voters[:-1]
    monkeypatch.setattr(type(run.replica), "bootstrap_ids", lambda self: list(others))
    monkeypatch.setattr(probe_rehearsal, "may_ask", lambda replica: [*others, 99])
    (found,) = run.tell()
    assert found.endswith("without one to [99]")


def test_four_nodes_are_judged(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poll, "draw", _first)
    for _ in range(6):
        found = run.tell()
    assert len(found) == 4


def test_other_transitions_are_not_judged(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poll, "draw", _first)
    run.tell("grant")
    run.tell(state="follower")
    monkeypatch.setattr(replica_copies, "LONGEST", -1)
    run.tell()
    monkeypatch.setattr(replica_copies, "LONGEST", 2_000)
    assert isinstance(run.replica.state, Unattached)
    run.replica.become_prospective()
    run.tell()
    run.host.node = None
    assert run.tell() == []

"""D9: leaders know their followers, and propose them, by fetches."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.broker import isr_proposals
from kraftwreck.nodes.metadata.change_builder import RECOVERING
from kraftwreck.nodes.replication.effects import AlterPartition, Proposal
from kraftwreck.nodes.replication.events import FetchPart, FetchReceived
from kraftwreck.nodes.replication.in_sync import Remote
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import proposal_watch
from kraftwreck.systems.kraft.simulated.api_message import ApiMessage
from kraftwreck.systems.kraft.simulated.proposal_watch import ProposalWatch
from kraftwreck.systems.kraft.simulated.record_logs import name_of
from tests.simulation.replicas import KEY

pytestmark = pytest.mark.interpreted

FIRST = 0
"""A broker may have the id 0."""


class Proposing:
    """Broker 4, which leads a partition that broker 0 follows."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.failures = Failures()
        world: Any = SimpleNamespace(
            now=0, on_step=[], on_emit=[], wires=SimpleNamespace(on_ask=[], on_reply=[])
        )
        self.traffic: Any = SimpleNamespace(on_request=[])
        patch.setattr(proposal_watch, "record_traffic", lambda _: self.traffic)
        self.remote = Remote(0)
        self.pending: Any = SimpleNamespace(proposal=Proposal(KEY, 3, 5, ((4, 9), (FIRST, 7))))
        in_sync = SimpleNamespace(remotes={FIRST: self.remote}, pending=self.pending)
        self.in_sync = in_sync
        leader = SimpleNamespace(leading=True, log=object(), in_sync=in_sync)
        patch.setattr(proposal_watch, "replicas_on", lambda _: {KEY: leader})
        self.rule = ProposalWatch(world, self.failures)
        self.host: Any = SimpleNamespace(id=4, life=1, name="b4")
        self.world = world

    def fetch(self, *, handled: bool = True) -> None:
        event = FetchReceived(1, (FetchPart(KEY, 5, 100),), FIRST, 7)
        message: Any = SimpleNamespace(call=SimpleNamespace(event=event))
        self.traffic.on_request[0](self.host, message)
        if handled:
            self.world.on_step[0](self.host, event)

    def knows(self, end: int) -> list[str]:
        self.remote.end = end
        self.world.on_emit[0](self.host)
        return [failure.type for failure in self.failures.items]

    def proposes(self, epoch: int) -> list[str]:
        rpc: Any = SimpleNamespace(source=4, source_life=1)
        self.rule._judge(rpc, KEY, FIRST, epoch)
        return [failure.type for failure in self.failures.items]

    def sends(self, **changed: Any) -> list[str]:
        """Send a request for the proposal with some values ``changed``."""
        request: Any = isr_proposals.request(AlterPartition(1, (self.pending.proposal,)), 4, 9)
        (part,) = request["topics"][0]["partitions"]
        part.update(changed)
        rpc: Any = SimpleNamespace(message=ApiMessage("AlterPartition", 3, request))
        self.world.wires.on_ask[0](self.host, rpc)
        return [failure.explanation for failure in self.failures.items]


@pytest.fixture
def leader(monkeypatch: pytest.MonkeyPatch) -> Proposing:
    return Proposing(monkeypatch)


def test_the_end_of_a_follower_is_known_by_its_fetch(leader: Proposing) -> None:
    leader.fetch()
    assert leader.knows(5) == []


def test_the_end_of_a_follower_is_not_known_before(leader: Proposing) -> None:
    leader.fetch(handled=False)
    assert leader.knows(-1) == []
    assert leader.knows(0) == ["D9"]


@pytest.mark.parametrize(("epoch", "broken"), [(7, []), (-1, []), (6, ["D9"]), (8, ["D9"])])
def test_a_follower_is_proposed_with_the_epoch_of_its_fetch(
    leader: Proposing, epoch: int, broken: list[str]
) -> None:
    """Older controllers get no epoch."""
    leader.fetch()
    assert leader.proposes(epoch) == broken


def test_a_request_names_the_broker_epochs_that_were_proposed(leader: Proposing) -> None:
    members = [{"broker_id": 4, "broker_epoch": 9}, {"broker_id": FIRST, "broker_epoch": -1}]
    assert leader.sends() == []
    assert leader.sends(new_isr_with_epochs=members) == [
        f"b4 sends (broker, broker epoch) [(4, 9), (0, -1)] as the ISR of {name_of(KEY)},"
        " recovering=False, and has proposed [(4, 9), (0, 7)], recovering=False"
    ]


def test_a_request_names_the_state_of_recovery_that_was_proposed(leader: Proposing) -> None:
    assert len(leader.sends(leader_recovery_state=RECOVERING)) == 1


def test_a_request_for_an_earlier_proposal_is_another_one(leader: Proposing) -> None:
    others = [{"broker_id": 4, "broker_epoch": -1}]
    assert leader.sends(new_isr_with_epochs=others) == []
    leader.pending.proposal, before = Proposal(KEY, 3, 6, ((4, 9),)), leader.pending.proposal
    assert leader.sends(partition_epoch=before.partition_epoch) == []
    leader.in_sync.pending = None
    assert leader.sends(new_isr_with_epochs=[]) == []

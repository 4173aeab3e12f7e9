"""Answers to AlterPartition decide the proposals of their request, and no others (D18)."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.consensus.effects import ApiResponseReceived, Tick
from kraftwreck.nodes.protocol.errors import INELIGIBLE_REPLICA, INVALID_UPDATE_VERSION, NONE
from kraftwreck.nodes.replication.effects import Proposal
from kraftwreck.nodes.replication.in_sync import Pending
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import proposal_outcomes
from kraftwreck.systems.kraft.simulated.api_message import ApiMessage
from kraftwreck.systems.kraft.simulated.proposal_outcomes import ALTER, ProposalOutcomes
from tests.replication.world import KEY

pytestmark = pytest.mark.interpreted

LEADER_EPOCH, PARTITION_EPOCH = 3, 5
FIRST, SECOND = 1, 2
"""Correlations of two requests."""


def proposal(*isr: int, epoch: int = PARTITION_EPOCH) -> Proposal:
    return Proposal(KEY, LEADER_EPOCH, epoch, tuple((each, 7) for each in isr))


def fake(**fields: Any) -> Any:
    return SimpleNamespace(**fields)


class Leader:
    """A leader with one partition, and what its answers change."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.failures = Failures()
        self.world: Any = fake(now=0, on_step=[], wires=fake(on_reply=[]))
        clock = fake(elapsed=lambda since, now: now - since)
        self.host: Any = fake(id=4, life=1, name="b1", requests={}, clock=clock)
        self.world.hosts = [None, None, None, self.host]
        self.partition: Any = fake(
            key=KEY,
            leading=True,
            assignment=fake(
                leader_epoch=LEADER_EPOCH, partition_epoch=PARTITION_EPOCH, recovering=False
            ),
            in_sync=fake(pending=None, isr=(1,)),
            with_=fake(proposed=set(), peers={}),
        )
        monkeypatch.setattr(proposal_outcomes, "replicas_on", lambda host: {KEY: self.partition})
        ProposalOutcomes(self.world, self.failures)

    def proposes(self, asked: Proposal | None) -> None:
        """Wait for ``asked`` from this step on, None for nothing."""
        pending = None if asked is None else Pending(asked, frozenset())
        self.partition.in_sync.pending = pending
        self.step(Tick())

    def sends(self, asked: Proposal, correlation: int) -> None:
        """Have a request with ``asked`` on its way."""
        self.host.requests[~correlation] = self._rpc(asked, correlation)

    def is_answered(
        self, asked: Proposal, error: int, then: Callable[[], None], correlation: int = FIRST
    ) -> list[str]:
        """Answer the request for ``asked`` with ``error``; ``then`` is what the leader does.

        Return the rules that are broken.
        """
        self.host.requests.pop(~correlation, None)
        self.controller_replies(asked, correlation)
        topic_id, number = KEY
        part = {"partition_index": number, "error_code": error}
        topics = [{"topic_id": topic_id, "partitions": [part]}]
        then()
        self.step(ApiResponseReceived(1, correlation, {"error_code": NONE, "topics": topics}))
        return [each.type for each in self.failures.items]

    def controller_replies(self, asked: Proposal, correlation: int = FIRST, sent: int = 0) -> None:
        """Have the controller answer a request that left at ``sent``."""
        rpc = self._rpc(asked, correlation)
        rpc.sent = sent
        for told in self.world.wires.on_reply:
            told(self.host, rpc, None)

    def step(self, event: Any) -> None:
        for told in self.world.on_step:
            told(self.host, event)

    def _rpc(self, asked: Proposal, correlation: int) -> Any:
        topic_id, number = KEY
        part = {
            "partition_index": number,
            "leader_epoch": asked.leader_epoch,
            "partition_epoch": asked.partition_epoch,
            "new_isr_with_epochs": [{"broker_id": each} for each, _ in asked.isr],
        }
        body = {"topics": [{"topic_id": topic_id, "partitions": [part]}]}
        message = ApiMessage(ALTER, 3, body)
        return fake(source=4, source_life=1, correlation=correlation, message=message)

    def gives_up(self) -> None:
        self.partition.in_sync.pending = None

    def is_told_of_the_next_state(self) -> None:
        self.partition.in_sync.pending = None
        self.partition.assignment.partition_epoch += 1


def keeps() -> None:
    """The leader still waits."""


@pytest.fixture
def leader(monkeypatch: pytest.MonkeyPatch) -> Leader:
    return Leader(monkeypatch)


@pytest.mark.parametrize(("over", "broken"), [(True, []), (False, ["D18"])])
def test_d18_a_proposal_that_is_refused_is_over(
    leader: Leader, over: bool, broken: list[str]
) -> None:
    asked = proposal(1, 2, 3)
    leader.proposes(asked)
    found = leader.is_answered(asked, INELIGIBLE_REPLICA, leader.gives_up if over else keeps)
    assert found == broken


def test_d18_a_proposal_whose_request_was_given_up_is_made_again(leader: Leader) -> None:
    """The controller's answer comes after all, and decides nothing (seed 9248)."""
    asked = proposal(1, 2, 3)
    leader.proposes(asked)
    leader.partition.with_.proposed.add(KEY)
    assert leader.is_answered(asked, INELIGIBLE_REPLICA, keeps) == []


@pytest.mark.parametrize(
    ("was_sent", "then", "later", "sent_us", "broken"),
    [
        (True, "keeps", False, 48_999, ["D18"]),
        (True, "keeps", False, 49_000, []),
        (True, "keeps", False, 0, ["D18"]),
        (True, "keeps", False, -1, []),
        (False, "keeps", False, 0, []),
        (True, "keeps", True, 0, []),
        (True, "gives up", False, 0, ["D18"]),
    ],
)
def test_d18_a_leader_pauses_before_it_repeats_a_proposal(
    leader: Leader, was_sent: bool, then: str, later: bool, sent_us: int, broken: list[str]
) -> None:
    """A request that was given up, or replaced by a later one, is followed by another at any time;
    the first one may arrive twice. A proposal that ended may be made again at once; here its end
    is the mistake."""
    asked = proposal(1, 2, 3)
    leader.world.now = 7
    if not was_sent:
        leader.partition.with_.proposed.add(KEY)
    leader.proposes(asked)
    if later:
        leader.sends(asked, SECOND)
    leader.is_answered(asked, INVALID_UPDATE_VERSION, keeps if then == "keeps" else leader.gives_up)
    leader.controller_replies(asked, sent=7 + sent_us)
    assert [each.type for each in leader.failures.items] == broken


@pytest.mark.parametrize("over", [True, False])
def test_d18_of_a_proposal_that_is_made_the_leader_learns_the_state(
    leader: Leader, over: bool
) -> None:
    """An ISR that is in force already gets no newer epoch."""
    asked = proposal(1, 2, 3)
    leader.proposes(asked)
    made = leader.gives_up if over else leader.is_told_of_the_next_state
    assert leader.is_answered(asked, NONE, made) == []


@pytest.mark.parametrize(("keeps_it", "broken"), [(True, []), (False, ["D18"])])
def test_d18_an_answer_to_an_earlier_request_decides_nothing(
    leader: Leader, keeps_it: bool, broken: list[str]
) -> None:
    asked = proposal(1, 2, 3)
    leader.proposes(asked)
    leader.sends(asked, SECOND)
    then = keeps if keeps_it else leader.gives_up
    assert leader.is_answered(asked, INELIGIBLE_REPLICA, then, FIRST) == broken


def test_d18_an_answer_to_another_proposal_decides_nothing(leader: Leader) -> None:
    leader.proposes(proposal(1, 2))
    found = leader.is_answered(proposal(1, 2, 3), INELIGIBLE_REPLICA, leader.gives_up)
    assert found == ["D18"]


@pytest.mark.parametrize(("keeps_it", "broken"), [(True, []), (False, ["D18"])])
def test_d18_a_proposal_that_lost_to_newer_metadata_waits_for_that(
    leader: Leader, keeps_it: bool, broken: list[str]
) -> None:
    asked = proposal(1, 2, 3)
    leader.proposes(asked)
    then = keeps if keeps_it else leader.gives_up
    assert leader.is_answered(asked, INVALID_UPDATE_VERSION, then) == broken


def test_d18_newer_metadata_and_the_end_of_the_lead_decide_a_proposal(leader: Leader) -> None:
    leader.proposes(proposal(1, 2, 3))
    leader.is_told_of_the_next_state()
    leader.step(Tick())
    leader.proposes(proposal(1, 2, epoch=PARTITION_EPOCH + 1))
    leader.partition.leading = False
    leader.gives_up()
    leader.step(Tick())
    assert leader.failures.items == []


@pytest.mark.parametrize(
    ("isr", "recovering", "broken"),
    [((1, 2), False, []), ((), False, []), ((1,), False, ["D18"]), ((1,), True, [])],
)
def test_d18_a_leader_proposes_a_change(
    leader: Leader, isr: tuple[int, ...], recovering: bool, broken: list[str]
) -> None:
    """A leader whose partition is recovering proposes its own ISR, to end that."""
    leader.partition.assignment.recovering = recovering
    asked = proposal(*isr)
    for _ in range(2):
        leader.proposes(asked)
    assert [each.type for each in leader.failures.items] == broken


@pytest.mark.parametrize(
    ("member", "known", "later", "broken"),
    [
        (2, 7, 9, []),
        (2, 6, 7, []),
        (2, 6, 6, ["D18"]),
        (2, 8, 9, ["D18"]),
        (1, 8, 9, []),
        (2, None, 9, []),
        (2, 9, None, []),
    ],
)
def test_d18_a_leader_adds_the_process_that_its_metadata_has(
    leader: Leader, member: int, known: int | None, later: int | None, broken: list[str]
) -> None:
    """The proposal names broker epoch 7. The step that proposes may take newer metadata. Of member
    1 the leader has no later fetch."""
    leader.partition.with_.peers = {} if known is None else {member: fake(epoch=known)}
    leader.step(Tick())
    leader.partition.with_.peers = {} if later is None else {member: fake(epoch=later)}
    leader.proposes(proposal(1, 2))
    assert [each.type for each in leader.failures.items] == broken


def test_d18_a_leader_may_add_a_follower_that_names_no_epoch(leader: Leader) -> None:
    leader.partition.with_.peers = {2: fake(epoch=8)}
    leader.step(Tick())
    leader.proposes(Proposal(KEY, LEADER_EPOCH, PARTITION_EPOCH, ((1, 7), (2, -1))))
    assert leader.failures.items == []

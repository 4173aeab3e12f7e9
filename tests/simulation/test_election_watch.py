"""F4: a voter without a leader campaigns in time. By default T is 1 s and a fetch timeout 2 s;
one second more is given."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.consensus.effects import Reply, ResponseReceived, Send
from kraftwreck.nodes.consensus.kraft.leader import Leader, Progress
from kraftwreck.nodes.consensus.kraft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchResponse,
    Request,
    VoteRequest,
    VoteResponse,
)
from kraftwreck.nodes.consensus.kraft.states import Prospective
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.protocol import errors
from kraftwreck.simulation.network import Rpc
from kraftwreck.systems.kraft.simulated.knobs import Knobs
from tests.simulation.watched import Watched

pytestmark = pytest.mark.interpreted

NO_DIRECTORY = bytes(16)


@pytest.fixture
def run() -> Watched:
    return Watched()


def stood_late(run: Watched) -> list[str]:
    """Return the findings of F4; a node that asks no other node either breaks F5."""
    return [kind for kind in run.found if kind == "F4"]


def becomes(run: Watched, at_s: float, before: str, state: str, epoch: int = 1) -> None:
    run.world.run(round(at_s * 1_000_000))
    run.trace(2, "state", state, epoch=epoch, detail={"from": before})


def request(run: Watched, at_s: float, message: Request) -> None:
    run.world.run(round(at_s * 1_000_000))
    for told in run.world.on_request:
        told(run.host(2), message)


def answered(run: Watched, at_s: float, source: int) -> None:
    run.world.run(round(at_s * 1_000_000))
    answer = FetchResponse(0, 0, 1, 1, 0, 0, -1, -1, -1, -1, b"")
    for heard in run.world.on_response:
        heard(run.host(2), ResponseReceived(source, 1, answer))


@pytest.mark.parametrize("state", ["unattached", "prospective", "candidate", "resigned"])
@pytest.mark.parametrize(("until_s", "right"), [(3, True), (3.000001, False)])
def test_a_voter_without_a_leader_campaigns(
    run: Watched, state: str, until_s: float, right: bool
) -> None:
    becomes(run, 0, "follower", state)
    becomes(run, until_s, state, "prospective")
    assert stood_late(run) == ([] if right else ["F4"])


def test_a_silent_node_is_judged_at_the_end(run: Watched) -> None:
    becomes(run, 0, "follower", "unattached")
    run.world.run(60_000_000)
    run.watch.elections.finish()
    assert stood_late(run) == [], "no process runs there"
    run.host(2).node = object()  # type: ignore[assignment]
    run.watch.elections.finish()
    assert stood_late(run) == ["F4"]


@pytest.mark.parametrize("before", ["unattached", "candidate", "resigned"])
def test_a_newer_epoch_does_not_restart_the_election_timeout(run: Watched, before: str) -> None:
    becomes(run, 0, "follower", before)
    for second in (1, 2, 3):
        becomes(run, second, before if second == 1 else "unattached", "unattached", 1 + second)
    becomes(run, 3.5, "unattached", "prospective", 4)
    assert stood_late(run) == ["F4"]


@pytest.mark.parametrize("before", ["follower", "leader", "prospective"])
def test_an_election_wait_begins_with_the_state(run: Watched, before: str) -> None:
    becomes(run, 0, "candidate", before)
    if before == "follower":
        answered(run, 2, 1)
    becomes(run, 2, before, "unattached", 2)
    becomes(run, 4.5, "unattached", "prospective", 2)
    assert stood_late(run) == []


GRANT = {
    "epoch": 1, "candidate": 3, "candidate_last_epoch": 1, "candidate_last_offset": 9,
    "last_epoch": 1, "last_offset": 9,
}  # fmt: skip


@pytest.mark.parametrize(("pre", "right"), [(False, True), (True, False)])
def test_a_vote_gives_the_candidate_time_a_pre_vote_does_not(
    run: Watched, pre: bool, right: bool
) -> None:
    becomes(run, 0, "follower", "unattached")
    run.world.run(1_500_000)
    run.trace(2, "grant", "unattached", detail={**GRANT, "pre": pre})
    becomes(run, 4, "unattached", "prospective")
    assert stood_late(run) == ([] if right else ["F4"])


@pytest.mark.parametrize(("until_s", "right"), [(5, True), (5.000001, False)])
@pytest.mark.parametrize("by", ["answer", "announcement"])
def test_a_follower_waits_for_its_leader_alone(
    run: Watched, until_s: float, right: bool, by: str
) -> None:
    becomes(run, 0, "unattached", "follower")
    if by == "answer":
        answered(run, 2, 1)
    else:
        request(run, 2, BeginQuorumEpochRequest(None, 2, NO_DIRECTORY, 1, 1))
    answered(run, 4, 3)
    becomes(run, until_s, "follower", "prospective")
    assert stood_late(run) == ([] if right else ["F4"])


@pytest.mark.parametrize(("until_s", "right"), [(4, True), (4.000001, False)])
def test_a_follower_waits_for_its_turn_after_the_end_of_the_epoch(
    run: Watched, until_s: float, right: bool
) -> None:
    """Successors wait for a second at most. A leader that was restarted ends its epoch, too
    (seed 406559)."""
    becomes(run, 0, "unattached", "follower")
    request(run, 2, EndQuorumEpochRequest(None, 1, 1, ()))
    answered(run, 2.5, 1)
    request(run, 3, EndQuorumEpochRequest(None, 1, 1, ()))
    becomes(run, until_s, "follower", "prospective")
    assert stood_late(run) == ([] if right else ["F4"])


@pytest.mark.parametrize("message", [(1, 0), (3, 1)], ids=["of an old epoch", "of another leader"])
def test_another_end_changes_nothing(run: Watched, message: tuple[int, int]) -> None:
    becomes(run, 0, "unattached", "follower")
    answered(run, 2, 1)
    request(run, 2, EndQuorumEpochRequest(None, *message, ()))
    becomes(run, 4.9, "follower", "prospective")
    assert stood_late(run) == []


@pytest.mark.parametrize("anew", ["state", "start"])
def test_a_new_leader_or_process_waits_for_its_fetch_timeout(run: Watched, anew: str) -> None:
    becomes(run, 0, "unattached", "follower")
    request(run, 1, EndQuorumEpochRequest(None, 1, 1, ()))
    run.world.run(1_500_000)
    if anew == "state":
        becomes(run, 1.5, "follower", "follower", 2)
    else:
        run.trace(2, "start", "follower")
    becomes(run, 4.4, "follower", "prospective", 1 + (anew == "state"))
    assert stood_late(run) == []


def test_an_observer_never_campaigns(run: Watched) -> None:
    run.voters(2, "13")
    becomes(run, 0, "follower", "unattached")
    becomes(run, 60, "unattached", "follower")
    assert stood_late(run) == []


def test_time_for_which_it_was_stopped_does_not_count(run: Watched) -> None:
    becomes(run, 0, "follower", "unattached")
    run.host(2).resumed_at = 10_000_000
    becomes(run, 12.5, "unattached", "prospective")
    assert stood_late(run) == []


def test_its_own_clock_counts(run: Watched) -> None:
    run.world.set_clock("n2", wall_us=0, strobe_us=0, rate_ppm=-500_000)
    becomes(run, 0, "follower", "unattached")
    becomes(run, 4.5, "unattached", "prospective")
    assert stood_late(run) == []
    becomes(run, 10, "prospective", "candidate")
    assert stood_late(run) == ["F4"]


def test_time_outs_are_those_of_the_node() -> None:
    knobs = Knobs(
        node={"election_timeout_ms": 3000, "fetch_timeout_ms": 5000},
        hasty={"fetch_timeout_ms": 1000},
        hasty_nodes=(2,),
    )
    run = Watched(knobs)
    becomes(run, 0, "follower", "unattached")
    becomes(run, 6.5, "unattached", "follower")
    assert stood_late(run) == []
    becomes(run, 9, "follower", "prospective")
    assert stood_late(run) == ["F4"]


VOTERS = {"voters": [[2, NO_DIRECTORY.hex()]], "kraft_version": 0, "offset": -1}


def asks(run: Watched, at_s: float) -> None:
    """n2 asks for pre-votes of epoch 1, by a step that writes nothing."""
    run.world.run(round(at_s * 1_000_000))
    run.host(2).stepped_at = run.world.now
    run.trace(2, "state", "prospective", detail={"from": "follower"})


def refused(run: Watched, *voters: int) -> None:
    answer = VoteResponse(0, 0, -1, 1, False)
    for voter in voters:
        for heard in run.world.on_response:
            heard(run.host(2), ResponseReceived(voter, 1, answer))


@pytest.mark.parametrize(("left_s", "right"), [(0.998999, False), (0.999, True)])
@pytest.mark.parametrize("state", ["follower", "unattached"])
@pytest.mark.parametrize("refusals", [(), (1,), (1, 1)])
def test_pre_votes_are_not_given_up_early(
    run: Watched, left_s: float, right: bool, state: str, refusals: tuple[int, ...]
) -> None:
    asks(run, 0)
    refused(run, *refusals)
    becomes(run, left_s, "prospective", state)
    assert stood_late(run) == ([] if right else ["F4"])


def test_pre_votes_without_a_majority_are_given_up() -> None:
    run = Watched()
    asks(run, 0)
    refused(run, 1, 3)
    becomes(run, 0.1, "prospective", "follower")
    assert stood_late(run) == []


@pytest.mark.parametrize(("refusals", "right"), [((), False), ((1,), True)])
def test_half_of_the_voters_are_no_majority(
    run: Watched, refusals: tuple[int, ...], right: bool
) -> None:
    run.voters(2, "12")
    asks(run, 0)
    refused(run, *refusals)
    becomes(run, 0.1, "prospective", "follower")
    assert stood_late(run) == ([] if right else ["F4"])


@pytest.mark.parametrize("kind", ["voters", "grant"])
def test_other_voters_and_a_vote_change_what_a_majority_is(run: Watched, kind: str) -> None:
    asks(run, 0)
    if kind == "voters":
        run.trace(2, "voters", "prospective", detail=VOTERS)
    else:
        run.trace(2, "grant", "prospective", detail={**GRANT, "pre": False})
    becomes(run, 0.1, "prospective", "unattached")
    assert stood_late(run) == []


def test_a_newer_epoch_ends_pre_votes(run: Watched) -> None:
    asks(run, 0)
    becomes(run, 0.1, "prospective", "unattached", 2)
    assert stood_late(run) == []


def test_the_time_of_a_step_that_writes_is_unknown(run: Watched) -> None:
    run.world.run(1_000_000)
    run.trace(2, "state", "prospective", detail={"from": "follower"})
    becomes(run, 1.5, "prospective", "unattached")
    assert stood_late(run) == []


@pytest.mark.parametrize(("at_s", "right"), [(5, True), (5.000001, False)])
def test_a_follower_that_its_leader_left_grants_pre_votes(
    run: Watched, at_s: float, right: bool
) -> None:
    becomes(run, 0, "unattached", "follower")
    answered(run, 2, 1)
    pre_vote(run, at_s)
    assert stood_late(run) == ([] if right else ["F4"])


@pytest.mark.parametrize(
    "change",
    [
        {"granted": True},
        {"error": errors.INVALID_VOTER_KEY},
        {"pre": False},
        {"epoch": 2},
        {"offset": 6},
    ],
    ids=str,
)
def test_other_votes_may_be_refused(run: Watched, change: dict[str, Any]) -> None:
    becomes(run, 0, "unattached", "follower")
    pre_vote(run, 60, **change)
    assert stood_late(run) == []


def pre_vote(
    run: Watched,
    at_s: float,
    granted: bool = False,
    error: int = 0,
    pre: bool = True,
    epoch: int = 1,
    offset: int = 7,
) -> None:
    """Let n2, whose log ends at 7, answer n3's request for a pre-vote."""
    run.world.run(round(at_s * 1_000_000))
    node = Node.__new__(Node)
    replica: Any = SimpleNamespace(log=SimpleNamespace(last_epoch=1, end_offset=7))
    node.replica = replica
    run.host(2).node = node
    asked = VoteRequest(None, 2, epoch, 3, NO_DIRECTORY, NO_DIRECTORY, 1, offset, pre)
    rpc = Rpc(3, 1, 2, 1, 2, 1, asked, 0)
    answer = Reply(1, VoteResponse(0, error, -1, 1, granted))
    for told in run.world.wires.on_reply:
        told(run.host(2), rpc, answer)


# --- F6 ---------------------------------------------------------------------------------------


def hasty(run: Watched) -> list[str]:
    return [kind for kind in run.found if kind == "F6"]


@pytest.mark.parametrize("again", [False, True], ids=["one vote", "a vote asked for again"])
@pytest.mark.parametrize(("after_s", "right"), [(0.998999, False), (0.999, True)])
def test_a_voter_gives_its_candidate_an_election_timeout(
    run: Watched, after_s: float, right: bool, again: bool
) -> None:
    becomes(run, 1, "follower", "unattached")
    for second in (1.2, 1.5) if again else (1.5,):
        run.world.run(round(second * 1_000_000))
        run.host(2).stepped_at = run.world.now
        run.trace(2, "grant", "unattached", detail={**GRANT, "pre": False})
    becomes(run, 1.5 + after_s, "unattached", "prospective")
    assert hasty(run) == ([] if right else ["F6"])


def test_the_write_of_a_vote_is_part_of_its_timeout(run: Watched) -> None:
    becomes(run, 1, "follower", "unattached")
    run.world.run(1_900_000)
    run.host(2).stepped_at = 1_500_000
    run.trace(2, "grant", "unattached", detail={**GRANT, "pre": False})
    becomes(run, 2.5, "unattached", "prospective")
    assert hasty(run) == []


@pytest.mark.parametrize("between", ["pre-vote only", "a leader"])
def test_without_a_vote_or_after_a_leader_no_candidate_needs_time(
    run: Watched, between: str
) -> None:
    becomes(run, 1, "follower", "unattached")
    pre = between == "pre-vote only"
    run.trace(2, "grant", "unattached", detail={**GRANT, "pre": pre})
    if not pre:
        becomes(run, 1.1, "unattached", "follower")
        becomes(run, 1.2, "follower", "unattached", 2)
    becomes(run, 1.3, "unattached", "prospective", 1 if pre else 2)
    assert hasty(run) == []


def supported(run: Watched, source: int) -> None:
    answer = VoteResponse(0, 0, -1, 1, True)
    for heard in run.world.on_response:
        heard(run.host(2), ResponseReceived(source, 1, answer))


@pytest.mark.parametrize(
    ("before", "after", "right"),
    [((1,), (), False), ((), (1,), True), ((1, 3), (), False), ((1,), (3,), True)],
)
@pytest.mark.parametrize("candidate", [0, 3])
def test_pre_votes_from_before_a_vote_do_not_count(
    run: Watched, before: tuple[int, ...], after: tuple[int, ...], right: bool, candidate: int
) -> None:
    run.voters(2, "123")
    becomes(run, 1, "unattached", "prospective")
    for source in before:
        supported(run, source)
    vote = {**GRANT, "candidate": candidate, "pre": False}
    run.trace(2, "grant", "prospective", detail=vote)
    for source in after:
        supported(run, source)
    becomes(run, 1.1, "prospective", "candidate", 2)
    assert hasty(run) == ([] if right else ["F6"])


def test_half_of_the_voters_is_no_majority(run: Watched) -> None:
    run.voters(2, "12")
    becomes(run, 1, "unattached", "prospective")
    run.trace(2, "grant", "prospective", detail={**GRANT, "pre": False})
    becomes(run, 1.1, "prospective", "candidate", 2)
    assert hasty(run) == ["F6"]


def test_pre_votes_are_not_counted_without_a_vote_or_with_other_voters(run: Watched) -> None:
    run.voters(2, "123")
    becomes(run, 1, "unattached", "prospective")
    becomes(run, 1.1, "prospective", "candidate", 2)
    becomes(run, 1.2, "candidate", "prospective", 2)
    run.trace(2, "grant", "prospective", epoch=2, detail={**GRANT, "pre": False})
    run.voters(2, "2")
    becomes(run, 1.3, "prospective", "candidate", 3)
    assert hasty(run) == []


@pytest.mark.parametrize(
    ("granted", "rejected", "right"),
    [({2}, set(), True), ({2, 3}, set(), False), ({2}, {1}, False)],
)
def test_a_vote_forgets_the_answers_to_pre_votes(
    run: Watched, granted: set[int], rejected: set[int], right: bool
) -> None:
    becomes(run, 0, "follower", "prospective")
    node = Node.__new__(Node)
    replica: Any = SimpleNamespace(
        state=Prospective(1, -1, 3, NO_DIRECTORY, granted=granted, rejected=rejected)
    )
    node.replica = replica
    run.host(2).node = node
    run.trace(2, "grant", "prospective", detail={**GRANT, "pre": False})
    assert ("F6" in run.found) is not right


A, B = bytes([1]) * 16, bytes([3]) * 16


def resigns(run: Watched, *successors: tuple[int, bytes], first: int = 7, third: int = 6) -> None:
    """Let n2, which leads, resign; its memory says how far the other voters have fetched."""
    leader = Leader.__new__(Leader)
    leader.voters = {
        1: Progress(first, A),
        2: Progress(),
        3: Progress(third, B),
    }
    node: Any = Node.__new__(Node)
    node.replica = SimpleNamespace(state=leader)
    run.host(2).node = node
    becomes(run, 0, "candidate", "leader")
    becomes(run, 1, "leader", "resigned")
    message = EndQuorumEpochRequest(None, 2, 1, successors)
    for told in run.world.wires.on_send:
        told(run.host(2), Send(1, 1, message))


def test_successors_with_more_of_the_log_come_first(run: Watched) -> None:
    resigns(run, (1, A), (3, B))
    assert stood_late(run) == []


def test_successors_with_as_much_of_the_log_have_any_order(run: Watched) -> None:
    resigns(run, (3, B), (1, A), first=6)
    assert stood_late(run) == []


def test_a_successor_with_one_record_less_does_not_come_first(run: Watched) -> None:
    resigns(run, (3, B), (1, A))
    assert stood_late(run) == ["F4"]


def test_no_successor_is_a_node_that_was_no_voter(run: Watched) -> None:
    resigns(run, (1, A), (3, A))
    assert stood_late(run) == ["F4"]


def test_a_leader_that_restarts_as_resigned_remembers_no_fetches(run: Watched) -> None:
    resigns(run, (1, A), (3, B))
    run.trace(2, "start", "resigned")
    for told in run.world.wires.on_send:
        told(run.host(2), Send(1, 1, EndQuorumEpochRequest(None, 2, 1, ((3, B), (1, A)))))
    assert stood_late(run) == []

"""F5: a follower asks its leader again in time, and other nodes if that does not answer. F6: an
answered follower does not campaign. By default requests and fetches time out after 2 s, back-offs
end after half a second; a second more is given. F7: a joining node adds itself, with its disk."""

from __future__ import annotations

from typing import Any

import pytest

from kraftwreck.nodes.consensus.effects import ResponseReceived, Send
from kraftwreck.nodes.consensus.kraft.messages import (
    AddRaftVoterRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RemoveRaftVoterRequest,
    Request,
    UpdateRaftVoterRequest,
    VoterChangeResponse,
)
from kraftwreck.nodes.protocol.errors import SNAPSHOT_NOT_FOUND, UNKNOWN_LEADER_EPOCH
from kraftwreck.systems.kraft.simulated.knobs import Knobs
from tests.simulation.watched import Watched

LEADER, OTHER, SELF = 1, 3, 2
SNAPSHOT = (5, 1)


class Follower(Watched):
    """n2 follows n1 in epoch 1: the test sends its requests and their outcomes."""

    def __init__(self, *, joins: bool = True) -> None:
        super().__init__(Knobs(auto_join=joins))
        self.correlation = 0
        self.trace(SELF, "state", detail={"from": "unattached"})

    def at(self, second: float) -> Follower:
        self.world.run(round(second * 1_000_000))
        return self

    def asks(
        self, whom: int = LEADER, message: Request | None = None, *, held: float = 0.0
    ) -> None:
        """``held``: for how long (s) a flush has held the request back."""
        self.correlation += 1
        self.host(SELF).stepped_at = self.world.now - round(held * 1_000_000)
        request = message or FetchRequest(None, SELF, bytes(16), 500, 1, 1, 0, 0, 0)
        for told in self.world.wires.on_send:
            told(self.host(SELF), Send(whom, self.correlation, request))

    def hears(self, answer: Any, whom: int = LEADER, correlation: int | None = None) -> None:
        number = self.correlation if correlation is None else correlation
        for told in self.world.on_response:
            told(self.host(SELF), ResponseReceived(whom, number, answer))

    def stands(self, second: float) -> None:
        self.at(second).trace(SELF, "state", "prospective", detail={"from": "follower"})


@pytest.fixture
def run() -> Follower:
    return Follower()


def fetched(error: int = 0, epoch: int = 1) -> FetchResponse:
    return FetchResponse(0, error, LEADER, epoch, 0, 0, -1, -1, -1, -1, b"")


def piece(error: int = 0) -> FetchSnapshotResponse:
    return FetchSnapshotResponse(0, error, LEADER, 1, *SNAPSHOT)


def wanted(position: int = 0) -> FetchSnapshotRequest:
    return FetchSnapshotRequest(None, SELF, bytes(16), 1, 1, *SNAPSHOT, position)


# --- F5 -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("second", "right"), [(3.5, True), (3.500001, False)])
@pytest.mark.parametrize("answer", [None, fetched()], ids=["failed", "answered"])
def test_a_follower_asks_its_leader_again(
    run: Follower, second: float, right: bool, answer: Any
) -> None:
    run.asks()
    run.hears(answer)
    run.at(1).asks(OTHER)
    run.at(second).asks()
    assert run.found == ([] if right else ["F5"])


def test_while_a_request_is_open_nothing_is_to_be_asked(run: Follower) -> None:
    run.asks()
    run.at(9).asks()
    assert run.found == []


def test_a_follower_that_stops_fetching_is_judged_at_the_end(run: Follower) -> None:
    run.asks()
    run.hears(None)
    run.at(9).watch.requests.finish()
    assert run.found == [], "no process runs there"
    run.host(SELF).node = object()  # type: ignore[assignment]
    run.host(SELF).stopping = True
    run.watch.requests.finish()
    assert run.found == [], "it is about to end"
    run.host(SELF).stopping = False
    run.watch.requests.finish()
    assert run.found == ["F5"]


def test_another_state_and_a_pause_restart_the_wait(run: Follower) -> None:
    run.asks()
    run.hears(None)
    run.at(3).trace(SELF, "state", detail={"from": "prospective"})
    run.at(6).asks()
    run.hears(None)
    run.host(SELF).resumed_at = 9_000_000
    run.at(12).asks()
    assert run.found == []


@pytest.mark.parametrize("asks_others", [True, False])
def test_a_follower_without_answers_asks_other_nodes(run: Follower, asks_others: bool) -> None:
    for second in (0, 2, 4, 6):
        run.at(second).asks()
        run.at(second + 1).hears(None)
        if asks_others:
            run.asks(OTHER)
    assert run.found == ([] if asks_others else ["F5"])


def test_three_requests_without_an_answer_may_be_slow_ones(run: Follower) -> None:
    for second in (0, 3, 6):
        run.at(second).asks()
        run.at(second + 2).hears(None)
    assert run.found == []


def test_an_only_voter_has_no_others(run: Follower) -> None:
    run.voters(SELF, "1")
    for second in (0, 2, 4, 6):
        run.at(second).asks()
        run.at(second + 1).hears(None)
    assert run.found == []


def test_refusals_in_a_row_may_be_quick(run: Follower) -> None:
    for tenth in range(10):
        run.at(tenth / 10).asks()
        run.hears(None)
    assert run.found == []


@pytest.mark.parametrize("asks", [True, False])
def test_a_follower_fetches_again_after_snapshot_not_found(run: Follower, asks: bool) -> None:
    run.asks(message=wanted())
    run.hears(piece(SNAPSHOT_NOT_FOUND))
    if asks:
        run.asks()
        run.hears(fetched())
    run.asks(message=wanted())
    assert run.found == ([] if asks else ["F5"])


# --- F6 -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("second", "right"), [(2.9, False), (2.998999, False), (2.999, True), (3.0, True)]
)
@pytest.mark.parametrize("by_pieces", [True, False])
def test_an_answered_follower_does_not_campaign(
    run: Follower, second: float, right: bool, by_pieces: bool
) -> None:
    run.asks(message=wanted() if by_pieces else None)
    run.at(1).hears(piece() if by_pieces else fetched())
    run.stands(second)
    assert run.found == ([] if right else ["F6"])


@pytest.mark.parametrize(("held", "right"), [(0.0, False), (0.6, True)])
def test_a_flush_that_holds_a_request_back_is_part_of_its_time(
    run: Follower, held: float, right: bool
) -> None:
    """Seed 457987: the node has given the request up, and did not hear its answer."""
    run.at(1).asks(held=held)
    run.at(2.5).hears(fetched())
    run.stands(3)
    assert run.found == ([] if right else ["F6"])


@pytest.mark.parametrize(("epoch", "right"), [(1, True), (0, False)])
@pytest.mark.parametrize("late", [False, True])
def test_a_follower_of_a_resigned_leader_may_campaign(
    run: Follower, epoch: int, right: bool, late: bool
) -> None:
    """Seed 445 of 12 s: the leader's last answer arrived after the end of its epoch."""
    run.asks()
    if not late:
        run.hears(fetched())
    for told in run.world.on_request:
        told(run.host(SELF), EndQuorumEpochRequest(None, LEADER, epoch, ()))
    if late:
        run.hears(fetched())
    run.stands(0.1)
    assert run.found == ([] if right else ["F6"])


@pytest.mark.parametrize(
    "answer", [fetched(UNKNOWN_LEADER_EPOCH), fetched(epoch=2), None],
    ids=["refused", "of another epoch", "failed"],
)  # fmt: skip
def test_error_responses_do_not_count_as_answers(run: Follower, answer: Any) -> None:
    run.asks()
    run.hears(answer)
    run.stands(0.1)
    assert run.found == []


def test_answers_that_come_too_late_or_twice_do_not_count(run: Follower) -> None:
    run.asks()
    run.at(2).hears(fetched())
    run.asks()
    run.at(2.2).hears(fetched(), correlation=1)
    run.hears(fetched(), whom=OTHER)
    run.stands(2.3)
    assert run.found == []


# --- F7 -----------------------------------------------------------------------------------

OWN, BEFORE = bytes([SELF]) * 16, bytes([9]) * 16


def add(directory: bytes, who: int = SELF) -> Request:
    return AddRaftVoterRequest(None, 1000, who, directory, ())


def update(directory: bytes) -> Request:
    return UpdateRaftVoterRequest(None, 1, SELF, directory, (), 0, 1)


def remove(directory: bytes) -> Request:
    return RemoveRaftVoterRequest(None, SELF, directory)


@pytest.mark.parametrize(
    ("voters", "message", "right"),
    [
        ("13", add(OWN), True),
        ("13", add(BEFORE), False),
        ("13", add(OWN, OTHER), False),
        ("123", add(OWN), False),
        ("123", update(OWN), True),
        ("13", update(OWN), False),
        ("123", remove(OWN), False),
        ("13", remove(BEFORE), False),
    ],
)
def test_a_joining_node_requests_the_missing_voter_change(
    run: Follower, voters: str, message: Request, right: bool
) -> None:
    run.voters(SELF, voters)
    run.asks(message=message)
    assert run.found == ([] if right else ["F7"])


@pytest.mark.parametrize(("directory", "right"), [(BEFORE, True), (OWN, False)])
def test_a_voter_with_a_new_disk_requests_the_removal_of_the_old(
    run: Follower, directory: bytes, right: bool
) -> None:
    voters = [[SELF, BEFORE.hex()]]
    run.trace(SELF, "voters", detail={"voters": voters, "kraft_version": 1, "offset": 3})
    run.asks(message=remove(directory))
    assert run.found == ([] if right else ["F7"])


@pytest.mark.parametrize("message", [add(OWN), remove(BEFORE)], ids=["add", "remove"])
def test_a_node_without_auto_join_requests_no_voter_change(message: Request) -> None:
    run = Follower(joins=False)
    voters = [] if isinstance(message, AddRaftVoterRequest) else [[SELF, BEFORE.hex()]]
    run.trace(SELF, "voters", detail={"voters": voters, "kraft_version": 1, "offset": 3})
    run.asks(message=message)
    assert run.found == ["F7"]


@pytest.mark.parametrize(("error", "level", "right"), [(41, 0, False), (41, 1, True), (0, 0, True)])
@pytest.mark.parametrize("again", [True, False])
def test_a_refused_voter_update_is_sent_again(
    run: Follower, error: int, level: int, right: bool, again: bool
) -> None:
    run.voters(SELF, "123", level=level)
    run.asks(message=update(OWN))
    run.hears(VoterChangeResponse(error))
    for second in (2, 4, 6, 8, 10):
        tells = again and second == 4
        run.at(second).asks(message=update(OWN) if tells else None)
        run.hears(VoterChangeResponse(0) if tells else fetched())
    run.trace(SELF, "state", detail={"from": "follower"})
    assert run.found == ([] if right or again else ["F7"])


@pytest.mark.parametrize(("second", "broken"), [(7.5, False), (7.500001, True)])
def test_a_refused_voter_update_is_sent_again_in_time(
    run: Follower, second: float, broken: bool
) -> None:
    """Within two fetch timeouts, a request that is lost, and a back-off."""
    run.voters(SELF, "123", level=0)
    run.asks(message=update(OWN))
    run.hears(VoterChangeResponse(41))
    run.at(second).trace(SELF, "state", detail={"from": "follower"})
    assert ("F7" in run.found) is broken


# --- F5: who knows no leader, and who resigns ---------------------------------------------


def alone(run: Follower, state: str) -> None:
    run.trace(SELF, "state", state, detail={"from": "follower"})


@pytest.mark.parametrize(("second", "right"), [(3.5, True), (3.500001, False)])
def test_a_node_without_a_leader_asks_other_nodes(
    run: Follower, second: float, right: bool
) -> None:
    alone(run, "unattached")
    run.at(second).asks(OTHER)
    assert run.found == ([] if right else ["F5"])


def test_a_silent_node_without_a_leader_is_judged_at_the_end(run: Follower) -> None:
    alone(run, "unattached")
    run.host(SELF).node = object()  # type: ignore[assignment]
    run.at(9).watch.requests.finish()
    assert run.found == ["F5"]


def test_a_single_voter_needs_no_requests(run: Follower) -> None:
    run.voters(SELF, "2")
    alone(run, "unattached")
    run.at(9).trace(SELF, "state", "prospective", detail={"from": "unattached"})
    assert "F5" not in run.found


def test_time_between_two_processes_does_not_count(run: Follower) -> None:
    alone(run, "unattached")
    run.at(9).trace(SELF, "start", "unattached")
    run.asks(OTHER)
    assert run.found == []


@pytest.mark.parametrize(("told", "right"), [((1, 3), True), ((1,), False), ((), False)])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_resigning_leader_informs_all_voters(
    run: Follower, told: tuple[int, ...], right: bool, restarts: bool
) -> None:
    """So does a leader that was killed and starts again: it resigns with that."""
    if restarts:
        run.trace(SELF, "start", "resigned")
    else:
        run.trace(SELF, "state", "resigned", detail={"from": "leader"})
        run.trace(SELF, "resign", "resigned", detail={"reason": "shutdown"})
    for voter in told:
        run.asks(voter, EndQuorumEpochRequest(None, SELF, 1, ()))
    run.at(1.6).trace(SELF, "state", "unattached", detail={"from": "resigned"})
    assert run.found == ([] if right else ["F5"])

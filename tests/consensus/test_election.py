"""Votes (KIP-595, KIP-996), and how long a preferred successor waits."""

from __future__ import annotations

import pytest

from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.kraft.election import grants, is_lost, is_up_to_date, is_won
from kraftwreck.nodes.consensus.kraft.leader import Leader
from kraftwreck.nodes.consensus.kraft.member import State
from kraftwreck.nodes.consensus.kraft.messages import NO_DIRECTORY, VoteRequest
from kraftwreck.nodes.consensus.kraft.requests import successor_delay_ms
from kraftwreck.nodes.consensus.kraft.states import (
    Candidate,
    Follower,
    Prospective,
    Resigned,
    Unattached,
)
from kraftwreck.nodes.consensus.kraft.voters import VoterSet

OWN = (3, 10)
GOOD = OWN
BAD = (3, 9)


def request(end: tuple[int, int], *, pre: bool, candidate: int = 2) -> VoteRequest:
    return VoteRequest(
        None, 1, 4, candidate, bytes([candidate] * 16), NO_DIRECTORY, end[0], end[1], pre
    )


THREE = VoterSet.static({i: Endpoint(f"n{i}", 9093) for i in (1, 2, 3)})
STATES: dict[str, State] = {
    "unattached": Unattached(0),
    "unattached, leader known": Unattached(0, leader_id=3),
    "unattached, voted for it": Unattached(0, voted_id=2),
    "unattached, voted for another": Unattached(0, voted_id=3),
    "prospective": Prospective(0, -1, -1, NO_DIRECTORY),
    "prospective, voted for another": Prospective(0, -1, 3, NO_DIRECTORY),
    "prospective, leader known": Prospective(0, 3, -1, NO_DIRECTORY),
    "candidate": Candidate(0, 1, NO_DIRECTORY),
    "follower, not fetched yet": Follower(0, 3),
    "follower, has fetched": Follower(0, 3, has_fetched=True),
    "resigned": Resigned(0, (), set()),
    "leader": Leader(1, THREE, (1, 2), 0, 0, 1),
}


@pytest.mark.parametrize("name", STATES)
def test_a_pre_vote_goes_to_any_good_log_unless_the_leader_is_alive(name: str) -> None:
    expected = name not in ("leader", "follower, has fetched")
    assert grants(STATES[name], request(GOOD, pre=True), OWN) is expected
    assert grants(STATES[name], request(BAD, pre=True), OWN) is False


@pytest.mark.parametrize("name", STATES)
def test_a_real_vote_is_cast_once_and_only_without_a_leader(name: str) -> None:
    expected = name in ("unattached", "unattached, voted for it", "prospective")
    assert grants(STATES[name], request(GOOD, pre=False), OWN) is expected


def test_a_vote_already_cast_is_repeated_without_asking_for_the_log_again() -> None:
    assert grants(STATES["unattached, voted for it"], request(BAD, pre=False), OWN)


def test_a_vote_for_another_directory_of_the_same_id_is_refused() -> None:
    state = Unattached(0, voted_id=2, voted_directory=bytes([9] * 16))
    assert not grants(state, request(GOOD, pre=False), OWN)


@pytest.mark.parametrize(
    ("candidate", "own", "expected"),
    [
        ((2, 100), (3, 10), False),  # a longer log of an older epoch loses
        ((3, 10), (3, 10), True),
        ((3, 9), (3, 10), False),
        ((4, 1), (3, 10), True),
    ],
)
def test_up_to_date_compares_the_epoch_before_the_offset(
    candidate: tuple[int, int], own: tuple[int, int], expected: bool
) -> None:
    assert is_up_to_date(candidate, own) is expected


@pytest.mark.parametrize(("voters", "needed"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_a_majority_is_more_than_half(voters: int, needed: int) -> None:
    assert is_won(voters, needed)
    assert not is_won(voters, needed - 1)
    assert is_lost(voters, voters - needed + 1)
    assert not is_lost(voters, voters - needed)


def test_successors_wait_their_turn() -> None:
    assert [successor_delay_ms(p, 4, 1000) for p in range(4)] == [0, 125, 250, 500]
    assert successor_delay_ms(-1, 4, 1000) == 1000
    assert successor_delay_ms(4, 4, 1000) == 1000

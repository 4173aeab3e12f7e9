"""F9: a leader announces itself to silent voters. By default a period is 1 s, a request takes at
most 2 s and a back-off 0.5 s; one second more is given."""

from __future__ import annotations

import pytest

from kraftwreck.nodes.consensus.effects import Send
from kraftwreck.nodes.consensus.kraft.messages import (
    BeginQuorumEpochRequest,
    FetchRequest,
    Request,
    VoteRequest,
)
from tests.simulation.watched import Watched

NO_DIRECTORY = bytes(16)


@pytest.fixture
def run() -> Watched:
    """n1 leads epoch 1, with the voters n1 and n2."""
    run = Watched()
    run.voters(1, "12")
    run.trace(1, "state", "leader", detail={"from": "candidate"})
    return run


def begin() -> BeginQuorumEpochRequest:
    return BeginQuorumEpochRequest(None, 2, NO_DIRECTORY, 1, 1)


def send(run: Watched, at_s: float, message: Request | None = None) -> None:
    run.world.run(round(at_s * 1_000_000))
    for told in run.world.wires.on_send:
        told(run.host(1), Send(2, 1, message or begin(), None))


def fetch(run: Watched, at_s: float, epoch: int = 1, node: int = 2) -> None:
    run.world.run(round(at_s * 1_000_000))
    for told in run.world.on_request:
        told(run.host(1), FetchRequest(None, node, NO_DIRECTORY, 0, 1, epoch, 0, 0, -1))


def silent(run: Watched) -> list[str]:
    return [kind for kind in run.found if kind == "F9"]


@pytest.mark.parametrize(("at_s", "right"), [(4.5, True), (4.500001, False)])
def test_a_leader_repeats_itself_to_a_silent_voter(run: Watched, at_s: float, right: bool) -> None:
    send(run, at_s)
    assert silent(run) == ([] if right else ["F9"])
    send(run, at_s + 4.4)
    assert silent(run) == ([] if right else ["F9"])


@pytest.mark.parametrize(("epoch", "node", "right"), [(1, 2, True), (0, 2, False), (1, 3, False)])
def test_a_voter_that_fetches_is_not_silent(
    run: Watched, epoch: int, node: int, right: bool
) -> None:
    fetch(run, 3, epoch, node)
    send(run, 6)
    assert silent(run) == ([] if right else ["F9"])


def test_other_requests_are_no_announcement(run: Watched) -> None:
    send(run, 3, VoteRequest(None, 2, 1, 1, NO_DIRECTORY, NO_DIRECTORY, 0, 0, False))
    send(run, 6)
    assert silent(run) == ["F9"]


def test_the_end_of_the_lead_and_of_the_run_are_judged(run: Watched) -> None:
    run.world.run(6_000_000)
    run.watch.announcements.finish()
    assert silent(run) == [], "no process runs there"
    run.host(1).node = object()  # type: ignore[assignment]
    run.watch.announcements.finish()
    run.trace(1, "state", "unattached", epoch=2, detail={"from": "leader"})
    assert silent(run) == ["F9", "F9"]


def test_the_wait_for_a_new_voter_begins_when_it_is_one(run: Watched) -> None:
    fetch(run, 3)
    run.trace(1, "voters", "leader", detail=voters(1, 2, 3))
    run.host(1).node = object()  # type: ignore[assignment]
    run.world.run(7_000_000)
    run.watch.announcements.finish()
    assert silent(run) == []


def voters(*ids: int) -> dict[str, object]:
    told = [[each, (bytes([each]) * 16).hex()] for each in ids]
    return {"voters": told, "kraft_version": 1, "offset": 4}


def test_a_removed_voter_is_left_alone(run: Watched) -> None:
    """So is one that is added again, until then (seed 7013)."""
    run.trace(1, "voters", "leader", detail=voters(1))
    run.world.run(4_000_000)
    run.trace(1, "voters", "leader", detail=voters(1, 2))
    send(run, 8)
    assert silent(run) == []


def test_a_process_that_died_is_not_judged(run: Watched) -> None:
    run.world.run(6_000_000)
    run.trace(1, "start", "resigned")
    assert silent(run) == []

"""Rules over the steps of one node: each is kept by the real node and broken on purpose here."""

from __future__ import annotations

from typing import Any

import pytest

from kraftwreck.checkers.kraft.steps import StepRules
from kraftwreck.nodes.consensus.effects import (
    AppendLog,
    CleanLog,
    FinishSnapshot,
    InstallSnapshot,
    Reply,
    RequestReceived,
    Send,
    TruncateLog,
    WriteQuorumState,
)
from kraftwreck.nodes.consensus.kraft.messages import (
    FetchRequest,
    FetchResponse,
    VoteRequest,
    VoteResponse,
)
from kraftwreck.nodes.consensus.recovered import Recovered, SnapshotFile
from kraftwreck.nodes.log.batch import encode_batch

D = bytes(16)


def batch(base: int, epoch: int) -> bytes:
    return encode_batch(base, epoch, 0, [(None, b"x")], control=False)


def vote(epoch: int, candidate: int, log: tuple[int, int], *, pre: bool = False) -> VoteRequest:
    return VoteRequest(None, 1, epoch, candidate, D, D, *log, pre)


def granted(epoch: int) -> VoteResponse:
    return VoteResponse(0, 0, -1, epoch, True)


def saved(epoch: int, voted: int = -1, leader: int = -1) -> WriteQuorumState:
    return WriteQuorumState(epoch, leader, voted, D, (1, 2, 3))


def fetch(offset: int, last_epoch: int) -> FetchRequest:
    return FetchRequest(None, 2, D, 500, 1 << 20, 9, offset, last_epoch, 0)


def answered(*, diverging: int = -1, snapshot: int = -1) -> FetchResponse:
    return FetchResponse(0, 0, 1, 9, 0, 0, diverging, diverging, snapshot, snapshot, b"")


def node(*batches: tuple[int, int], start: int = 0) -> StepRules:
    """A node that started with a log of batches (base offset, epoch) of one record each."""
    rules = StepRules("n1")
    log = tuple(batch(*each) for each in batches)
    rules.start(Recovered(saved(5), log, start), [])
    return rules


def asked(rules: StepRules, request: Any, *effects: Any) -> None:
    """The node handles ``request`` (token 7) with ``effects``."""
    rules.step(RequestReceived(7, request), list(effects))


def test_i3_a_vote_is_written_before_it_is_granted() -> None:
    rules = node((0, 5))
    asked(rules, vote(6, 2, (5, 1)), Reply(7, granted(6)), saved(6, voted=2))
    assert not rules.broken  # A shell carries out durable effects before it sends.
    asked(rules, vote(7, 2, (5, 1)), Reply(7, granted(7)))
    assert list(rules.broken) == ["I3"]


@pytest.mark.parametrize("state", [saved(7, voted=2), saved(7, leader=1), saved(8)])
def test_i3_a_repeated_vote_needs_no_second_write(state: WriteQuorumState) -> None:
    rules = node((0, 5))
    rules.step(None, [state])
    asked(rules, vote(7, 2, (5, 1)), Reply(7, granted(7)))
    assert not rules.broken


def test_i3_another_candidates_vote_is_no_evidence() -> None:
    rules = node((0, 5))
    rules.step(None, [saved(7, voted=3)])
    asked(rules, vote(7, 2, (5, 1)), Reply(7, granted(7)))
    assert list(rules.broken) == ["I3"]


@pytest.mark.parametrize("pre", [False, True])
def test_i4_a_vote_for_an_older_log_is_found(pre: bool) -> None:
    rules = node((0, 4), (1, 5))
    asked(rules, vote(6, 2, (4, 9), pre=pre), Reply(7, granted(6)), saved(6, voted=2))
    assert list(rules.broken) == ["I4"]


def test_i4_and_i28_requests_state_the_own_log_end() -> None:
    rules = node((0, 4), (1, 5))
    rules.step(None, [Send(2, 1, vote(6, 1, (5, 2))), Send(2, 2, fetch(2, 5))])
    assert not rules.broken
    rules.step(None, [TruncateLog(1), Send(2, 1, vote(6, 1, (5, 1))), Send(2, 2, fetch(1, 5))])
    assert sorted(rules.broken) == ["I28", "I4"]


def test_a_step_is_followed_in_its_order() -> None:
    rules = node((0, 4))
    rules.step(None, [AppendLog(batch(1, 5)), Send(2, 1, fetch(2, 5)), TruncateLog(1)])
    rules.step(None, [Send(2, 1, fetch(1, 4))])
    assert not rules.broken


def test_an_empty_log_continues_its_snapshot() -> None:
    rules = node((0, 4), (1, 5), (2, 5))
    rules.step(None, [FinishSnapshot(2, 6), CleanLog(2), TruncateLog(2), Send(2, 1, fetch(2, 6))])
    rules.step(None, [FinishSnapshot(9, 8), InstallSnapshot(9, 8), Send(2, 1, fetch(9, 8))])
    assert not rules.broken
    rules.step(None, [Send(2, 1, fetch(9, 7))])
    assert list(rules.broken) == ["I28"]


def test_the_epoch_before_an_unknown_start_is_not_judged() -> None:
    rules = node(start=7)
    rules.step(None, [Send(2, 1, fetch(7, 3)), Send(2, 1, vote(6, 1, (2, 7)))])
    assert not rules.broken


def test_snapshots_on_disk_are_known_at_the_start() -> None:
    rules = StepRules("n1")
    rules.start(Recovered(None, (), 7, (SnapshotFile(7, 3),)), [Send(2, 1, fetch(7, 2))])
    assert list(rules.broken) == ["I28"]


@pytest.mark.parametrize(("offset", "last_epoch"), [(2, 4), (3, 4), (4, 5), (1, 5)])
@pytest.mark.parametrize("at", [0, 4])
def test_i28_a_fetch_that_diverges_is_answered_as_such(
    offset: int, last_epoch: int, at: int
) -> None:
    rules = node((0, 4), (1, 5), (2, 5))
    asked(rules, fetch(offset, last_epoch), Reply(7, answered(diverging=at)))
    asked(rules, fetch(offset, last_epoch), Reply(7, answered(snapshot=at)))
    assert not rules.broken
    asked(rules, fetch(offset, last_epoch), Reply(7, answered()))
    assert list(rules.broken) == ["I28"]


@pytest.mark.parametrize(("offset", "last_epoch"), [(1, 4), (2, 5), (3, 5)])
def test_i28_a_fetch_that_agrees_is_not_answered_as_diverging(offset: int, last_epoch: int) -> None:
    rules = node((0, 4), (1, 5), (2, 5))
    asked(rules, fetch(offset, last_epoch), Reply(7, answered()))
    asked(rules, fetch(offset, last_epoch), Reply(7, answered(snapshot=0)))
    assert not rules.broken
    asked(rules, fetch(offset, last_epoch), Reply(7, answered(diverging=0)))
    assert list(rules.broken) == ["I28"]


@pytest.mark.parametrize(("offset", "judged"), [(1, False), (2, False), (3, True)])
def test_i28_is_judged_beyond_the_beginning_of_the_log(offset: int, judged: bool) -> None:
    """Not at the beginning: the epoch before it may be known from a snapshot only."""
    rules = node((2, 4), start=2)
    asked(rules, fetch(offset, 3), Reply(7, answered()))
    assert ("I28" in rules.broken) is judged


def test_an_answer_of_an_older_request_is_not_judged() -> None:
    rules = node((0, 4))
    asked(rules, fetch(1, 9), Reply(6, answered()))
    assert not rules.broken

"""I28: a follower keeps nothing that its leader's answer says that the leader lacks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.consensus.effects import ResponseReceived
from kraftwreck.nodes.consensus.kraft.messages import FetchResponse
from kraftwreck.nodes.consensus.log import ReplicatedLog
from kraftwreck.nodes.log.batch import encode_batch
from kraftwreck.nodes.node import Node
from tests.simulation.watched import Watched

pytestmark = pytest.mark.interpreted


def log_of(*epochs: int, start: int = 0) -> ReplicatedLog:
    """A log with one record of each of the ``epochs``."""
    batches = [
        encode_batch(offset, epoch, 1, [(None, b"r")], control=False)
        for offset, epoch in enumerate(epochs, start)
    ]
    return ReplicatedLog(batches, start)


def cut(log: ReplicatedLog, epoch: int, end: int, to: int, hw: int = -1) -> list[str]:
    """Let a follower get a diverging answer, and cut its log at ``to``."""
    run = Watched()
    node: Any = Node.__new__(Node)
    node.broker, node.controller = None, SimpleNamespace(is_active=False)
    replica: Any = SimpleNamespace(log=log, high_watermark=hw)
    node.replica = replica
    run.host(2).node = node
    answer = FetchResponse(0, 0, 1, 9, 0, 0, epoch, end, -1, -1, b"")
    event = ResponseReceived(1, 1, answer)
    for told in run.world.on_response:
        told(run.host(2), event)
    log.truncate(to)
    for handled in run.world.on_step:
        handled(run.host(2), event)
    return [kind for kind in run.found if kind == "I28"]


@pytest.mark.parametrize(("to", "right"), [(2, True), (3, False)])
def test_no_newer_epoch_is_left(to: int, right: bool) -> None:
    """The leader has epochs 1 and 3, the follower 1, 2 and 4 (KIP-279)."""
    assert cut(log_of(1, 2, 4, 4), 3, 3, to) == ([] if right else ["I28"])


@pytest.mark.parametrize(("to", "right"), [(2, True), (3, False)])
def test_nothing_beyond_the_leaders_end_is_left(to: int, right: bool) -> None:
    assert cut(log_of(1, 1, 1, 1), 1, 2, to) == ([] if right else ["I28"])


def test_the_end_of_an_older_epoch_is_for_the_next_answer() -> None:
    """The leader has epoch 3 up to offset 1, the follower epoch 1 up to 2 (seed 7107)."""
    assert cut(log_of(1, 1, 4, 4), 3, 1, 2) == []


def test_what_is_committed_stays() -> None:
    assert cut(log_of(1, 1, 1, 1), 1, 1, 3, hw=3) == []


def test_a_log_after_a_snapshot_may_be_empty() -> None:
    log = log_of(4, 4, start=7)
    log.base = (7, 3)
    assert cut(log, 2, 5, 7) == []


def test_an_answer_that_changes_nothing_is_not_judged() -> None:
    assert cut(log_of(4, 4), 2, 0, 2) == []


def test_the_first_epoch_of_a_leader_is_0() -> None:
    assert cut(log_of(1, 1), 0, 0, 1) == ["I28"]
    assert cut(log_of(1, 1), -1, -1, 1) == [], "this answer says nothing of the log"

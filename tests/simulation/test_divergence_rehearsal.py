"""I28: a follower cuts its log where it leaves its leader's, whatever the leader answers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.consensus.kraft import responses
from kraftwreck.nodes.consensus.kraft.replica import Replica
from kraftwreck.nodes.consensus.kraft.states import Follower
from kraftwreck.nodes.consensus.log import ReplicatedLog
from kraftwreck.nodes.log.batch import encode_batch
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import divergence_rehearsal
from kraftwreck.systems.kraft.simulated.divergence_rehearsal import (
    Answer,
    DivergenceRehearsal,
    answers,
    judge,
)
from tests.consensus.conftest import Cluster

pytestmark = pytest.mark.interpreted


def follower(*epochs: int) -> Replica:
    """Return a follower with one record of each of the ``epochs``."""
    cluster = Cluster(3)
    cluster.elect()
    cluster.run(1000)
    leader = cluster.leader()
    replica = next(each for each in cluster.replicas.values() if each is not leader)
    batches = [
        encode_batch(offset, epoch, 1, [(None, b"r")], control=False)
        for offset, epoch in enumerate(epochs)
    ]
    replica.log = ReplicatedLog(batches, 0)
    return replica


def test_answers_name_epochs_of_the_log_and_between_them() -> None:
    told = list(answers(follower(1, 1, 3, 3)))
    assert told[:3] == [Answer(1, 0, 0), Answer(1, 5, 2), Answer(2, 5, 2)]
    assert [each.epoch for each in told[3:5]] == [3, 3]


def test_a_follower_cuts_rightly_and_a_copy_was_told() -> None:
    replica = follower(1, 1, 3, 3)
    assert list(judge(replica)) == []
    assert replica.log.end_offset == 4


@pytest.mark.parametrize(
    ("planted", "epoch"),
    [
        (lambda replica, epoch, end: min(end, replica.log.end_offset), 1),
        (lambda replica, epoch, end: replica.log.end_offset_for_epoch(epoch)[0], 1),
    ],
)
def test_a_wrong_cut_is_found(planted: Any, epoch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    replica = follower(1, 1, 3, 3)
    monkeypatch.setattr(responses, "_truncation_offset", planted)
    found = list(judge(replica))
    assert found
    assert f"for a leader with epoch {epoch}" in found[0]


def test_a_follower_without_the_epoch_of_its_leader_cuts_at_its_own_end_of_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R55: its own log has no such epoch between others, so one is invented."""

    def planted(replica: Replica, epoch: int, end: int) -> int:
        own_end, own_epoch = replica.log.end_offset_for_epoch(epoch)
        return min(own_end if own_epoch == epoch else replica.log.end_offset, end)

    monkeypatch.setattr(responses, "_truncation_offset", planted)
    found = list(judge(follower(1, 1)))
    assert found
    assert "would cut its log at 3, not at 2" in found[-1]


def test_followers_are_judged_when_they_learn_of_a_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    replica, failures = follower(1, 1, 3, 3), Failures()
    assert isinstance(replica.state, Follower)
    world: Any = SimpleNamespace(now=0, on_trace=[])
    host: Any = SimpleNamespace(name="n2", node=SimpleNamespace(replica=replica))
    monkeypatch.setattr(divergence_rehearsal, "Node", SimpleNamespace)
    monkeypatch.setattr(divergence_rehearsal, "judge", lambda _: ["would cut nothing"])
    DivergenceRehearsal(world, failures)
    for kind in ("append", "hw", "hw", "hw", "hw"):
        world.on_trace[0](
            host,
            TraceEvent(
                node="n2",
                incarnation=1,
                seq=1,
                mono=0,
                wall=0,
                kind=kind,
                state="follower",
                epoch=1,
                leader=1,
                voted=-1,
                leo=4,
                hw=4,
                detail={},
            ),
        )
    assert [failure.type for failure in failures.items] == ["I28"] * divergence_rehearsal.EACH

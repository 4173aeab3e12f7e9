"""D10: an answer is of the leader epoch that its request names."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.protocol.errors import NONE
from kraftwreck.nodes.replication import effects as out
from kraftwreck.nodes.replication.events import ListOffsetsReceived
from kraftwreck.nodes.replication.partition import LATEST
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import record_answers, replica_positions

pytestmark = pytest.mark.interpreted

KEY = (bytes(16), 0)


@pytest.mark.parametrize(("named", "wrong"), [(7, True), (8, False), (9, False), (10, True)])
def test_the_step_that_answers_may_take_newer_metadata_afterwards(
    monkeypatch: pytest.MonkeyPatch, named: int, wrong: bool
) -> None:
    """A step has answered and moved the leader epoch from 8 to 9; the one before, from 7."""
    failures = Failures()
    world: Any = SimpleNamespace(now=0, on_emit=[])
    watch: Any = SimpleNamespace(on_committed=[])
    host: Any = SimpleNamespace(id=4, life=1, name="b1")
    assignment = SimpleNamespace(leader_epoch=7)
    partition: Any = SimpleNamespace(assignment=assignment, hw=0, log=None)
    partition.in_sync = SimpleNamespace(isr=(4,), pending=None)
    traffic = SimpleNamespace(on_request=[], on_answer=[])
    monkeypatch.setattr(record_answers, "record_traffic", lambda world: traffic)
    monkeypatch.setattr(replica_positions, "replicas_on", lambda host: {KEY: partition})
    positions = replica_positions.ReplicaPositions(world)
    answers = record_answers.RecordAnswers(world, failures, watch, positions)
    for epoch in (7, 8, 9):
        assignment.leader_epoch = epoch
        world.on_emit[0](host)
    event = ListOffsetsReceived(1, ((KEY, LATEST, named),))
    effect = out.ReplyListOffsets(1, (out.OffsetPart(KEY, NONE),))
    answers._judge_epochs(host, event, effect, {KEY: partition})
    assert [failure.type for failure in failures.items] == ["D10"] * wrong

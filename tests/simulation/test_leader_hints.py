"""D10: answers name a leader of the metadata (KIP-951)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.replication.events import Assignment
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import leader_hints
from tests.simulation.replicas import BROKERS

pytestmark = pytest.mark.interpreted

TOPIC = bytes(15) + b"t"
KEY = (TOPIC, 0)


def answer(
    patch: pytest.MonkeyPatch,
    part: dict[str, Any],
    *,
    replica: tuple[int, int] | None = (5, 3),
    image: tuple[int, int] | None = (6, 4),
    parts: str = "partitions",
    topic_id: bytes = TOPIC,
) -> list[str]:
    """Answer at broker 4 with ``part``; ``replica`` and ``image`` are (leader, leader epoch)."""
    failures = Failures()
    traffic = SimpleNamespace(on_answer=[])
    patch.setattr(leader_hints, "record_traffic", lambda world: traffic)
    replicas = {}
    if replica is not None:
        assignment = Assignment(BROKERS, BROKERS, replica[0], replica[1], 0)
        replicas[KEY] = SimpleNamespace(assignment=assignment)
    patch.setattr(leader_hints, "replicas_on", lambda host: replicas)
    world: Any = SimpleNamespace(now=0)
    leader_hints.LeaderHints(world, failures)
    given = {}
    if image is not None:
        given[KEY] = SimpleNamespace(leader=image[0], leader_epoch=image[1])
    node = SimpleNamespace(image=SimpleNamespace(stable=SimpleNamespace(partitions=given)))
    body = {"responses": [{"topic_id": topic_id, parts: [part]}]}
    traffic.on_answer[0](SimpleNamespace(name="b4", node=node), None, None, body)
    return [failure.type for failure in failures.items]


def hint(leader: int, epoch: int) -> dict[str, Any]:
    return {"partition_index": 0, "current_leader": {"leader_id": leader, "leader_epoch": epoch}}


@pytest.mark.parametrize(
    ("leader", "epoch", "broken"),
    [
        (5, 3, []),
        (4, 3, ["D10"]),  # The broker itself, which does not lead.
        (6, 4, []),
        (5, 4, ["D10"]),
        (5, 5, ["D10"]),  # Nobody knows this epoch yet.
        (4, 2, []),  # An older epoch, of which nothing is known here.
        (-1, -1, []),
        (-1, 5, []),
        (0, 3, ["D10"]),  # Broker 0 is a broker like any other.
    ],
)
def test_an_answer_names_the_leader_of_the_replica_or_the_metadata(
    leader: int, epoch: int, broken: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert answer(monkeypatch, hint(leader, epoch)) == broken


@pytest.mark.parametrize(
    ("replica", "image", "broken"),
    [((5, 3), None, ["D10"]), (None, (5, 3), ["D10"]), (None, None, [])],
)
def test_a_broker_without_the_partition_is_not_judged(
    replica: tuple[int, int] | None,
    image: tuple[int, int] | None,
    broken: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert answer(monkeypatch, hint(4, 3), replica=replica, image=image) == broken


def test_answers_without_a_leader_or_a_topic_id_are_not_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert answer(monkeypatch, {"partition_index": 0}) == []
    assert answer(monkeypatch, hint(4, 3), topic_id=b"") == []


def test_answers_to_produces_are_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    part = {"index": 0, "current_leader": {"leader_id": 4, "leader_epoch": 3}}
    assert answer(monkeypatch, part, parts="partition_responses") == ["D10"]

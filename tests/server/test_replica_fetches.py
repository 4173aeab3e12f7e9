"""The fetches of a follower, without sockets."""

from __future__ import annotations

from typing import Any

import pytest

from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.replication.effects import FetchFrom
from kraftwreck.nodes.replication.events import FetchAnswered, FetchPart
from kraftwreck.nodes.server.replica_fetches import ReplicaFetches

KEY, OTHER = (b"t" * 16, 0), (b"t" * 16, 1)
LEADER = Endpoint("leader", 9092)


class NoTopics:
    def id_of(self, name: str) -> bytes | None:
        return None

    def name_of(self, topic_id: bytes) -> str | None:
        return None


class Link:
    """Notes the requests."""

    endpoint = LEADER

    def __init__(self) -> None:
        self.asked: list[str] = []

    def call(self, api: str, *_: Any) -> None:
        self.asked.append(api)


@pytest.mark.parametrize(("full", "sent"), [(set(), ["Fetch"]), ({OTHER}, ["Fetch"]), ({KEY}, [])])
def test_a_fetch_after_batches_without_room_is_not_sent(
    full: set[Any], sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    link, events = Link(), list[Any]()
    connect: Any = lambda self, endpoint: link  # noqa: E731
    monkeypatch.setattr(ReplicaFetches, "connect", connect)
    fetches = ReplicaFetches(
        2, LEADER, NoTopics(), 1000, events.append, lambda call, event: call(event), full
    )
    fetches.send(FetchFrom(1, 7, 500, (FetchPart(KEY, 5, 1000),), LEADER))
    assert link.asked == sent
    assert events == ([] if sent else [FetchAnswered(7, None)])


def test_each_leader_has_one_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Endpoint] = []

    def connect(self: ReplicaFetches, endpoint: Endpoint) -> Any:
        made.append(endpoint)
        return Link()

    monkeypatch.setattr(ReplicaFetches, "connect", connect)
    fetches = ReplicaFetches(2, LEADER, NoTopics(), 1000, print, print)
    for correlation in (1, 2):
        fetches.send(FetchFrom(1, correlation, 500, (), LEADER))
    assert made == [LEADER]

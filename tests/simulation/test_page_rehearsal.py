"""F38: pages of DescribeTopicPartitions leave no partition out and repeat none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.broker.topic_view import PartitionsAnswer
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import page_rehearsal
from kraftwreck.systems.kraft.simulated.page_rehearsal import LEAST, PageRehearsal, wrong_pages
from tests.broker.conftest import Rig

pytestmark = pytest.mark.interpreted

Patch = pytest.MonkeyPatch
COUNTS = {"a": 1, "b": 3, "c": 2}


def rig() -> Rig:
    made = Rig()
    made.run()
    for name, count in COUNTS.items():
        made.add_topic(name, *[4] * count)
    return made


def answer() -> PartitionsAnswer:
    return PartitionsAnswer(rig().image.stable, "PLAINTEXT")


def test_a_broker_describes_all_partitions_from_any_place_on() -> None:
    assert list(wrong_pages(answer(), COUNTS)) == []


def test_a_cursor_at_a_topic_that_is_gone_means_the_next_one(monkeypatch: Patch) -> None:
    body = PartitionsAnswer.body

    def planted(self: Any, request: Any) -> Any:
        cursor = request["cursor"]
        if cursor is not None:
            following = [name for name in sorted(COUNTS) if name >= cursor["topic_name"]]
            cursor = cursor | {"topic_name": (following or ["z"])[0]}
        return body(self, request | {"cursor": cursor})

    monkeypatch.setattr(PartitionsAnswer, "body", planted)
    assert "('a.', 1)" in next(wrong_pages(answer(), COUNTS))


def test_a_topic_that_is_gone_and_named_takes_the_index_of_the_cursor(monkeypatch: Patch) -> None:
    listed = PartitionsAnswer._listed

    def planted(self: Any, names: Any, first: int, remaining: int) -> Any:
        there = [name for name in names if name in COUNTS]
        return listed(self, there, first, remaining)

    monkeypatch.setattr(PartitionsAnswer, "_listed", planted)
    assert "('a.', 1)" in next(wrong_pages(answer(), COUNTS))


@pytest.mark.parametrize(
    ("topics", "asked"), [(LEAST - 1, False), (LEAST, True), (12, True), (13, False)]
)
def test_a_broker_with_enough_topics_is_asked_once(
    topics: int, asked: bool, monkeypatch: Patch
) -> None:
    world: Any = SimpleNamespace(now=0, on_emit=[])
    failures, found = Failures(), list[Any]()

    def planted(_: Any, counts: Any) -> list[str]:
        found.append(counts)
        return ["wrong"]

    monkeypatch.setattr(page_rehearsal, "Node", SimpleNamespace)
    monkeypatch.setattr(page_rehearsal, "PartitionsAnswer", lambda image, listener: image)
    monkeypatch.setattr(page_rehearsal, "wrong_pages", planted)
    PageRehearsal(world, failures)
    names = {str(number): SimpleNamespace(partitions=1) for number in range(topics)}
    stable = SimpleNamespace(topics=names)
    node = SimpleNamespace(broker=object(), image=SimpleNamespace(stable=stable))
    for _ in range(2):
        world.on_emit[0](SimpleNamespace(name="b4", node=node))
    assert [each.type for each in failures.items] == ["F38"] * asked
    assert len(found) == asked

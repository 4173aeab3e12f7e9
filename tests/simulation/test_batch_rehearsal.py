"""D16: brokers refuse batches that are not sound, with the errors of Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.log.batch import parse_header
from kraftwreck.nodes.protocol import produced
from kraftwreck.nodes.server.record_requests import ImageTopics, RecordRequests
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import batch_rehearsal
from kraftwreck.systems.kraft.simulated.batch_rehearsal import BatchRehearsal, wrong_errors

pytestmark = pytest.mark.interpreted

Patch = pytest.MonkeyPatch


def requests() -> RecordRequests:
    image: Any = SimpleNamespace(
        topics={"t": SimpleNamespace(topic_id=bytes(16))}, names={bytes(16): "t"}
    )
    files: Any = None
    return RecordRequests(ImageTopics(lambda: image), files)


def is_right(patch: Patch) -> None:
    """Nothing is wrong."""


def allows_a_day(patch: Patch) -> None:
    patch.setattr(produced, "_AFTER_MAX_MS", 24 * 3_600_000)


def allows_no_time(patch: Patch) -> None:
    patch.setattr(produced, "_AFTER_MAX_MS", 3_599_999)


def counts_no_records(patch: Patch) -> None:
    def planted(batch: Any) -> Any:
        header = parse_header(batch)
        header.count = header.last_offset + 1
        return header

    patch.setattr(produced, "parse_header", planted)


@pytest.mark.parametrize(
    ("plant", "broken"),
    [
        (is_right, []),
        (allows_a_day, ["would answer 0 to a batch whose largest time is 1600003600001, not 32"]),
        (allows_no_time, ["would answer 32 to a batch whose largest time is 1600003600000, not 0"]),
        (
            counts_no_records,
            [
                "would answer 0 to a batch whose last offset is 1, not 87",
                "would answer 0 to a batch whose last offset is 3, not 87",
                "would answer 0 to a batch whose count is 0, not 87",
                "would answer 0 to a batch whose count is 2, not 87",
            ],
        ),
    ],
)
def test_a_batch_that_is_not_sound_is_refused(
    plant: Callable[[Patch], None], broken: list[str], monkeypatch: Patch
) -> None:
    plant(monkeypatch)
    assert list(wrong_errors(requests(), "t")) == broken


def test_batches_are_sent_once_to_a_broker_with_topics(monkeypatch: Patch) -> None:
    failures = Failures()
    traffic: Any = SimpleNamespace(on_answer=[])
    monkeypatch.setattr(batch_rehearsal, "record_traffic", lambda _: traffic)
    monkeypatch.setattr(batch_rehearsal, "requests_of", lambda _: requests())
    monkeypatch.setattr(batch_rehearsal, "Node", SimpleNamespace)
    allows_a_day(monkeypatch)
    world: Any = SimpleNamespace(now=0)
    image = SimpleNamespace(stable=SimpleNamespace(topics={}))
    host: Any = SimpleNamespace(name="b4", node=SimpleNamespace(image=image))
    BatchRehearsal(world, failures)
    (look,) = traffic.on_answer
    asked: Any = SimpleNamespace(api="Produce")
    look(host, asked, None, {})
    image.stable.topics["t"] = None
    look(host, SimpleNamespace(api="Fetch"), None, {})
    assert not failures
    look(host, asked, None, {})
    look(host, asked, None, {})
    assert [failure.type for failure in failures.items] == ["D16"]

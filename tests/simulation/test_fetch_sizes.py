"""D16: answers to fetches have at most the bytes that were allowed, or a single batch (KIP-74)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.replication.effects import ReplyFetch
from kraftwreck.nodes.replication.events import FetchPart, FetchReceived
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import fetch_sizes

pytestmark = pytest.mark.interpreted

TOPIC = bytes(15) + b"t"


def batch(size: int, base: int = 0) -> bytes:
    return base.to_bytes(8, "big") + (size - 12).to_bytes(4, "big") + bytes(size - 12)


def answer(
    patch: pytest.MonkeyPatch,
    *records: bytes | None,
    most: int,
    each: int = 1000,
    named: bool = True,
    topic_id: bytes | None = TOPIC,
) -> list[str]:
    """Answer a fetch of a partition for each of ``records``; ``named``: they are in the request."""
    failures = Failures()
    traffic = SimpleNamespace(on_answer=[])
    patch.setattr(fetch_sizes, "record_traffic", lambda world: traffic)
    world: Any = SimpleNamespace(now=0)
    fetch_sizes.FetchSizes(world, failures)
    wanted = tuple(FetchPart((TOPIC, number), 0, each) for number in range(len(records)))
    event = FetchReceived(1, wanted if named else (), max_bytes=most)
    parts = [{"partition_index": place, "records": each} for place, each in enumerate(records)]
    topic = {"partitions": parts} | ({} if topic_id is None else {"topic_id": topic_id})
    message = SimpleNamespace(call=SimpleNamespace(event=event))
    reply = ReplyFetch(1, 0, 0, most, ())
    disk = SimpleNamespace(trouble=object())
    host = SimpleNamespace(name="b4", disk=disk)
    traffic.on_answer[0](host, message, reply, {"responses": [topic]})
    return [failure.type for failure in failures.items]


@pytest.mark.parametrize(
    ("records", "most", "broken"),
    [
        ((batch(20) + batch(30),), 50, []),
        ((batch(20) + batch(30),), 49, ["D16"]),
        ((batch(20), batch(30)), 50, []),
        ((batch(20), batch(30)), 49, ["D16"]),
        ((batch(50),), 49, []),
        ((None, b"", batch(50)), 0, []),
        ((batch(50), batch(20)), 49, ["D16"]),
        ((batch(20) + b"x",), 20, ["D16"]),
        ((batch(50, base=100),), 49, []),
        ((batch(20, base=100) + batch(30, base=101),), 49, ["D16"]),
    ],
)
def test_an_answer_has_at_most_the_bytes_of_its_request_or_one_batch(
    records: tuple[bytes | None, ...],
    most: int,
    broken: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert answer(monkeypatch, *records, most=most) == broken


@pytest.mark.parametrize(
    ("records", "each", "broken"),
    [
        (batch(20) + batch(30), 50, []),
        (batch(20) + batch(30), 49, ["D16"]),
        (batch(50), 49, []),
    ],
)
def test_a_partition_has_at_most_its_own_bytes_or_one_batch(
    records: bytes, each: int, broken: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert answer(monkeypatch, batch(20), records, most=1000, each=each) == broken


@pytest.mark.parametrize(("named", "topic_id"), [(False, TOPIC), (True, None)])
def test_limits_of_partitions_come_from_the_request_that_names_them_by_id(
    named: bool, topic_id: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session has the limits of earlier requests."""
    records = batch(20) + batch(30)
    found = answer(monkeypatch, records, most=1000, each=10, named=named, topic_id=topic_id)
    assert found == []


def test_a_partition_that_is_named_twice_has_the_larger_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failures = Failures()
    traffic = SimpleNamespace(on_answer=[])
    monkeypatch.setattr(fetch_sizes, "record_traffic", lambda world: traffic)
    world: Any = SimpleNamespace(now=0)
    fetch_sizes.FetchSizes(world, failures)
    event = FetchReceived(1, (FetchPart((TOPIC, 0), 0, 50), FetchPart((TOPIC, 0), 0, 10)))
    message = SimpleNamespace(call=SimpleNamespace(event=event))
    part = {"partition_index": 0, "records": batch(20) + batch(30)}
    body = {"responses": [{"topic_id": TOPIC, "partitions": [part]}]}
    host = SimpleNamespace(name="b4", disk=SimpleNamespace(trouble=None))
    traffic.on_answer[0](host, message, ReplyFetch(1, 0, 0, 100, ()), body)
    assert not failures.items


@pytest.mark.parametrize(
    ("records", "again", "most", "broken"),
    [
        ((batch(20), batch(30)), (batch(20), batch(29)), 49, []),
        ((batch(20), batch(30)), (batch(20), batch(30)), 49, ["D16"]),
        ((batch(20), batch(30)), (batch(50),), 49, []),
        ((batch(20) + batch(30),), None, None, []),  # It is not made again.
    ],
)
@pytest.mark.parametrize("trouble", [False, True])
def test_an_answer_of_several_partitions_is_made_again_with_a_byte_less(
    records: tuple[bytes, ...],
    again: tuple[bytes, ...] | None,
    most: int | None,
    broken: list[str],
    trouble: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not while the disk has trouble."""
    failures = Failures()
    traffic = SimpleNamespace(on_answer=[])
    limits: list[int | None] = []

    def body(*records: bytes) -> dict[str, Any]:
        parts = [{"partition_index": place, "records": each} for place, each in enumerate(records)]
        return {"responses": [{"topic_id": TOPIC, "partitions": parts}]}

    def frame(*given: Any) -> list[bytes]:
        limits.append(given[-1].max_bytes)
        return [b""]

    monkeypatch.setattr(fetch_sizes, "record_traffic", lambda world: traffic)
    monkeypatch.setattr(fetch_sizes, "requests_of", lambda host: SimpleNamespace(frame=frame))
    monkeypatch.setattr(fetch_sizes, "decode_response", lambda *given: (0, body(*(again or ()))))
    world: Any = SimpleNamespace(now=0)
    fetch_sizes.FetchSizes(world, failures)
    message = SimpleNamespace(
        api="Fetch", version=13, call=SimpleNamespace(event=FetchReceived(1, ()))
    )
    host = SimpleNamespace(name="b4", disk=SimpleNamespace(trouble=object() if trouble else None))
    traffic.on_answer[0](host, message, ReplyFetch(1, 0, 0, 100, ()), body(*records))
    assert limits == ([most] if most is not None and not trouble else [])
    assert [failure.type for failure in failures.items] == ([] if trouble else broken)

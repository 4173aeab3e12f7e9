"""F30: records and arrays of each size are read as they were written."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.log import batch
from kraftwreck.nodes.protocol.codec import decode
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import size_rehearsal
from kraftwreck.systems.kraft.simulated.size_rehearsal import (
    MOST_BYTES,
    NEAR,
    SizeRehearsal,
    sizes,
    unread,
)

pytestmark = pytest.mark.interpreted


def test_sizes_are_on_both_sides_of_each_power_of_two() -> None:
    found = sizes(MOST_BYTES)
    assert set(range(1, 44)) <= set(found)
    assert {2036, 2048, 2060, MOST_BYTES - NEAR, MOST_BYTES + NEAR} <= set(found)
    assert 1000 not in found


def test_the_nodes_read_each_size() -> None:
    assert list(unread()) == []


def test_a_table_that_is_one_too_short_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "_SHORT", batch._SHORT[:-1])
    assert "a record of 2040 bytes cannot be written and read" in next(unread())


def test_another_value_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def planted(content: bytes) -> Any:
        header, records = batch.decode_batch(content)
        return header, [(at, key, (value or b"")[:100]) for at, key, value in records]

    monkeypatch.setattr(size_rehearsal, "decode_batch", planted)
    assert next(unread()) == "a record of 116 bytes would be read otherwise"


def test_another_default_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def planted(message: str, version: int, content: bytes) -> Any:
        body, end = decode(message, version, content)
        return body | {"ack_when_committed": False}, end

    monkeypatch.setattr(size_rehearsal, "decode", planted)
    wrong = "AddRaftVoterRequest 0 would be read with ack_when_committed=[False], not True"
    assert wrong in list(unread())


def test_a_run_reports_the_first_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    world: Any = SimpleNamespace(now=0, later=[])
    world.afterwards = world.later.append
    failures = Failures()
    monkeypatch.setattr(size_rehearsal, "unread", lambda: iter(["7 bytes", "8 bytes"]))
    SizeRehearsal(world, failures)
    for action in world.later:
        action()
    assert [(each.type, each.explanation) for each in failures.items] == [("F30", "7 bytes")]

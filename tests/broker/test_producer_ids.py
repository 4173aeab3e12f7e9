"""Ids of producers come from blocks of the controller, and no id is given twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraftwreck.nodes.protocol.errors import (
    COORDINATOR_LOAD_IN_PROGRESS,
    NONE,
    NOT_CONTROLLER,
    UNSUPPORTED_VERSION,
)

NEW = {"transactional_id": None, "transaction_timeout_ms": 0}


@pytest.fixture
def running(make_rig: Callable[..., Any]) -> Any:
    """Broker 4 with a data plane that has no partitions."""
    rig = make_rig(data_plane=True)
    rig.add_broker(4)
    rig.register(30)
    rig.publish()
    rig.beat(is_caught_up=True)
    rig.beat(is_caught_up=True)
    rig.beat(is_caught_up=True, is_fenced=False)
    assert rig.broker.state.value == "running"
    return rig


def answers(rig: Any, tokens: list[int]) -> list[tuple[int, int]]:
    found = [rig.replies[token] for token in tokens if token in rig.replies]
    return [(each["error_code"], each["producer_id"]) for each in found]


def block(start: int, size: int = 2) -> dict[str, int]:
    return {"error_code": NONE, "producer_id_start": start, "producer_id_len": size}


def test_ids_are_those_of_blocks_in_order(running: Any) -> None:
    tokens = [running.ask("InitProducerId", 4, NEW) for _ in range(3)]
    running.tick()
    asked = running.last("AllocateProducerIds")
    assert asked.body == {"broker_id": 4, "broker_epoch": 30}
    running.answer(block(1000))
    assert answers(running, tokens) == [(NONE, 1000), (NONE, 1001)]
    running.answer(block(5000))
    assert answers(running, tokens)[2] == (NONE, 5000)
    later = running.ask("InitProducerId", 4, NEW)
    running.tick()
    assert answers(running, [later]) == [(NONE, 5001)]


def test_a_broker_without_records_has_none(make_rig: Callable[..., Any]) -> None:
    """The request, which ApiVersions does not announce, ended such a broker."""
    rig = make_rig(data_plane=False)
    token = rig.ask("InitProducerId", 4, NEW)
    assert answers(rig, [token]) == [(UNSUPPORTED_VERSION, -1)]
    rig.tick()
    assert all(each.api != "AllocateProducerIds" for each in rig.sent)


def test_a_refused_block_is_asked_for_again(running: Any) -> None:
    token = running.ask("InitProducerId", 4, NEW)
    running.tick()
    running.answer({"error_code": NOT_CONTROLLER})
    running.tick(50)
    running.last("AllocateProducerIds")
    running.answer(block(7))
    assert answers(running, [token]) == [(NONE, 7)]


def test_a_request_does_not_wait_for_ever(running: Any) -> None:
    running.quorum.led_by(-1)
    token = running.ask("InitProducerId", 4, NEW)
    running.tick(running.config.request_timeout_ms)
    assert answers(running, [token]) == [(COORDINATOR_LOAD_IN_PROGRESS, -1)]


def test_transactional_producers_are_refused(running: Any) -> None:
    token = running.ask("InitProducerId", 4, NEW | {"transactional_id": "mine"})
    running.tick()
    assert answers(running, [token]) == [(UNSUPPORTED_VERSION, -1)]

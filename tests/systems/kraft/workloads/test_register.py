"""Registers over topic configs: the meaning of each answer, and keys that rotate."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kraftwreck.harness.client import Answer
from kraftwreck.systems.kraft.workloads.register import (
    HASTY_MS,
    KEYS,
    OPS_PER_ROUND,
    WORKLOAD,
    is_loyal,
)

LED_BY_1 = {"controller_id": 1, "topics": []}


def config(value: str | None, code: int = 0, name: str = "retention.ms") -> dict[str, Any]:
    result = {
        "error_code": code,
        "resource_type": 2,
        "resource_name": "register-4",
        "configs": [{"name": name, "value": value}] if code == 0 else [],
    }
    return {"results": [result]}


def altered(code: int) -> dict[str, Any]:
    return {"responses": [{"error_code": code, "resource_type": 2, "resource_name": "register-4"}]}


@pytest.mark.parametrize(
    ("answer", "kind", "value"),
    [
        (config("41"), "ok", 41),
        (config(None, code=3), "ok", None),
        (config(None, code=41), "fail", None),
        (config(None), "fail", None),
        (Answer("lost"), "fail", None),
    ],
)
def test_a_read(drive: Any, script: Any, answer: Any, kind: str, value: Any) -> None:
    calls = script(LED_BY_1, answer)
    done = drive(WORKLOAD, "read", calls, 4)
    assert (done.type, done.value) == (kind, value)
    assert calls.calls[1].body["resources"][0]["resource_name"] == "register-4"


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (altered(0), "ok"),
        (altered(3), "fail"),
        (altered(41), "fail"),
        (altered(7), "info"),
        (Answer("lost"), "info"),
        (Answer("refused"), "fail"),
    ],
)
def test_a_write(drive: Any, script: Any, answer: Any, kind: str) -> None:
    calls = script(LED_BY_1, answer)
    assert drive(WORKLOAD, "write", calls, 4, 17).type == kind
    (change,) = calls.calls[1].body["resources"][0]["configs"]
    assert change == {"name": "retention.ms", "config_operation": 0, "value": "17"}


@pytest.mark.parametrize(("code", "kind"), [(0, "ok"), (36, "fail"), (7, "info")])
def test_a_cas_from_null_creates_the_topic(drive: Any, script: Any, code: int, kind: str) -> None:
    calls = script(LED_BY_1, {"topics": [{"name": "register-4", "error_code": code}]})
    done = drive(WORKLOAD, "cas", calls, 4, [None, 9])
    assert done.type == kind
    assert done.value == ([None, 9] if kind == "ok" else None)
    (topic,) = calls.calls[1].body["topics"]
    assert topic["configs"] == [{"name": "retention.ms", "value": "9"}]


@pytest.mark.parametrize(("code", "kind"), [(0, "ok"), (3, "fail"), (-1, "info")])
def test_a_delete(drive: Any, script: Any, code: int, kind: str) -> None:
    calls = script(LED_BY_1, {"responses": [{"name": "register-4", "error_code": code}]})
    assert drive(WORKLOAD, "delete", calls, 4).type == kind


def test_every_written_value_is_unique_and_every_key_stays_small() -> None:
    planned = [WORKLOAD.plan(3, thread, count) for thread in range(5) for count in range(500)]
    values = [p.value for p in planned if p.f == "write"]
    values += [p.value[1] for p in planned if p.f == "cas"]
    assert len(values) == len(set(values))
    per_key = Counter(p.key for p in planned)
    assert max(per_key.values()) < 140
    assert len(per_key) == KEYS * (500 // OPS_PER_ROUND + 1)


def test_all_threads_meet_on_the_same_keys() -> None:
    first = {WORKLOAD.plan(3, thread, count).key for thread in range(5) for count in range(20)}
    assert first == set(range(KEYS))


def test_old_keys_are_read_again() -> None:
    planned = [WORKLOAD.plan(3, 0, count) for count in range(10 * OPS_PER_ROUND, 1000)]
    assert any(p.f == "read" and p.key < 2 * KEYS for p in planned)
    assert all(p.f == "read" for p in planned if p.key < 5 * KEYS)


def test_two_clients_in_five_only_read() -> None:
    loyal = [thread for thread in range(5) if is_loyal(thread)]
    planned = [WORKLOAD.plan(3, thread, count) for thread in loyal for count in range(200)]
    assert len(loyal) == 2
    assert {p.f for p in planned} == {"read"}


@pytest.mark.parametrize(
    ("answer", "kept"),
    [
        (config("41"), True),
        (Answer("lost"), True),
        (Answer("refused"), False),
        (config(None, code=41), False),
    ],
)
def test_a_loyal_client_stays_with_its_node_until_that_refuses(
    drive: Any, client: Any, script: Any, answer: Any, kept: bool
) -> None:
    client.thread, client.leader = 1, "n2"
    calls = script(answer)
    drive(WORKLOAD, "read", calls, 4)
    assert [call.node for call in calls.calls] == ["n2"]
    assert (client.leader == "n2") is kept


def test_a_loyal_client_without_a_node_asks_any_one_and_stays_where_it_is_served(
    drive: Any, client: Any, script: Any
) -> None:
    client.thread = 1
    calls = script(config("41"))
    drive(WORKLOAD, "read", calls, 4)
    assert client.leader == calls.calls[0].node
    assert calls.calls[0].timeout_ms == HASTY_MS


def test_some_writes_give_up_early(drive: Any, client: Any, script: Any) -> None:
    waits = set()
    for _ in range(20):
        calls = script(altered(0)) if client.leader else script(LED_BY_1, altered(0))
        drive(WORKLOAD, "write", calls, 4, 17)
        waits.add(calls.calls[-1].timeout_ms)
    assert waits == {HASTY_MS, WORKLOAD.timeout_ms}


def test_an_unknown_operation_is_an_error(drive: Any, script: Any) -> None:
    with pytest.raises(ValueError, match="no operation 'append'"):
        drive(WORKLOAD, "append", script(), 1)


def test_final_operations_read_and_write_values_no_plan_holds() -> None:
    final = WORKLOAD.final(("n1", "n2"))
    assert all(p.final and p.node is None for p in final)
    assert {p.f for p in final} == {"read", "cas", "write"}
    written = {v for p in final for v in ([p.value] if p.f == "write" else p.value or ()) if v}
    assert len(written) == 2
    assert min(written) > 10**9 * 1000


def test_after_a_lost_write_a_client_tries_any_node_but_the_silent_one(
    drive: Any, client: Any, script: Any
) -> None:
    client.leader = "n2"
    drive(WORKLOAD, "write", script(Answer("lost")), 4, 17)
    assert client.leader is None
    asked = set()
    for _ in range(6):
        calls = script(altered(41))
        drive(WORKLOAD, "write", calls, 4, 17)
        asked |= {call.node for call in calls.calls}
    assert asked
    assert "n2" not in asked
    calls = script(altered(0))
    drive(WORKLOAD, "write", calls, 4, 17)
    assert client.leader == calls.calls[0].node

"""The meaning of verbs for stores that compare and set values by key."""

from __future__ import annotations

from typing import Any

import pytest

from kraftwreck.harness.client import Completion
from kraftwreck.histories.operation import INVOKE, Op
from kraftwreck.workloads.generic import GENERIC
from kraftwreck.workloads.verbs import VERBS, carry_out, keys_of


def op(f: str, key: Any = None, value: Any = None) -> Op:
    return Op(index=0, process=7, type=INVOKE, f=f, key=key, value=value, time=0)


BALANCES = {"0": 3, "1": 10}


@pytest.mark.parametrize(
    ("operation", "before", "written", "result"),
    [
        (op("read", 3), 5, {}, 5),
        (op("read", 3), None, {}, None),
        (op("read", "set"), None, {}, []),
        (op("read", "counter"), None, {}, 0),
        (op("read", "bank"), None, {}, {str(account): 10 for account in range(5)}),
        (op("write", 3, 6), 5, {3: 6}, 6),
        (op("cas", 3, [5, 6]), 5, {3: 6}, [5, 6]),
        (op("add", "set", 4), None, {"set": [4]}, 4),
        (op("add", "set", 4), [1], {"set": [1, 4]}, 4),
        (op("add", "counter", 4), 5, {"counter": 9}, 4),
        (op("enqueue", "queue", 4), [1], {"queue": [1, 4]}, 4),
        (op("dequeue", "queue"), [1, 4], {"queue": [4]}, 1),
        (op("drain", "queue"), [1, 4], {"queue": []}, [1, 4]),
        (op("acquire", 1), None, {1: 7}, None),
        (op("release", 1), 7, {1: None}, None),
    ],
)
def test_a_verb_gives_values_to_write_and_its_result(
    operation: Op, before: Any, written: dict[Any, Any], result: Any
) -> None:
    assert keys_of(operation) == [operation.key]
    assert carry_out(operation, {operation.key: before}) == (written, Completion("ok", result))


@pytest.mark.parametrize(
    ("operation", "before", "why"),
    [
        (op("cas", 3, [5, 6]), 4, "the value is 4"),
        (op("dequeue", "queue"), None, "the queue is empty"),
        (op("acquire", 1), 9, "the value is 9"),
        (op("release", 1), 9, "the value is 9"),
        (op("release", 1), None, "the value is None"),
        (op("transfer", "bank", {"from": 0, "to": 1, "amount": 4}), BALANCES, "account 0 has only"),
    ],
)
def test_a_refused_verb_writes_nothing(operation: Op, before: Any, why: str) -> None:
    written, completion = carry_out(operation, {operation.key: before})
    assert (written, completion.type) == ({}, "fail")
    assert why in str(completion.error)


def test_a_transfer_moves_money() -> None:
    transfer = op("transfer", "bank", {"from": 0, "to": 1, "amount": 3})
    written, completion = carry_out(transfer, {"bank": BALANCES})
    assert written == {"bank": {"0": 0, "1": 13}}
    assert completion == Completion("ok", transfer.value)


def test_a_transaction_sees_its_own_writes() -> None:
    parts = [["r", 1, None], ["append", 1, 5], ["append", 1, 6], ["r", 1, None], ["r", 2, None]]
    operation = op("txn", None, parts)
    assert keys_of(operation) == [1, 2]
    written, completion = carry_out(operation, {1: [4], 2: None})
    assert written == {1: [4, 5, 6]}
    assert completion.value == [
        ["r", 1, [4]], ["append", 1, 5], ["append", 1, 6], ["r", 1, [4, 5, 6]], ["r", 2, None],
    ]  # fmt: skip


def test_all_verbs_of_the_workloads_have_a_meaning() -> None:
    asked = {verb for workload in GENERIC.values() for verb in workload.verbs}
    assert asked == set(VERBS)

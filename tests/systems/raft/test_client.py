"""The outcome of an operation, by the answers of members."""

from __future__ import annotations

from typing import Any

import pytest

from kraftwreck.harness.client import Answer, Call, Completion
from kraftwreck.harness.workload import ClientSetting
from kraftwreck.histories.operation import INVOKE, Op
from kraftwreck.nodes.store.service import NOT_LEADER, UNKNOWN
from kraftwreck.systems.raft.client import StoreClient, request_of

NOBODY = Answer("ok", {"ok": False, "error": NOT_LEADER, "leader": -1, "host": None})
REFUSED, LOST = Answer("refused", error="refused"), Answer("lost", error="no answer")


def op(f: str, key: Any = 0, value: Any = None) -> Op:
    return Op(index=0, process=0, type=INVOKE, f=f, key=key, value=value, time=0)


def ended(asked: Op, *answers: Answer) -> tuple[list[str], Completion]:
    """Return the nodes that a client asked, and how the operation ended."""
    invocation = StoreClient(ClientSetting(0, 1, ["n1", "n2", "n3"])).invoke(asked)
    call = next(invocation)
    assert isinstance(call, Call)
    nodes = [call.node]
    for answer in answers:
        try:
            call = invocation.send(answer)
            assert isinstance(call, Call)
            nodes.append(call.node)
        except StopIteration as stop:
            completion: Completion = stop.value
            return nodes, completion
    raise AssertionError(f"it still asks {nodes}")


def ok(**fields: Any) -> Answer:
    return Answer("ok", {"ok": True, **fields})


def test_verbs_become_requests() -> None:
    assert request_of(op("cas", 3, [1, 2])) == {"do": "cas", "key": 3, "old": 1, "new": 2}
    assert request_of(op("add", "set", 7)) == {"do": "add", "key": "set", "value": 7}
    with pytest.raises(ValueError, match="the store has no 'drain'"):
        request_of(op("drain"))


def test_a_client_follows_the_word_about_the_leader() -> None:
    elsewhere = Answer("ok", {"ok": False, "error": NOT_LEADER, "leader": 3, "host": "n3"})
    nodes, completion = ended(op("write", 0, 5), elsewhere, ok())
    assert (nodes, completion.type, completion.value) == (["n1", "n3"], "ok", 5)


def test_nobody_took_it() -> None:
    nodes, completion = ended(op("write", 0, 5), NOBODY, REFUSED, NOBODY, NOBODY)
    assert (nodes, completion.type) == (["n1", "n2", "n3", "n1"], "fail")


@pytest.mark.parametrize("answer", [LOST, Answer("ok", {"ok": False, "error": UNKNOWN})])
def test_what_may_have_happened_is_unknown(answer: Answer) -> None:
    assert ended(op("write", 0, 5), answer)[1].type == "info"
    assert ended(op("txn", None, [["append", 0, 1]]), answer)[1].type == "info"
    assert ended(op("read"), answer)[1].type == "fail"


def test_another_value_is_a_failure() -> None:
    answer = Answer("ok", {"ok": False, "error": "another value"})
    assert ended(op("cas", 0, [1, 2]), answer)[1].type == "fail"


def test_values_are_those_of_the_verbs() -> None:
    assert ended(op("read", "set"), ok(value=None))[1].value == []
    assert ended(op("read", 4), ok(value=None))[1].value is None
    parts = [["r", 0, [1]]]
    assert ended(op("txn", None, [["r", 0, None]]), ok(value=parts))[1].value == parts

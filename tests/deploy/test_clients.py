"""A foreign client that misbehaves costs one operation, and the error names its file and line."""

from __future__ import annotations

import importlib
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kraftwreck.harness.client import Answer, Call, Completion
from kraftwreck.harness.deploy.clients import GuardedConnection, NodesInTurn
from kraftwreck.harness.workload import ClientSetting
from kraftwreck.histories.operation import INVOKE, Op
from tests.waiting import wait_until

ADAPTER = """
import socket
import time
from kraftwreck.harness.client import Completion

class Client:
    closed = 0

    def invoke(self, op):
        if op.f == "raise":
            return inner()                      # line 11
        if op.f == "block":
            while True:
                time.sleep(0.01)                # line 14
        if op.f == "exit":
            raise SystemExit(3)                 # line 16
        return RESULTS[op.f]

    def close(self):
        Client.closed += 1

def inner():
    return int("x y")                           # line 23

RESULTS = {
    "good": Completion("ok", 5),
    "nothing": None,
    "odd type": Completion("okay", 5),
    "odd value": Completion("ok", {1j}),
    "odd error": Completion("fail", error=ValueError("x")),
}
"""


@pytest.fixture
def adapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the module of an adapter, imported from a file of its own."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/odd_adapter.py").write_text(ADAPTER)
    monkeypatch.syspath_prepend(str(tmp_path / "mine"))
    monkeypatch.delitem(sys.modules, "odd_adapter", raising=False)
    return importlib.import_module("odd_adapter")


def invoke(connection: GuardedConnection, f: str, timeout_ms: int = 5000) -> Completion:
    op = Op(index=0, process=0, type=INVOKE, f=f, time=0)
    told = connection.send(op, timeout_ms).response
    assert isinstance(told, Completion)
    return told


@pytest.mark.parametrize(
    ("f", "error"),
    [
        ("raise", "mine/odd_adapter.py:23: ValueError: invalid literal for int"),
        ("exit", "mine/odd_adapter.py:16: SystemExit: 3"),
        ("nothing", "mine/odd_adapter.py: invoke('nothing') returned None, which is no Completion"),
        ("odd type", "returned the type 'okay'; it must be ok, fail or info"),
        ("odd value", "returned value={1j}, which JSON cannot hold"),
        ("odd error", "returned error=ValueError('x'), which is no text"),
    ],
)
def test_nonsense_is_an_info_and_the_next_operation_has_a_new_client(
    adapter: ModuleType, f: str, error: str
) -> None:
    connection = GuardedConnection(adapter.Client)
    wrong = invoke(connection, f)
    assert wrong.type == "info"
    assert wrong.error is not None and error in wrong.error
    assert "\n" not in wrong.error
    assert invoke(connection, "good") == Completion("ok", 5)


def test_a_client_that_blocks_is_given_up_in_time(adapter: ModuleType) -> None:
    connection = GuardedConnection(adapter.Client)
    blocked = invoke(connection, "block", timeout_ms=200)
    assert blocked.type == "info"
    assert blocked.error == "mine/odd_adapter.py:14: block did not return in 0.2 s"
    assert invoke(connection, "good").type == "ok"


def test_a_client_that_cannot_be_opened_fails_if_the_node_was_not_reached(
    adapter: ModuleType,
) -> None:
    def refused() -> Any:
        raise ConnectionRefusedError("connection refused")

    def wrong() -> Any:
        return adapter.inner()

    assert invoke(GuardedConnection(refused), "good").type == "fail"
    completion = invoke(GuardedConnection(wrong, [str(adapter.__file__)]), "good")
    assert completion.type == "info"
    assert "mine/odd_adapter.py:23: ValueError" in str(completion.error)


def test_closing_ends_the_client_in_its_own_thread(adapter: ModuleType) -> None:
    connection = GuardedConnection(adapter.Client)
    invoke(connection, "good")
    before = threading.active_count()
    connection.close()
    wait_until(lambda: threading.active_count() < before)
    assert adapter.Client.closed == 1


def test_operations_go_to_the_nodes_in_turn() -> None:
    client = NodesInTurn(ClientSetting(thread=1, seed=0, nodes=("n1", "n2", "n3")))
    asked = []
    for _ in range(3):
        op = Op(index=0, process=1, type=INVOKE, f="read", time=0)
        steps = client.invoke(op)
        call = next(steps)
        assert isinstance(call, Call)
        asked.append(call.node)
        with pytest.raises(StopIteration) as end:
            steps.send(Answer("ok", Completion("ok", 1)))
        assert end.value.value == Completion("ok", 1, node=call.node)
    assert asked == ["n2", "n3", "n1"]

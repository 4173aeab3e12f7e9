"""Drive a workload's coroutine with scripted answers, over the real wire format."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraftwreck.harness.workload import Answer, Call, ClientState, Completion, Workload
from kraftwreck.histories.operation import Op
from kraftwreck.nodes.protocol.apis import decode_response, encode_request, encode_response

NODES = ("n1", "n2", "n3")


class Script:
    """Answers calls in order; ``calls`` are those made. A dict is a response body."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.calls: list[Call] = []

    def answer(self, call: Call) -> Answer:
        encode_request(call.api, call.version, 1, "test", call.body)
        self.calls.append(call)
        given = self.answers.pop(0)
        if isinstance(given, Answer):
            return given
        frame = encode_response(call.api, call.version, 1, given)
        return Answer("ok", decode_response(call.api, call.version, frame)[1])


@pytest.fixture
def client() -> ClientState:
    return ClientState(thread=0, nodes=NODES, ids={1: "n1", 2: "n2", 3: "n3"}, seed=7)


@pytest.fixture
def drive(client: ClientState) -> Callable[..., Completion]:
    """Return ``drive(workload, f, script, key, value, node)``: how the operation ended."""

    def run(
        workload: Workload,
        f: str,
        script: Script,
        key: Any = None,
        value: Any = None,
        node: str | None = None,
    ) -> Completion:
        op = Op(index=0, process=0, type="invoke", f=f, key=key, value=value, time=0, node=node)
        steps = workload.invoke(op, client)
        try:
            call = next(steps)
            while True:
                call = steps.send(script.answer(call))
        except StopIteration as end:
            completion = end.value
        assert isinstance(completion, Completion)
        assert not script.answers, "not every answer was asked for"
        return completion

    return run


@pytest.fixture
def script() -> type[Script]:
    return Script

"""Drive a workload's coroutine with scripted answers, over the real wire format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from kraftwreck.harness.client import Answer, Call, Completion
from kraftwreck.histories.operation import Op
from kraftwreck.nodes.protocol.apis import decode_response, encode_request, encode_response
from kraftwreck.nodes.protocol.request import KafkaRequest
from kraftwreck.systems.kraft.requests import ClientState, KraftWorkload

NODES = ("n1", "n2", "n3")


@dataclass
class Asked:
    """A call, with the parts of its request."""

    node: str
    api: str
    version: int
    body: dict[str, Any]
    timeout_ms: int

    @classmethod
    def of(cls, call: Call) -> Asked:
        asked: KafkaRequest = call.request
        return cls(call.node, asked.api, asked.version, asked.body, call.timeout_ms)


class Script:
    """Answers calls in order; ``calls`` are those made. A dict is a response body."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.calls: list[Asked] = []

    def answer(self, call: Asked) -> Answer:
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
        workload: KraftWorkload,
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
                assert isinstance(call, Call)
                call = steps.send(script.answer(Asked.of(call)))
        except StopIteration as end:
            completion = end.value
        assert isinstance(completion, Completion)
        assert not script.answers, "not every answer was asked for"
        return completion

    return run


@pytest.fixture
def script() -> type[Script]:
    return Script

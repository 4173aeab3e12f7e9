"""Final reads wait for every node to agree with the controller, but not for ever."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kraftwreck.harness.final_reads import LIMIT_S, POLL_S, final_operations
from kraftwreck.harness.interpreter import Client
from kraftwreck.harness.recorder import Recorder
from kraftwreck.harness.workload import Answer, ClientState, Planned
from kraftwreck.histories.operation import Op
from kraftwreck.histories.reading import read_lines
from kraftwreck.histories.store import JsonLines
from kraftwreck.workloads.metadata import WORKLOAD

NODES = ("n1", "n2", "n3")


class Time:
    def __init__(self) -> None:
        self.now_s = 0.0

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def now(self) -> float:
        return self.now_s


@pytest.fixture
def time() -> Time:
    return Time()


def run(folder: Path, fake: Any, time: Time) -> list[Op]:
    lines = JsonLines(folder / "history.jsonl")
    recorder = Recorder(lines, lambda: int(time.now_s * 1e9))
    state = ClientState(thread=0, nodes=NODES, ids={1: "n1", 2: "n2", 3: "n3"}, seed=1)
    client = Client(WORKLOAD, recorder, fake.connect, state, 3)
    final_operations(client, WORKLOAD.final(NODES), sleep=time.sleep, now=time.now)
    return read_lines(lines.path, Op)


def test_the_controller_is_read_first_then_every_node(
    tmp_path: Path, fake: Any, time: Time
) -> None:
    fake.topics = {"b", "a"}
    ops = run(tmp_path, fake, time)
    done = [op for op in ops if op.type == "ok"]
    assert [(op.node, op.value, op.final) for op in done] == [
        ("n1", ["a", "b"], True),
        ("n1", ["a", "b"], True),
        ("n2", ["a", "b"], True),
        ("n3", ["a", "b"], True),
    ]
    assert [op.node for op in ops if op.type == "invoke"] == [None, "n1", "n2", "n3"]


def test_a_node_that_lags_is_polled_and_recorded_once(
    tmp_path: Path, fake: Any, time: Time
) -> None:
    fake.topics, fake.lost_on = {"a"}, {"n2": 4}
    ops = run(tmp_path, fake, time)
    assert [(op.node, op.value) for op in ops if op.type == "ok"] == [
        ("n1", ["a"]),
        ("n1", ["a"]),
        ("n2", ["a"]),
        ("n3", ["a"]),
    ]
    assert time.now_s == pytest.approx(4 * POLL_S)


def test_a_node_that_never_agrees_is_recorded_as_it_is(
    tmp_path: Path, fake: Any, time: Time
) -> None:
    fake.topics, fake.lost_on = {"a"}, {"n2": 10**9}
    ops = run(tmp_path, fake, time)
    assert [(op.node, op.value) for op in ops if op.type == "ok"][2] == ("n2", [])
    assert time.now_s == pytest.approx(LIMIT_S, abs=2 * POLL_S)
    assert len(ops) == 8


def test_without_a_controller_nodes_are_still_asked(tmp_path: Path, fake: Any, time: Time) -> None:
    fake.topics = {"a"}
    topic = {"name": "a", "error_code": 0, "partitions": []}
    unled = Answer("ok", {"controller_id": -1, "brokers": [], "topics": [topic]})
    fake.answers = lambda node, api: unled
    ops = run(tmp_path, fake, time)
    ends = [(op.type, op.node) for op in ops if op.type != "invoke"]
    assert ends == [("fail", None), ("ok", "n1"), ("ok", "n2"), ("ok", "n3")]


def test_operations_that_are_not_reads_run_once(tmp_path: Path, fake: Any, time: Time) -> None:
    lines = JsonLines(tmp_path / "history.jsonl")
    recorder = Recorder(lines, lambda: 0)
    state = ClientState(thread=0, nodes=NODES, ids={1: "n1"}, seed=1)
    client = Client(WORKLOAD, recorder, fake.connect, state, 3)
    final_operations(
        client, [Planned("create", "x", "x", final=True)], sleep=time.sleep, now=time.now
    )
    assert [op.type for op in read_lines(lines.path, Op)] == ["invoke", "ok"]

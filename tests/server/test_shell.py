"""The order of things: persist before you speak, stop when you cannot."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from nodes.consensus.effects import (
    ApiReply,
    AppendLog,
    Effect,
    Event,
    FatalError,
    FlushLog,
    Shutdown,
    Stopped,
    Tick,
    Trace,
    WriteQuorumState,
)
from nodes.node import Node
from nodes.server import shell as shell_module
from nodes.server.input_log import InputLog
from nodes.server.shell import DISK_FAILED, FATAL, STOPPED, Shell, monotonic_us
from nodes.server.storage import Storage, next_incarnation
from nodes.server.trace_file import TraceFile

VOTE = WriteQuorumState(1, -1, 1, bytes(16), (1,))
SPEECH: list[Effect] = [ApiReply(1, {}), AppendLog(b"b"), VOTE, FlushLog()]


class FakeNode:
    """Answers every event with the same effects, or raises."""

    def __init__(self, effects: Sequence[Effect] | Exception = ()) -> None:
        self.effects = effects
        self.deadline = monotonic_us() + 10**9
        self.events: list[Event] = []

    def step(self, event: Event, now: int, wall_ms: int) -> list[Effect]:
        self.events.append(event)
        if isinstance(self.effects, Exception):
            raise self.effects
        return list(self.effects)


class FakeStorage:
    def __init__(self, diary: list[str], error: Exception | None = None) -> None:
        self.diary = diary
        self.error = error

    def carry_out(self, effects: Sequence[Effect]) -> None:
        if self.error:
            raise self.error
        self.diary.append("durable")


class Bench:
    def __init__(self, directory: Path, node: FakeNode, error: Exception | None = None) -> None:
        self.diary: list[str] = []
        self.trace = directory / "trace.jsonl"
        traces = TraceFile(self.trace, "n1", 4)
        storage = cast(Storage, FakeStorage(self.diary, error))
        self.shell = Shell(cast(Node, node), storage, traces, InputLog(None))
        self.shell.reply = lambda effect: self.diary.append("reply")
        self.shell.send = lambda effect: self.diary.append("send")

    @property
    def status(self) -> int | None:
        return self.shell.exit_status.result() if self.shell.exit_status.done() else None


def run(scenario: Callable[[], Any]) -> None:
    async def inside() -> None:
        result = scenario()
        if result is not None:
            await result

    asyncio.run(inside())


def test_everything_is_durable_before_a_word_is_said(tmp_path: Path) -> None:
    def scenario() -> None:
        bench = Bench(tmp_path, FakeNode(SPEECH))
        bench.shell.submit(Tick())
        assert bench.diary == ["durable", "reply"]
        assert bench.status is None

    run(scenario)


def test_a_node_that_cannot_persist_says_nothing_and_dies(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def scenario() -> None:
        node = FakeNode(SPEECH)
        bench = Bench(tmp_path, node, OSError(28, "No space left on device"))
        bench.shell.submit(Tick())
        assert bench.diary == []
        assert bench.status == DISK_FAILED
        bench.shell.submit(Tick())
        assert len(node.events) == 1, "a dead node handles nothing"

    run(scenario)
    assert capfd.readouterr().err == "the disk failed: [Errno 28] No space left on device\n"


@pytest.mark.parametrize("error", [FatalError("two leaders"), KeyError("two leaders")])
def test_an_illegal_state_stops_the_node_and_is_traced(tmp_path: Path, error: Exception) -> None:
    def scenario() -> None:
        node = FakeNode([Trace("state", "follower", 3, 2, -1, 9, 8)])
        bench = Bench(tmp_path, node)
        bench.shell.submit(Tick())
        node.effects = error
        bench.shell.submit(Tick())
        assert bench.status == FATAL
        lines = [json.loads(line) for line in bench.trace.read_text().splitlines()]
        assert [line["kind"] for line in lines] == ["state", "fatal"]
        assert "two leaders" in lines[1]["detail"]["reason"]
        assert (lines[1]["state"], lines[1]["epoch"], lines[1]["hw"]) == ("follower", 3, 8)

    run(scenario)


def test_stopped_is_the_good_end(tmp_path: Path) -> None:
    def scenario() -> None:
        node = FakeNode([Stopped()])
        bench = Bench(tmp_path, node)
        bench.shell.shut_down()
        assert node.events == [Shutdown()]
        assert bench.status == STOPPED

    run(scenario)


def test_a_shutdown_nobody_answers_ends_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell_module, "SHUTDOWN_LIMIT_S", 0.05)

    async def scenario() -> None:
        bench = Bench(tmp_path, FakeNode())
        bench.shell.shut_down()
        assert await asyncio.wait_for(bench.shell.exit_status, 2) == STOPPED

    run(scenario)


def test_the_node_is_woken_at_its_deadline_and_never_spun(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = FakeNode()
        node.deadline = monotonic_us() + 50_000
        bench = Bench(tmp_path, node)
        bench.shell.begin([], 0, 0)
        await asyncio.sleep(0.02)
        assert node.events == []
        await asyncio.sleep(0.2)  # the deadline passes and the node does not move it
        assert 1 <= len(node.events) < 250

    run(scenario)


def test_trace_lines_have_the_fields_of_every_trace(tmp_path: Path) -> None:
    traces = TraceFile(tmp_path / "t", "n1", 4)
    effects: list[Effect] = [Trace("append", "leader", 3, 1, -1, 9, 8, {"count": 2}), FlushLog()]
    traces.write(effects, 17, 18)
    traces.write(effects, 19, 20)
    lines = [json.loads(line) for line in (tmp_path / "t").read_text().splitlines()]
    assert lines[0] == {
        "node": "n1",
        "incarnation": 4,
        "seq": 0,
        "mono": 17,
        "wall": 18,
        "kind": "append",
        "state": "leader",
        "epoch": 3,
        "leader": 1,
        "voted": -1,
        "leo": 9,
        "hw": 8,
        "detail": {"count": 2},
    }
    assert [line["seq"] for line in lines] == [0, 1]


def test_process_starts_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "incarnation"
    assert [next_incarnation(path) for _ in range(3)] == [1, 2, 3]
    path.write_text("many")
    with pytest.raises(ValueError, match="not a count"):
        next_incarnation(path)

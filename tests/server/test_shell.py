"""The order of things: persist before you speak, stop when you cannot."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast, get_args

import pytest

from kraftwreck.nodes.consensus.effects import (
    DURABLE,
    ApiReply,
    AppendLog,
    Effect,
    Event,
    FatalError,
    FlushLog,
    Reply,
    SendApi,
    Shutdown,
    SnapshotReply,
    Stopped,
    Tick,
    Trace,
    WriteQuorumState,
)
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.kraft.messages import FetchSnapshotResponse
from kraftwreck.nodes.metadata.image import MetadataImage
from kraftwreck.nodes.metadata.loader import Loader
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.replication import effects as data
from kraftwreck.nodes.replication import events as come
from kraftwreck.nodes.replication.events import is_from_shell
from kraftwreck.nodes.server.disk_worker import Elsewhere
from kraftwreck.nodes.server.exit_status import DISK_FAILED, FATAL, STOPPED
from kraftwreck.nodes.server.input_log import InputLog
from kraftwreck.nodes.server.partition_files import DiskEffect
from kraftwreck.nodes.server.shell import _SAYINGS, _SAYINGS_OF_RECORDS, Shell, monotonic_us
from kraftwreck.nodes.server.storage import Storage, next_incarnation
from kraftwreck.nodes.server.trace_file import TraceFile

VOTE = WriteQuorumState(1, -1, 1, bytes(16), (1,))
KEY = (b"t" * 16, 0)
SPEECH: list[Effect] = [ApiReply(1, {}), AppendLog(b"b"), VOTE, FlushLog()]


class FakeNode:
    """Answers every event with the same effects, or raises."""

    def __init__(self, effects: Sequence[Effect] | Exception = ()) -> None:
        self.effects = effects
        self.deadline = monotonic_us() + 10**9
        self.events: list[Event] = []
        self.loader = Loader(MetadataImage())

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

    def read_snapshot(self, end: int, epoch: int, position: int, max_bytes: int) -> bytes:
        if (end, epoch) != (40, 6):
            raise FileNotFoundError(2, "No such file or directory")
        return b"the whole snapshot"[position : position + max_bytes]


class Bench:
    def __init__(
        self,
        directory: Path,
        node: FakeNode,
        error: Exception | None = None,
        shutdown_limit_s: float = 5.0,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        self.diary: list[str] = []
        self.trace = directory / "trace.jsonl"
        traces = TraceFile(self.trace, "n1", 4)
        self.storage = FakeStorage(self.diary, error)
        storage = cast(Storage, self.storage)
        self.replies: list[Reply | ApiReply] = []
        self.shell = Shell(
            cast(Node, node), storage, traces, InputLog(None), shutdown_limit_s,
            elsewhere=elsewhere,
        )  # fmt: skip
        self.shell.reply = self._reply
        self.shell.send = lambda effect: self.diary.append("send")
        self.shell.send_api = lambda effect: self.diary.append(f"send {effect.api}")

    def _reply(self, effect: Reply | ApiReply) -> None:
        self.diary.append("reply")
        self.replies.append(effect)

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


def test_every_effect_is_carried_out_by_the_disk_or_leaves_the_node() -> None:
    left = {*_SAYINGS, *DURABLE}
    assert left == set(get_args(Effect)) and not set(_SAYINGS) & set(DURABLE)
    inside = {data.Note, data.AlterPartition}  # The broker makes traces and requests of these.
    of_records = {*_SAYINGS_OF_RECORDS, *get_args(DiskEffect), *inside}
    assert of_records == set(get_args(data.Effect))


def test_events_of_the_data_plane_are_known_by_their_type() -> None:
    assert all(is_from_shell(kind.__new__(kind)) for kind in get_args(come.FromShell))
    assert not any(is_from_shell(kind.__new__(kind)) for kind in get_args(Event))


def test_events_that_come_together_are_handled_before_what_the_first_one_causes(
    tmp_path: Path,
) -> None:
    # A segment that is closed as its log opens is younger than those that were there.
    older, younger = (come.SegmentClosed(KEY, base, base + 5, 70, 0) for base in (0, 5))
    opened = come.LogOpened(KEY, 0, 5, (), (), 0)
    answers = [[younger], [], []]

    def scenario() -> None:
        node = FakeNode()
        bench = Bench(tmp_path, node)
        files: Any = SimpleNamespace(carry_out_all=lambda effects: answers.pop(0))
        bench.shell._files, bench.shell._has_tidied = files, True
        bench.shell.submit(opened, older)
        assert node.events == [opened, older, younger]

    run(scenario)


def test_loaded_objects_are_frozen_for_the_garbage_collector(tmp_path: Path) -> None:
    def scenario() -> None:
        node = FakeNode(SPEECH)
        bench = Bench(tmp_path, node)
        gc.unfreeze()
        bench.shell.submit(Tick())
        assert gc.get_freeze_count() == 0
        node.loader.load(b"", 1, 1)
        bench.shell.submit(Tick())
        assert gc.get_freeze_count() > 0

    try:
        run(scenario)
    finally:
        gc.unfreeze()


def test_requests_to_controllers_go_out_after_the_disk(tmp_path: Path) -> None:
    def scenario() -> None:
        request = SendApi(2, 1, Endpoint("h", 1), "BrokerHeartbeat", {})
        bench = Bench(tmp_path, FakeNode([request, *SPEECH]))
        bench.shell.submit(Tick())
        assert bench.diary == ["durable", "send BrokerHeartbeat", "reply"]

    run(scenario)


def test_a_piece_of_a_snapshot_is_read_from_the_disk(tmp_path: Path) -> None:
    def scenario() -> None:
        message = FetchSnapshotResponse(0, 0, 1, 7, 40, 6, 18, 4)
        bench = Bench(tmp_path, FakeNode([SnapshotReply(9, message, 5)]))
        bench.shell.submit(Tick())
        [reply] = bench.replies
        assert reply == Reply(9, FetchSnapshotResponse(0, 0, 1, 7, 40, 6, 18, 4, b"whole"))

    run(scenario)


def test_a_snapshot_that_has_gone_is_not_found(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def scenario() -> None:
        message = FetchSnapshotResponse(0, 0, 1, 7, 41, 6, 18, 4)
        bench = Bench(tmp_path, FakeNode([SnapshotReply(9, message, 5)]))
        bench.shell.submit(Tick())
        [reply] = bench.replies
        assert reply == Reply(9, FetchSnapshotResponse(0, 98, 1, 7, 41, 6, 18, 4))
        assert bench.status is None

    run(scenario)
    assert "cannot read snapshot 41-6" in capfd.readouterr().err


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


def test_a_node_that_cannot_persist_reports_the_reason_at_its_position(tmp_path: Path) -> None:
    def scenario() -> None:
        told = Trace("state", "follower", 3, 2, -1, 9, 8)
        bench = Bench(tmp_path, FakeNode([told]))
        bench.shell.submit(Tick())
        bench.storage.error = OSError(28, "No space left on device")
        bench.shell.submit(Tick())
        lines = [json.loads(line) for line in bench.trace.read_text().splitlines()]
        assert [line["kind"] for line in lines] == ["state", "stop"]
        assert lines[1]["detail"] == {
            "reason": "the disk failed: [Errno 28] No space left on device"
        }
        assert (lines[1]["state"], lines[1]["epoch"], lines[1]["leo"]) == ("follower", 3, 9)

    run(scenario)


def test_a_disk_that_fails_twice_stops_the_node_once(tmp_path: Path) -> None:
    """The metadata log fails in a step, the logs of partitions in a thread, at the same time."""

    def scenario() -> None:
        bench = Bench(tmp_path, FakeNode([Trace("state", "follower", 3, 2, -1, 9, 8)]))
        bench.shell.submit(Tick())
        for error in (OSError(5, "Input/output error"), OSError(5, "again"), ValueError("a gap")):
            bench.shell.work_failed(error)
        lines = [json.loads(line) for line in bench.trace.read_text().splitlines()]
        assert [line["kind"] for line in lines] == ["state", "stop"]
        assert lines[1]["detail"]["reason"] == "the disk failed: [Errno 5] Input/output error"
        assert bench.status == DISK_FAILED

    run(scenario)


def test_a_step_that_is_durable_after_the_node_has_stopped_is_not_traced(tmp_path: Path) -> None:
    def scenario() -> None:
        flushed: list[Callable[[None], None]] = []
        node = FakeNode([Trace("append", "leader", 3, 1, -1, 9, 8), *SPEECH])
        bench = Bench(tmp_path, node, elsewhere=lambda work, done: flushed.append(done))
        bench.shell.submit(Tick())
        bench.shell.work_failed(OSError(5, "Input/output error"))
        before = bench.trace.read_bytes()
        flushed[0](None)
        assert bench.trace.read_bytes() == before
        assert bench.diary == []

    run(scenario)


def test_the_steps_of_a_flush_leave_in_order_before_the_events_that_waited(tmp_path: Path) -> None:
    def request(api: str) -> SendApi:
        return SendApi(2, 1, Endpoint("h", 1), api, {})

    def trace(end: int) -> Trace:
        return Trace("append", "leader", 3, 1, -1, end, 8)

    def scenario() -> None:
        flushed: list[Callable[[None], None]] = []
        node = FakeNode([trace(1), request("BrokerHeartbeat"), *SPEECH[1:]])
        bench = Bench(tmp_path, node, elsewhere=lambda work, done: flushed.append(done))
        bench.shell.submit(Tick())
        for end, api in enumerate(("AlterPartition", "AllocateProducerIds"), 2):
            node.effects = [trace(end), request(api)]
            bench.shell.submit(come.LogFlushed(KEY, 1, 0, 7))
        bench.shell.submit(Tick())
        assert [type(event) for event in node.events] == [Tick, come.LogFlushed, come.LogFlushed]
        assert bench.diary == []
        node.effects = [trace(4), request("BrokerRegistration")]
        flushed[0](None)
        apis = ("BrokerHeartbeat", "AlterPartition", "AllocateProducerIds", "BrokerRegistration")
        sent = [each for each in bench.diary if each != "durable"]
        assert sent == [f"send {api}" for api in apis]
        lines = [json.loads(line) for line in bench.trace.read_text().splitlines()]
        assert [line["leo"] for line in lines] == [1, 2, 3, 4]

    run(scenario)


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
        node = FakeNode([Stopped(17)])
        bench = Bench(tmp_path, node)
        bench.shell.shut_down()
        assert node.events == [Shutdown()]
        assert bench.status == STOPPED
        assert bench.shell.broker_epoch == 17

    run(scenario)


def test_an_unanswered_shutdown_ends_anyway(tmp_path: Path) -> None:
    async def scenario() -> None:
        bench = Bench(tmp_path, FakeNode(), shutdown_limit_s=0.05)
        bench.shell.shut_down()
        assert bench.shell.broker_epoch == -1
        assert await asyncio.wait_for(bench.shell.exit_status, 2) == STOPPED

    run(scenario)


@pytest.mark.wall_clock("counts how often a node is woken in 0.2 s")
def test_the_node_is_woken_at_its_deadline_and_never_spun(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = FakeNode()
        node.deadline = monotonic_us() + 50_000
        bench = Bench(tmp_path, node)
        bench.shell.begin([], 0, 0)
        await asyncio.sleep(0.02)
        # A busy machine may let the deadline pass here.
        early = [event for event in node.events if monotonic_us() < node.deadline]
        assert early == []
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


def test_a_broker_that_is_refused_says_so_in_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def trace(**detail: Any) -> Trace:
        return Trace("broker", "follower", 1, 1, -1, 0, 0, {"state": "starting", **detail})

    def scenario() -> None:
        Bench(tmp_path, FakeNode([trace()])).shell.submit(Tick())
        assert capfd.readouterr().err == ""
        Bench(tmp_path, FakeNode([trace(error="UNSUPPORTED_VERSION")])).shell.submit(Tick())
        said = "the controller refuses this broker (starting): UNSUPPORTED_VERSION\n"
        assert capfd.readouterr().err == said

    run(scenario)

"""Trouble with the disk of records: a full disk, slow work, and logs that are not needed."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftwreck.nodes.consensus.effects import ApiReply, FatalError, FlushLog, SendApi, Tick, Trace
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.log.batch import encode_batch, parse_header
from kraftwreck.nodes.log.media import PLAIN, Media
from kraftwreck.nodes.log.partition.settings import LogSettings
from kraftwreck.nodes.protocol.apis import decode_response
from kraftwreck.nodes.protocol.codec import encode
from kraftwreck.nodes.protocol.errors import KAFKA_STORAGE_ERROR, NONE
from kraftwreck.nodes.replication import effects as out
from kraftwreck.nodes.replication import events as come
from kraftwreck.nodes.replication.headers import Batch, batch_of
from kraftwreck.nodes.replication.replicas import Replicas
from kraftwreck.nodes.server.data_calls import ProduceCall
from kraftwreck.nodes.server.disk_worker import DiskWorker
from kraftwreck.nodes.server.exit_status import DISK_FAILED, FATAL
from kraftwreck.nodes.server.outgoing import FilePart
from kraftwreck.nodes.server.partition_files import PartitionFiles
from kraftwreck.nodes.server.record_requests import ImageTopics, RecordRequests, event_of
from kraftwreck.simulation.disk_trouble import DiskTrouble
from kraftwreck.simulation.filesystem import Filesystem
from tests.server.test_shell import Bench, FakeNode, run

TOPIC = b"t" * 16
KEY = (TOPIC, 0)
NOW_MS = 1_700_000_000_000
ROOT = Path("/data")


def thread() -> Executor:
    """The thread of a disk worker."""
    return ThreadPoolExecutor(1)


class Topics:
    """One topic, ``t``."""

    def id_of(self, name: str) -> bytes | None:
        return TOPIC if name == "t" else None

    def name_of(self, topic_id: bytes) -> str | None:
        return "t" if topic_id == TOPIC else None


class Leader:
    """The only replica of a partition: core, files and answers without a network."""

    def __init__(self, media: Media) -> None:
        self.files = PartitionFiles(ROOT, lambda _: "t", LogSettings(segment_bytes=2000), media)
        self.core = Replicas(1, 7, 0)
        topics = cast(ImageTopics, Topics())
        self.requests = RecordRequests(topics, self.files)
        self.answers: list[Any] = []
        lead = come.Assignment((1,), (1,), 1, 0, 0)
        self.step(come.Published((), {KEY: lead}, {KEY: come.Settings()}, {1: come.Peer(1, True)}))

    def step(self, event: come.Event) -> list[out.Effect]:
        """Let the core and the files handle an event; the answers see the files as they are."""
        effects = self.core.step(event, 0, NOW_MS)
        caused = self.files.carry_out_all(effects)
        replies = [each for each in effects if isinstance(each, out.ReplyProduce)]
        answers = [self._answer(each) for each in replies]
        for each in caused:
            self.step(each)
            answers += self.answers
        self.answers = answers
        return effects

    def _answer(self, effect: out.ReplyProduce) -> Any:
        (frame,) = self.requests.frame("Produce", 9, 5, self.call, effect)
        assert not isinstance(frame, FilePart)
        body = decode_response("Produce", 9, bytes(frame))[1]
        return body["responses"][0]["partition_responses"][0]

    def produce(self, acks: int) -> tuple[int, int]:
        """Produce one record; return error and offset."""
        self.step(self.request(acks))
        (answer,) = self.answers
        return answer["error_code"], answer["base_offset"]

    def request(self, acks: int) -> come.Request:
        """Return a Produce of one record."""
        records = encode_batch(0, 0, NOW_MS, [(None, b"v" * 100)], False)
        part = {"name": "t", "partition_data": [{"index": 0, "records": records}]}
        body = {"acks": acks, "timeout_ms": 1000, "topic_data": [part]}
        frame = bytearray(encode("ProduceRequest", 9, body))
        view = memoryview(frame)
        call = self.requests.read("Produce", 9, view, 0, token=3, wall_ms=NOW_MS)
        assert isinstance(call, ProduceCall)
        self.call = call
        return event_of(call)


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("seed", range(8))
def test_a_full_disk_refuses_records_until_there_is_room(acks: int, seed: int) -> None:
    disk = Filesystem()
    disk.make_directory(ROOT)
    leader = Leader(disk)
    end = 0
    for _ in range(3):
        assert leader.produce(acks) == (NONE, end)
        end += 1
    disk.trouble = DiskTrouble("full", seed)
    refused = 0
    for _ in range(60):
        error, offset = leader.produce(acks)
        if error == NONE:
            assert offset == end
            end += 1
        else:
            assert (error, offset) == (KAFKA_STORAGE_ERROR, -1)
            refused += 1
        partition = leader.core.partitions[KEY]
        assert partition.log is not None
        assert partition.log.end == partition.hw == leader.files.end_of(KEY) == end
    assert refused, "the disk is full at some time"
    leader.files.carry_out(leader.core.watermarks())
    disk.trouble = None
    for _ in range(20):
        assert leader.produce(acks) == (NONE, end)
        end += 1
    again = PartitionFiles(ROOT, lambda _: "t", LogSettings(), disk)
    again.carry_out(out.OpenLog(KEY))
    assert again.end_of(KEY) == end


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("seed", [0, 1, 3, 4])
def test_of_records_that_arrive_together_a_full_disk_takes_as_many_as_it_can(
    acks: int, seed: int
) -> None:
    disk = Filesystem()
    disk.make_directory(ROOT)
    leader = Leader(disk)
    disk.trouble = DiskTrouble("full", seed)
    end = split = 0
    for _ in range(60):
        leader.step(come.Together((leader.request(acks), leader.request(acks))))
        answers = [(each["error_code"], each["base_offset"]) for each in leader.answers]
        stored = [offset for error, offset in answers if error == NONE]
        assert len(answers) == 2
        assert stored == list(range(end, leader.files.end_of(KEY)))
        end += len(stored)
        split += len(stored) == 1
        partition = leader.core.partitions[KEY]
        assert partition.log is not None
        assert partition.log.end == partition.hw == end
    assert split, "the first of two records fits at some time"


@pytest.mark.parametrize("epochs", [(5, 6), (6,)], ids=["two epochs", "one epoch"])
def test_epochs_of_batches_without_room_are_not_stored(epochs: tuple[int, ...]) -> None:
    """The next leader may have an older epoch at their offset."""
    disk = Filesystem()
    disk.make_directory(ROOT)
    files = PartitionFiles(ROOT, lambda _: "t", LogSettings(), disk)
    files.carry_out_all([out.OpenLog(KEY)])
    refused = [_placed(offset, epoch) for offset, epoch in enumerate(epochs)]
    disk.trouble = DiskTrouble.full(120)
    entries = tuple((batch.leader_epoch, batch.base_offset) for batch in refused)
    caused = files.carry_out_all(
        [*(out.Append(KEY, batch) for batch in refused), out.WriteEpochs(KEY, entries)]
    )
    assert [type(event) for event in caused] == [come.AppendFailed]
    disk.trouble = None
    assert files.carry_out_all([out.Append(KEY, _placed(0, 5))]) == []
    assert files.end_of(KEY) == 1


def _placed(offset: int, epoch: int) -> Batch:
    """Return a batch of one record as a leader has sent it."""
    data = encode_batch(offset, epoch, NOW_MS, [(None, b"v" * 100)], False)
    return batch_of(parse_header(data), memoryview(data))


def test_logs_of_other_brokers_are_removed(tmp_path: Path) -> None:
    def files() -> PartitionFiles:
        return PartitionFiles(tmp_path, lambda topic: topic.decode()[:1], LogSettings(), PLAIN)

    first = files()
    for key in (KEY, (TOPIC, 1), (b"u" * 16, 0)):
        first.carry_out(out.OpenLog(key))
    first.close()
    (tmp_path / "not-7").mkdir()
    second = files()
    second.keep({(TOPIC, 1)})
    left = {path.parent.name for path in tmp_path.glob("*/*.log")}
    assert left == {"t-1"}
    assert (tmp_path / "not-7").is_dir(), "it has no topic id, so it is not ours"


def test_slow_metadata_does_not_delay_records(tmp_path: Path) -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        node = FakeNode([ApiReply(1, {}), FlushLog()])
        bench = Bench(tmp_path, node)
        synced = threading.Event()
        carried_out = bench.storage.carry_out

        def slowly(effects: Any) -> None:
            assert synced.wait(60)
            carried_out(effects)

        cast(Any, bench.storage).carry_out = slowly
        worker = DiskWorker(loop, bench.shell.work_failed, thread())
        cast(Any, bench.shell)._elsewhere = worker.run
        replied = asyncio.Event()

        def reply(effect: Any) -> None:
            bench.diary.append("reply")
            replied.set()

        bench.shell.reply = reply
        answered: list[Any] = []
        bench.shell.reply_records = answered.append
        bench.shell.submit(Tick())
        bench.shell.submit(Tick())
        assert len(node.events) == 1, "the quorum waits for its disk"
        node.effects = cast(Any, [out.ReplyProduce(2, ())])
        bench.shell.submit(cast(Any, come.ProduceReceived(2, 1, 0, ())))
        assert answered, "records do not"
        assert bench.diary == []
        synced.set()
        await replied.wait()
        assert len(node.events) == 3, "now the quorum has its second event"
        assert bench.diary[:2] == ["durable", "reply"]
        worker.close()

    run(scenario)


def test_failed_work_ends_the_process(tmp_path: Path) -> None:
    async def scenario() -> None:
        bench = Bench(tmp_path, FakeNode())
        worker = DiskWorker(asyncio.get_running_loop(), bench.shell.work_failed, thread())

        def fails() -> None:
            raise OSError(5, "fsync failed")

        worker.run(fails, lambda _: pytest.fail("it is not done"))
        assert await bench.shell.exit_status == DISK_FAILED
        worker.close()

    run(scenario)


def test_work_that_fails_while_the_process_stops_is_not_forgotten(tmp_path: Path) -> None:
    async def scenario() -> None:
        bench = Bench(tmp_path, FakeNode())
        begun, stops = threading.Event(), threading.Event()

        def fails() -> None:
            begun.set()
            stops.wait(10)
            raise OSError(5, "fsync failed")

        worker = DiskWorker(asyncio.get_running_loop(), bench.shell.work_failed, thread())
        worker.run(fails, lambda _: pytest.fail("it is not done"))
        worker.run(lambda: None, lambda _: pytest.fail("nobody hears of it"))
        assert begun.wait(10)
        stops.set()
        assert not worker.close()
        assert DiskWorker(asyncio.get_running_loop(), bench.shell.work_failed, thread()).close()

    run(scenario)


class Diary:
    """A shell with a slow disk; what it did, by the number of the step."""

    def __init__(self, directory: Path, steps: list[tuple[bool, bool]]) -> None:
        self.node = FakeNode()
        self.bench = Bench(directory, self.node, elsewhere=self._elsewhere)
        self.bench.shell.send_api = lambda effect: self.said.append(effect.correlation)
        self.bench.shell.reply_records = lambda effect: self.answered.append(effect.token)
        self.flushing: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []
        self.said: list[int] = []
        self.answered: list[int] = []
        self.handled: list[int] = []
        self.durable: list[int] = []
        self.steps = steps
        cast(Any, self.bench.storage).carry_out = self._carry_out
        cast(Any, self.node).step = self._step

    def submit(self, number: int) -> None:
        """Submit an event, whose token is its number."""
        of_records, _ = self.steps[number]
        event = come.ProduceReceived(number, 1, 0, ()) if of_records else ApiReply(number, {})
        self.bench.shell.submit(cast(Any, event))

    def finish(self) -> None:
        """Let the disk finish its work."""
        if self.flushing:
            work, done = self.flushing.pop()
            done(work())

    def _step(self, event: Any, now: int, wall_ms: int) -> list[Any]:
        number = event.token
        of_records, flushes = self.steps[number]
        self.handled.append(number)
        trace = Trace("step", "leader", 1, 1, 1, 1, 1, {"number": number})
        request = SendApi(1, number, Endpoint("h", 1), "AlterPartition", {})
        if of_records:
            return [out.ReplyProduce(number, ()), trace, request]
        return [request, trace, *([FlushLog()] if flushes else [])]

    def _carry_out(self, effects: Any) -> None:
        if any(isinstance(effect, FlushLog) for effect in effects):
            (request,) = (effect for effect in effects if isinstance(effect, SendApi))
            self.durable.append(request.correlation)

    def _elsewhere(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        assert not self.flushing, "one flush at a time"
        self.flushing.append((work, done))

    def traced(self) -> list[int]:
        """Return the numbers of the traced steps."""
        lines = map(json.loads, self.bench.trace.read_text().splitlines())
        return [line["detail"]["number"] for line in lines]


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), max_size=30))
def test_a_slow_disk_changes_when_things_are_said_but_not_their_order(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[bool, bool, bool]]
) -> None:
    """``drawn``: whether the event is of the data plane, whether its step flushes (if not), and
    whether the disk finishes its work before the next event."""

    def scenario() -> None:
        diary = Diary(tmp_path_factory.mktemp("shell"), [(r, f and not r) for r, f, _ in drawn])
        for number, (of_records, _, finishes) in enumerate(drawn):
            waits = bool(diary.flushing)
            diary.submit(number)
            if of_records:
                assert diary.answered[-1:] == [number], "records do not wait"
            else:
                assert (number in diary.handled) is not waits, "the quorum waits for its disk"
            pending = [n for n in diary.handled if diary.steps[n][1] and n not in diary.durable]
            assert not set(pending) & set(diary.said), "nothing is said before it is durable"
            assert diary.traced() == diary.said
            if finishes:
                diary.finish()
        while diary.flushing:
            diary.finish()
        assert sorted(diary.handled) == list(range(len(drawn)))
        assert diary.said == diary.traced() == diary.handled, "all in the order of the steps"

    run(scenario)


def test_an_illegal_state_during_a_flush_is_traced_after_what_it_flushes(tmp_path: Path) -> None:
    def scenario() -> None:
        diary = Diary(tmp_path, [(False, True), (False, True), (True, False)])
        diary.submit(0)
        cast(Any, diary.node).step = _fails
        diary.submit(2)
        diary.submit(1)
        assert not diary.bench.shell.exit_status.done()
        diary.finish()
        assert diary.bench.status == FATAL
        kinds = [json.loads(line)["kind"] for line in diary.bench.trace.read_text().splitlines()]
        assert kinds == ["step", "fatal"]

    run(scenario)


def _fails(*_: object) -> list[Any]:
    raise FatalError("two leaders")


def test_a_stop_before_logs_of_other_brokers_are_removed_is_not_orderly(tmp_path: Path) -> None:
    """Nobody has checked such a log after the crash, and its replica may come back."""

    def files(*, orderly: bool) -> PartitionFiles:
        return PartitionFiles(
            tmp_path, lambda _: "t", LogSettings(), PLAIN, orderly=orderly,
            elsewhere=lambda work, done: waiting.append((work, done)),
        )  # fmt: skip

    waiting: list[tuple[Any, Any]] = []
    assert files(orderly=False).close()
    for orderly in (False, True):
        one = files(orderly=orderly)
        one.keep(set())
        assert one.close() == orderly
    one = files(orderly=False)
    one.keep(set())
    for work, done in waiting:
        done(work())
    assert one.close()

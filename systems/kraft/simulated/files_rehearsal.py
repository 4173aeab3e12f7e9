"""Gives a copy of a log other configs, begins it again, and fails its disk (D1 to D3, D17).

A log begins segments by the configs of its topic that are in force, also after a start. Once the
topic has none, those of the process count. A log that begins again knows no producer, also after a
stop. In runs segments are shaped by the process alone. An fsync that fails in a flush is rare in
them; nobody knows then what is on the disk, so the process must end. So is a disk without room in
the step that answers a Produce. A loss of power may take the
snapshots of producers, or damage them: then a start finds the producers in all segments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, Final, TypeVar

from kraftwreck.nodes.log.batch import encode_batch, parse_header
from kraftwreck.nodes.log.partition.names import SNAPSHOT, offsets_of
from kraftwreck.nodes.log.partition.names import numbered as file_name
from kraftwreck.nodes.log.partition.settings import LogSettings
from kraftwreck.nodes.protocol.apis import decode_response
from kraftwreck.nodes.protocol.codec import encode
from kraftwreck.nodes.protocol.errors import KAFKA_STORAGE_ERROR, NONE
from kraftwreck.nodes.replication import effects as data
from kraftwreck.nodes.replication.events import LogFlushed, LogOpened
from kraftwreck.nodes.replication.headers import Batch, PartitionKey, batch_of
from kraftwreck.nodes.server.partition_files import PartitionFiles
from kraftwreck.nodes.server.record_requests import ImageTopics, RecordRequests
from kraftwreck.simulation.disk import ROOT
from kraftwreck.simulation.disk_trouble import DiskTrouble
from kraftwreck.simulation.filesystem import Filesystem
from kraftwreck.systems.kraft.workloads.record_batches import TIMESTAMP_MS
from kraftwreck.systems.kraft.workloads.record_batches import batch_of as numbered

T = TypeVar("T")

AGE_MS: Final = 1_000
"""The age at which a segment ends, by a config."""
LARGE: Final = 1 << 20
"""Bytes of a segment that do not end it."""
BATCHES: Final = 4
PRODUCERS: Final = 2
VERSION: Final = 9
"""Of Produce."""
AFTER: Final = 5
"""Records that a log lacks which begins again."""


def opened(
    files: Filesystem, name: str, key: PartitionKey, settings: LogSettings, *, orderly: bool
) -> tuple[PartitionFiles, LogOpened]:
    """Open a log of the topic ``name``; return its files, and the state that the core gets."""
    logs = PartitionFiles(ROOT, lambda _: name, settings, files, orderly=orderly)
    events = logs.carry_out(data.OpenLog(key))
    return logs, next(event for event in events if isinstance(event, LogOpened))


class _Shaped:
    """A log that gets batches and configs."""

    def __init__(
        self, files: Filesystem, name: str, key: PartitionKey, settings: LogSettings
    ) -> None:
        self._files, self._name, self._key, self._settings = files, name, key, settings
        self._logs, _ = opened(files, name, key, settings, orderly=False)
        _, batches = self._logs.content(key)
        self._epoch = batches[-1].leader_epoch
        self._made = 0
        self.first_ms = 0
        """The time of the first batch of the segment that is written."""

    def shape(self, size: int | None, age_ms: int | None, interval: int | None) -> None:
        """Let a topic have these configs; None: it has none."""
        self._logs.carry_out(data.ShapeLog(self._key, size, age_ms, interval))

    def restart(self) -> None:
        """Stop in good order and start."""
        self._logs.close()
        self._files.process_ended()
        self._logs, _ = opened(self._files, self._name, self._key, self._settings, orderly=True)

    def flush(self) -> int:
        """Make all records durable; return the end of those that are. Raises OSError."""
        events = self._logs.carry_out(data.FlushLog(self._key, 1))
        return next(each.end_offset for each in events if isinstance(each, LogFlushed))

    def append(self, time_ms: int) -> tuple[bool, int]:
        """Append a batch; return whether it begins a segment, and the bytes of the last one."""
        self._made += 1
        end = self._logs.end_of(self._key)
        records: list[tuple[bytes | None, bytes | None]] = [(None, b"%d" % self._made)]
        content = encode_batch(end, self._epoch, time_ms, records, control=False)
        before = len(self._logs.extents(self._key))
        self._logs.carry_out(data.Append(self._key, batch_of(parse_header(content), content)))
        extents = self._logs.extents(self._key)
        rolls = len(extents) > before
        if rolls:
            self.first_ms = time_ms
        return rolls, extents[-1].length


def shaped(
    files: Filesystem, name: str, key: PartitionKey, settings: LogSettings
) -> Iterator[tuple[str, str]]:
    """Yield how a log would not follow the configs of its topic (D17)."""
    log = _Shaped(files, name, key, settings)
    log.shape(1, None, 1)
    rolls, size = log.append(1)
    if not rolls:
        yield "D17", "would begin no segment for a batch with segment.bytes=1"
        return
    log.shape(None, None, None)
    fits = 2 * size <= settings.segment_bytes
    if log.append(1)[0] == fits:
        yield (
            "D17",
            f"would {'' if fits else 'not '}begin a segment for a second batch of {size} bytes,"
            f" with segment.bytes={settings.segment_bytes} since its topic has no config",
        )
        return
    log.shape(1, None, 1)
    log.append(1)
    for restarts in (False, True):
        log.shape(LARGE, AGE_MS, 1)
        for number in range(1, BATCHES):
            log.append(log.first_ms + number)
        if restarts:
            log.restart()
            log.shape(LARGE, AGE_MS, 1)
        for age_ms in (AGE_MS, AGE_MS + 1):
            if log.append(log.first_ms + age_ms)[0] == (age_ms <= AGE_MS):
                yield (
                    "D17",
                    f"would {'' if age_ms <= AGE_MS else 'not '}begin a segment for a batch that is"
                    f" {age_ms} ms newer than the first one, with segment.ms={AGE_MS}"
                    f"{', after a start' if restarts else ''}",
                )
                return


def begun_again(
    files: Filesystem, name: str, key: PartitionKey, settings: LogSettings
) -> Iterator[tuple[str, str]]:
    """Yield the producers that a log would know although it begins again (D3)."""
    logs, _ = opened(files, name, key, settings, orderly=False)
    _, batches = logs.content(key)
    last, producer = batches[-1], 1 + max(batch.producer_id for batch in batches)
    content = numbered((1, 2), (producer, 0, 0))
    new: Batch = batch_of(parse_header(content), content)
    logs.carry_out(data.Append(key, new.placed(last.next_offset, last.leader_epoch)))
    start = logs.end_of(key) + AFTER
    logs.carry_out(data.StartAt(key, start))
    for when in ("after a stop", "after another stop"):
        logs.close()
        files.process_ended()
        logs, found = opened(files, name, key, settings, orderly=True)
        if found.producers or (found.start_offset, found.end_offset) != (start, start):
            known = sorted({each.producer_id for each in found.producers})
            yield (
                "D3",
                f"would be from {found.start_offset} to {found.end_offset} and know the producers"
                f" {known} although it began again at {start}, {when}",
            )
            return


def lost_snapshots(
    files: Filesystem, name: str, key: PartitionKey, settings: LogSettings
) -> Iterator[tuple[str, str]]:
    """Yield the producers that a start would not know without their snapshots (D3).

    Each batch has a segment of its own.
    """
    logs, _ = opened(files, name, key, settings, orderly=False)
    _, batches = logs.content(key)
    epoch, first = batches[-1].leader_epoch, 1 + max(batch.producer_id for batch in batches)
    logs.carry_out(data.ShapeLog(key, 1, None, 1))
    right: dict[int, list[int]] = {}
    for number in range(PRODUCERS * BATCHES):
        producer = first + number // BATCHES
        content = numbered((number,), (producer, 0, number % BATCHES))
        batch = batch_of(parse_header(content), content)
        right.setdefault(producer, []).append(logs.end_of(key))
        logs.carry_out(data.Append(key, batch.placed(right[producer][-1], epoch)))
    folder = ROOT / f"{name}-{key[1]}"
    for damage in ("cut", "removed"):
        files.process_ended()
        for offset in offsets_of(files.names(folder), SNAPSHOT):
            path = folder / file_name(offset, SNAPSHOT)
            if damage == "removed":
                files.unlink(path)
            else:
                files.inode(path).cut(files.size(path) // 2)
        logs, found = opened(files, name, key, settings, orderly=False)
        known: dict[int, list[int]] = {}
        for each in found.producers:
            if each.producer_id >= first:
                known.setdefault(each.producer_id, []).append(each.base_offset)
        if known != right:
            yield (
                "D3",
                f"would know the producers and batches {known}, not {right}, once the snapshots of"
                f" producers are {damage}",
            )
            return


def unflushed(
    files: Filesystem, name: str, key: PartitionKey, settings: LogSettings
) -> Iterator[tuple[str, str]]:
    """Yield that a log would be durable although an fsync has failed (D1)."""
    log = _Shaped(files, name, key, settings)
    log.append(1)
    files.trouble = DiskTrouble.once("fsync")
    try:
        durable = log.flush()
    except OSError:
        return
    finally:
        files.trouble = None
    yield "D1", f"would be durable below {durable} although an fsync of the flush has failed"


def without_room(
    files: Filesystem, name: str, key: PartitionKey, settings: LogSettings
) -> Iterator[tuple[str, str]]:
    """Yield the wrong answers of the step in which a disk has no room for two batches (D2, D16)."""
    logs, _ = opened(files, name, key, settings, orderly=False)
    _, batches = logs.content(key)
    last, end = batches[-1], logs.end_of(key)
    content = numbered((1,), None)
    new = batch_of(parse_header(content), content)
    files.trouble = DiskTrouble.full(0)
    appends = [data.Append(key, new.placed(base, last.leader_epoch)) for base in (end, end + 1)]
    logs.carry_out_all(appends)
    files.trouble = None
    for base, is_there in ((last.base_offset, True), (end, False), (end + 1, False)):
        error = _answered(logs, name, key, base)
        if is_there and error != NONE:
            yield "D16", f"would answer {error} for offset {base}, which it has"
        elif not is_there and error != KAFKA_STORAGE_ERROR:
            yield "D2", f"would answer {error} for offset {base}, for which there is no room"


def _answered(logs: PartitionFiles, name: str, key: PartitionKey, base_offset: int) -> int:
    """Return the error for a batch that the core has placed at ``base_offset``."""
    image: Any = SimpleNamespace(
        topics={name: SimpleNamespace(topic_id=key[0])}, names={key[0]: name}
    )
    requests = RecordRequests(ImageTopics(lambda: image), logs)
    parts = [{"index": key[1], "records": numbered((1,), None)}]
    body = {"acks": 1, "timeout_ms": 1, "topic_data": [{"name": name, "partition_data": parts}]}
    frame = encode("ProduceRequest", VERSION, body)
    call = requests.read("Produce", VERSION, frame, 0, token=0, wall_ms=TIMESTAMP_MS)
    right = data.ReplyProduce(0, (data.ProducedPart(key, NONE, base_offset),))
    pieces = requests.frame("Produce", VERSION, 0, call, right)
    content = b"".join(each for each in pieces if isinstance(each, bytes | bytearray | memoryview))
    _, answer = decode_response("Produce", VERSION, content)
    return int(answer["responses"][0]["partition_responses"][0]["error_code"])


class _Held:
    """Does work beside the process later, while it ``waits``."""

    def __init__(self) -> None:
        self._work: list[Callable[[], None]] = []
        self.waits = False

    def __call__(self, work: Callable[[], T], done: Callable[[T], None]) -> None:
        def both() -> None:
            done(work())

        self._work.append(both)
        if not self.waits:
            self.go()

    def go(self) -> None:
        """Do the work that waits."""
        while self._work:
            self._work.pop(0)()


def cut_in_a_flush(
    files: Filesystem, name: str, key: PartitionKey, settings: LogSettings
) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a log that is cut between the begin and the end of a flush (D1)."""
    held = _Held()
    logs = PartitionFiles(ROOT, lambda _: name, settings, files, elsewhere=held)
    logs.carry_out(data.OpenLog(key))
    _, batches = logs.content(key)
    last = batches[-1]
    for number in range(BATCHES):
        content = encode_batch(
            last.next_offset + number, last.leader_epoch, 1, [(None, b"cut")], control=False
        )
        logs.carry_out(data.Append(key, batch_of(parse_header(content), content)))
    held.waits = True
    logs.carry_out(data.FlushLog(key, 1))
    logs.carry_out(data.Truncate(key, last.next_offset))
    held.waits = False
    held.go()
    events = logs.carry_out(data.FlushLog(key, 2))
    flushed = [each.end_offset for each in events if isinstance(each, LogFlushed)]
    files.process_ended()
    _, found = opened(files, name, key, settings, orderly=False)
    if max(flushed) > last.next_offset or found.end_offset != last.next_offset:
        yield (
            "D1",
            f"would be durable below {max(flushed)}, and end at {found.end_offset} after a start,"
            f" although it was cut at {last.next_offset} before the flush had ended",
        )

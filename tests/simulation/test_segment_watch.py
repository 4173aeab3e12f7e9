"""D17: a log begins a segment for each batch that does not fit into the last one, and no other."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.checkers.kraft.limits import STEPS_US
from kraftwreck.nodes.log.batch import encode_batch, parse_header
from kraftwreck.nodes.log.partition.partition_log import Extent, PartitionLog
from kraftwreck.nodes.log.partition.settings import LogSettings
from kraftwreck.nodes.replication import effects as data
from kraftwreck.nodes.replication.events import LogOpened, SegmentClosed
from kraftwreck.nodes.replication.headers import batch_of
from kraftwreck.nodes.server.partition_files import PartitionFiles
from kraftwreck.simulation.disk import ROOT
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.filesystem import Filesystem
from kraftwreck.systems.kraft.simulated import segment_watch
from kraftwreck.systems.kraft.simulated.record_logs import RecordLog
from kraftwreck.systems.kraft.simulated.segment_watch import SegmentWatch
from tests.simulation.replicas import KEY, batch

pytestmark = pytest.mark.interpreted

Patch = pytest.MonkeyPatch
LIMITS = LogSettings(segment_bytes=100, segment_ms=1000)


class Watched:
    """A broker with one log, and the rule. ``files`` has its segments."""

    def __init__(self, patch: Patch, files: Any, settings: LogSettings) -> None:
        self.failures = Failures()
        world: Any = SimpleNamespace(now=0, on_disk=[], on_caused=[])
        self.world = world
        self.log = RecordLog()
        disk = SimpleNamespace(settings=settings, logs=files)
        patch.setattr(segment_watch, "disk_of_records", lambda _: disk)
        logs: Any = SimpleNamespace(of=lambda host, key: self.log)
        SegmentWatch(world, self.failures, logs)
        self.host: Any = SimpleNamespace(
            id=4, name="b4", waited=lambda since, now, slack: now - since - slack
        )

    def happens(self, effect: Any) -> list[str]:
        """Tell the rule of an effect; return the rules that are broken so far."""
        self.world.on_disk[0](self.host, effect)
        return self.broken

    @property
    def broken(self) -> list[str]:
        return [failure.type for failure in self.failures.items]


class Invented(Watched):
    """The test says into which segment each batch goes."""

    def __init__(self, patch: Patch) -> None:
        self.written = (0, 0)
        self.full: set[Any] = set()
        self.closed: tuple[Extent, ...] = ()
        files = SimpleNamespace(
            full=self.full,
            end_of=lambda key: self.log.end,
            extents=lambda key: (*self.closed, Extent(self.written[0], 0, self.written[1], 0)),
        )
        super().__init__(patch, files, LIMITS)

    def append(self, size: int = 10, ms: int = 0, *, rolls: bool = False) -> list[str]:
        new = batch(self.log.end, self.log.end + 1, size=size, max_timestamp=ms)
        if rolls:
            self.closed += (Extent(self.written[0], new.base_offset, self.written[1], 0),)
        base, length = (new.base_offset, 0) if rolls else self.written
        self.written = base, length + size
        self.log.batches.append(new)
        return self.happens(data.Append(KEY, new))


@pytest.mark.parametrize(
    ("size", "rolls", "broken"),
    [(40, False, []), (41, False, ["D17"]), (41, True, []), (40, True, ["D17"])],
)
def test_a_segment_is_as_large_as_its_limit(
    size: int, rolls: bool, broken: list[str], monkeypatch: Patch
) -> None:
    log = Invented(monkeypatch)
    log.append(60)
    assert log.append(size, rolls=rolls) == broken


@pytest.mark.parametrize(
    ("ms", "rolls", "broken"),
    [(1500, False, []), (1501, False, ["D17"]), (1501, True, []), (1500, True, ["D17"])],
)
def test_a_segment_spans_the_time_of_its_limit(
    ms: int, rolls: bool, broken: list[str], monkeypatch: Patch
) -> None:
    """Its first batch counts, not the one before."""
    log = Invented(monkeypatch)
    log.append(ms=500)
    log.append(ms=1000)
    assert log.append(ms=ms, rolls=rolls) == broken


@pytest.mark.parametrize("rolls", [False, True])
def test_a_first_batch_without_a_timestamp_has_no_age(rolls: bool, monkeypatch: Patch) -> None:
    log = Invented(monkeypatch)
    log.append(ms=-1)
    assert log.append(ms=5000, rolls=rolls) == []


def test_a_first_batch_may_be_as_large_as_it_likes(monkeypatch: Patch) -> None:
    log = Invented(monkeypatch)
    assert log.append(500) == []
    assert log.append(500, rolls=True) == []


def test_a_first_batch_that_was_deleted_has_no_age(monkeypatch: Patch) -> None:
    log = Invented(monkeypatch)
    log.append(ms=0)
    log.log.batches.clear()
    log.log.start = 1
    log.happens(data.Truncate(KEY, 1))
    assert log.append(ms=5000) == []
    assert log.append(ms=9000) == []


def test_the_configs_of_a_topic_count_until_its_log_is_opened_again(monkeypatch: Patch) -> None:
    log = Invented(monkeypatch)
    log.happens(data.ShapeLog(KEY, 50, 300, None))
    log.append(50)
    assert log.append(ms=300) == ["D17"]
    log.happens(data.ShapeLog(KEY, None, 300, None))
    assert log.append(ms=300) == ["D17"]
    assert log.append(ms=301) == ["D17"] * 2
    log.world.on_caused[0](log.host, LogOpened(KEY, 0, 4, (), (), 0))
    assert log.append(ms=1000) == ["D17"] * 2
    log.happens(data.ShapeLog(KEY, 50, None, None))
    assert log.append(ms=1000, rolls=True) == ["D17"] * 2
    assert log.append(50) == ["D17"] * 3


@pytest.mark.parametrize(
    "other",
    [
        data.Truncate(KEY, 1),
        data.StartAt(KEY, 1),
        data.RemoveLog(KEY),
        LogOpened(KEY, 0, 1, (), (), 0),
    ],
)
def test_a_segment_may_begin_after_another_operation(other: Any, monkeypatch: Patch) -> None:
    """The batch before may be gone, or its segment."""
    log = Invented(monkeypatch)
    log.append()
    told = log.world.on_caused if isinstance(other, LogOpened) else log.world.on_disk
    told[0](log.host, other)
    assert log.append(rolls=True) == []


def test_a_batch_without_room_is_not_judged_nor_the_next_one(monkeypatch: Patch) -> None:
    """It may have begun a segment, which is still empty."""
    log = Invented(monkeypatch)
    log.append()
    log.full.add(KEY)
    log.happens(data.Append(KEY, batch(1, 2, size=500)))
    log.full.clear()
    assert log.append(rolls=True) == []
    assert log.append(rolls=True) == ["D17"]


def test_a_batch_that_a_dying_process_may_have_written_is_not_judged(monkeypatch: Patch) -> None:
    log = Invented(monkeypatch)
    log.append(60)
    log.written = (0, 160)
    assert log.happens(data.Append(KEY, batch(1, 2, size=100))) == []


def closed(base: int) -> SegmentClosed:
    return SegmentClosed(KEY, base, base + 1, 60, 0)


@pytest.mark.parametrize(("later", "broken"), [(0, []), (1, ["D17"])])
def test_a_broker_notes_a_full_segment_within_a_second(
    later: int, broken: list[str], monkeypatch: Patch
) -> None:
    log = Invented(monkeypatch)
    log.append(60)
    log.append(60, rolls=True)
    log.world.now = STEPS_US + later
    assert log.append() == broken
    assert log.append() == broken, "once"


@pytest.mark.parametrize(
    "event", [closed(0), LogOpened(KEY, 0, 2, (), (), 0), data.Truncate(KEY, 1)]
)
def test_one_that_is_noted_or_gone_is_none_to_note(event: Any, monkeypatch: Patch) -> None:
    log = Invented(monkeypatch)
    log.append(60)
    log.append(60, rolls=True)
    told = log.world.on_disk if isinstance(event, data.Truncate) else log.world.on_caused
    told[0](log.host, event)
    log.world.now = 9 * STEPS_US
    assert log.append() == []


def test_another_segment_is_noted_instead(monkeypatch: Patch) -> None:
    log = Invented(monkeypatch)
    log.append(60)
    log.append(60, rolls=True)
    log.world.on_caused[0](log.host, closed(0))
    log.append(60, rolls=True)
    log.world.on_caused[0](log.host, closed(0))
    log.world.now = 9 * STEPS_US
    assert log.append() == ["D17"]


def test_a_batch_without_room_may_have_filled_a_segment_before(monkeypatch: Patch) -> None:
    log = Invented(monkeypatch)
    log.append(60)
    log.world.on_caused[0](log.host, closed(0))
    log.append(60, rolls=True)
    log.world.now = 9 * STEPS_US
    assert log.append() == []


def rolls_by_age_only(patch: Patch) -> None:
    must_roll = PartitionLog._must_roll

    def planted(self: PartitionLog, size: int, *rest: Any) -> bool:
        return must_roll(self, size - 10_000, *rest)

    patch.setattr(PartitionLog, "_must_roll", planted)


def rolls_for_each_batch(patch: Patch) -> None:
    patch.setattr(PartitionLog, "_must_roll", lambda self, size, *rest: self._active.length > 0)


def is_right(patch: Patch) -> None:
    """Nothing is wrong."""


@pytest.mark.parametrize(
    ("plant", "broken"),
    [(is_right, False), (rolls_by_age_only, True), (rolls_for_each_batch, True)],
)
def test_the_files_of_a_log_are_judged(
    plant: Callable[[Patch], None], broken: bool, monkeypatch: Patch
) -> None:
    plant(monkeypatch)
    disk = Filesystem()
    disk.make_directory(ROOT)
    settings = LogSettings(segment_bytes=400, index_interval_bytes=100)
    files = PartitionFiles(ROOT, lambda _: "t", settings, disk)
    watched = Watched(monkeypatch, files, settings)
    files.carry_out(data.OpenLog(KEY))
    for base in range(20):
        content = encode_batch(base, 1, 1000 + base, [(b"k", b"v" * 20)], control=False)
        new = batch_of(parse_header(content), content)
        effect = data.Append(KEY, new)
        files.carry_out(effect)
        watched.log.batches.append(new.bare())
        watched.happens(effect)
    assert (set(watched.broken) == {"D17"}) is broken

"""D2, D13: offsets and times are found after an invented cut of a log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.log.batch import encode_batch, parse_header
from kraftwreck.nodes.log.partition.partition_log import PartitionLog
from kraftwreck.nodes.log.partition.producer_snapshot import ProducerEntry
from kraftwreck.nodes.log.partition.segment import Segment
from kraftwreck.nodes.log.partition.settings import LogSettings
from kraftwreck.nodes.replication import effects as data
from kraftwreck.nodes.replication.headers import batch_of
from kraftwreck.nodes.server.partition_files import PartitionFiles, _Replica
from kraftwreck.simulation.disk import ROOT
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.filesystem import Filesystem
from kraftwreck.simulation.timeline import WorldError
from kraftwreck.systems.kraft.sequence_numbers import SEQUENCES
from kraftwreck.systems.kraft.simulated import cut_rehearsal
from kraftwreck.systems.kraft.simulated.crash_points import Copies
from kraftwreck.systems.kraft.simulated.cut_rehearsal import CutRehearsal, rehearse, remembered
from kraftwreck.systems.kraft.simulated.record_logs import RecordLog
from tests.simulation.replicas import KEY
from tests.simulation.test_lookup_rehearsal import is_right, keeps_times

pytestmark = pytest.mark.interpreted

Patch = pytest.MonkeyPatch


class Broker:
    """A broker whose log has batches of one record each, and the rehearsal of a cut."""

    def __init__(self, patch: Patch, segment_bytes: int = 10_000) -> None:
        self.failures = Failures()
        self.later: list[Callable[[], None]] = []
        world: Any = SimpleNamespace(now=0, afterwards=self.later.append)
        self.settings = LogSettings(segment_bytes, index_interval_bytes=100)
        self.disk = Filesystem()
        self.disk.make_directory(ROOT)
        self.files = PartitionFiles(ROOT, lambda _: "t", self.settings, self.disk)
        self.log = RecordLog()
        self.whole: Any = SimpleNamespace(
            trouble=None,
            logs=self.files,
            files=self.disk,
            settings=self.settings,
            name_of=lambda topic_id: "t",
        )
        self.host: Any = SimpleNamespace(id=4, name="b4")
        patch.setattr(cut_rehearsal, "disk_of_records", lambda _: self.whole)
        logs: Any = SimpleNamespace(of=lambda host, key: self.log, on_append=[])
        CutRehearsal(world, self.failures, logs)
        self.files.carry_out(data.OpenLog(KEY))
        self.appended = logs.on_append[0]

    def append(self, count: int) -> None:
        for _ in range(count):
            base = self.log.end
            content = encode_batch(base, 1, 1000 + base, [(b"k", b"v" * 20)], control=False)
            new = batch_of(parse_header(content), content)
            self.files.carry_out(data.Append(KEY, new))
            self.log.batches.append(new.bare())
            self.appended(self.host, KEY, new)

    def copied(self) -> Filesystem:
        return Copies(self.disk, "t", KEY).copy()


def keeps_where_a_reader_stopped(patch: Patch) -> None:
    """A cut leaves the byte at which a reader has stopped."""
    reset = Segment._reset

    def planted(self: Segment) -> None:
        before = self._following
        reset(self)
        self._following = before

    patch.setattr(Segment, "_reset", planted)


def keeps_the_largest_time(patch: Patch) -> None:
    reset = Segment._reset

    def planted(self: Segment) -> None:
        before = self.largest
        reset(self)
        self.largest = before

    patch.setattr(Segment, "_reset", planted)


def cannot_cut(patch: Patch) -> None:
    def planted(self: PartitionLog, end_offset: int) -> None:
        raise ValueError("no cut")

    patch.setattr(PartitionLog, "truncate", planted)


@pytest.mark.parametrize("segment_bytes", [300, 10_000])
@pytest.mark.parametrize(
    ("plant", "broken"),
    [
        (is_right, set()),
        (keeps_times, {"D13"}),
        (keeps_where_a_reader_stopped, {"D13"}),
        (keeps_the_largest_time, {"D13"}),
        (cannot_cut, {"D2"}),
    ],
)
def test_a_log_that_was_cut_is_right(
    plant: Callable[[Patch], None], broken: set[str], segment_bytes: int, monkeypatch: Patch
) -> None:
    broker = Broker(monkeypatch, segment_bytes)
    broker.append(20)
    plant(monkeypatch)
    found = {rule for rule, _ in rehearse(broker.copied(), "t", KEY, broker.settings)}
    assert found == broken if segment_bytes > 300 else found <= broken


@pytest.mark.parametrize(
    ("plant", "stage"),
    [
        (keeps_where_a_reader_stopped, "after a cut at 10 and other records"),
        (keeps_the_largest_time, "after another cut at 1"),
        (cannot_cut, "cannot use a log after a cut at 10 and other records"),
    ],
)
def test_half_of_a_log_is_cut(
    plant: Callable[[Patch], None], stage: str, monkeypatch: Patch
) -> None:
    broker = Broker(monkeypatch)
    broker.append(20)
    plant(monkeypatch)
    ((_, wrong),) = rehearse(broker.copied(), "t", KEY, broker.settings)
    assert stage in wrong


def test_a_run_rehearses_one_cut(monkeypatch: Patch) -> None:
    broker = Broker(monkeypatch)
    broker.append(11)
    assert broker.later == []
    broker.append(1)
    assert len(broker.later) == 1
    broker.append(30)
    assert len(broker.later) == 1
    keeps_times(monkeypatch)
    broker.later[0]()
    assert [failure.type for failure in broker.failures.items] == ["D13"]


@pytest.mark.parametrize("what", ["trouble", "full", "dies"])
def test_a_log_that_does_not_have_what_it_should_is_not_copied(
    what: str, monkeypatch: Patch
) -> None:
    broker = Broker(monkeypatch)
    broker.append(11)
    new = broker.log.batches[-1]
    if what == "dies":
        broker.log.batches.append(new)
        new.base_offset += 1
    else:
        broker.whole.trouble = object() if what == "trouble" else None
        broker.files.full.update([KEY] if what == "full" else [])
        broker.log.batches.append(new)
    broker.appended(broker.host, KEY, new)
    assert broker.later == []


def test_an_error_of_the_rehearsal_is_none_of_the_nodes(monkeypatch: Patch) -> None:
    broker = Broker(monkeypatch)
    broker.append(12)

    def planted(*_: Any) -> None:
        raise TypeError("my own")

    monkeypatch.setattr(cut_rehearsal, "faults", planted)
    with pytest.raises(WorldError, match="my own"):
        broker.later[0]()


def forgets_to_begin_again(patch: Patch) -> None:
    """A snapshot of producers stores no smaller number than that of the first record."""
    entries = _Replica.entries

    def planted(self: _Replica) -> Iterator[ProducerEntry]:
        for entry in entries(self):
            first = (entry.last_sequence - entry.offset_delta) % SEQUENCES
            yield replace(entry, last_sequence=min(first + entry.offset_delta, SEQUENCES - 1))

    patch.setattr(_Replica, "entries", planted)


def cannot_append(patch: Patch) -> None:
    def planted(self: PartitionLog, data: Any, headers: Any) -> None:
        raise ValueError("no append")

    patch.setattr(PartitionLog, "append", planted)


@pytest.mark.parametrize(
    ("plant", "wrong"),
    [(is_right, ""), (forgets_to_begin_again, "would know"), (cannot_append, "cannot use a log")],
)
def test_a_start_knows_a_producer_whose_numbers_begin_again(
    plant: Callable[[Patch], None], wrong: str, monkeypatch: Patch
) -> None:
    broker = Broker(monkeypatch)
    broker.append(12)
    plant(monkeypatch)
    found = list(remembered(broker.copied(), "t", KEY, broker.settings))
    assert [rule for rule, _ in found] == (["D3"] if wrong else [])
    assert all(text.startswith(wrong) for _, text in found)

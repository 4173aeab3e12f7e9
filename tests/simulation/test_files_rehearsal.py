"""D1, D3, D17: a copy of a log follows configs, forgets producers, and notices a failed fsync."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from kraftwreck.nodes.log.batch import encode_batch, parse_header
from kraftwreck.nodes.log.partition import partition_log
from kraftwreck.nodes.log.partition.partition_log import Flush, PartitionLog
from kraftwreck.nodes.log.partition.producer_snapshot import (
    ProducerSnapshotError,
    decode_snapshot,
)
from kraftwreck.nodes.log.partition.segment import Segment
from kraftwreck.nodes.log.partition.settings import LogSettings
from kraftwreck.nodes.replication import effects as data
from kraftwreck.nodes.replication.headers import batch_of
from kraftwreck.nodes.server.partition_files import PartitionFiles, _Replica
from kraftwreck.simulation.disk import ROOT
from kraftwreck.simulation.filesystem import Filesystem
from kraftwreck.systems.kraft.simulated.crash_points import Copies
from kraftwreck.systems.kraft.simulated.cut_rehearsal import Question, answers
from kraftwreck.systems.kraft.simulated.files_rehearsal import (
    begun_again,
    cut_in_a_flush,
    lost_snapshots,
    shaped,
    unflushed,
    without_room,
)
from tests.simulation.replicas import KEY

pytestmark = pytest.mark.interpreted

Patch = pytest.MonkeyPatch
NAME = "of-records"


def is_right(patch: Patch) -> None:
    """Nothing is wrong."""


def keeps_removed_configs(patch: Patch) -> None:
    shape = PartitionFiles._shape

    def planted(self: PartitionFiles, effect: data.ShapeLog) -> None:
        if effect.segment_bytes is not None:
            shape(self, effect)

    patch.setattr(PartitionFiles, "_shape", planted)


def forgets_the_first_time(patch: Patch) -> None:
    load = Segment.load

    def planted(self: Segment, length: int) -> None:
        load(self, length)
        self.first_ms = self.largest[0]

    patch.setattr(Segment, "load", planted)


def ends_no_segment_by_size(patch: Patch) -> None:
    patch.setattr(PartitionLog, "_must_roll", lambda self, size, headers: False)


def keeps_producers(patch: Patch) -> None:
    rebuild = _Replica.rebuild

    def planted(self: _Replica) -> None:
        before = self.producers
        rebuild(self)
        self.producers = self.producers or before

    patch.setattr(_Replica, "rebuild", planted)


def reads_producers_of_the_active_segment(patch: Patch) -> None:
    stored = PartitionLog.stored_producers

    def planted(self: PartitionLog) -> Any:
        entries, offset = stored(self)
        return entries, max(offset, self.active_base)

    patch.setattr(PartitionLog, "stored_producers", planted)


def believes_damaged_snapshots(patch: Patch) -> None:
    def planted(content: bytes) -> list[Any]:
        try:
            return decode_snapshot(content)
        except ProducerSnapshotError:
            return []

    patch.setattr(partition_log, "decode_snapshot", planted)


def acknowledges_the_first(patch: Patch) -> None:
    end_of = PartitionFiles.end_of
    patch.setattr(PartitionFiles, "end_of", lambda *of: end_of(*of) + bool(of[0].full))


def refuses_all(patch: Patch) -> None:
    end_of = PartitionFiles.end_of
    patch.setattr(PartitionFiles, "end_of", lambda *of: 0 if of[0].full else end_of(*of))


def cannot_append(patch: Patch) -> None:
    def planted(self: PartitionLog, *_: Any) -> None:
        raise ValueError("no append")

    patch.setattr(PartitionLog, "append", planted)


def ignores_errors_of_flushes(patch: Patch) -> None:
    def planted(self: Flush) -> None:
        for path in self.paths:
            with contextlib.suppress(OSError):
                self.media.fsync(path)

    patch.setattr(Flush, "run", planted)


def counts_no_cut(patch: Patch) -> None:
    truncate = PartitionLog.truncate

    def planted(self: PartitionLog, end_offset: int) -> None:
        cuts = self._cuts
        truncate(self, end_offset)
        self._cuts = cuts

    patch.setattr(PartitionLog, "truncate", planted)


def copied(settings: LogSettings) -> Filesystem:
    """Return the files of a log with some batches."""
    files = Filesystem()
    files.make_directory(ROOT)
    logs = PartitionFiles(ROOT, lambda _: NAME, settings, files)
    logs.carry_out(data.OpenLog(KEY))
    for base in range(14):
        content = encode_batch(base, 1, 1000 + base, [(b"k", b"v" * 20)], control=False)
        logs.carry_out(data.Append(KEY, batch_of(parse_header(content), content)))
    return Copies(files, NAME, KEY).copy()


@pytest.mark.parametrize("segment_bytes", [300, 10_000])
@pytest.mark.parametrize(
    ("question", "plant", "rule", "said"),
    [
        (shaped, is_right, "", ""),
        (shaped, keeps_removed_configs, "D17", "since its topic has no config"),
        (shaped, forgets_the_first_time, "D17", "with segment.ms=1000, after a start"),
        (shaped, ends_no_segment_by_size, "D17", "with segment.bytes=1"),
        (shaped, cannot_append, "D2", "no append"),
        (begun_again, is_right, "", ""),
        (lost_snapshots, is_right, "", ""),
        (lost_snapshots, reads_producers_of_the_active_segment, "D3", "are cut"),
        (lost_snapshots, believes_damaged_snapshots, "D3", "are cut"),
        (unflushed, is_right, "", ""),
        (without_room, is_right, "", ""),
        (without_room, acknowledges_the_first, "D2", "would answer 0 for offset 14"),
        (without_room, refuses_all, "D16", "would answer 56 for offset"),
        (cut_in_a_flush, is_right, "", ""),
        (cut_in_a_flush, counts_no_cut, "D2", "was durable, but it ends at"),
        (unflushed, ignores_errors_of_flushes, "D1", "although an fsync of the flush has failed"),
        (begun_again, keeps_producers, "D3", "know the producers [0] although it began again at"),
    ],
)
def test_a_log_is_as_its_configs_and_its_topic_say(
    question: Question,
    plant: Callable[[Patch], None],
    rule: str,
    said: str,
    segment_bytes: int,
    monkeypatch: Patch,
) -> None:
    settings = LogSettings(segment_bytes, index_interval_bytes=100)
    files = copied(settings)
    plant(monkeypatch)
    found = list(answers(question, files, NAME, KEY, settings))
    assert [each for each, _ in found] == ([rule] if rule else [])
    assert all(said in text for _, text in found)

"""The last batches of a log are read after each cut and opening (D2, D13)."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.log.batch import encode_batch, parse_header
from kraftwreck.nodes.log.partition.index import SparseIndex
from kraftwreck.nodes.log.partition.partition_log import PartitionLog
from kraftwreck.nodes.log.partition.settings import LogSettings
from kraftwreck.nodes.replication import effects as data
from kraftwreck.nodes.replication.events import LogOpened
from kraftwreck.nodes.replication.headers import PartitionKey, batch_of
from kraftwreck.nodes.server.partition_files import PartitionFiles
from kraftwreck.simulation.disk import ROOT
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.filesystem import Filesystem
from kraftwreck.systems.kraft.simulated import lookup_rehearsal
from kraftwreck.systems.kraft.simulated.lookup_rehearsal import LookupRehearsal
from kraftwreck.systems.kraft.simulated.record_logs import RecordLog
from tests.simulation.replicas import KEY

pytestmark = pytest.mark.interpreted

Patch = pytest.MonkeyPatch


class Broker:
    """A broker with one log, of batches with two records each, and the rehearsal of its look-ups.

    The batch at offset n has time 1000 + n in the first epoch, 2000 + n in the second one.
    """

    def __init__(self, patch: Patch) -> None:
        self.failures = Failures()
        world: Any = SimpleNamespace(now=0, on_disk=[], on_caused=[], on_emit=[])
        self.world = world
        settings = LogSettings(10_000, index_interval_bytes=100)
        disk = Filesystem()
        disk.make_directory(ROOT)
        self.files = PartitionFiles(ROOT, lambda _: "t", settings, disk)
        self.log = RecordLog()
        whole = SimpleNamespace(trouble=None, logs=self.files)
        self.host: Any = SimpleNamespace(id=4, name="b4")
        patch.setattr(lookup_rehearsal, "replicas_on", lambda _: {KEY: object()})
        patch.setattr(lookup_rehearsal, "disk_of_records", lambda _: whole)
        logs: Any = SimpleNamespace(of=lambda host, key: self.log)
        LookupRehearsal(world, self.failures, logs)
        self.files.carry_out(data.OpenLog(KEY))

    def append(self, count: int, epoch: int = 1, ms: int = 0) -> None:
        for _ in range(count):
            base = self.log.end
            records = [(b"k", b"v" * 20)] * 2
            time = ms or 1000 * epoch + base
            content = encode_batch(base, epoch, time, records, control=False)
            batch = batch_of(parse_header(content), content)
            self.files.carry_out(data.Append(KEY, batch))
            self.log.batches.append(batch.bare())

    def cut(self, end_offset: int) -> None:
        effect = data.Truncate(KEY, end_offset)
        self.files.carry_out(effect)
        self.log.cut(end_offset)
        for told in self.world.on_disk:
            told(self.host, effect)

    def look(self) -> list[str]:
        """Let the rehearsal look; return the rules that are broken so far."""
        for told in self.world.on_emit:
            told(self.host)
        return [failure.type for failure in self.failures.items]


def keeps_times(patch: Patch) -> None:
    """A cut leaves the entries of the index by time."""
    drop = SparseIndex.drop_from

    def planted(self: SparseIndex, count: int) -> None:
        if self.path.suffix != ".timeindex":
            drop(self, count)

    patch.setattr(SparseIndex, "drop_from", planted)


def reads_nothing_beyond_the_limit(patch: Patch) -> None:
    """The first batch is left out if it is larger than the limit."""
    read = PartitionLog.read

    def planted(self: PartitionLog, offset: int, limit: int, most_bytes: int) -> Any:
        found = read(self, offset, limit, most_bytes)
        return None if found is None or found.length > most_bytes else found

    patch.setattr(PartitionLog, "read", planted)


def is_right(patch: Patch) -> None:
    """Nothing is wrong."""


@pytest.mark.parametrize(
    ("plant", "broken"),
    [
        (is_right, set()),
        (keeps_times, {"D13"}),
        (reads_nothing_beyond_the_limit, {"D2", "D13"}),
    ],
)
def test_a_log_that_was_cut_is_read(
    plant: Callable[[Patch], None], broken: set[str], monkeypatch: Patch
) -> None:
    broker = Broker(monkeypatch)
    broker.append(40)
    plant(monkeypatch)
    broker.cut(30)
    broker.append(3, epoch=2)
    assert set(broker.look()) == broken


@pytest.mark.parametrize("cut", [0, 30])
@pytest.mark.parametrize(("more", "broken"), [(3, []), (4, ["D2", "D13"])])
def test_a_log_that_was_cut_is_read_again_when_it_has_grown(
    more: int, broken: list[str], cut: int, monkeypatch: Patch
) -> None:
    broker = Broker(monkeypatch)
    broker.append(40)
    broker.cut(cut)
    assert broker.look() == []
    reads_nothing_beyond_the_limit(monkeypatch)
    broker.append(more, epoch=2)
    assert broker.look() == broken
    broker.append(8, epoch=2)
    assert len(broker.look()) == 2


def test_the_last_times_of_a_log_are_looked_up(monkeypatch: Patch) -> None:
    """Those of the last four batches, the one after these, and -3, the largest one."""
    broker = Broker(monkeypatch)
    broker.append(10)
    asked: list[int] = []
    look_up = PartitionFiles.look_up

    def planted(self: PartitionFiles, key: PartitionKey, wanted: data.Lookup) -> Any:
        asked.append(wanted.timestamp)
        return look_up(self, key, wanted)

    monkeypatch.setattr(PartitionFiles, "look_up", planted)
    broker.cut(18)
    assert broker.look() == []
    assert asked == [1010, 1012, 1014, 1016, 1017, -3]


def test_the_largest_time_of_a_log_is_looked_up(monkeypatch: Patch) -> None:
    """A cut has left it in the index by time."""
    broker = Broker(monkeypatch)
    broker.append(40)
    keeps_times(monkeypatch)
    broker.cut(30)
    assert broker.look() == ["D13"]


def test_the_largest_time_may_be_that_of_a_deleted_record(monkeypatch: Patch) -> None:
    broker = Broker(monkeypatch)
    broker.append(20, ms=9000)
    broker.append(20)
    broker.files.carry_out(data.DeleteUpTo(KEY, 40))
    broker.log.start = 40
    del broker.log.batches[:20]
    broker.cut(60)
    assert broker.look() == []


def test_a_log_is_read_once_after_each_change(monkeypatch: Patch) -> None:
    broker = Broker(monkeypatch)
    broker.append(40)
    reads_nothing_beyond_the_limit(monkeypatch)
    assert broker.look() == []
    for told in broker.world.on_caused:
        told(broker.host, LogOpened(KEY, 0, 80, (), (), 0, 0))
    assert broker.look() == ["D2", "D13"]
    assert broker.look() == ["D2", "D13"]

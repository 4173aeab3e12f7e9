"""D3: a log that is opened again has the producers of the batches that it deleted (KIP-360)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.log.partition.names import SNAPSHOT, numbered
from kraftwreck.nodes.log.partition.partition_log import Extent
from kraftwreck.nodes.replication import effects as data
from kraftwreck.nodes.replication.events import LogOpened
from kraftwreck.nodes.replication.headers import Batch
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import producer_memory
from kraftwreck.systems.kraft.simulated.record_logs import RecordLog
from tests.simulation.replicas import KEY, batch

pytestmark = pytest.mark.interpreted


def of_producer(base: int, end: int, producer: int, epoch: int = 0) -> Batch:
    return batch(base, end, producer_id=producer, producer_epoch=epoch, base_sequence=0)


def snapshots(*offsets: int) -> list[str]:
    return [numbered(offset, SNAPSHOT) for offset in offsets]


class Deleting:
    """Broker 4 has deleted the batches of producers 7 (up to 4) and 8 (up to 6) of its log, which
    goes up to 10; its first segment begins at 6."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.failures = Failures()
        self.log = RecordLog(0, [batch(0, 10)])
        world: Any = SimpleNamespace(now=0, on_disk=[], on_caused=[], on_wipe=[], on_write=[])
        logs: Any = SimpleNamespace(on_delete=[], of=lambda host, key: self.log)
        self.world, self.logs = world, logs
        self.extents: tuple[Extent, ...] = (Extent(6, 10, 1, 0),)
        self.names = [numbered(0, ".log"), *snapshots(0, 6, 10)]
        disk = SimpleNamespace(
            logs=SimpleNamespace(
                extents=lambda key: self.extents, folder=lambda key: key, end_of=lambda key: 10
            ),
            files=SimpleNamespace(names=lambda folder: self.names),
        )
        self.host = SimpleNamespace(id=4, name="b4")
        patch.setattr(producer_memory, "disk_of_records", lambda host: disk)
        producer_memory.ProducerMemory(world, self.failures, logs)
        self.opened(of_producer(0, 4, 7), of_producer(4, 6, 8))
        self.delete(of_producer(0, 4, 7), of_producer(4, 6, 8, epoch=2), batch(6, 7))

    def delete(self, *batches: Batch) -> None:
        self.logs.on_delete[0](self.host, KEY, 0, list(batches))

    def opened(self, *producers: Batch) -> list[str]:
        """Open the log with these producers, and return the rules that are broken so far."""
        self.world.on_caused[0](self.host, LogOpened(KEY, 6, 10, (), producers, 0, 0))
        return [failure.type for failure in self.failures.items]

    def disk(self, effect: Any) -> None:
        self.world.on_disk[0](self.host, effect)


@pytest.fixture
def deleting(monkeypatch: pytest.MonkeyPatch) -> Deleting:
    return Deleting(monkeypatch)


@pytest.mark.parametrize(
    ("producers", "broken"),
    [
        ((of_producer(0, 4, 7), of_producer(4, 6, 8, epoch=2)), []),
        ((of_producer(0, 4, 7, epoch=1), of_producer(4, 6, 8, epoch=3)), []),
        ((of_producer(0, 4, 7), of_producer(4, 6, 8, epoch=1)), ["D3"]),
        ((of_producer(4, 6, 8, epoch=2),), ["D3"]),
        ((), ["D3", "D3"]),
    ],
)
def test_a_kill_leaves_the_producers_of_deleted_batches(
    producers: tuple[Batch, ...], broken: list[str], deleting: Deleting
) -> None:
    assert deleting.opened(*producers) == broken


@pytest.mark.parametrize(
    ("first", "broken"), [(6, ["D3", "D3"]), (5, ["D3"]), (4, ["D3"]), (3, []), (0, [])]
)
@pytest.mark.parametrize("cut", [False, True])
def test_no_snapshot_has_the_producers_of_the_first_segment(
    first: int, broken: list[str], cut: bool, deleting: Deleting
) -> None:
    """A cut reads the producers again, so that later snapshots do not have them either."""
    deleting.extents = (Extent(first, 8, 1, 0), Extent(8, 10, 1, 0))
    if cut:
        deleting.disk(data.Truncate(KEY, 9))
        deleting.extents = (Extent(9, 10, 1, 0),)
    assert deleting.opened() == broken


def test_an_empty_log_has_the_producers(deleting: Deleting) -> None:
    deleting.extents = (Extent(6, 6, 0, 0),)
    assert deleting.opened() == ["D3", "D3"]


def test_a_log_without_segments_is_not_judged(deleting: Deleting) -> None:
    kept, deleting.extents = deleting.extents, ()
    assert deleting.opened() == []
    deleting.extents = kept
    assert deleting.opened() == []


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize(("first", "broken"), [(10, []), (11, ["D3"])])
def test_segments_from_before_a_loss_need_no_snapshot(
    first: int, broken: list[str], lost: bool, deleting: Deleting
) -> None:
    """The log ended at 10 when it was opened after a loss of power or an interruption."""
    deleting.log.interrupted, deleting.log.losses = not lost, int(lost)
    assert deleting.opened() == []
    deleting.log.interrupted = False
    assert deleting.opened() == []
    deleting.delete(of_producer(6, 10, 9))
    deleting.extents = (Extent(first, 12, 1, 0),)
    assert deleting.opened() == broken


@pytest.mark.parametrize("effect", [data.StartAt(KEY, 6), data.RemoveLog(KEY), None])
def test_a_log_that_begins_again_has_no_producers(effect: Any, deleting: Deleting) -> None:
    if effect is None:
        deleting.world.on_wipe[0](deleting.host)
    else:
        deleting.disk(effect)
    assert deleting.opened() == []


@pytest.mark.parametrize(
    ("left", "broken"),
    [
        (snapshots(6, 10), []),
        (snapshots(6), []),
        (snapshots(10), ["D3"]),
        (snapshots(), ["D3"]),
    ],
)
def test_a_deletion_keeps_the_snapshots_of_the_segments_that_it_keeps(
    left: list[str], broken: list[str], deleting: Deleting
) -> None:
    deletion = data.DeleteUpTo(KEY, 8)
    deleting.world.on_write[0](deleting.host, deletion)
    deleting.names = left
    deleting.disk(deletion)
    deleting.disk(deletion)
    assert [failure.type for failure in deleting.failures.items] == broken


@pytest.mark.parametrize(("left", "broken"), [(10, []), (11, ["D3"])])
def test_a_cut_removes_the_snapshots_above_the_end(
    left: int, broken: list[str], deleting: Deleting
) -> None:
    deleting.names = snapshots(0, left)
    deleting.disk(data.Truncate(KEY, 10))
    assert [failure.type for failure in deleting.failures.items] == broken

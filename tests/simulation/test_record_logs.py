"""The expected logs of replicas: cuts, deletions, and what a process finds when it opens one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.replication import effects as data
from kraftwreck.nodes.replication.events import LogOpened
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import record_logs
from kraftwreck.systems.kraft.simulated.record_logs import RecordLog, RecordLogs
from tests.simulation.replicas import KEY, batch

pytestmark = pytest.mark.interpreted

FIRST, SECOND, THIRD = batch(0, 4), batch(4, 6), batch(6, 10)


@pytest.mark.parametrize(
    ("offset", "kept"), [(10, 3), (9, 2), (6, 2), (5, 1), (4, 1), (3, 0), (0, 0)]
)
def test_a_cut_keeps_whole_batches_up_to_its_offset(offset: int, kept: int) -> None:
    log = RecordLog(0, [FIRST, SECOND, THIRD])
    removed = log.cut(offset)
    assert log.batches == [FIRST, SECOND, THIRD][:kept]
    assert removed == [FIRST, SECOND, THIRD][kept:]


def test_a_batch_is_found_by_its_first_offset() -> None:
    log = RecordLog(0, [FIRST, SECOND])
    assert [log.at(offset) for offset in (0, 1, 4, 6)] == [FIRST, None, SECOND, None]


class Logs:
    """The log of one broker, whose disk has ``content``."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.failures = Failures()
        self.content: tuple[int, list[Any]] = 0, [FIRST, SECOND, THIRD]
        disk = SimpleNamespace(
            logs=SimpleNamespace(content=lambda key: self.content), losses=0, interrupted=set(),
            orderly=False,
        )  # fmt: skip
        self.disk = disk
        patch.setattr(record_logs, "disk_of_records", lambda host: disk)
        world: Any = SimpleNamespace(now=0, on_disk=[], on_caused=[], on_wipe=[])
        self.logs = RecordLogs(world, self.failures)
        self.host: Any = SimpleNamespace(id=4, name="b4")
        self.world = world
        self.logs._logs[4, KEY] = RecordLog(0, [FIRST, SECOND, THIRD])

    def delete(self, offset: int) -> list[Any]:
        self.world.on_disk[0](self.host, data.DeleteUpTo(KEY, offset))
        return self.logs._logs[4, KEY].batches

    def open(self) -> list[str]:
        event = LogOpened.__new__(LogOpened)
        event.key = KEY
        self.world.on_caused[0](self.host, event)
        return [failure.type for failure in self.failures.items]


@pytest.mark.parametrize(("offset", "left"), [(3, 3), (4, 2), (6, 1), (10, 0)])
def test_a_deletion_takes_the_batches_below_its_offset(
    offset: int, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(Logs(monkeypatch).delete(offset)) == left


@pytest.mark.parametrize(("start", "broken"), [(4, []), (3, ["F1"])])
def test_a_batch_below_the_log_start_may_stay_on_the_disk(
    start: int, broken: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deletion takes whole segments only."""
    logs = Logs(monkeypatch)
    logs.delete(4)
    logs.content = start, logs.content[1]
    assert logs.open() == broken


@pytest.mark.parametrize("interrupted", [False, True])
@pytest.mark.parametrize("orderly", [False, True])
def test_a_log_that_is_opened_after_a_crash_has_the_producers_of_its_batches(
    orderly: bool, interrupted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a stop in good order it also has those of deleted batches."""
    logs = Logs(monkeypatch)
    logs.logs._logs[4, KEY].began = 2
    logs.content, logs.disk.orderly = (4, [SECOND, THIRD]), orderly
    logs.delete(4)
    if interrupted:
        logs.disk.interrupted.add(KEY)
    assert logs.open() == []
    assert logs.logs._logs[4, KEY].began == (2 if orderly and not interrupted else 4)

"""F8: no mark of a clean stop is beside logs that were not checked after a crash."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.replication.events import LogFlushed, LogOpened
from kraftwreck.simulation.disk import ROOT
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.filesystem import Filesystem
from kraftwreck.systems.kraft.simulated import mark_watch
from kraftwreck.systems.kraft.simulated.mark_watch import METADATA, MarkWatch

pytestmark = pytest.mark.interpreted

TOPIC = b"t" * 16
SEGMENT = "00000000000000000000.log"


def fake(**fields: Any) -> Any:
    return SimpleNamespace(**fields)


class Disk(SimpleNamespace):
    """A disk with the logs t-0 and t-1, and those of the metadata."""


class Broker:
    """A broker that starts after a crash."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(mark_watch, "Node", SimpleNamespace)
        patch.setattr(mark_watch, "DataDisk", Disk)
        self.failures = Failures()
        self.files = Filesystem()
        for name in ("t-0", "t-1", "empty-0", METADATA):
            self.files.make_directory(ROOT / name)
            if name != "empty-0":
                self.files.create(ROOT / name / SEGMENT)
        self.disk = Disk(files=self.files, orderly=False, name_of={TOPIC: "t"}.__getitem__)
        self.broker = fake(replicas=None, left_epoch=-1)
        self.host = fake(id=4, name="b4", disk=self.disk, node=fake(broker=self.broker))
        self.world = fake(now=0, on_trace=[], on_caused=[], on_step=[], on_wipe=[])
        MarkWatch(self.world, self.failures)
        self.start(orderly=False)

    @property
    def found(self) -> list[str]:
        return [each.type for each in self.failures.items]

    def start(self, *, orderly: bool) -> None:
        self.disk.orderly = orderly
        self.world.on_trace[0](self.host, fake(kind="start"))

    def open(self, number: int) -> None:
        opened = LogOpened((TOPIC, number), 0, 0, (), (), 0)
        self.world.on_caused[0](self.host, opened)

    def step(self) -> list[str]:
        self.world.on_step[0](self.host, None)
        return self.found


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    return Broker(monkeypatch)


def test_f8_a_clean_stop_has_opened_all_logs(broker: Broker) -> None:
    broker.open(0)
    broker.world.on_caused[0](broker.host, LogFlushed((TOPIC, 1), 1, 0, 0))
    broker.start(orderly=True)
    assert broker.found == ["F8"]
    assert "not opened t-1 after" in broker.failures.items[0].explanation


def test_f8_logs_that_were_opened_or_removed_are_checked(broker: Broker) -> None:
    broker.open(0)
    broker.files.unlink(ROOT / "t-1" / SEGMENT)
    broker.start(orderly=True)
    assert broker.found == []


def test_f8_a_process_after_a_crash_checks_all_logs_again(broker: Broker) -> None:
    broker.open(0)
    broker.start(orderly=False)
    broker.open(1)
    broker.start(orderly=True)
    assert broker.found == ["F8"]
    assert "not opened t-0 after" in broker.failures.items[0].explanation


def test_f8_a_new_disk_has_no_logs_to_check(broker: Broker) -> None:
    broker.world.on_wipe[0](broker.host)
    broker.start(orderly=True)
    assert broker.found == []


def test_f8_a_broker_that_does_not_know_its_logs_would_leave_no_mark(broker: Broker) -> None:
    assert broker.step() == []
    broker.broker.left_epoch = 7
    assert broker.step() == ["F8"]
    assert broker.step() == ["F8"], "it is reported once"


def test_f8_logs_that_went_elsewhere_are_not_checked(broker: Broker) -> None:
    broker.broker.replicas = frozenset({(TOPIC, 1)})
    broker.step()
    broker.start(orderly=True)
    assert broker.found == ["F8"]
    assert "not opened t-1 after" in broker.failures.items[0].explanation


@pytest.mark.parametrize("what", ["orderly", "knows", "checked", "no broker"])
def test_f8_a_mark_may_be_left_beside_checked_logs(broker: Broker, what: str) -> None:
    broker.broker.left_epoch = 7
    if what == "orderly":
        broker.disk.orderly = True
    elif what == "knows":
        broker.broker.replicas = frozenset()
    elif what == "checked":
        broker.open(0)
        broker.open(1)
    else:
        broker.host.node.broker = None
    assert broker.step() == []

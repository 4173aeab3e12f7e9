"""D11: leaders delete what the limits of their topics no longer keep."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.checkers.kraft.limits import STEPS_US
from kraftwreck.nodes.log.partition.partition_log import Extent
from kraftwreck.nodes.replication.events import Settings
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import retention_watch
from kraftwreck.systems.kraft.simulated.retention_watch import RetentionWatch
from tests.simulation.replicas import KEY

pytestmark = pytest.mark.interpreted

Patch = pytest.MonkeyPatch
INTERVAL_US = 700_000
NOW_MS = 90_000
SIZE = Settings(retention_ms=-1, retention_bytes=100)


class Leader:
    """A leader that looks at its logs every 700 ms. After its first segment 100 bytes follow, after
    its second one 40, in the segment that is written."""

    def __init__(self, patch: Patch, settings: Settings = SIZE) -> None:
        self.failures = Failures()
        world: Any = SimpleNamespace(
            now=0,
            on_step=[],
            knobs=SimpleNamespace(
                settings_of=lambda _: {"retention_check_interval_ms": INTERVAL_US // 1000}
            ),
        )
        self.world = world
        self.extents = [Extent(0, 3, 50, 0), Extent(3, 5, 60, 0), Extent(5, 6, 40, 0)]
        self.log: Any = SimpleNamespace(start=0)
        self.partition: Any = SimpleNamespace(
            key=KEY, leading=True, hw=6, log=self.log, settings=settings
        )
        self.core = SimpleNamespace(partitions={KEY: self.partition}, retain_at=0)
        files = SimpleNamespace(full=set(), extents=lambda key: tuple(self.extents))
        self.disk = SimpleNamespace(trouble=None, logs=files)
        self.host: Any = SimpleNamespace(
            id=4,
            name="b4",
            clock=SimpleNamespace(wall=lambda now: NOW_MS * 1000 + 999),
            waited=lambda since, now, slack: now - since - slack,
            node=self.node(),
        )
        patch.setattr(retention_watch, "Node", SimpleNamespace)
        patch.setattr(retention_watch, "disk_of_records", lambda host: self.disk)
        RetentionWatch(world, self.failures)
        self.step(0)

    def node(self) -> Any:
        data = SimpleNamespace(core=self.core)
        return SimpleNamespace(broker=SimpleNamespace(data=data))

    def step(self, now: int) -> list[str]:
        self.world.now = now
        self.world.on_step[0](self.host, None)
        return [failure.type for failure in self.failures.items]

    def look(self, start: int = 0) -> list[str]:
        """Let the leader look, and delete what is below ``start``."""
        self.log.start = start
        self.core.retain_at += 1
        return self.step(self.world.now)


@pytest.mark.parametrize(("start", "broken"), [(0, ["D11"]), (2, ["D11"]), (3, []), (5, [])])
def test_a_look_deletes_what_is_too_much(start: int, broken: list[str], monkeypatch: Patch) -> None:
    """Another rule judges whether it deletes too much."""
    assert Leader(monkeypatch).look(start) == broken


def test_only_a_look_deletes_something(monkeypatch: Patch) -> None:
    leader = Leader(monkeypatch)
    assert leader.step(1) == []
    assert leader.look() == ["D11"]
    assert leader.step(2) == ["D11"]


@pytest.mark.parametrize(
    ("limit", "start", "broken"),
    [
        (-1, 0, []),
        (0, 4, ["D11"]),
        (0, 5, []),
        (40, 4, ["D11"]),
        (41, 3, []),
        (100, 2, ["D11"]),
        (101, 0, []),
    ],
)
def test_the_rest_of_a_log_has_the_bytes_of_its_limit(
    limit: int, start: int, broken: list[str], monkeypatch: Patch
) -> None:
    leader = Leader(monkeypatch, Settings(retention_ms=-1, retention_bytes=limit))
    assert leader.look(start) == broken


@pytest.mark.parametrize(
    ("limit_ms", "ages_ms", "start", "broken"),
    [
        (-1, (5000, 5000), 0, []),
        (0, (0, 5000), 0, []),
        (0, (1, 0), 2, ["D11"]),
        (500, (500, 5000), 0, []),
        (500, (501, 500), 3, []),
        (500, (501, 501), 4, ["D11"]),
    ],
)
def test_a_look_deletes_what_is_too_old(
    limit_ms: int, ages_ms: tuple[int, int], start: int, broken: list[str], monkeypatch: Patch
) -> None:
    leader = Leader(monkeypatch, Settings(retention_ms=limit_ms, retention_bytes=-1))
    first, second = (NOW_MS - age for age in ages_ms)
    leader.extents[:2] = [Extent(0, 3, 50, first), Extent(3, 5, 60, second)]
    assert leader.look(start) == broken


@pytest.mark.parametrize(("hw", "broken"), [(2, []), (3, ["D11"])])
def test_what_is_not_committed_stays(hw: int, broken: list[str], monkeypatch: Patch) -> None:
    leader = Leader(monkeypatch)
    leader.partition.hw = hw
    assert leader.look() == broken


@pytest.mark.parametrize(("count", "broken"), [(0, []), (1, []), (2, ["D11"])])
def test_the_segment_that_is_written_stays(
    count: int, broken: list[str], monkeypatch: Patch
) -> None:
    leader = Leader(monkeypatch, Settings(retention_ms=-1, retention_bytes=0))
    del leader.extents[count:]
    assert leader.look() == broken


OLD, NEW = NOW_MS - 501, NOW_MS - 500
"""Older than retention.ms, and just not."""


@pytest.mark.parametrize(
    ("written", "limit_ms", "broken"),
    [
        (Extent(5, 6, 40, OLD), 500, ["D11"]),
        (Extent(5, 6, 40, NEW), 500, []),
        (Extent(5, 5, 0, -1), 500, []),
        (Extent(5, 6, 40, OLD), -1, []),
        (Extent(5, 6, 40, NOW_MS - 1), 0, ["D11"]),
    ],
)
@pytest.mark.parametrize("leading", [False, True])
def test_a_segment_that_is_written_is_closed_once_it_is_too_old(
    written: Extent, limit_ms: int, broken: list[str], leading: bool, monkeypatch: Patch
) -> None:
    leader = Leader(monkeypatch, Settings(retention_ms=limit_ms, retention_bytes=-1))
    leader.partition.leading = leading
    leader.extents[:] = [written]
    assert leader.look(5) == []
    assert leader.step(leader.world.now + 1) == broken


@pytest.mark.parametrize(
    ("segments", "start", "broken"),
    [
        ([Extent(0, 3, 50, 0), Extent(3, 6, 10, 0)], 3, ["D11"]),
        ([Extent(0, 3, 50, 0), Extent(3, 6, 10, 0)], 2, []),
        ([Extent(0, 3, 50, 0)], 3, []),
    ],
)
def test_a_closed_segment_goes_with_its_last_record(
    segments: list[Extent], start: int, broken: list[str], monkeypatch: Patch
) -> None:
    leader = Leader(monkeypatch, Settings(retention_ms=-1, retention_bytes=-1))
    leader.extents[:] = segments
    assert leader.look(start) == []
    assert leader.step(leader.world.now + 1) == broken


@pytest.mark.parametrize("what", ["trouble", "process", "closed", "another", "full"])
def test_a_segment_need_not_go(what: str, monkeypatch: Patch) -> None:
    """The disk has no room at the look, or the process has ended, or the look has closed it."""
    leader = Leader(monkeypatch, Settings(retention_ms=500, retention_bytes=-1))
    leader.extents[:] = [Extent(5, 6, 40, OLD)]
    if what == "trouble":
        leader.disk.trouble = object()
    elif what == "full":
        leader.disk.logs.full.add(KEY)
    leader.look(5)
    leader.disk.trouble = None
    leader.disk.logs.full.clear()
    if what == "process":
        leader.host.node = leader.node()
    elif what == "closed":
        leader.extents.append(Extent(6, 6, 0, -1))
    elif what == "another":
        leader.extents[:] = [Extent(6, 7, 60, OLD)]
    assert leader.step(leader.world.now + 1) == []


@pytest.mark.parametrize("what", ["log", "lead", "full", "broker", "data", "node"])
def test_only_logs_of_leaders_are_judged(what: str, monkeypatch: Patch) -> None:
    leader = Leader(monkeypatch)
    if what == "log":
        leader.partition.log = None
    elif what == "lead":
        leader.partition.leading = False
    elif what == "full":
        leader.disk.logs.full.add(KEY)
    elif what == "node":
        leader.host.node = object()
    else:
        leader.host.node = SimpleNamespace(broker=SimpleNamespace(data=None))
        if what == "broker":
            leader.host.node.broker = None
    assert leader.look() == []


def test_a_new_process_has_not_looked(monkeypatch: Patch) -> None:
    leader = Leader(monkeypatch)
    leader.core.retain_at, leader.host.node = 9, leader.node()
    assert leader.step(1) == []
    assert leader.look() == ["D11"]


LATE_US = INTERVAL_US + STEPS_US


@pytest.mark.parametrize(
    ("noticed_us", "more_us", "broken"),
    [
        (LATE_US, STEPS_US, []),
        (LATE_US + 1, STEPS_US - 1, []),
        (LATE_US + 1, STEPS_US, ["D11"]),
    ],
)
def test_a_broker_looks_in_time(
    noticed_us: int, more_us: int, broken: list[str], monkeypatch: Patch
) -> None:
    """A process that was busy when it was due gets a second more."""
    leader = Leader(monkeypatch)
    leader.step(noticed_us)
    assert leader.step(noticed_us + more_us) == broken


def test_a_broker_that_does_not_look_is_reported_once_in_a_while(monkeypatch: Patch) -> None:
    leader = Leader(monkeypatch)
    leader.step(LATE_US + 1)
    once = LATE_US + 1 + STEPS_US
    assert leader.step(once) == ["D11"]
    assert leader.step(once + LATE_US + 1) == ["D11"]
    assert leader.step(once + LATE_US + 1 + STEPS_US) == ["D11"] * 2


def test_each_look_begins_the_time_again(monkeypatch: Patch) -> None:
    leader = Leader(monkeypatch)
    leader.step(LATE_US + 1)
    leader.look(3)
    del leader.extents[0]
    leader.step(LATE_US + 1 + STEPS_US)
    assert leader.step(2 * LATE_US) == []


@pytest.mark.parametrize(("late_us", "broken"), [(0, []), (1, ["D11"])])
def test_brokers_look_every_five_minutes_by_default(
    late_us: int, broken: list[str], monkeypatch: Patch
) -> None:
    leader = Leader(monkeypatch)
    leader.world.knobs.settings_of = lambda _: {}
    leader.look(3)
    del leader.extents[0]
    noticed = 300_000_000 + STEPS_US + late_us
    leader.step(noticed)
    assert leader.step(noticed + STEPS_US) == broken

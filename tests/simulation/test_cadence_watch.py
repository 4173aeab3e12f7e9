"""F12: snapshots begin in time, and not too early. The interval is 3 s, the limit 1000 bytes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.checkers.kraft import limits
from kraftwreck.checkers.kraft.limits import DRIFT_US, STEPS_US
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.consensus.effects import Tick
from kraftwreck.nodes.metadata.image import MetadataImage
from kraftwreck.nodes.node_config import NodeConfig
from kraftwreck.nodes.replication.events import LogFlushed
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import cadence_watch
from kraftwreck.systems.kraft.simulated.cadence_watch import CadenceWatch, wrong_in_a_transaction

pytestmark = pytest.mark.interpreted

INTERVAL_US = 3_000_000
LIMIT = 1_000
START = 500_000
DUE = START + INTERVAL_US
EPOCH = 1
SETTINGS = {"snapshot_bytes": LIMIT, "snapshot_interval_ms": INTERVAL_US // 1000}


def fake(**fields: Any) -> Any:
    return SimpleNamespace(**fields)


def snapshot(end: int) -> Any:
    return fake(id=(end, EPOCH))


class Process:
    """A process that starts at 0.5 s, and then commits ten records of one byte."""

    def __init__(self, patch: pytest.MonkeyPatch, settings: dict[str, int] = SETTINGS) -> None:
        self.failures = Failures()
        self.sizes = dict.fromkeys(range(100), 1)
        self.image = fake(stable_offset=-1, in_transaction=False)
        self.loader = fake(loading=None, generating=None)
        log = fake(batches_between=self.batches)
        self.replica = fake(log=log, high_watermark=0, snapshots=[])
        self.host = fake(
            id=1,
            name="n1",
            node=fake(replica=self.replica, image=self.image, loader=self.loader),
            clock=fake(elapsed=lambda since, now: now - since),
            waited=lambda since, now, slack: max(0, now - since - slack),
        )
        self.world = fake(
            now=START,
            hosts=[self.host],
            on_trace=[],
            on_step=[],
            afterwards=lambda judge: None,
            knobs=fake(settings_of=lambda _: settings),
        )
        patch.setattr(cadence_watch, "Node", SimpleNamespace)
        CadenceWatch(self.world, self.failures)
        self.trace("start")
        self.step(START)
        self.commit(10)

    def batches(self, start: int, end: int) -> list[tuple[bytes, None]]:
        return [(bytes(self.sizes[offset]), None) for offset in range(start, end)]

    def trace(self, kind: str, **detail: Any) -> list[str]:
        event = TraceEvent(
            node="n1",
            incarnation=1,
            seq=0,
            mono=0,
            wall=0,
            kind=kind,
            state="follower",
            epoch=EPOCH,
            leader=2,
            voted=-1,
            leo=10,
            hw=10,
            detail=detail,
        )
        self.world.on_trace[0](self.host, event)
        return self.found

    def step(self, at: int, event: object = None) -> list[str]:
        self.world.now = at
        self.world.on_step[0](self.host, event or Tick())
        return self.found

    def commit(self, end: int, size: int = 1) -> None:
        """Commit the records before ``end``, the last of which has ``size`` bytes."""
        self.image.stable_offset = end - 1
        self.sizes[end - 1] = size

    def begin(self, end: int, at: int) -> None:
        self.commit(end, self.sizes[end - 1])
        self.loader.generating = (end, EPOCH)
        self.step(at)

    def finish(self, end: int, at: int) -> list[str]:
        self.loader.generating = None
        self.replica.snapshots.append(snapshot(end))
        self.step(at)
        return self.trace("snapshot", end=end, epoch=EPOCH, by="created")

    def make(self, end: int, at: int) -> list[str]:
        """Begin a snapshot at ``at``, and end it half a second later."""
        self.begin(end, at)
        return self.finish(end, at + 500_000)

    @property
    def found(self) -> list[str]:
        return [failure.type for failure in self.failures.items]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Process:
    return Process(monkeypatch)


# --- too late ---------------------------------------------------------------------------------


def test_f12_a_snapshot_by_time_is_missing(run: Process) -> None:
    assert run.step(DUE) == []
    assert run.step(DUE + STEPS_US) == []
    assert run.step(DUE + STEPS_US + 1) == ["F12"]
    assert "10" in run.failures.items[0].explanation
    assert run.step(DUE + 3 * STEPS_US) == ["F12"], "it is reported once"


def test_f12_a_snapshot_is_due_by_time_from_the_end_of_the_interval(run: Process) -> None:
    run.step(DUE - 1)
    assert run.step(DUE + STEPS_US) == []
    assert run.step(DUE + 2 * STEPS_US) == []
    assert run.step(DUE + 2 * STEPS_US + 1) == ["F12"]


def test_f12_a_snapshot_by_bytes_is_missing(run: Process) -> None:
    run.commit(11, LIMIT - 10)
    assert run.step(START) == []
    assert run.step(START + STEPS_US) == []
    assert run.step(START + STEPS_US + 1) == ["F12"]
    run.commit(12)
    assert run.step(START + 2 * STEPS_US + 2) == ["F12"]


def test_f12_one_byte_less_is_not_enough(run: Process) -> None:
    run.commit(11, LIMIT - 11)
    assert run.step(START) == run.step(START + STEPS_US + 1) == []
    run.commit(12)
    assert run.step(START + STEPS_US + 1) == run.step(START + 2 * STEPS_US + 1) == []
    assert run.step(START + 2 * STEPS_US + 2) == ["F12"], "all batches count together"


def test_f12_bytes_count_from_the_last_snapshot(run: Process) -> None:
    run.commit(11, LIMIT)
    run.make(11, START)
    run.commit(12, LIMIT - 1)
    assert run.step(START + 500_001) == run.step(DUE - 1) == []
    run.commit(13)
    assert run.step(DUE - 1) == []
    assert run.step(DUE + STEPS_US) == ["F12"]


def test_f12_a_node_that_is_late_by_less_is_right(run: Process) -> None:
    run.step(DUE)
    run.make(10, DUE + STEPS_US)
    run.commit(11)
    assert run.step(DUE + STEPS_US + INTERVAL_US - 1) == []
    assert run.step(DUE + 2 * STEPS_US + INTERVAL_US) == []


def test_f12_a_node_without_news_owes_nothing(run: Process) -> None:
    run.make(10, START)
    assert run.step(10 * DUE) == []
    run.commit(11)
    assert run.step(20 * DUE) == run.step(20 * DUE + STEPS_US) == []
    assert run.step(20 * DUE + STEPS_US + 1) == ["F12"]


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("loader", "loading", (5, 1)),
        ("loader", "generating", (10, 1)),
        ("image", "in_transaction", True),
        ("image", "stable_offset", -1),
        ("replica", "high_watermark", -1),
        ("replica", "snapshots", [snapshot(10)]),
    ],
)
def test_f12_no_snapshot_can_begin(run: Process, part: str, name: str, value: object) -> None:
    run.sizes[9] = LIMIT
    assert run.step(DUE) == []
    setattr(getattr(run, part), name, value)
    for at in (DUE + STEPS_US + 1, 2 * DUE, 3 * DUE):
        assert run.step(at) == []


def test_f12_a_node_without_a_limit_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Process(monkeypatch, {**SETTINGS, "snapshot_interval_ms": 0})
    assert run.step(DUE) == run.step(2 * DUE) == []
    run.make(10, 2 * DUE)
    run.sizes[10] = LIMIT - 1
    assert run.make(11, 10 * DUE) == ["F12"], "bytes alone count"


def test_f12_a_loaded_snapshot_begins_the_time_again(run: Process) -> None:
    run.step(DUE)
    run.world.now = DUE + STEPS_US
    run.trace("load", end=5)
    assert run.step(DUE + STEPS_US + 1) == run.step(DUE + STEPS_US + INTERVAL_US - 1) == []
    assert run.step(DUE + 2 * STEPS_US + INTERVAL_US) == []


def test_f12_a_new_process_begins_the_time_again(run: Process) -> None:
    run.step(DUE)
    run.world.now = DUE + STEPS_US
    run.trace("start")
    assert run.step(DUE + STEPS_US + 1) == run.step(DUE + 2 * STEPS_US + 2) == []


def test_f12_events_of_the_data_plane_begin_no_snapshot(run: Process) -> None:
    flushed = LogFlushed((bytes(16), 0), 0, 0, 0)
    for at in (DUE, 2 * DUE, 3 * DUE):
        assert run.step(at, flushed) == []


@pytest.mark.parametrize("started", [True, False])
def test_f12_only_nodes_that_have_started_are_judged(run: Process, started: bool) -> None:
    if started:
        run.host.node = None
    run.trace("start")
    if not started:
        run.host.node = None
    assert run.step(DUE) == run.step(2 * DUE) == []
    run.trace("load", end=5)


# --- too early --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("after", "size", "right"),
    [
        (INTERVAL_US - DRIFT_US, LIMIT - 1, True),
        (INTERVAL_US - DRIFT_US - 1, LIMIT - 1, False),
        (600_000, LIMIT, True),
        (600_000, LIMIT - 1, False),
    ],
)
def test_f12_a_snapshot_waits_for_time_or_bytes(
    run: Process, after: int, size: int, right: bool
) -> None:
    run.sizes[9] = LIMIT
    assert run.make(10, START) == []
    run.sizes[10] = size
    assert run.make(11, START + after) == ([] if right else ["F12"])
    assert all("up to 11" in failure.explanation for failure in run.failures.items)


def test_f12_only_finished_snapshots_are_early(run: Process) -> None:
    """One that a loaded snapshot replaces is abandoned."""
    run.make(10, START)
    run.begin(20, START + 600_000)
    run.loader.generating = None
    run.replica.snapshots.append(snapshot(30))
    assert run.step(START + 600_001) == []
    run.trace("load", end=30)
    assert run.make(40, START + 600_002) == [], "when the node began to load it is unknown"
    assert run.make(50, START + 1_200_000) == ["F12"]


def test_f12_the_first_snapshot_of_a_process_is_not_early(run: Process) -> None:
    run.make(10, START)
    run.trace("start")
    assert run.make(20, START + 600_000) == []
    run.trace("load", end=20)
    assert run.make(30, START + 1_200_000) == []


def test_f12_defaults_are_those_of_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert NodeConfig.__dataclass_fields__["snapshot_bytes"].default == limits.SNAPSHOT_BYTES
    interval = NodeConfig.__dataclass_fields__["snapshot_interval_ms"].default
    assert interval == limits.SNAPSHOT_INTERVAL_MS
    run = Process(monkeypatch, {})
    run.commit(11, LIMIT)
    assert run.step(DUE) == run.step(2 * DUE) == []


def test_no_snapshot_is_due_in_a_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(wrong_in_a_transaction()) == []
    monkeypatch.setattr(MetadataImage, "in_transaction", False)
    assert "after a BeginTransactionRecord" in next(wrong_in_a_transaction())

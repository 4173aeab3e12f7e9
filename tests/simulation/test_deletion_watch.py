"""D11: a leader deletes what a client has asked for, or what the limits of its topic allow."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.replication.events import DeleteRecordsReceived, Settings
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import deletion_watch

pytestmark = pytest.mark.interpreted

Patch = pytest.MonkeyPatch
SECOND = 1_000_000


class Deleting:
    """A leader at 10 s by its clock, whose log begins at 3 after it has deleted batches."""

    def __init__(self, patch: Patch, settings: Settings, size: int = 0) -> None:
        self.key, self.failures = (bytes(16), 0), Failures()
        world: Any = SimpleNamespace(now=0, on_step=[], on_emit=[])
        self.clock = SimpleNamespace(wall=lambda now: 10 * SECOND)
        self.host: Any = SimpleNamespace(id=4, life=1, name="b1", clock=self.clock)
        self.leader = SimpleNamespace(leading=True, is_opening=False, hw=3, settings=settings)
        self.log = SimpleNamespace(start=3, batches=[SimpleNamespace(size=size)])
        logs = SimpleNamespace(on_delete=[], of=lambda host, key: self.log)
        watch: Any = SimpleNamespace(logs=logs)
        self.traffic: Any = SimpleNamespace(on_request=[])
        patch.setattr(deletion_watch, "record_traffic", lambda world: self.traffic)
        patch.setattr(deletion_watch, "replicas_on", lambda host: {self.key: self.leader})
        deletion_watch.DeletionWatch(world, self.failures, watch)
        self.world, self.logs = world, logs
        self.event: DeleteRecordsReceived | None = None

    def asked(self, offset: int) -> None:
        self.event = DeleteRecordsReceived(1, 1000, ((self.key, offset),))
        message: Any = SimpleNamespace(call=SimpleNamespace(event=self.event))
        self.traffic.on_request[0](self.host, message)

    def step(self) -> None:
        event, self.event = self.event, None
        self.world.on_step[0](self.host, event)

    def delete(self, *batches: tuple[int, int]) -> None:
        """Delete batches: (timestamp, size)."""
        removed = [SimpleNamespace(max_timestamp=at, size=size) for at, size in batches]
        self.logs.on_delete[0](self.host, self.key, 0, removed)

    def emit(self) -> None:
        self.world.on_emit[0](self.host)

    @property
    def broken(self) -> list[str]:
        return [failure.type for failure in self.failures.items]


def test_a_record_is_as_old_as_the_clock_said_when_it_was_deleted(monkeypatch: Patch) -> None:
    """D11 reads the wall clock when the leader decides: it may jump before the disk is done."""
    leader = Deleting(monkeypatch, Settings(retention_ms=1000))
    leader.step()
    leader.clock.wall = lambda now: 9 * SECOND
    leader.delete((8_500, 1))
    assert not leader.broken
    leader.step()
    leader.delete((8_500, 1))
    assert leader.broken == ["D11"]


@pytest.mark.parametrize(
    ("batches", "broken"),
    [
        (((9_999, 10), (5_000, 10)), []),  # The first one is too many, the second one too old.
        (((5_000, 10), (9_999, 10)), ["D11"]),
        (((9_999, 10), (9_999, 10)), ["D11"]),
        (((5_000, 10), (5_000, 10)), []),
    ],
)
def test_each_deleted_batch_is_too_old_or_too_many(
    batches: tuple[tuple[int, int], ...], broken: list[str], monkeypatch: Patch
) -> None:
    """Both limits of a topic may be set, and clients choose timestamps: 95 bytes are left."""
    leader = Deleting(monkeypatch, Settings(retention_ms=1000, retention_bytes=100), 95)
    leader.step()
    leader.delete(*batches)
    assert leader.broken == broken


@pytest.mark.parametrize(
    ("limits", "timestamp", "left", "broken"),
    [
        ({"retention_ms": 1000}, 8_999, 95, []),
        ({"retention_ms": 1000}, 9_000, 95, ["D11"]),
        ({"retention_ms": 0}, 9_999, 95, []),
        ({"retention_ms": -1}, 0, 95, ["D11"]),
        ({"retention_ms": -1, "retention_bytes": 95}, 0, 95, []),
        ({"retention_ms": -1, "retention_bytes": 95}, 0, 94, ["D11"]),
        ({"retention_ms": -1, "retention_bytes": 0}, 0, 0, []),
    ],
)
def test_a_batch_goes_once_it_is_too_old_or_enough_is_left_without_it(
    limits: dict[str, Any], timestamp: int, left: int, broken: list[str], monkeypatch: Patch
) -> None:
    """A limit of 0 keeps nothing, one of -1 is none."""
    leader = Deleting(monkeypatch, Settings(**limits), left)
    leader.step()
    leader.delete((timestamp, 1))
    assert leader.broken == broken


def test_a_deletion_up_to_the_high_watermark_is_asked_for_once(monkeypatch: Patch) -> None:
    """DeleteRecords with offset -1 allows what was committed then, not what comes later."""
    leader = Deleting(monkeypatch, Settings(retention_ms=1000))
    leader.asked(-1)
    leader.leader.is_opening = True
    leader.step()
    leader.emit()
    leader.leader.is_opening = False  # The request waited until the log was open.
    leader.step()
    leader.delete((9_999, 1))
    leader.emit()
    assert not leader.broken
    leader.log.start = leader.leader.hw = 4
    leader.step()
    leader.delete((9_999, 1))
    assert leader.broken == ["D11"]


def test_a_process_forgets_the_deletions_that_it_was_asked_for(monkeypatch: Patch) -> None:
    leader = Deleting(monkeypatch, Settings(retention_ms=1000))
    leader.asked(-1)
    leader.step()
    leader.host.life = 2
    leader.step()
    leader.delete((9_999, 1))
    assert leader.broken == ["D11"]
    leader.emit()
    leader.delete((9_999, 1))
    assert leader.broken == ["D11"] * 2

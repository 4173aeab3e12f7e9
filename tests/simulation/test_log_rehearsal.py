"""D2, D3, D7, D11: the core knows what is left of a log that is cut again and again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.replication.epoch_cache import LeaderEpochs
from kraftwreck.nodes.replication.events import LogOpened, Settings
from kraftwreck.nodes.replication.log_view import LogView
from kraftwreck.nodes.replication.producers import Producers
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated.log_rehearsal import KEY, LogRehearsal, wrong_logs

pytestmark = pytest.mark.interpreted

Patch = pytest.MonkeyPatch


def is_right(patch: Patch) -> None:
    """Nothing is wrong."""


def keeps(patch: Patch, *names: str) -> None:
    """Let a cut leave some values as they were."""
    truncate = LogView.truncate

    def planted(self: LogView, end_offset: int, *, written: bool = True) -> bool:
        before = {name: getattr(self, name) for name in names}
        found = truncate(self, end_offset, written=written)
        for name, value in before.items():
            setattr(self, name, value)
        return found

    patch.setattr(LogView, "truncate", planted)


def keeps_the_end(patch: Patch) -> None:
    keeps(patch, "end")


def keeps_the_size(patch: Patch) -> None:
    keeps(patch, "size")


def keeps_producers(patch: Patch) -> None:
    keeps(patch, "producers")


def keeps_epochs(patch: Patch) -> None:
    patch.setattr(LeaderEpochs, "truncate_from", lambda self, end: None)


def shares_older_producers(patch: Patch) -> None:
    patch.setattr(Producers, "copy", lambda self: self)


def counts_deleted_bytes(patch: Patch) -> None:
    delete = LogView.delete_up_to

    def planted(self: LogView, start_offset: int) -> None:
        before = self.size
        delete(self, start_offset)
        self.size = before

    patch.setattr(LogView, "delete_up_to", planted)


def forgets_segments(patch: Patch) -> None:
    truncate = LogView.truncate

    def planted(self: LogView, end_offset: int, *, written: bool = True) -> bool:
        found = truncate(self, end_offset, written=written)
        self.segments.pop()
        return found

    patch.setattr(LogView, "truncate", planted)


def retains(
    patch: Patch, change: Callable[[Settings, int, int], tuple[Settings, int, int]]
) -> None:
    """Let a log apply other limits than those given."""
    retained = LogView.retained_from

    def planted(self: LogView, settings: Settings, high_watermark: int, wall_ms: int) -> int:
        return retained(self, *change(settings, high_watermark, wall_ms))

    patch.setattr(LogView, "retained_from", planted)


def keeps_fewer_bytes(patch: Patch) -> None:
    def change(settings: Settings, hw: int, wall: int) -> tuple[Settings, int, int]:
        size = settings.retention_bytes
        return replace(settings, retention_bytes=size - 1 if size > 0 else size), hw, wall

    retains(patch, change)


def keeps_more_bytes(patch: Patch) -> None:
    def change(settings: Settings, hw: int, wall: int) -> tuple[Settings, int, int]:
        size = settings.retention_bytes
        return replace(settings, retention_bytes=size + 1 if size > 0 else size), hw, wall

    retains(patch, change)


def lets_records_expire_early(patch: Patch) -> None:
    retains(patch, lambda settings, hw, wall: (settings, hw, wall + 1))


def lets_records_expire_late(patch: Patch) -> None:
    retains(patch, lambda settings, hw, wall: (settings, hw, wall - 1))


def deletes_what_is_not_committed(patch: Patch) -> None:
    retains(patch, lambda settings, hw, wall: (settings, 1 << 62, wall))


@pytest.mark.parametrize(
    ("plant", "broken"),
    [
        (is_right, []),
        (keeps_fewer_bytes, ["D11"]),
        (keeps_more_bytes, ["D11"]),
        (lets_records_expire_early, ["D11"]),
        (lets_records_expire_late, ["D11"]),
        (deletes_what_is_not_committed, ["D11"]),
        (keeps_the_end, ["D2"]),
        (keeps_the_size, ["D11"]),
        (keeps_producers, ["D3"]),
        (keeps_epochs, ["D7"]),
        (shares_older_producers, ["D3"]),
        (counts_deleted_bytes, ["D11"]),
        (forgets_segments, ["D11"]),
    ],
)
def test_a_cut_takes_back_all_that_is_known(
    plant: Callable[[Patch], None], broken: list[str], monkeypatch: Patch
) -> None:
    plant(monkeypatch)
    assert [rule for rule, _ in wrong_logs()] == broken


def test_a_log_is_invented_once_in_a_run(monkeypatch: Patch) -> None:
    failures = Failures()
    world: Any = SimpleNamespace(now=0, on_caused=[])
    host: Any = SimpleNamespace(name="b4")
    LogRehearsal(world, failures)
    keeps_the_size(monkeypatch)
    (look,) = world.on_caused
    look(host, object())
    assert not failures
    for _ in range(2):
        look(host, LogOpened(KEY, 0, 0, (), (), 0))
    assert [failure.type for failure in failures.items] == ["D11"]

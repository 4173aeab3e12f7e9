"""F37: a shell keeps its order while its disk works."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.server import shell
from kraftwreck.nodes.server.shell import Shell
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated.shell_rehearsal import CASES, ShellRehearsal, misdone

pytestmark = pytest.mark.interpreted

Patch = pytest.MonkeyPatch


def found() -> list[str]:
    return [wrong for case in CASES for wrong in misdone(case)]


def test_a_shell_keeps_its_order() -> None:
    assert found() == []


def illegal_states_are_forgotten(patch: Patch) -> None:
    flushed = Shell._flushed

    def planted(self: Any, result: None) -> None:
        self._fatal = None
        flushed(self, result)

    patch.setattr(Shell, "_flushed", planted)


def events_wait_for_nothing(patch: Patch) -> None:
    patch.setattr(shell, "is_from_shell", lambda event: True)


def all_events_wait(patch: Patch) -> None:
    patch.setattr(shell, "is_from_shell", lambda event: False)


def traces_are_lost(patch: Patch) -> None:
    flushed = Shell._flushed

    def planted(self: Any, result: None) -> None:
        while len(self._unsaid) > 1:
            self._unsaid.pop()
        flushed(self, result)

    patch.setattr(Shell, "_flushed", planted)


def lives_without_a_disk(patch: Patch) -> None:
    patch.setattr(Shell, "work_failed", lambda self, error: None)


@pytest.mark.parametrize(
    "bug",
    [
        illegal_states_are_forgotten,
        events_wait_for_nothing,
        all_events_wait,
        traces_are_lost,
        lives_without_a_disk,
    ],
    ids=lambda bug: bug.__name__,
)
def test_another_order_is_found(bug: Callable[[Patch], None], monkeypatch: Patch) -> None:
    bug(monkeypatch)
    assert found()


def test_a_run_reports_the_first_one(monkeypatch: Patch) -> None:
    world: Any = SimpleNamespace(now=0, later=[])
    world.afterwards = world.later.append
    failures = Failures()
    ShellRehearsal(world, failures)
    lives_without_a_disk(monkeypatch)
    for judge in world.later:
        judge()
    assert [each.type for each in failures.items] == ["F37"]

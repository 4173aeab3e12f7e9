"""F16: the step that gives an unfinished snapshot up removes it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.consensus.effects import AppendSnapshot, DropSnapshot, FinishSnapshot, Tick
from kraftwreck.nodes.consensus.kraft.states import Download, Follower
from kraftwreck.nodes.replication.events import LogFlushed
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import unfinished_watch
from kraftwreck.systems.kraft.simulated.unfinished_watch import UnfinishedWatch

pytestmark = pytest.mark.interpreted

PIECE = AppendSnapshot(9, 2, 0, b"piece")


def fake(**fields: Any) -> Any:
    return SimpleNamespace(**fields)


class Process:
    """A process that makes or fetches snapshots."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.failures = Failures()
        self.loader = SimpleNamespace(generating=None)
        self.replica = SimpleNamespace(state=None)
        node = SimpleNamespace(loader=self.loader, replica=self.replica)
        self.host = fake(id=1, name="n1", node=node)
        self.world = fake(now=0, on_disk=[], on_trace=[], on_step=[])
        patch.setattr(unfinished_watch, "Node", SimpleNamespace)
        UnfinishedWatch(self.world, self.failures)

    def fetches(self, name: tuple[int, int] | None) -> None:
        """Follow a leader and fetch its snapshot ``name``, if any."""
        state = Follower.__new__(Follower)
        state.download = Download(*name) if name is not None else None
        self.replica.state = state

    def step(self, *effects: Any, event: Any = None) -> list[str]:
        """Make a step with these effects; return the rules that were broken until then."""
        for judge in self.world.on_step:
            judge(self.host, event or Tick())
        for effect in effects:
            for judge in self.world.on_disk:
                judge(self.host, effect)
        return [each.type for each in self.failures.items]


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Process:
    return Process(monkeypatch)


def test_an_unfinished_snapshot_stays_while_it_is_fetched_or_made(process: Process) -> None:
    process.fetches((9, 2))
    process.step(PIECE)
    assert [process.step() for _ in range(3)][-1] == []
    process.fetches(None)
    process.loader.generating = 9, 2
    assert [process.step() for _ in range(3)][-1] == []


@pytest.mark.parametrize("end", [DropSnapshot(9, 2), FinishSnapshot(9, 2)])
def test_the_step_that_gives_it_up_removes_it(process: Process, end: Any) -> None:
    process.fetches((9, 2))
    process.step(PIECE)
    process.fetches(None)
    process.step(end)
    assert process.step() == []


@pytest.mark.parametrize("following", [None, (10, 2), (9, 3)])
def test_a_file_that_stays_is_found_after_that_step(
    process: Process, following: tuple[int, int] | None
) -> None:
    process.fetches((9, 2))
    process.step(PIECE)
    process.fetches(following)
    assert process.step() == []
    assert process.step() == ["F16"]
    assert process.step() == ["F16"], "it is reported once"


def test_events_of_the_disk_come_while_the_step_before_is_written(process: Process) -> None:
    process.fetches((9, 2))
    process.step(PIECE)
    process.fetches(None)
    flushed = LogFlushed.__new__(LogFlushed)
    process.step()
    assert process.step(event=flushed) == []
    assert process.step(DropSnapshot(9, 2)) == ["F16"], "two steps of the core are too many"


def test_a_start_removes_what_is_left(process: Process) -> None:
    process.fetches((9, 2))
    process.step(PIECE)
    process.fetches(None)
    process.step()
    for judge in process.world.on_trace:
        judge(process.host, SimpleNamespace(kind="start"))
    assert process.step() == []


def test_a_host_without_a_node_is_not_judged(process: Process) -> None:
    process.step(PIECE)
    process.host.node = None
    assert [process.step() for _ in range(3)][-1] == []

"""A replay in another process begins before the run has its final name, and only saves time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.nodes.consensus.effects import Tick
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.recovered import Recovered
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.node_config import NodeConfig
from kraftwreck.nodes.server.input_log import InputLog
from kraftwreck.runs import replay
from kraftwreck.runs.node_replay import ReplayAhead
from kraftwreck.runs.replay import check_replay, replay_nodes

Damage = Callable[[Path], object]


@pytest.fixture
def ahead() -> Iterator[ReplayAhead]:
    made = ReplayAhead()
    yield made
    made.close()


@pytest.fixture
def running(tmp_path: Path) -> Path:
    """A run that has not got its final name, with the recordings of one node."""
    run = tmp_path / "one.running"
    folder = run / "nodes" / "n1"
    folder.mkdir(parents=True)
    config = NodeConfig(1, "cluster", bytes(16), {1: Endpoint("n1", 1)})
    node, log = Node(config, Recovered(), 0, 0), InputLog(folder / "inputs.log")
    log.start(config, Recovered(), 0, 0, node.start(0, 0))
    log.step(Tick(), 5, 1000, node.step(Tick(), 5, 1))
    return run


def complete(run: Path) -> Path:
    return run.rename(run.with_suffix(""))


def test_it_gives_the_results_of_a_replay_in_this_process(
    running: Path, ahead: ReplayAhead, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead.prepare(running)
    ahead.begin()
    run = complete(running)
    expected = check_replay(run, {})

    def never(*_: Any) -> Any:
        raise AssertionError("replayed twice")

    monkeypatch.setattr(replay, "replay_nodes", never)
    assert check_replay(run, {}, ahead) == expected
    assert expected.valid is True
    assert expected.stats["inputs"] == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda log: log.write_bytes(log.read_bytes() + b"{}\n"),
        lambda log: log.unlink(),
        lambda log: log.write_bytes(b"nonsense"),
    ],
)
def test_what_is_not_the_same_is_reported_under_the_final_name(
    running: Path, ahead: ReplayAhead, damage: Damage
) -> None:
    damage(running / "nodes" / "n1" / "inputs.log")
    ahead.prepare(running)
    ahead.begin()
    run = complete(running)
    (expected,) = replay_nodes(run, None)
    found = check_replay(run, {}, ahead)
    assert found == check_replay(run, {})
    assert found.valid is not True
    said = found.error or found.anomalies[0].explanation
    assert expected["reason"] in said
    assert ".running" not in said


def test_without_it_the_nodes_are_replayed_here(
    running: Path, ahead: ReplayAhead, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/nonexistent")
    ahead.prepare(running)
    ahead.begin()
    assert ahead.results() is None
    assert check_replay(running, {}, ahead).valid is True


def test_one_that_never_began_ends(running: Path, ahead: ReplayAhead) -> None:
    ahead.prepare(running)
    ahead.close()
    assert ahead.results() is None


def test_one_that_is_not_wanted_any_more_ends(running: Path, ahead: ReplayAhead) -> None:
    ahead.prepare(running)
    ahead.begin()
    ahead.close()
    assert ahead.results() is None

"""Mistakes in a workload of a user's own are one line, and name its file and line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]

CORE = """
from dataclasses import replace

from kraftwreck.examples.two_phase_commit import FIXED, Transactions


class Faulty(Transactions):
    {body}


SYSTEM = replace(FIXED, workload=Faulty())
"""


@pytest.fixture
def faulty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: Any) -> str:
    """A module with a core whose workload has the class body of the parameter."""
    name = f"faulty_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(CORE.format(body=request.param))
    monkeypatch.syspath_prepend(tmp_path)
    return name


RUNS = pytest.mark.parametrize(
    "command", [("run", "-t", "1"), ("sim", "-t", "1", "--seeds", "0", "--jobs", "1")]
)


@RUNS
@pytest.mark.parametrize(
    ("faulty", "said"),
    [
        ("def final(self, nodes): return [nodes[9]]", "IndexError: "),
        ("def generator(self, load): return load.speed", "AttributeError: 'Load' object has no"),
        ("def plan(self, seed, thread, count): return {}['kind']", "KeyError: 'kind'"),
        ("def plan(self, seed, thread, count): return 'read'", "Faulty.plan returned 'read', not "),
        ("def generator(self, load): return [load]", "Faulty.generator returned [Load("),
        ("def final(self, nodes): return nodes", "Faulty.final returned 'n1', not each operation"),
    ],
    indirect=["faulty"],
)
def test_a_plan_that_raises_or_is_nonsense_ends_the_command(
    kraftwreck: Command, tmp_path: Path, command: tuple[str, ...], faulty: str, said: str
) -> None:
    name, *options = command
    ended = kraftwreck(name, f"{faulty}:SYSTEM", *options, "--store", tmp_path / "store")
    assert ended.code == 254
    assert "Traceback" not in ended.err
    last = ended.err.splitlines()[-1]
    assert last.startswith(f"kraftwreck {name}: the workload cannot plan its operations: {said}")
    assert last.endswith(f"{faulty}.py:8)")


@RUNS
@pytest.mark.parametrize("faulty", ["checkers = ('linearisable',)"], indirect=True)
def test_a_checker_that_does_not_exist_is_refused_before_anything_starts(
    kraftwreck: Command, tmp_path: Path, command: tuple[str, ...], faulty: str
) -> None:
    name, *options = command
    ended = kraftwreck(name, f"{faulty}:SYSTEM", *options, "--store", tmp_path / "store")
    assert ended.code == 254
    (line,) = ended.err.splitlines()
    assert line.startswith(
        f"kraftwreck {name}: the workload transactions: no checker 'linearisable'; there are "
    )
    assert not (tmp_path / "store").exists()


TRACED = """
from dataclasses import replace

from kraftwreck.api import Note
from kraftwreck.examples.two_phase_commit import FIXED, Coordinator, Participant


class Odd(Coordinator):
    def start(self, now, wall_ms):
        return [Note("begin", {"odd": object()}), *super().start(now, wall_ms)]


def make(place):
    return Odd(place) if place.id == 1 else Participant(place, False)


SYSTEM = replace(FIXED, make=make)
"""


def test_a_trace_that_no_file_can_hold_ends_the_command(
    kraftwreck: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "odd_core.py").write_text(TRACED)
    monkeypatch.syspath_prepend(tmp_path)
    ended = kraftwreck("run", "odd_core:SYSTEM", "-t", "1", "--store", tmp_path / "store")
    assert ended.code == 254
    assert ended.err.splitlines()[-1].startswith(
        "kraftwreck run: trace.jsonl cannot hold what the system says: Encoding objects of type "
    )

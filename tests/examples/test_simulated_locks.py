"""The lock service in the simulator, on both cores, under faults."""

from __future__ import annotations

import msgspec
import pytest

from tests.examples.simulated_locks import SECOND, Run, Seen, contradictions


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["kraft", "raft"])
def test_locks_are_held_once_whatever_happens(kind: str, seed: int) -> None:
    run = Run(kind, seed, 20).run()
    assert run.wrong() == []
    assert run.seen[-1].answered > 18 * SECOND, "it serves again after the last fault"


@pytest.mark.parametrize("kind", ["kraft", "raft"])
def test_same_seed_makes_the_same_run(kind: str) -> None:
    once, again = (Run(kind, 5, 10).run() for _ in range(2))
    assert once.world.digest == again.world.digest
    assert once.seen == again.seen


def test_faults_change_leaders() -> None:
    events = [event for seed in range(4) for event in Run("raft", seed, 20).run().world.events]
    assert sum(event.kind == "elected" for event in events) > 5


def test_contradicting_traces_are_found() -> None:
    world = Run("raft", 1, 6, faulty=False).run().world
    assert contradictions(world.events) == []
    elected = next(e for e in world.events if e.kind == "elected")
    commit = next(e for e in world.events if e.kind == "commit")
    replace = msgspec.structs.replace
    forged = {
        "second leader": replace(elected, node="other"),
        "votes for": replace(elected, kind="state", voted=9),
        "another batch": replace(commit, detail=commit.detail | {"crc": 1}),
        "falls": replace(commit, kind="hw", hw=0),
    }
    for text, event in forged.items():
        assert text in " ".join(contradictions([*world.events, event]))


def test_contradicting_answers_are_found() -> None:
    run = Run("raft", 1, 1, faulty=False)
    run.seen = [Seen(1, 2, "l", "ann", 7), Seen(3, 4, "l", "bob", 7), Seen(5, 6, "l", "ann", 3)]
    two, old = run.wrong()
    assert "two holders" in two
    assert "older than version 7" in old

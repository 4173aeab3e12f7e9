"""C20: a node's own reads show the state that it had applied as it answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraftwreck.checkers.kraft.controller_model.exchanges import Commits
from kraftwreck.checkers.kraft.invariants.evidence import Evidence
from kraftwreck.checkers.kraft.recorded.capture import Capture

SECOND = 1_000_000_000


def shown(run: Any, time: float) -> tuple[int, int]:
    """Return the least and the greatest end that n2 may show at ``time`` (s)."""
    least, most, _ = Commits(Evidence(run)).shown("n2", int(time * SECOND))
    return least, most


@pytest.fixture
def two(cluster: Any, records: Any) -> tuple[int, int]:
    """The ends of two states: n2 has the second one 0.5 s after the first."""
    ends = []
    for name in ("a", "b"):
        cluster.time += 0.5
        cluster.write(records.topic(name, name.encode() * 16))
        ends.append(cluster.at["n2"]["hw"])
    return ends[0], ends[1]


def second_commit(cluster: Any) -> float:
    """Return when (s) n2 delivered the second state."""
    mono = [e.mono for e in cluster.events if (e.node, e.kind) == ("n2", "commit")]
    return float(mono[-1]) / 1e6


def test_a_step_that_commits_answers_from_before_or_after(
    two: Any, cluster: Any, make_run: Callable[..., Any]
) -> None:
    first, second = two
    run, at = make_run(None, cluster), second_commit(cluster)
    assert shown(run, at - 0.001) == (first, first)
    assert shown(run, at) == (first, second)
    assert shown(run, at + 0.001) == (second, second), "at once, without a tolerance"


def test_a_node_whose_image_lags_says_so(
    two: Any, cluster: Any, make_run: Callable[..., Any]
) -> None:
    """Seed 207 of 12 s with work_records=1: it applied the second state 1.2 s after its commit."""
    first, second = two
    cluster.time = second_commit(cluster) - 0.001
    cluster.event("n2", "apply", {"end": first})  # In the step that delivers the second state.
    at = cluster.time
    cluster.time += 1.2
    cluster.event("n2", "apply", {"end": second})
    run = make_run(None, cluster)
    assert shown(run, at + 1.1) == (first, first)
    assert shown(run, cluster.time) == (first, second)
    assert shown(run, cluster.time + 0.001) == (second, second)


def test_times_of_hosts_are_rounded_to_milliseconds(
    two: Any, cluster: Any, make_run: Callable[..., Any]
) -> None:
    first, second = two
    capture = Capture()
    capture.own_inputs = True
    run, at = make_run(None, cluster, capture=capture), second_commit(cluster)
    assert shown(run, at + 0.0009) == (first, second)
    assert shown(run, at + 0.0011) == (second, second)


def test_a_new_process_has_applied_nothing(
    two: Any, cluster: Any, make_run: Callable[..., Any]
) -> None:
    cluster.time += 0.5
    cluster.start("n2")
    assert shown(make_run(None, cluster), cluster.time) == (0, 0)


def test_a_loaded_snapshot_does_not_take_back_what_was_applied_after_it(
    two: Any, cluster: Any, make_run: Callable[..., Any]
) -> None:
    first, second = two
    cluster.event("n2", "load", {"end": first, "epoch": 1, "digest": ""})
    assert shown(make_run(None, cluster), cluster.time + 1) == (second, second)

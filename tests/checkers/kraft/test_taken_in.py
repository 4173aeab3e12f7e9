"""C20: a node's own reads show a state that it had applied, and never go back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraftwreck.checkers.kraft.controller_model.exchanges import Commits, Exchange
from kraftwreck.checkers.kraft.controller_model.state import State
from kraftwreck.checkers.kraft.controller_model.taken_in import TakenIn
from kraftwreck.checkers.kraft.invariants.controller import Controller
from kraftwreck.checkers.kraft.invariants.evidence import Evidence
from kraftwreck.histories.message import Message

SECOND = 1_000_000_000


class Shows:
    """Asks whether n2 may show a state. Times are seconds."""

    def __init__(self, run: Any) -> None:
        evidence = Evidence(run)
        self.taken_in = TakenIn(evidence, Controller.of(evidence).history, Commits.of(evidence))

    def __call__(self, sent: float, time: float, *ends: int) -> bool:
        """Whether an answer that fits the states ``ends`` is right."""
        message = Message(int(time * SECOND), 9, 2, "Metadata", {}, {}, sent=int(sent * SECOND))

        def fault(state: State) -> str | None:
            return None if state.end in ends else "another"

        exchange = Exchange(message, 0, 0, "n2 answers Metadata")
        return self.taken_in.fault(exchange, fault, serves=False) is None


@pytest.fixture
def two(cluster: Any, records: Any) -> tuple[int, int]:
    """The ends of two states: n2 has the second one 0.5 s after the first."""
    ends = []
    for name in ("a", "b"):
        cluster.time += 0.5
        cluster.write(records.topic(name, name.encode() * 16))
        ends.append(cluster.at["n2"]["hw"])
    return ends[0], ends[1]


@pytest.fixture
def shows(two: Any, cluster: Any, make_run: Callable[..., Any]) -> Shows:
    return Shows(make_run(None, cluster))


def test_a_node_shows_a_recently_applied_state(shows: Any, two: Any, cluster: Any) -> None:
    first, second = two
    now = cluster.time
    assert shows(now, now + 0.1, first)
    assert not shows(now, now + 0.1, second + 1), "never a state"
    assert not shows(now, now + 1.5, first), "it had the second one for too long"
    assert shows(now, now + 1.5, second)


def test_reads_of_a_node_never_go_back(shows: Any, two: Any, cluster: Any) -> None:
    first, second = two
    now = cluster.time
    assert shows(now, now + 0.1, first)
    assert shows(now + 0.1, now + 0.2, second)
    assert not shows(now + 0.3, now + 0.4, first)


def test_of_two_that_are_asked_at_once_either_may_be_first(
    shows: Any, two: Any, cluster: Any
) -> None:
    """Seed 440412: two answers of one moment, of which either may show the newer state."""
    first, second = two
    now = cluster.time
    assert shows(now, now + 0.1, second)
    assert shows(now + 0.05, now + 0.1, first)


def test_an_answer_that_fits_two_states_counts_for_the_older(
    shows: Any, two: Any, cluster: Any
) -> None:
    first, second = two
    now = cluster.time
    assert shows(now, now + 0.1, first, second)
    assert shows(now + 0.2, now + 0.3, first)


def test_while_a_node_is_stopped_it_takes_in_nothing(
    two: Any, cluster: Any, make_run: Callable[..., Any], make_fault: Callable[..., Any]
) -> None:
    """Seed 440412: paused as it received a state, it showed the previous one when it resumed."""
    first, _ = two
    now = cluster.time
    shows = Shows(make_run(None, cluster, faults=make_fault(1, "pause", now, now + 3, "n2")))
    assert shows(now + 0.5, now + 3, first)
    assert not shows(now + 3.5, now + 4.5, first)

"""Requests for records that one turn of the event loop receives reach the node in one step."""

from __future__ import annotations

from collections.abc import Callable

from kraftwreck.nodes.replication.events import (
    FetchReceived,
    ListOffsetsReceived,
    Request,
    Together,
)
from kraftwreck.nodes.server.gathering import MOST_TOGETHER, Gathering


class _Turn:
    """A turn of an event loop. ``steps`` are the tokens of each step of the node."""

    def __init__(self) -> None:
        self.steps: list[list[int]] = []
        self.deferred: list[Callable[[], None]] = []
        self.gathering = Gathering(self._step, self.deferred.append)

    def _step(self, event: Request | Together) -> None:
        requests = event.requests if isinstance(event, Together) else (event,)
        assert isinstance(event, Together) == (len(requests) > 1)
        self.steps.append([each.token for each in requests])

    def receive(self, *tokens: int) -> None:
        for token in tokens:
            self.gathering.add(FetchReceived(token, ()))

    def end(self) -> None:
        deferred, self.deferred[:] = self.deferred[:], []
        for call in deferred:
            call()


def test_the_requests_of_a_turn_are_one_step_in_their_order() -> None:
    turn = _Turn()
    turn.receive(3, 1, 2)
    assert (turn.steps, len(turn.deferred)) == ([], 1)
    turn.end()
    assert turn.steps == [[3, 1, 2]]


def test_a_request_alone_is_a_step_of_its_own() -> None:
    turn = _Turn()
    turn.receive(1)
    turn.end()
    turn.receive(2)
    turn.end()
    assert turn.steps == [[1], [2]]


def test_a_step_has_a_limited_number_of_requests() -> None:
    turn = _Turn()
    turn.receive(*range(MOST_TOGETHER + 2))
    turn.end()
    assert turn.steps == [list(range(MOST_TOGETHER))]
    turn.end()
    assert turn.steps[1:] == [[MOST_TOGETHER, MOST_TOGETHER + 1]]
    turn.end()
    assert len(turn.steps) == 2


def test_a_request_for_offsets_is_a_step_of_its_own() -> None:
    """Batches before it in the same step might have no room, which only the end of it shows."""
    turn = _Turn()
    turn.receive(1, 2)
    turn.gathering.add(ListOffsetsReceived(3, ()))
    turn.receive(4, 5)
    for _ in range(4):
        turn.end()
    assert turn.steps == [[1, 2], [3], [4, 5]]

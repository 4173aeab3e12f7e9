"""Rules about requests also judge those of a step with several of them."""

from __future__ import annotations

from kraftwreck.nodes.consensus.effects import Tick
from kraftwreck.nodes.replication.events import (
    DeleteRecordsReceived,
    ListOffsetsReceived,
    Together,
)
from kraftwreck.systems.kraft.simulated.requests_of_step import requests_of_step

ONE, TWO = ListOffsetsReceived(1, ()), DeleteRecordsReceived(2, 0, ())


def test_the_requests_of_a_step_are_those_of_its_event() -> None:
    assert requests_of_step(Together((TWO, ONE))) == (TWO, ONE)
    assert requests_of_step(ONE) == (ONE,)
    assert requests_of_step(Tick()) == ()

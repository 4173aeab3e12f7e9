"""ElectLeaders for all partitions: judge the partitions that the answer leaves out."""

from __future__ import annotations

from collections.abc import Iterator

from kraftwreck.checkers.kraft.controller_model import refusals
from kraftwreck.checkers.kraft.controller_model.exchanges import Exchange
from kraftwreck.checkers.kraft.controller_model.state import State
from kraftwreck.nodes.protocol import errors


def left_out(first: State, exchange: Exchange) -> Iterator[tuple[str, int]]:
    """Yield the partitions (topic, number) of the state ``first`` that the answer leaves out."""
    told = {
        (result["topic"], part["partition_id"])
        for result in exchange.answer["replica_election_results"]
        for part in result["partition_result"]
    }
    for name in first.topics():
        for number in range(len(first.partitions(first.topic(name) or b""))):
            if (name, number) not in told:
                yield name, number


def untold(state: State, name: str, number: int, kind: int) -> refusals.Codes:
    """Return the codes a left-out partition may have: no election is needed, or it is gone."""
    codes = refusals.elect(state, name, number, kind)
    if codes is not None and errors.UNKNOWN_TOPIC_OR_PARTITION in codes.must:
        return refusals.Allowed(errors.ELECTION_NOT_NEEDED)
    return codes

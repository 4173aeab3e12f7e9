"""A client request that waits for a commit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kraftwreck.nodes.consensus.effects import ApiRequest
from kraftwreck.nodes.metadata.operation import Body


@dataclass(slots=True, eq=False)
class Waiting:
    """A request, when it times out (µs), and how to answer it once ``offset`` is committed.

    ``epoch`` is the leader epoch in which it was accepted; a commit of the same offset in another
    epoch does not answer it. ``writes`` means that records of its own were appended; without them a
    lost leadership means that nothing has happened.
    """

    request: ApiRequest
    deadline: int
    epoch: int
    answer: Callable[[], Body]
    offset: int = -1
    writes: bool = False

"""Fetches show a leader its majority (I18), and their answers a follower its leader (I17).

The simulator feeds these models live, and the rules for recorded runs afterwards from captured
messages. Only the knowledge of time differs between them: whether a time-out has run out on a
node's own clock, and which messages a paused process may have dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from kraftwreck.nodes.consensus.kraft.messages import FetchResponse, FetchSnapshotResponse

ANSWERS: Final = 2
"""One answer to a follower may have been dropped as too late, two may not."""


def is_served(answer: FetchResponse | FetchSnapshotResponse) -> bool:
    """Whether a fetch was answered without an error."""
    return not (answer.error or answer.partition_error)


def is_plain(answer: FetchResponse) -> bool:
    """Whether an answer to Fetch neither shows a divergence nor names a snapshot."""
    return answer.diverging_epoch < 0 and answer.snapshot_end < 0


@dataclass(slots=True)
class Majority:
    """The last fetch of each voter from the leader of ``epoch``.

    ``since`` is the last time at which a majority had fetched within the time that a leader waits
    for them. The leader counts in rounds, and may leave out fetches that diverge. Which fetches end
    a round is not specified; that a majority fetches within one time-out is.
    """

    epoch: int
    since: int
    heard: dict[int, int] = field(default_factory=dict)

    def fetched(
        self, voter: int, now: int, needed: int, expired: Callable[[int, int], bool]
    ) -> None:
        """Take in a fetch at ``now``. The leader needs ``needed`` voters besides itself.

        ``expired`` returns whether its time-out that began at a time has run out at another one.
        """
        heard = self.heard
        heard[voter] = now
        if len(heard) >= needed:
            recent = sum(not expired(at, now) for at in heard.values())
            if recent >= needed:
                self.since = now

    def is_lost(self, leader: str, now: int, second: float) -> str:
        """Return what is wrong if the leader still leads at ``now``; a ``second`` has as many
        units of its time."""
        return (
            f"{leader} still leads epoch {self.epoch} {(now - self.since) / second:.1f} s after a"
            " majority had fetched from it for the last time."
        )


@dataclass(slots=True)
class Answers:
    """The leader's answers to what a follower has asked in its present state.

    An observer stays a follower after its fetch timeout, a voter does not. So what counts is the
    time ``last`` of the last answer.
    """

    count: int = 0
    last: int = 0

    def took(self, at: int) -> None:
        """Take in an answer, in order of time, that the follower cannot have dropped."""
        self.count += 1
        self.last = at

    @property
    def bind(self) -> bool:
        """Whether the follower has certainly heard its leader: until its fetch timeout after the
        last answer, it must grant nobody a pre-vote of that leader's epoch."""
        return self.count >= ANSWERS

    @staticmethod
    def is_disloyal(follower: str, leader: object, epoch: int, candidate: object) -> str:
        """Return what is wrong if the follower grants ``candidate`` a pre-vote nevertheless."""
        return (
            f"{follower} follows {leader} in epoch {epoch}, has recently fetched from it, and yet"
            f" granted {candidate} a pre-vote."
        )

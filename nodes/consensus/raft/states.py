"""The states of a member: follower, pre-candidate, candidate, leader.

Times are microseconds of the monotonic clock. ``leader_id`` is -1 while no leader is known.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from kraftwreck.nodes.consensus.recovered import Snapshot


def majority(members: int) -> int:
    """Return how many of ``members`` make a majority."""
    return members // 2 + 1


@dataclass(slots=True)
class Download:
    """A snapshot that the leader of this term is sending: the part received so far."""

    end_offset: int
    end_term: int
    content: bytearray = field(default_factory=bytearray)


@dataclass(slots=True)
class Follower:
    """Follows the leader of its term, once known. ``deadline`` is the election timer.

    ``heard_at`` is when the leader's last request arrived, -1 if none has in this state.
    """

    deadline: int
    leader_id: int = -1
    heard_at: int = -1
    download: Download | None = None

    @property
    def name(self) -> str:
        return "follower"


@dataclass(slots=True)
class PreCandidate:
    """Requests pre-votes for the next term without entering it (thesis 9.6)."""

    deadline: int
    granted: set[int]
    rejected: set[int] = field(default_factory=set)

    @property
    def name(self) -> str:
        return "prospective"

    @property
    def leader_id(self) -> int:
        return -1


@dataclass(slots=True)
class Candidate:
    """Has voted for itself in its term and requests votes."""

    deadline: int
    granted: set[int]
    rejected: set[int] = field(default_factory=set)

    @property
    def name(self) -> str:
        return "candidate"

    @property
    def leader_id(self) -> int:
        return -1


@dataclass(slots=True)
class Progress:
    """The leader's knowledge of one follower.

    The follower's log equals the leader's below ``match_offset``; the next entries sent begin at
    ``next_offset``. ``transfer`` is the snapshot in progress, with the next ``position`` to send.
    ``round_sent`` and ``round_acked`` are rounds of :class:`Leader`.
    """

    next_offset: int
    heard_at: int
    match_offset: int = 0
    sent_at: int = -(1 << 62)
    transfer: Snapshot | None = None
    position: int = 0
    round_sent: int = 0
    round_acked: int = 0


@dataclass(slots=True)
class Read:
    """A read that waits until a majority confirms the leadership (thesis 6.4)."""

    number: int
    round: int


@dataclass(slots=True)
class Leader:
    """Leader of its term, whose first entry (the no-op) is at ``term_start``.

    ``flushed_offset`` is the end of the leader's own durable log. A round is one exchange with a
    majority; the requests of round ``round`` are sent after all reads of that round began.
    """

    leader_id: int
    term_start: int
    progress: dict[int, Progress]
    flushed_offset: int
    round: int = 1
    round_begun: bool = False
    reads: deque[Read] = field(default_factory=deque)

    @property
    def name(self) -> str:
        return "leader"

    def replicated_offset(self) -> int:
        """Return the largest offset below which a majority has the leader's log."""
        ends = [p.match_offset for p in self.progress.values()]
        ends.append(self.flushed_offset)
        ends.sort(reverse=True)
        return ends[majority(len(ends)) - 1]

    def confirmed_round(self) -> int:
        """Return the last round in which a majority confirmed the leadership."""
        rounds = [p.round_acked for p in self.progress.values()]
        rounds.append(self.round)
        rounds.sort(reverse=True)
        return rounds[majority(len(rounds)) - 1]

    def heard_majority_at(self, now: int) -> int:
        """Return when a majority, this leader included, had last responded."""
        times = [p.heard_at for p in self.progress.values()]
        times.append(now)
        times.sort(reverse=True)
        return times[majority(len(times)) - 1]


State = Follower | PreCandidate | Candidate | Leader

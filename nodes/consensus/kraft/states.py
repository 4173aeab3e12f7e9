"""The states a replica can be in (KIP-595, KIP-996), with the data of each.

Deadlines are microseconds of the monotonic clock; ``NEVER`` is no deadline. ``voted_id`` is -1 when
no vote was cast in the current epoch.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.kraft.messages import NO_DIRECTORY
from kraftwreck.nodes.consensus.links import NEVER as NEVER


@dataclass(slots=True)
class Unattached:
    """Follows no leader (one may be known by id); waits, or votes."""

    deadline: int
    leader_id: int = -1
    voted_id: int = -1
    voted_directory: bytes = NO_DIRECTORY

    @property
    def name(self) -> str:
        return "unattached"


@dataclass(slots=True)
class Prospective:
    """Requests pre-votes before it raises the epoch."""

    deadline: int
    leader_id: int
    voted_id: int
    voted_directory: bytes
    granted: set[int] = field(default_factory=set)
    rejected: set[int] = field(default_factory=set)
    leader_endpoint: Endpoint | None = None

    @property
    def name(self) -> str:
        return "prospective"


@dataclass(slots=True)
class Candidate:
    """Has voted for itself in a new epoch and requests votes."""

    deadline: int
    voted_id: int
    voted_directory: bytes
    granted: set[int] = field(default_factory=set)
    rejected: set[int] = field(default_factory=set)
    leader_id: int = -1

    @property
    def name(self) -> str:
        return "candidate"


@dataclass(slots=True)
class Download:
    """A snapshot that is being fetched from the leader: the part received so far."""

    end_offset: int
    epoch: int
    content: bytearray = field(default_factory=bytearray)


@dataclass(slots=True)
class Follower:
    """Fetches from the leader of the epoch. ``deadline`` is the fetch timer.

    ``has_fetched``: the leader has answered since the transition (for an observer: recently).
    ``has_ended``: the leader has ended its epoch (EndQuorumEpoch).
    ``has_updated``: the leader knows this voter's endpoints and versions.
    """

    deadline: int
    leader_id: int
    voted_id: int = -1
    voted_directory: bytes = NO_DIRECTORY
    has_fetched: bool = False
    leader_endpoint: Endpoint | None = None
    download: Download | None = None
    has_updated: bool = False
    has_ended: bool = False

    @property
    def name(self) -> str:
        return "follower"

    def answered(self, deadline: int) -> None:
        """Take in a success of the leader, after which the fetch timer runs until ``deadline``.

        A leader that has ended its epoch sent it before, so it proves no leader, and the timer
        keeps the place in the order of successors. (Apache Kafka renews it.)
        """
        self.has_fetched = True
        if not self.has_ended:
            self.deadline = deadline

    def ended(self, deadline: int) -> None:
        """Take in the end of the leader's epoch; a repeated announcement changes nothing."""
        if not self.has_ended:
            self.has_ended, self.deadline = True, deadline


@dataclass(slots=True)
class Resigned:
    """A former leader of this epoch; it informs the voters and never leads the epoch again."""

    deadline: int
    successors: tuple[tuple[int, bytes], ...]
    unacknowledged: set[int]
    leader_id: int = -1
    voted_id: int = -1
    voted_directory: bytes = NO_DIRECTORY

    @property
    def name(self) -> str:
        return "resigned"

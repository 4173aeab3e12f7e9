"""What the controller sees of the quorum underneath it.

``nodes.node.Node`` joins the two: it feeds the controller what the quorum committed and
lets the controller append. See Kafka's ``RaftClient`` and KRaft's listener contract: only
offsets below the high watermark are delivered, whole batches, in order; leadership is
announced only after the listener has consumed past the start of the epoch (KAFKA-15345).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from nodes.consensus.endpoint import Endpoint


class NotLeaderError(Exception):
    """The quorum is not led by this node in the epoch the caller believes in."""


@dataclass(slots=True)
class ReplicaProgress:
    """One replica as the leader sees it. Timestamps are wall-clock milliseconds, -1 unknown."""

    replica_id: int
    directory: bytes
    log_end_offset: int
    last_fetch_timestamp: int
    last_caught_up_timestamp: int


@dataclass(slots=True)
class QuorumDescription:
    """What DescribeQuorum answers; only meaningful on the leader."""

    leader_id: int
    epoch: int
    high_watermark: int
    voters: list[ReplicaProgress]
    observers: list[ReplicaProgress]


class Quorum(Protocol):
    """The quorum as the controller may use it. All offsets are log offsets."""

    node_id: int
    cluster_id: str
    voters: Mapping[int, Endpoint]

    @property
    def epoch(self) -> int: ...

    @property
    def leader_id(self) -> int:
        """The leader of :attr:`epoch`, -1 if unknown."""
        ...

    @property
    def is_leader(self) -> bool: ...

    @property
    def high_watermark(self) -> int:
        """First offset not known committed, -1 if unknown."""
        ...

    def append(self, epoch: int, records: Sequence[bytes], now: int) -> int:
        """Append framed metadata ``records`` as one atomic batch; return the last offset.

        The records are in the log (or the leader's accumulator) but not committed when this
        returns. Raises :class:`NotLeaderError` unless this node leads ``epoch``.
        """
        ...

    def resign(self, epoch: int, now: int) -> None:
        """Give up leadership of ``epoch``; ignored if it is over already."""
        ...

    def describe(self, now: int) -> QuorumDescription:
        """Return the replication state (leader only)."""
        ...

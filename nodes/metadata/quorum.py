"""The controller's interface to the quorum.

``nodes.node.Node`` joins the two: it passes committed records to the controller and lets the
controller append. See Kafka's ``RaftClient`` and KRaft's listener contract: only offsets below the
high watermark are delivered, whole batches, in order. Leadership is announced only after the
listener has consumed past the start of the epoch (KAFKA-15345).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kraftwreck.nodes.consensus.endpoint import Endpoint


class NotLeaderError(Exception):
    """This node does not lead the quorum in the epoch of the call."""


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
    """The content of a DescribeQuorum answer; only meaningful on the leader."""

    leader_id: int
    epoch: int
    high_watermark: int
    voters: list[ReplicaProgress]
    observers: list[ReplicaProgress]


class Quorum(Protocol):
    """The quorum as the controller may use it. All offsets are log offsets."""

    node_id: int
    cluster_id: str

    @property
    def voters(self) -> Mapping[int, Endpoint]:
        """The endpoint of each voter; the set in force, committed or not."""
        ...

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
        """First offset not known to be committed, -1 if unknown."""
        ...

    @property
    def next_offset(self) -> int:
        """The base offset of the next batch that this node appends."""
        ...

    @property
    def kraft_version(self) -> int:
        """The level of ``kraft.version`` in force: 1 if voters may be added and removed."""
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

    def kraft_version_fault(self, level: int) -> str | None:
        """Return why ``kraft.version`` cannot change to ``level`` now, None if it can.

        All voters must have reported their directories and support it; it never decreases.
        """
        ...

    def upgrade_kraft_version(self, level: int) -> None:
        """Append the control records that raise ``kraft.version`` to ``level``.

        Call it only after :meth:`kraft_version_fault` returned None in the same step. It does
        nothing if the level is in force already. Raises :class:`NotLeaderError` on a follower.
        """
        ...

    def change_voters(
        self,
        api: str,
        version: int,
        body: dict[str, Any],
        answer: Callable[[dict[str, Any]], None],
        now: int,
    ) -> None:
        """Carry out an AddRaftVoter or RemoveRaftVoter request that a broker forwarded.

        ``answer`` is called exactly once with the body of the response, in this call or in a
        later step.
        """
        ...

"""Settings of one member of a Raft group with static membership."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kraftwreck.nodes.consensus.endpoint import Endpoint


@dataclass(slots=True, frozen=True)
class RaftConfig:
    """Identity, members and timers of one member. Sizes are bytes, times milliseconds.

    ``members`` is the same on every member and never changes. An election timeout lies in ``[T,
    2T)`` for ``election_timeout_ms`` T; ``seed``, ``node_id`` and ``incarnation`` (the count of
    process starts) key each draw. ``request_timeout_ms`` must be well below T, as an AppendEntries
    without response delays the next one.

    Options: ``pre_vote`` (thesis 9.6), ``check_quorum`` (a leader that hears no majority for T
    steps down, thesis 6.2) and ``read_index`` (reads without a log entry, thesis 6.4). Without
    ``read_index`` a read is an entry in the log.
    """

    node_id: int
    cluster_id: str
    members: Mapping[int, Endpoint]
    seed: int = 0
    incarnation: int = 1
    election_timeout_ms: int = 1000
    heartbeat_ms: int = 150
    request_timeout_ms: int = 300
    retry_backoff_ms: int = 20
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 200
    append_max_bytes: int = 1 << 20
    batch_max_bytes: int = 1 << 20
    snapshot_piece_bytes: int = 256 << 10
    pre_vote: bool = True
    check_quorum: bool = True
    read_index: bool = True

    def __post_init__(self) -> None:
        """Reject settings that no group can work with (ValueError)."""
        if self.node_id not in self.members:
            raise ValueError(f"node {self.node_id} is not among the members")
        if any(member < 0 for member in self.members):
            raise ValueError("node ids must not be negative")
        if not 0 < self.heartbeat_ms <= self.election_timeout_ms // 2:
            raise ValueError("heartbeat_ms must be positive and at most half the election timeout")
        if not 0 < self.request_timeout_ms < self.election_timeout_ms:
            raise ValueError("request_timeout_ms must be positive and below the election timeout")
        if min(self.append_max_bytes, self.batch_max_bytes, self.snapshot_piece_bytes) <= 0:
            raise ValueError("sizes must be positive")

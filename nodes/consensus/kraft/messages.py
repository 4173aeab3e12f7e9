"""The quorum RPCs as the core sees them: one topic, one partition, flattened.

``nodes.server.wire`` translates them to and from Kafka's messages. ``error`` is the
top-level error code, ``partition_error`` the one inside the partition; -1 stands for an
unknown leader. Directory ids are 16 bytes, all zero meaning absent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NO_DIRECTORY: Final = bytes(16)
NO_HIGH_WATERMARK: Final = -1
NO_WAKE: Final = 2**63 - 1
"""FetchRequest.high_watermark of a fetcher that wants no answer for a new high watermark."""


@dataclass(slots=True)
class VoteRequest:
    """Vote (52). ``epoch`` is the candidate's; a pre-vote carries the un-bumped one."""

    cluster_id: str | None
    voter_id: int
    epoch: int
    candidate_id: int
    candidate_directory: bytes
    voter_directory: bytes
    last_epoch: int
    last_offset: int
    pre_vote: bool


@dataclass(slots=True)
class VoteResponse:
    """Answer to Vote."""

    error: int
    partition_error: int
    leader_id: int
    leader_epoch: int
    vote_granted: bool


@dataclass(slots=True)
class BeginQuorumEpochRequest:
    """BeginQuorumEpoch (53): the winner announces itself."""

    cluster_id: str | None
    voter_id: int
    voter_directory: bytes
    leader_id: int
    leader_epoch: int


@dataclass(slots=True)
class BeginQuorumEpochResponse:
    """Answer to BeginQuorumEpoch."""

    error: int
    partition_error: int
    leader_id: int
    leader_epoch: int


@dataclass(slots=True)
class EndQuorumEpochRequest:
    """EndQuorumEpoch (54): ``successors`` are (voter id, directory id), best first."""

    cluster_id: str | None
    leader_id: int
    leader_epoch: int
    successors: tuple[tuple[int, bytes], ...]


@dataclass(slots=True)
class EndQuorumEpochResponse:
    """Answer to EndQuorumEpoch."""

    error: int
    partition_error: int
    leader_id: int
    leader_epoch: int


@dataclass(slots=True)
class FetchRequest:
    """Fetch (1) of the metadata partition by a voter or observer. Waits are milliseconds."""

    cluster_id: str | None
    replica_id: int
    directory: bytes
    max_wait_ms: int
    max_bytes: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    high_watermark: int


@dataclass(slots=True)
class FetchResponse:
    """Answer to Fetch. ``diverging_epoch`` -1: none; ``snapshot_end`` -1: none."""

    error: int
    partition_error: int
    leader_id: int
    leader_epoch: int
    high_watermark: int
    log_start_offset: int
    diverging_epoch: int
    diverging_end: int
    snapshot_end: int
    snapshot_epoch: int
    records: bytes


Request = VoteRequest | BeginQuorumEpochRequest | EndQuorumEpochRequest | FetchRequest
Response = VoteResponse | BeginQuorumEpochResponse | EndQuorumEpochResponse | FetchResponse

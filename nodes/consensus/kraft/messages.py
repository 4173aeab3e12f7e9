"""The quorum RPCs as the core sees them: one topic, one partition, flattened.

``nodes.server.wire`` translates them to and from Kafka's messages. ``error`` is the top-level error
code, ``partition_error`` the one inside the partition; -1 is an unknown leader. Directory ids are
16 bytes, all zero meaning absent. ``leader_endpoint`` is the address of the leader named in a
message, None if absent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from kraftwreck.nodes.consensus.endpoint import Endpoint

NO_DIRECTORY: Final = bytes(16)
NO_HIGH_WATERMARK: Final = -1
NO_WAKE: Final = 2**63 - 1
"""FetchRequest.high_watermark of a fetcher that needs no answer at a new high watermark."""


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
    leader_endpoint: Endpoint | None = None


@dataclass(slots=True)
class BeginQuorumEpochRequest:
    """BeginQuorumEpoch (53): the winner announces itself."""

    cluster_id: str | None
    voter_id: int
    voter_directory: bytes
    leader_id: int
    leader_epoch: int
    leader_endpoint: Endpoint | None = None


@dataclass(slots=True)
class BeginQuorumEpochResponse:
    """Answer to BeginQuorumEpoch."""

    error: int
    partition_error: int
    leader_id: int
    leader_epoch: int
    leader_endpoint: Endpoint | None = None


@dataclass(slots=True)
class EndQuorumEpochRequest:
    """EndQuorumEpoch (54): ``successors`` are (voter id, directory id), best first."""

    cluster_id: str | None
    leader_id: int
    leader_epoch: int
    successors: tuple[tuple[int, bytes], ...]
    leader_endpoint: Endpoint | None = None


@dataclass(slots=True)
class EndQuorumEpochResponse:
    """Answer to EndQuorumEpoch."""

    error: int
    partition_error: int
    leader_id: int
    leader_epoch: int
    leader_endpoint: Endpoint | None = None


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
    leader_endpoint: Endpoint | None = None


@dataclass(slots=True)
class FetchSnapshotRequest:
    """FetchSnapshot (59): a piece of the leader's snapshot from byte ``position`` on."""

    cluster_id: str | None
    replica_id: int
    directory: bytes
    max_bytes: int
    current_leader_epoch: int
    snapshot_end: int
    snapshot_epoch: int
    position: int


@dataclass(slots=True)
class FetchSnapshotResponse:
    """Answer to FetchSnapshot: ``data`` at ``position`` of a file of ``size`` bytes.

    ``snapshot_end`` and ``snapshot_epoch`` repeat the id of the request.
    """

    error: int
    partition_error: int
    leader_id: int
    leader_epoch: int
    snapshot_end: int = -1
    snapshot_epoch: int = -1
    size: int = 0
    position: int = 0
    data: bytes = field(default=b"", repr=False)
    leader_endpoint: Endpoint | None = None


@dataclass(slots=True)
class AddRaftVoterRequest:
    """AddRaftVoter (80). ``endpoints`` are (listener name, endpoint) pairs."""

    cluster_id: str | None
    timeout_ms: int
    voter_id: int
    directory: bytes
    endpoints: tuple[tuple[str, Endpoint], ...]
    ack_when_committed: bool = True


@dataclass(slots=True)
class RemoveRaftVoterRequest:
    """RemoveRaftVoter (81)."""

    cluster_id: str | None
    voter_id: int
    directory: bytes


@dataclass(slots=True)
class UpdateRaftVoterRequest:
    """UpdateRaftVoter (82): a voter reports its endpoints and supported versions."""

    cluster_id: str | None
    current_leader_epoch: int
    voter_id: int
    directory: bytes
    endpoints: tuple[tuple[str, Endpoint], ...]
    min_kraft_version: int
    max_kraft_version: int


@dataclass(slots=True)
class VoterChangeResponse:
    """Answer to AddRaftVoter, RemoveRaftVoter or UpdateRaftVoter.

    ``partition_error`` is always 0. On the wire only UpdateRaftVoter's answer carries the leader,
    and only the other two carry a ``text``.
    """

    error: int
    partition_error: int = 0
    leader_id: int = -1
    leader_epoch: int = -1
    leader_endpoint: Endpoint | None = None
    text: str | None = None


@dataclass(slots=True)
class ApiVersionsRequest:
    """ApiVersions (18), which a leader sends to a voter to be added."""


@dataclass(slots=True)
class ApiVersionsResponse:
    """Answer to ApiVersions: the range of ``kraft.version`` the node supports (0, 0: none)."""

    error: int
    min_kraft_version: int
    max_kraft_version: int


Request = (
    VoteRequest
    | BeginQuorumEpochRequest
    | EndQuorumEpochRequest
    | FetchRequest
    | FetchSnapshotRequest
    | AddRaftVoterRequest
    | RemoveRaftVoterRequest
    | UpdateRaftVoterRequest
    | ApiVersionsRequest
)
QuorumResponse = (
    VoteResponse
    | BeginQuorumEpochResponse
    | EndQuorumEpochResponse
    | FetchResponse
    | FetchSnapshotResponse
    | VoterChangeResponse
)
Response = QuorumResponse | ApiVersionsResponse

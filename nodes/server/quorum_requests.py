"""Requests of the quorum as the core sees them, to and from Kafka's messages."""

from __future__ import annotations

from typing import Any, Final

from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.kraft.messages import (
    AddRaftVoterRequest,
    ApiVersionsRequest,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    RemoveRaftVoterRequest,
    Request,
    UpdateRaftVoterRequest,
    VoteRequest,
)
from kraftwreck.nodes.server.shapes import (
    LISTENER,
    REPLICA_STATE_FETCH,
    TOPIC,
    Body,
    Endpoints,
    ShapeError,
    from_listeners,
    named_topic,
    only_partition,
    quorum_listener,
    to_listeners,
    topic_key_of_fetch,
)

SOFTWARE: Final = {"client_software_name": "kraftwreck", "client_software_version": "1"}
"""This program's name and version in ApiVersions requests."""


def api_of(message: Request) -> str:
    """Return the name of the RPC a request belongs to."""
    return type(message).__name__.removesuffix("Request")


def request_to_body(message: Request, version: int, endpoints: Endpoints) -> Body:
    """Return the body of a request this node sends at ``version`` of its API.

    ``endpoints`` has the leader's address if the message lacks it.
    """
    match message:
        case VoteRequest():
            return {
                "cluster_id": message.cluster_id,
                "voter_id": message.voter_id,
                "topics": _topics(
                    replica_epoch=message.epoch,
                    replica_id=message.candidate_id,
                    replica_directory_id=message.candidate_directory,
                    voter_directory_id=message.voter_directory,
                    last_offset_epoch=message.last_epoch,
                    last_offset=message.last_offset,
                    pre_vote=message.pre_vote,
                ),
            }
        case BeginQuorumEpochRequest():
            return {
                "cluster_id": message.cluster_id,
                "voter_id": message.voter_id,
                "topics": _topics(
                    voter_directory_id=message.voter_directory,
                    leader_id=message.leader_id,
                    leader_epoch=message.leader_epoch,
                ),
                "leader_endpoints": _leader(message, endpoints),
            }
        case EndQuorumEpochRequest():
            return {
                "cluster_id": message.cluster_id,
                "topics": _topics(
                    leader_id=message.leader_id,
                    leader_epoch=message.leader_epoch,
                    preferred_successors=[voter for voter, _ in message.successors],
                    preferred_candidates=[
                        {"candidate_id": voter, "candidate_directory_id": directory}
                        for voter, directory in message.successors
                    ],
                ),
                "leader_endpoints": _leader(message, endpoints),
            }
        case FetchRequest():
            return _fetch_to_body(message, version)
        case FetchSnapshotRequest():
            return _fetch_snapshot_to_body(message)
        case ApiVersionsRequest():
            return dict(SOFTWARE)
    return _voter_change_to_body(message)


def _topics(**partition: Any) -> list[Body]:
    return [{"topic_name": TOPIC, "partitions": [{"partition_index": 0, **partition}]}]


def _leader(
    message: BeginQuorumEpochRequest | EndQuorumEpochRequest, endpoints: Endpoints
) -> list[Body]:
    endpoint = message.leader_endpoint or endpoints.get(message.leader_id)
    return [] if endpoint is None else to_listeners([(LISTENER, endpoint)])


def _fetch_to_body(message: FetchRequest, version: int) -> Body:
    partition = {
        "partition": 0,
        "current_leader_epoch": message.current_leader_epoch,
        "fetch_offset": message.fetch_offset,
        "last_fetched_epoch": message.last_fetched_epoch,
        "replica_directory_id": message.directory,
        "high_watermark": message.high_watermark,
    }
    body: Body = {
        "cluster_id": message.cluster_id,
        "max_wait_ms": message.max_wait_ms,
        "min_bytes": 0,
        "max_bytes": message.max_bytes,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [named_topic(topic_key_of_fetch(version)) | {"partitions": [partition]}],
    }
    if version >= REPLICA_STATE_FETCH:
        body["replica_state"] = {"replica_id": message.replica_id, "replica_epoch": -1}
    else:
        body["replica_id"] = message.replica_id
    return body


def _fetch_snapshot_to_body(message: FetchSnapshotRequest) -> Body:
    partition = {
        "partition": 0,
        "current_leader_epoch": message.current_leader_epoch,
        "snapshot_id": {"end_offset": message.snapshot_end, "epoch": message.snapshot_epoch},
        "position": message.position,
        "replica_directory_id": message.directory,
    }
    return {
        "cluster_id": message.cluster_id,
        "replica_id": message.replica_id,
        "max_bytes": message.max_bytes,
        "topics": [{"name": TOPIC, "partitions": [partition]}],
    }


def _voter_change_to_body(
    message: AddRaftVoterRequest | RemoveRaftVoterRequest | UpdateRaftVoterRequest,
) -> Body:
    body: Body = {
        "cluster_id": message.cluster_id,
        "voter_id": message.voter_id,
        "voter_directory_id": message.directory,
    }
    match message:
        case AddRaftVoterRequest():
            body["timeout_ms"] = message.timeout_ms
            body["listeners"] = to_listeners(message.endpoints)
            body["ack_when_committed"] = message.ack_when_committed
        case UpdateRaftVoterRequest():
            body["current_leader_epoch"] = message.current_leader_epoch
            body["listeners"] = to_listeners(message.endpoints)
            body["kraft_version_feature"] = {
                "min_supported_version": message.min_kraft_version,
                "max_supported_version": message.max_kraft_version,
            }
    return body


# --- and back -----------------------------------------------------------------------------


def request_from_body(api: str, version: int, body: Body) -> Request:
    """Return the quorum request in a decoded ``body``. Raises :class:`ShapeError`."""
    match api:
        case "Vote":
            return _vote_from_body(body)
        case "BeginQuorumEpoch":
            partition = only_partition(body["topics"], "topic_name", "partition_index")
            return BeginQuorumEpochRequest(
                cluster_id=body["cluster_id"],
                voter_id=body["voter_id"],
                voter_directory=partition["voter_directory_id"],
                leader_id=partition["leader_id"],
                leader_epoch=partition["leader_epoch"],
                leader_endpoint=quorum_listener(body["leader_endpoints"]),
            )
        case "EndQuorumEpoch":
            return _end_from_body(version, body)
        case "Fetch":
            return _fetch_from_body(version, body)
        case "FetchSnapshot":
            return _fetch_snapshot_from_body(body)
    return _voter_change_from_body(api, body)


def _vote_from_body(body: Body) -> VoteRequest:
    partition = only_partition(body["topics"], "topic_name", "partition_index")
    return VoteRequest(
        cluster_id=body["cluster_id"],
        voter_id=body["voter_id"],
        epoch=partition["replica_epoch"],
        candidate_id=partition["replica_id"],
        candidate_directory=partition["replica_directory_id"],
        voter_directory=partition["voter_directory_id"],
        last_epoch=partition["last_offset_epoch"],
        last_offset=partition["last_offset"],
        pre_vote=partition["pre_vote"],
    )


def _end_from_body(version: int, body: Body) -> EndQuorumEpochRequest:
    partition = only_partition(body["topics"], "topic_name", "partition_index")
    if version >= 1:
        successors = tuple(
            (candidate["candidate_id"], candidate["candidate_directory_id"])
            for candidate in partition["preferred_candidates"]
        )
    else:
        successors = tuple((voter, bytes(16)) for voter in partition["preferred_successors"])
    return EndQuorumEpochRequest(
        cluster_id=body["cluster_id"],
        leader_id=partition["leader_id"],
        leader_epoch=partition["leader_epoch"],
        successors=successors,
        leader_endpoint=quorum_listener(body["leader_endpoints"]),
    )


def _fetch_from_body(version: int, body: Body) -> FetchRequest:
    partition = only_partition(body["topics"], topic_key_of_fetch(version), "partition")
    if version >= REPLICA_STATE_FETCH:
        replica_id = body["replica_state"]["replica_id"]
    else:
        replica_id = body["replica_id"]
    return FetchRequest(
        cluster_id=body["cluster_id"],
        replica_id=replica_id,
        directory=partition["replica_directory_id"],
        max_wait_ms=body["max_wait_ms"],
        max_bytes=body["max_bytes"],
        current_leader_epoch=partition["current_leader_epoch"],
        fetch_offset=partition["fetch_offset"],
        last_fetched_epoch=partition["last_fetched_epoch"],
        high_watermark=partition["high_watermark"],
    )


def _fetch_snapshot_from_body(body: Body) -> FetchSnapshotRequest:
    partition = only_partition(body["topics"], "name", "partition")
    return FetchSnapshotRequest(
        cluster_id=body["cluster_id"],
        replica_id=body["replica_id"],
        directory=partition["replica_directory_id"],
        max_bytes=body["max_bytes"],
        current_leader_epoch=partition["current_leader_epoch"],
        snapshot_end=partition["snapshot_id"]["end_offset"],
        snapshot_epoch=partition["snapshot_id"]["epoch"],
        position=partition["position"],
    )


def _voter_change_from_body(api: str, body: Body) -> Request:
    cluster_id = body.get("cluster_id")
    match api:
        case "AddRaftVoter":
            return AddRaftVoterRequest(
                cluster_id=cluster_id,
                timeout_ms=body["timeout_ms"],
                voter_id=body["voter_id"],
                directory=body["voter_directory_id"],
                endpoints=_named(body),
                ack_when_committed=body["ack_when_committed"],
            )
        case "RemoveRaftVoter":
            return RemoveRaftVoterRequest(
                cluster_id=cluster_id,
                voter_id=body["voter_id"],
                directory=body["voter_directory_id"],
            )
        case "UpdateRaftVoter":
            return UpdateRaftVoterRequest(
                cluster_id=cluster_id,
                current_leader_epoch=body["current_leader_epoch"],
                voter_id=body["voter_id"],
                directory=body["voter_directory_id"],
                endpoints=_named(body),
                min_kraft_version=body["kraft_version_feature"]["min_supported_version"],
                max_kraft_version=body["kraft_version_feature"]["max_supported_version"],
            )
    raise ShapeError(f"{api} is not an RPC of the quorum")


def _named(body: Body) -> tuple[tuple[str, Endpoint], ...]:
    return from_listeners(body["listeners"])

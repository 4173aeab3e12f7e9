"""Quorum messages as the core sees them, to and from Kafka's messages.

Kafka's quorum RPCs carry lists of topics and partitions; all of them must name exactly
``__cluster_metadata`` (from Fetch version 13 on by its fixed id) and exactly partition 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from nodes.consensus.endpoint import Endpoint
from nodes.consensus.kraft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    QuorumResponse,
    Request,
    VoteRequest,
    VoteResponse,
)
from nodes.protocol.errors import INVALID_REQUEST, NONE

Body = dict[str, Any]
Endpoints = Mapping[int, Endpoint]

TOPIC: Final = "__cluster_metadata"
TOPIC_ID: Final = (1).to_bytes(16, "big")
LISTENER: Final = "CONTROLLER"
QUORUM_APIS: Final = ("Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "Fetch")
TOPIC_ID_FETCH: Final = 13
REPLICA_STATE_FETCH: Final = 15
PRE_VOTE: Final = 2
"""First Vote version that can carry a pre-vote."""


class ShapeError(Exception):
    """The message does not name exactly the metadata partition."""


def api_of(message: Request) -> str:
    """Return the name of the RPC a request belongs to."""
    return type(message).__name__.removesuffix("Request")


def invalid_request(api: str) -> Body:
    """Return the answer to a request whose topics are not the metadata partition."""
    if api == "Fetch":
        return {"throttle_time_ms": 0, "error_code": INVALID_REQUEST, "responses": []}
    return {"error_code": INVALID_REQUEST, "topics": []}


def _only_partition(topics: Any, by_id: bool, name_key: str, index_key: str) -> Body:
    if not isinstance(topics, list) or len(topics) != 1:
        raise ShapeError("not exactly one topic")
    topic = topics[0]
    named = topic["topic_id"] == TOPIC_ID if by_id else topic[name_key] == TOPIC
    if not named:
        raise ShapeError(f"not the topic {TOPIC}")
    partitions: list[Body] = topic["partitions"]
    if len(partitions) != 1 or partitions[0][index_key] != 0:
        raise ShapeError("not exactly partition 0")
    return partitions[0]


# --- requests -----------------------------------------------------------------------------


def request_to_body(message: Request, version: int, endpoints: Endpoints) -> Body:
    """Return the body of a request this node sends at ``version`` of its API."""
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
                "leader_endpoints": _listeners(message.leader_id, endpoints),
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
                "leader_endpoints": _listeners(message.leader_id, endpoints),
            }
        case FetchRequest():
            return _fetch_to_body(message, version)
    raise ShapeError(f"{type(message).__name__} cannot be sent")


def _topics(**partition: Any) -> list[Body]:
    return [{"topic_name": TOPIC, "partitions": [{"partition_index": 0, **partition}]}]


def _listeners(node: int, endpoints: Endpoints) -> list[Body]:
    endpoint = endpoints[node]
    return [{"name": LISTENER, "host": endpoint.host, "port": endpoint.port}]


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
        "topics": [{"partitions": [partition]}],
    }
    if version >= REPLICA_STATE_FETCH:
        body["replica_state"] = {"replica_id": message.replica_id, "replica_epoch": -1}
    else:
        body["replica_id"] = message.replica_id
    body["topics"][0] |= {"topic_id": TOPIC_ID} if version >= TOPIC_ID_FETCH else {"topic": TOPIC}
    return body


def request_from_body(api: str, version: int, body: Body) -> Request:
    """Return the quorum request in a decoded ``body``. Raises :class:`ShapeError`."""
    if api == "Fetch":
        return _fetch_from_body(version, body)
    partition = _only_partition(body["topics"], False, "topic_name", "partition_index")
    if api == "Vote":
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
    if api == "BeginQuorumEpoch":
        return BeginQuorumEpochRequest(
            cluster_id=body["cluster_id"],
            voter_id=body["voter_id"],
            voter_directory=partition["voter_directory_id"],
            leader_id=partition["leader_id"],
            leader_epoch=partition["leader_epoch"],
        )
    if api == "EndQuorumEpoch":
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
        )
    raise ShapeError(f"{api} is not an RPC of the quorum")


def _fetch_from_body(version: int, body: Body) -> FetchRequest:
    partition = _only_partition(body["topics"], version >= TOPIC_ID_FETCH, "topic", "partition")
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


# --- responses ----------------------------------------------------------------------------


def response_to_body(message: QuorumResponse, version: int, endpoints: Endpoints) -> Body:
    """Return the body of an answer at ``version``; the leader's endpoint goes with it."""
    leader = endpoints.get(message.leader_id)
    nodes: list[Body] = []
    if leader is not None:
        nodes = [{"node_id": message.leader_id, "host": leader.host, "port": leader.port}]
    if isinstance(message, FetchResponse):
        return _fetch_response_to_body(message, version, nodes)
    partition: Body = {
        "error_code": message.partition_error,
        "leader_id": message.leader_id,
        "leader_epoch": message.leader_epoch,
    }
    if isinstance(message, VoteResponse):
        partition["vote_granted"] = message.vote_granted
    # An error at the top stands alone, as in Kafka.
    topics = [] if message.error != NONE else _topics(**partition)
    return {"error_code": message.error, "topics": topics, "node_endpoints": nodes}


def _fetch_response_to_body(message: FetchResponse, version: int, nodes: list[Body]) -> Body:
    body: Body = {
        "throttle_time_ms": 0,
        "error_code": message.error,
        "session_id": 0,
        "responses": [],
        "node_endpoints": nodes,
    }
    if message.error != NONE:
        return body
    partition: Body = {
        "partition_index": 0,
        "error_code": message.partition_error,
        "high_watermark": message.high_watermark,
        "log_start_offset": message.log_start_offset,
        "diverging_epoch": {"epoch": message.diverging_epoch, "end_offset": message.diverging_end},
        "current_leader": {
            "leader_id": message.leader_id,
            "leader_epoch": message.leader_epoch,
        },
        "snapshot_id": {"end_offset": message.snapshot_end, "epoch": message.snapshot_epoch},
        "aborted_transactions": None,
        "records": message.records,
    }
    topic: Body = {"topic_id": TOPIC_ID} if version >= TOPIC_ID_FETCH else {"topic": TOPIC}
    body["responses"] = [topic | {"partitions": [partition]}]
    return body


def response_from_body(api: str, version: int, body: Body) -> QuorumResponse:
    """Return the quorum response in a decoded ``body``. Raises :class:`ShapeError`."""
    error = body["error_code"]
    if api == "Fetch":
        return _fetch_response_from_body(version, body)
    if error != NONE:
        partition: Body = {
            "error_code": NONE,
            "leader_id": -1,
            "leader_epoch": 0,
            "vote_granted": False,
        }
    else:
        partition = _only_partition(body["topics"], False, "topic_name", "partition_index")
    values = (error, partition["error_code"], partition["leader_id"], partition["leader_epoch"])
    match api:
        case "Vote":
            return VoteResponse(*values, vote_granted=partition["vote_granted"])
        case "BeginQuorumEpoch":
            return BeginQuorumEpochResponse(*values)
        case "EndQuorumEpoch":
            return EndQuorumEpochResponse(*values)
    raise ShapeError(f"{api} is not an RPC of the quorum")


def _fetch_response_from_body(version: int, body: Body) -> FetchResponse:
    if body["error_code"] != NONE:
        return FetchResponse(
            error=body["error_code"],
            partition_error=NONE,
            leader_id=-1,
            leader_epoch=0,
            high_watermark=-1,
            log_start_offset=-1,
            diverging_epoch=-1,
            diverging_end=-1,
            snapshot_end=-1,
            snapshot_epoch=-1,
            records=b"",
        )
    by_id = version >= TOPIC_ID_FETCH
    partition = _only_partition(body["responses"], by_id, "topic", "partition_index")
    return FetchResponse(
        error=NONE,
        partition_error=partition["error_code"],
        leader_id=partition["current_leader"]["leader_id"],
        leader_epoch=partition["current_leader"]["leader_epoch"],
        high_watermark=partition["high_watermark"],
        log_start_offset=partition["log_start_offset"],
        diverging_epoch=partition["diverging_epoch"]["epoch"],
        diverging_end=partition["diverging_epoch"]["end_offset"],
        snapshot_end=partition["snapshot_id"]["end_offset"],
        snapshot_epoch=partition["snapshot_id"]["epoch"],
        records=partition["records"] or b"",
    )

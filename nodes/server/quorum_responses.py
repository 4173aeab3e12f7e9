"""Answers of the quorum as the core sees them, to and from Kafka's messages."""

from __future__ import annotations

from typing import Any, Final

from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.kraft.messages import (
    ApiVersionsResponse,
    BeginQuorumEpochResponse,
    EndQuorumEpochResponse,
    FetchResponse,
    FetchSnapshotResponse,
    QuorumResponse,
    Response,
    VoterChangeResponse,
    VoteResponse,
)
from kraftwreck.nodes.protocol.errors import NONE
from kraftwreck.nodes.server.shapes import (
    TOPIC,
    Body,
    Endpoints,
    ShapeError,
    named_topic,
    only_partition,
    topic_key_of_fetch,
)

KRAFT_VERSION: Final = "kraft.version"
VOTER_CHANGES: Final = ("AddRaftVoter", "RemoveRaftVoter", "UpdateRaftVoter")
_NOBODY: Final = (-1, 0)
"""Leader and epoch beside a top-level error."""


def response_to_body(
    message: QuorumResponse, version: int, endpoints: Endpoints, api: str = ""
) -> Body:
    """Return the body of an answer at ``version``, including the leader's endpoint.

    ``endpoints`` has the leader's address if the message lacks it. ``api`` must be given for
    UpdateRaftVoter: its answer shares the class, but not the shape, of two others.
    """
    leader = message.leader_endpoint or endpoints.get(message.leader_id)
    if isinstance(message, VoterChangeResponse):
        return _voter_change_to_body(message, leader, api)
    nodes: list[Body] = []
    if leader is not None and message.leader_id >= 0:
        nodes = [{"node_id": message.leader_id, "host": leader.host, "port": leader.port}]
    if isinstance(message, FetchResponse):
        return _fetch_to_body(message, version, nodes)
    if isinstance(message, FetchSnapshotResponse):
        return _fetch_snapshot_to_body(message, nodes)
    partition: Body = {
        "partition_index": 0,
        "error_code": message.partition_error,
        "leader_id": message.leader_id,
        "leader_epoch": message.leader_epoch,
    }
    if isinstance(message, VoteResponse):
        partition["vote_granted"] = message.vote_granted
    # As in Kafka, a top-level error comes without partitions.
    topics = [{"topic_name": TOPIC, "partitions": [partition]}] if message.error == NONE else []
    return {"error_code": message.error, "topics": topics, "node_endpoints": nodes}


def _fetch_to_body(message: FetchResponse, version: int, nodes: list[Body]) -> Body:
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
        "current_leader": _current_leader(message),
        "snapshot_id": {"end_offset": message.snapshot_end, "epoch": message.snapshot_epoch},
        "aborted_transactions": None,
        "records": message.records,
    }
    topic = named_topic(topic_key_of_fetch(version))
    body["responses"] = [topic | {"partitions": [partition]}]
    return body


def _fetch_snapshot_to_body(message: FetchSnapshotResponse, nodes: list[Body]) -> Body:
    body: Body = {
        "throttle_time_ms": 0,
        "error_code": message.error,
        "topics": [],
        "node_endpoints": nodes,
    }
    if message.error == NONE:
        partition = {
            "index": 0,
            "error_code": message.partition_error,
            "snapshot_id": {"end_offset": message.snapshot_end, "epoch": message.snapshot_epoch},
            "current_leader": _current_leader(message),
            "size": message.size,
            "position": message.position,
            "unaligned_records": message.data,
        }
        body["topics"] = [{"name": TOPIC, "partitions": [partition]}]
    return body


def _current_leader(message: FetchResponse | FetchSnapshotResponse) -> Body:
    return {"leader_id": message.leader_id, "leader_epoch": message.leader_epoch}


def _voter_change_to_body(message: VoterChangeResponse, leader: Endpoint | None, api: str) -> Body:
    body: Body = {"throttle_time_ms": 0, "error_code": message.error}
    if api != "UpdateRaftVoter":
        return body | {"error_message": message.text}
    body["current_leader"] = {
        "leader_id": message.leader_id,
        "leader_epoch": message.leader_epoch,
        "host": "" if leader is None else leader.host,
        "port": 0 if leader is None else leader.port,
    }
    return body


# --- and back -----------------------------------------------------------------------------


def response_from_body(api: str, version: int, body: Body) -> Response:
    """Return the answer to a request of ``api`` in a decoded ``body``.

    Raises :class:`ShapeError` if it is not about the metadata partition.
    """
    match api:
        case "ApiVersions":
            return _api_versions(body)
        case "Fetch":
            return _fetch_from_body(version, body)
        case "FetchSnapshot":
            return _fetch_snapshot_from_body(body)
    if api in VOTER_CHANGES:
        return _voter_change_from_body(body)
    partition: Body
    if body["error_code"] != NONE:
        partition = {"error_code": NONE, "leader_id": _NOBODY[0], "leader_epoch": _NOBODY[1]}
        partition["vote_granted"] = False
    else:
        partition = only_partition(body["topics"], "topic_name", "partition_index")
    leader = partition["leader_id"]
    values = (body["error_code"], partition["error_code"], leader, partition["leader_epoch"])
    endpoint = _endpoint_of(leader, body)
    match api:
        case "Vote":
            return VoteResponse(*values, partition["vote_granted"], endpoint)
        case "BeginQuorumEpoch":
            return BeginQuorumEpochResponse(*values, endpoint)
        case "EndQuorumEpoch":
            return EndQuorumEpochResponse(*values, endpoint)
    raise ShapeError(f"{api} is not an RPC of the quorum")


def _endpoint_of(node: int, body: Body) -> Endpoint | None:
    for each in body.get("node_endpoints") or ():
        if each["node_id"] == node and node >= 0:
            return Endpoint(each["host"], each["port"])
    return None


def _fetch_from_body(version: int, body: Body) -> FetchResponse:
    if body["error_code"] != NONE:
        return FetchResponse(
            body["error_code"],
            NONE,
            *_NOBODY,
            high_watermark=-1,
            log_start_offset=-1,
            diverging_epoch=-1,
            diverging_end=-1,
            snapshot_end=-1,
            snapshot_epoch=-1,
            records=b"",
        )
    partition = only_partition(body["responses"], topic_key_of_fetch(version), "partition_index")
    leader = partition["current_leader"]
    return FetchResponse(
        error=NONE,
        partition_error=partition["error_code"],
        leader_id=leader["leader_id"],
        leader_epoch=leader["leader_epoch"],
        high_watermark=partition["high_watermark"],
        log_start_offset=partition["log_start_offset"],
        diverging_epoch=partition["diverging_epoch"]["epoch"],
        diverging_end=partition["diverging_epoch"]["end_offset"],
        snapshot_end=partition["snapshot_id"]["end_offset"],
        snapshot_epoch=partition["snapshot_id"]["epoch"],
        records=partition["records"] or b"",
        leader_endpoint=_endpoint_of(leader["leader_id"], body),
    )


def _fetch_snapshot_from_body(body: Body) -> FetchSnapshotResponse:
    if body["error_code"] != NONE:
        return FetchSnapshotResponse(body["error_code"], NONE, *_NOBODY)
    partition = only_partition(body["topics"], "name", "index")
    leader: dict[str, Any] = partition["current_leader"]
    return FetchSnapshotResponse(
        error=NONE,
        partition_error=partition["error_code"],
        leader_id=leader["leader_id"],
        leader_epoch=leader["leader_epoch"],
        snapshot_end=partition["snapshot_id"]["end_offset"],
        snapshot_epoch=partition["snapshot_id"]["epoch"],
        size=partition["size"],
        position=partition["position"],
        data=partition["unaligned_records"] or b"",
        leader_endpoint=_endpoint_of(leader["leader_id"], body),
    )


def _voter_change_from_body(body: Body) -> VoterChangeResponse:
    message = VoterChangeResponse(body["error_code"], text=body.get("error_message"))
    leader = body.get("current_leader")
    if leader is not None:
        message.leader_id = leader["leader_id"]
        message.leader_epoch = leader["leader_epoch"]
        if leader["host"] and leader["leader_id"] >= 0:
            message.leader_endpoint = Endpoint(leader["host"], leader["port"])
    return message


def _api_versions(body: Body) -> ApiVersionsResponse:
    """Return a node's range of kraft.version, given only from version 4 on (KAFKA-17492)."""
    for feature in body.get("supported_features") or ():
        if feature["name"] == KRAFT_VERSION:
            return ApiVersionsResponse(
                body["error_code"], feature["min_version"], feature["max_version"]
            )
    return ApiVersionsResponse(body["error_code"], 0, 0)

"""The one partition of all quorum RPCs, and its encoding in their lists.

Kafka's quorum RPCs carry lists of topics and partitions; all of them must name exactly
``__cluster_metadata`` (from Fetch version 13 on by its fixed id) and exactly partition 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.protocol.errors import INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION

Body = dict[str, Any]
Endpoints = Mapping[int, Endpoint]

TOPIC: Final = "__cluster_metadata"
TOPIC_ID: Final = (1).to_bytes(16, "big")
LISTENER: Final = "CONTROLLER"
QUORUM_APIS: Final = (
    "Vote",
    "BeginQuorumEpoch",
    "EndQuorumEpoch",
    "Fetch",
    "FetchSnapshot",
    "AddRaftVoter",
    "RemoveRaftVoter",
    "UpdateRaftVoter",
)
TOPIC_ID_FETCH: Final = 13
REPLICA_STATE_FETCH: Final = 15
PRE_VOTE: Final = 2
"""First Vote version that can carry a pre-vote."""


class ShapeError(Exception):
    """The message does not name exactly the metadata partition."""


def only_partition(topics: Any, topic_key: str, index_key: str) -> Body:
    """Return the only partition in ``topics``. Raises :class:`ShapeError` unless it is ours."""
    if not isinstance(topics, list) or len(topics) != 1:
        raise ShapeError("not exactly one topic")
    topic = topics[0]
    if topic[topic_key] != (TOPIC_ID if topic_key == "topic_id" else TOPIC):
        raise ShapeError(f"not the topic {TOPIC}")
    partitions: list[Body] = topic["partitions"]
    if len(partitions) != 1 or partitions[0][index_key] != 0:
        raise ShapeError("not exactly partition 0")
    return partitions[0]


def topic_key_of_fetch(version: int) -> str:
    """Return the field by which Fetch names a topic."""
    return "topic_id" if version >= TOPIC_ID_FETCH else "topic"


def named_topic(key: str) -> Body:
    """Return the metadata topic as the field ``key`` names it."""
    return {key: TOPIC_ID if key == "topic_id" else TOPIC}


def invalid_request(api: str, body: Body) -> Body:
    """Return the answer to a request of ``api`` that does not name the metadata partition."""
    if api == "Fetch":
        return {"throttle_time_ms": 0, "error_code": INVALID_REQUEST, "responses": []}
    if api == "FetchSnapshot":
        # Kafka distinguishes an unknown partition from an invalid request.
        topics = body["topics"]
        if len(topics) == 1 and len(topics[0]["partitions"]) == 1:
            partition = {
                "index": topics[0]["partitions"][0]["partition"],
                "error_code": UNKNOWN_TOPIC_OR_PARTITION,
            }
            return {"topics": [{"name": topics[0]["name"], "partitions": [partition]}]}
    return {"error_code": INVALID_REQUEST}


def to_listeners(endpoints: Sequence[tuple[str, Endpoint]]) -> list[Body]:
    """Return named endpoints as the protocol writes them."""
    return [{"name": name, "host": at.host, "port": at.port} for name, at in endpoints]


def from_listeners(listeners: Sequence[Body]) -> tuple[tuple[str, Endpoint], ...]:
    """Return the named endpoints in a message. Raises :class:`ShapeError` for a name twice."""
    names = {each["name"] for each in listeners}
    if len(names) != len(listeners):
        raise ShapeError("a listener is named twice")
    return tuple((each["name"], Endpoint(each["host"], each["port"])) for each in listeners)


def quorum_listener(listeners: Sequence[Body]) -> Endpoint | None:
    """Return the endpoint for quorum RPCs, None if it is not among ``listeners``."""
    return dict(from_listeners(listeners)).get(LISTENER)

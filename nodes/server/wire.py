"""Messages as a core sees them, to and from the protocol's messages: KRaft's and Raft's.

KRaft's ``leader_endpoint`` is the leader's endpoint in Kafka's message. Fields that a version of an
API cannot carry are absent on the other side.
"""

from __future__ import annotations

from kraftwreck.nodes.consensus.effects import Message
from kraftwreck.nodes.server import quorum_requests, quorum_responses, raft_wire
from kraftwreck.nodes.server.quorum_requests import api_of
from kraftwreck.nodes.server.shapes import (
    LISTENER,
    PRE_VOTE,
    QUORUM_APIS,
    TOPIC,
    TOPIC_ID,
    Body,
    Endpoints,
    ShapeError,
    invalid_request,
)

__all__ = [
    "LISTENER",
    "PRE_VOTE",
    "QUORUM_APIS",
    "TOPIC",
    "TOPIC_ID",
    "Body",
    "Endpoints",
    "ShapeError",
    "api_of",
    "invalid_request",
    "request_from_body",
    "request_to_body",
    "response_from_body",
    "response_to_body",
]


def request_to_body(message: Message, version: int, endpoints: Endpoints) -> Body:
    """Return the body of a request this node sends at ``version`` of its API.

    ``endpoints`` has the leader's address if the message lacks it.
    """
    if isinstance(message, raft_wire.MESSAGES):
        return raft_wire.raft_to_body(message)
    return quorum_requests.request_to_body(message, version, endpoints)


def request_from_body(api: str, version: int, body: Body) -> Message:
    """Return the request of ``api`` in a decoded ``body``.

    Raises :class:`ShapeError` if it is not about the metadata partition.
    """
    if api in raft_wire.RAFT_APIS:
        return raft_wire.raft_request_from_body(api, body)
    return quorum_requests.request_from_body(api, version, body)


def response_to_body(message: Message, version: int, endpoints: Endpoints, api: str = "") -> Body:
    """Return the body of an answer at ``version``, including the leader's endpoint.

    ``endpoints`` has the leader's address if the message lacks it. ``api`` must be given for
    UpdateRaftVoter: its answer shares the class, but not the shape, of two others.
    """
    if isinstance(message, raft_wire.MESSAGES):
        return raft_wire.raft_to_body(message)
    return quorum_responses.response_to_body(message, version, endpoints, api)


def response_from_body(api: str, version: int, body: Body) -> Message:
    """Return the answer to a request of ``api`` in a decoded ``body``.

    Raises :class:`ShapeError` if it is not about the metadata partition.
    """
    if api in raft_wire.RAFT_APIS:
        return raft_wire.raft_response_from_body(api, body)
    return quorum_responses.response_from_body(api, version, body)

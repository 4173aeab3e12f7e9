"""Quorum messages as the core sees them, to and from Kafka's messages.

The core's ``leader_endpoint`` is the leader's endpoint in Kafka's message. Fields that a version of
an API cannot carry are absent on the other side.
"""

from __future__ import annotations

from kraftwreck.nodes.server.quorum_requests import api_of, request_from_body, request_to_body
from kraftwreck.nodes.server.quorum_responses import response_from_body, response_to_body
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

"""Raft's messages to and from the bodies of the protocol: field by field, under the same names."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

from kraftwreck.nodes.consensus.raft.messages import (
    AppendEntriesRequest,
    AppendEntriesResponse,
    InstallSnapshotRequest,
    InstallSnapshotResponse,
    Request,
    RequestVoteRequest,
    RequestVoteResponse,
    Response,
)

RAFT_APIS: Final = ("RequestVote", "AppendEntries", "InstallSnapshot")

_REQUESTS: Final[dict[str, type[Request]]] = {
    "RequestVote": RequestVoteRequest,
    "AppendEntries": AppendEntriesRequest,
    "InstallSnapshot": InstallSnapshotRequest,
}
_RESPONSES: Final[dict[str, type[Response]]] = {
    "RequestVote": RequestVoteResponse,
    "AppendEntries": AppendEntriesResponse,
    "InstallSnapshot": InstallSnapshotResponse,
}
_APIS: Final = {message: api for api, message in _REQUESTS.items()}
_NAMES: Final = {
    message: tuple(field.name for field in fields(message))
    for message in (*_REQUESTS.values(), *_RESPONSES.values())
}
MESSAGES: Final = tuple(_NAMES)
"""All classes of Raft's messages."""


def raft_api_of(message: Request) -> str:
    """Return the API of a request."""
    return _APIS[type(message)]


def raft_to_body(message: Request | Response) -> dict[str, Any]:
    """Return the body of a request or a response."""
    return {name: getattr(message, name) for name in _NAMES[type(message)]}


def raft_request_from_body(api: str, body: dict[str, Any]) -> Request:
    """Return the request in a decoded ``body``."""
    message = _REQUESTS[api]
    return message(**{name: body[name] for name in _NAMES[message]})


def raft_response_from_body(api: str, body: dict[str, Any]) -> Response:
    """Return the response to a request of ``api`` in a decoded ``body``."""
    message = _RESPONSES[api]
    return message(**{name: body[name] for name in _NAMES[message]})

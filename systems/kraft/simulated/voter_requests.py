"""Clients' voter changes: requests of the quorum, from any sender, and the node gets them as such
(``nodes.consensus.kraft.messages``)."""

from __future__ import annotations

from typing import Any

from kraftwreck.nodes.consensus.effects import FatalError
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.kraft.messages import (
    AddRaftVoterRequest,
    RemoveRaftVoterRequest,
    Request,
    Response,
    VoterChangeResponse,
)


def quorum_request(api: str, body: dict[str, Any]) -> Request | None:
    """Return a client's request as a request of the quorum; None if it is not one."""
    if api == "AddRaftVoter":
        return AddRaftVoterRequest(
            cluster_id=body["cluster_id"],
            timeout_ms=body["timeout_ms"],
            voter_id=body["voter_id"],
            directory=body["voter_directory_id"],
            endpoints=tuple(
                (listener["name"], Endpoint(listener["host"], listener["port"]))
                for listener in body["listeners"]
            ),
            ack_when_committed=body.get("ack_when_committed", True),
        )
    if api == "RemoveRaftVoter":
        return RemoveRaftVoterRequest(
            cluster_id=body["cluster_id"],
            voter_id=body["voter_id"],
            directory=body["voter_directory_id"],
        )
    return None


def answer_body(message: Response) -> dict[str, Any]:
    """Return the body of the answer to a client's voter change."""
    if not isinstance(message, VoterChangeResponse):
        raise FatalError(f"a client that asked for a voter change was answered {message!r}")
    return {"throttle_time_ms": 0, "error_code": message.error, "error_message": message.text}

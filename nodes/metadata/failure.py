"""How an API call is refused, as a whole or in part."""

from __future__ import annotations

from typing import Any

from nodes.protocol.errors import (
    INVALID_CONFIG,
    INVALID_TOPIC_EXCEPTION,
    POLICY_VIOLATION,
    TOPIC_AUTHORIZATION_FAILED,
    UNSUPPORTED_ENDPOINT_TYPE,
)

__all__ = [
    "INVALID_CONFIG",
    "INVALID_TOPIC_EXCEPTION",
    "POLICY_VIOLATION",
    "TOPIC_AUTHORIZATION_FAILED",
    "UNSUPPORTED_ENDPOINT_TYPE",
    "ApiError",
    "refusal",
]


class ApiError(Exception):
    """A refusal the client is told about: a Kafka error ``code`` and a ``message``."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def refusal(api: str, version: int, body: dict[str, Any], code: int, message: str) -> Any:
    """Return the answer that refuses everything a request of ``api`` asks for.

    Kafka's messages have no error code for the whole request: each part carries it.
    """
    error = {"error_code": code, "error_message": message}
    if api == "CreateTopics":
        topics = [error | {"name": topic["name"]} for topic in body["topics"]]
        return {"throttle_time_ms": 0, "topics": topics}
    if api == "DeleteTopics":
        if version >= 6:
            parts = [
                error | {"name": topic["name"], "topic_id": topic["topic_id"]}
                for topic in body["topics"]
            ]
        else:
            parts = [error | {"name": name} for name in body["topic_names"]]
        return {"throttle_time_ms": 0, "responses": parts}
    resources = [
        error | {"resource_type": part["resource_type"], "resource_name": part["resource_name"]}
        for part in body["resources"]
    ]
    if api == "IncrementalAlterConfigs":
        return {"throttle_time_ms": 0, "responses": resources}
    if api == "DescribeConfigs":
        return {
            "throttle_time_ms": 0,
            "results": [resource | {"configs": []} for resource in resources],
        }
    raise AssertionError(f"{api} has no refusal")

"""Refusals of an API call, as a whole or in part."""

from __future__ import annotations

from typing import Any

from kraftwreck.nodes.protocol.apis import API_KEYS
from kraftwreck.nodes.protocol.errors import (
    INVALID_CONFIG,
    INVALID_TOPIC_EXCEPTION,
    POLICY_VIOLATION,
    TOPIC_AUTHORIZATION_FAILED,
    UNSUPPORTED_ENDPOINT_TYPE,
)
from kraftwreck.nodes.protocol.schema import snake_case
from kraftwreck.nodes.protocol.schemas import MESSAGES

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
    """A refusal that is sent to the client: a Kafka error ``code`` and a ``message``."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def refusal(api: str, version: int, body: dict[str, Any], code: int, message: str) -> Any:
    """Return the answer that refuses everything in a request of ``api``.

    A response with a top-level error code carries it there, others in each part.
    """
    if api not in API_KEYS:
        raise AssertionError(f"{api} has no refusal")
    error = {"error_code": code, "error_message": message}
    whole = {
        snake_case(field.name)
        for field in MESSAGES[f"{api}Response"].fields
        if version in field.versions
    }
    if "error_code" in whole:
        return {name: value for name, value in error.items() if name in whole}
    if api == "CreateTopics":
        topics = [error | {"name": topic["name"]} for topic in body["topics"]]
        return {"throttle_time_ms": 0, "topics": topics}
    if api == "CreatePartitions":
        results = [error | {"name": topic["name"]} for topic in body["topics"]]
        return {"throttle_time_ms": 0, "results": results}
    if api == "ElectLeaders":
        elections = [
            {
                "topic": topic["topic"],
                "partition_result": [
                    error | {"partition_id": number} for number in topic["partitions"]
                ],
            }
            for topic in body["topic_partitions"] or []
        ]
        return {"throttle_time_ms": 0, "replica_election_results": elections}
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
    if api in ("IncrementalAlterConfigs", "AlterConfigs"):
        return {"throttle_time_ms": 0, "responses": resources}
    if api == "DescribeConfigs":
        return {
            "throttle_time_ms": 0,
            "results": [resource | {"configs": []} for resource in resources],
        }
    raise AssertionError(f"{api} has no refusal")

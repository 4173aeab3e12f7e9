"""IncrementalAlterConfigs (44)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from typing import Final

from nodes.metadata.configs import altered, keys_of
from nodes.metadata.failure import POLICY_VIOLATION, ApiError
from nodes.metadata.image import BROKER, TOPIC, ImageView
from nodes.metadata.operation import MAX_RECORDS_PER_BATCH, Body, Context, Outcome, Record
from nodes.protocol.errors import (
    BROKER_ID_NOT_REGISTERED,
    INVALID_REQUEST,
    NONE,
    UNKNOWN_TOPIC_OR_PARTITION,
)

_NODE_ID: Final = re.compile(r"0|[1-9][0-9]{0,9}")


def check_resource(
    image: ImageView, voters: Collection[int], resource_type: int, name: str
) -> None:
    """Raise ApiError unless the topic or broker resource exists.

    A broker resource is a node id, or ``""`` for the default of the whole cluster.
    """
    keys_of(resource_type)
    if resource_type == TOPIC and name not in image.topics:
        raise ApiError(UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    if resource_type == BROKER and name:
        if not _NODE_ID.fullmatch(name):
            raise ApiError(INVALID_REQUEST, f"Broker name {name!r} is not a node id.")
        if int(name) not in image.brokers and int(name) not in voters:
            raise ApiError(BROKER_ID_NOT_REGISTERED, f"No node with id {name} is known.")


def _records(context: Context, resource: Body) -> list[Record]:
    kind, name = resource["resource_type"], resource["resource_name"]
    check_resource(context.image, context.voters, kind, name)
    twice = [n for n, c in Counter(c["name"] for c in resource["configs"]).items() if c > 1]
    if twice:
        raise ApiError(INVALID_REQUEST, f"Error due to duplicate config keys: {', '.join(twice)}")
    current = context.image.configs.get((kind, name), {})
    records: list[Record] = []
    for config in resource["configs"]:
        key = config["name"]
        value = altered(kind, key, config["config_operation"], config["value"], current.get(key))
        if value != current.get(key):
            fields = {"resource_type": kind, "resource_name": name, "name": key, "value": value}
            records.append(("ConfigRecord", 0, fields))
    return records


def incremental_alter_configs(context: Context, version: int, body: Body) -> Outcome:
    """Change configurations; each resource is changed as a whole or not at all.

    A change to the value that is set already needs no record.
    """
    resources = body["resources"]
    count = Counter((r["resource_type"], r["resource_name"]) for r in resources)
    records: list[Record] = []
    responses: list[Body] = []
    for resource in resources:
        kind, name = resource["resource_type"], resource["resource_name"]
        code, message = NONE, None
        try:
            if count[kind, name] > 1:
                raise ApiError(INVALID_REQUEST, "Each resource must appear at most once.")
            records.extend(_records(context, resource))
        except ApiError as error:
            code, message = error.code, error.message
        responses.append(
            {
                "error_code": code,
                "error_message": message,
                "resource_type": kind,
                "resource_name": name,
            }
        )
    if len(records) > MAX_RECORDS_PER_BATCH:
        raise ApiError(POLICY_VIOLATION, f"More than {MAX_RECORDS_PER_BATCH} changes at once.")
    if body["validate_only"]:
        records = []
    return Outcome(records, {"throttle_time_ms": 0, "responses": responses})

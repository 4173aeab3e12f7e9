"""AlterConfigs (33) and IncrementalAlterConfigs (44)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Final

from kraftwreck.nodes.metadata.config_keys import COMMIT_MODE
from kraftwreck.nodes.metadata.configs import (
    altered,
    check_same_commit_mode,
    check_value,
    keys_of,
)
from kraftwreck.nodes.metadata.eligibility import MIN_INSYNC_REPLICAS, elr_enabled
from kraftwreck.nodes.metadata.failure import INVALID_CONFIG, ApiError
from kraftwreck.nodes.metadata.image import BROKER, TOPIC, ImageView
from kraftwreck.nodes.metadata.operation import Body, Context, Outcome, Record, check_batch
from kraftwreck.nodes.protocol.errors import (
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


Values = Mapping[str, str | None]
"""The values that configurations are to be set to; None: not set."""


def _incremental(resource: Body, current: Mapping[str, str]) -> Values:
    kind = resource["resource_type"]
    return {
        config["name"]: altered(
            kind,
            config["name"],
            config["config_operation"],
            config["value"],
            current.get(config["name"]),
        )
        for config in resource["configs"]
    }


def _replacing(resource: Body, current: Mapping[str, str]) -> Values:
    """Return the change that replaces all values; names missing in the request are unset."""
    wanted: dict[str, str | None] = dict.fromkeys(current)
    for config in resource["configs"]:
        check_value(resource["resource_type"], config["name"], config["value"])
        wanted[config["name"]] = config["value"]
    return wanted


def _check_min_insync(kind: int, name: str, value: str | None) -> None:
    """Require one cluster-wide value while eligible leader replicas are enabled (KIP-966)."""
    if kind == BROKER and name:
        raise ApiError(
            INVALID_CONFIG,
            f"Broker-level {MIN_INSYNC_REPLICAS} cannot be altered while ELR is enabled.",
        )
    if kind == BROKER and value is None:
        raise ApiError(
            INVALID_CONFIG,
            f"Cluster-level {MIN_INSYNC_REPLICAS} cannot be removed while ELR is enabled.",
        )


def _records(
    context: Context, resource: Body, plan: Callable[[Body, Mapping[str, str]], Values]
) -> list[Record]:
    kind, name = resource["resource_type"], resource["resource_name"]
    check_resource(context.image, context.voters, kind, name)
    twice = [n for n, c in Counter(c["name"] for c in resource["configs"]).items() if c > 1]
    if twice:
        raise ApiError(INVALID_REQUEST, f"Error due to duplicate config keys: {', '.join(twice)}")
    current = context.image.configs.get((kind, name), {})
    records: list[Record] = []
    for key, value in plan(resource, current).items():
        if value == current.get(key):
            continue
        if key == COMMIT_MODE:
            check_same_commit_mode(current.get(key), value)
        fields = {"resource_type": kind, "resource_name": name, "name": key, "value": value}
        records.append(("ConfigRecord", 0, fields))
        if key == MIN_INSYNC_REPLICAS and elr_enabled(context.image):
            _check_min_insync(kind, name, value)
            # A replica that was eligible by the old number may not be by the new one.
            records.append(("ClearElrRecord", 0, {"topic_name": name if kind == TOPIC else ""}))
    return records


def _altered(
    context: Context, body: Body, plan: Callable[[Body, Mapping[str, str]], Values]
) -> Outcome:
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
            records.extend(_records(context, resource, plan))
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
        check_batch(records)
    if body["validate_only"]:
        records = []
    return Outcome(records, {"throttle_time_ms": 0, "responses": responses})


def incremental_alter_configs(context: Context, version: int, body: Body) -> Outcome:
    """Set, delete, append to or subtract from single configurations."""
    return _altered(context, body, _incremental)


def alter_configs(context: Context, version: int, body: Body) -> Outcome:
    """Replace all configurations of each resource."""
    return _altered(context, body, _replacing)

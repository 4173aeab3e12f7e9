"""Checks of configuration values, and IncrementalAlterConfigs operations (KIP-339)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from kraftwreck.nodes.metadata.config_keys import (
    BROKER_KEYS,
    COMMIT_MODE,
    ISR,
    QUORUM,
    TOPIC_KEYS,
    ConfigKey,
    ConfigType,
)
from kraftwreck.nodes.metadata.failure import INVALID_CONFIG, ApiError
from kraftwreck.nodes.metadata.image import BROKER, TOPIC
from kraftwreck.nodes.metadata.image_values import COMMIT_MODE_VERSION, ImageView
from kraftwreck.nodes.protocol.errors import INVALID_REQUEST

SET: Final = 0
DELETE: Final = 1
APPEND: Final = 2
SUBTRACT: Final = 3
_NAMES: Final = {SET: "SET", DELETE: "DELETE", APPEND: "APPEND", SUBTRACT: "SUBTRACT"}

MAX_VALUE_LENGTH: Final = 32767
"""Longest configuration value in bytes, as Kafka (Short.MAX_VALUE)."""


def keys_of(resource_type: int) -> Mapping[str, ConfigKey]:
    """Return the known configurations of a resource type (INVALID_REQUEST for others)."""
    if resource_type == TOPIC:
        return TOPIC_KEYS
    if resource_type == BROKER:
        return BROKER_KEYS
    raise ApiError(INVALID_REQUEST, f"Unexpected resource type {resource_type}.")


def split_list(value: str | None) -> list[str]:
    """Split a list-typed value; the empty string is the empty list."""
    return [part.strip() for part in value.split(",")] if value else []


def check_value(resource_type: int, name: str, value: str | None) -> None:
    """Raise ApiError (INVALID_CONFIG) unless ``name`` may be set to ``value``."""
    key = keys_of(resource_type).get(name)
    if key is None:
        raise ApiError(INVALID_CONFIG, f"Unknown configuration {name}.")
    if value is None:
        raise ApiError(INVALID_CONFIG, f"Null value not supported for configuration {name}.")
    if len(value.encode()) > MAX_VALUE_LENGTH:
        raise ApiError(
            INVALID_CONFIG,
            f"The configuration value of {name} is longer than {MAX_VALUE_LENGTH} bytes.",
        )
    reason = _fault(key, value)
    if reason:
        raise ApiError(INVALID_CONFIG, f"Invalid value {value} for configuration {name}: {reason}.")


def check_commit_mode(image: ImageView, configs: Mapping[str, str]) -> None:
    """Raise ApiError (INVALID_CONFIG) unless a topic may be created with these ``configs``.

    Brokers that do not know ``commit.mode`` would lead such a topic by the rules of the ISR. The
    finalized feature keeps them out of the cluster.
    """
    if configs.get(COMMIT_MODE) == QUORUM and not image.features.get(COMMIT_MODE_VERSION, 0):
        raise ApiError(
            INVALID_CONFIG,
            f"{COMMIT_MODE}={QUORUM} needs level 1 of the feature {COMMIT_MODE_VERSION}, which all"
            " brokers and controllers must support; finalize it with UpdateFeatures.",
        )


def check_same_commit_mode(before: str | None, after: str | None) -> None:
    """Raise ApiError (INVALID_CONFIG) if the commit mode of an existing topic would change.

    A leader and a controller that differ in the mode for a moment could commit a record by one
    rule and elect a leader by the other.
    """
    if (before or ISR) != (after or ISR):
        raise ApiError(
            INVALID_CONFIG,
            f"{COMMIT_MODE} cannot be changed from {before or ISR} to {after or ISR}: it is chosen"
            " when a topic is created.",
        )


def _fault(key: ConfigKey, value: str) -> str | None:
    match key.type:
        case ConfigType.BOOLEAN:
            ok = value.strip().lower() in ("true", "false")
            return None if ok else "expected true or false"
        case ConfigType.INT | ConfigType.LONG | ConfigType.DOUBLE:
            return _number_fault(key, value.strip())
        case ConfigType.LIST:
            parts = split_list(value)
            if len(set(parts)) != len(parts):
                return "the list holds an element twice"
            bad = next((part for part in parts if not _element_ok(key, part)), None)
            return None if bad is None else f"element {bad!r} is not permitted"
        case ConfigType.STRING:
            if key.choices is not None and value not in key.choices:
                return f"must be one of {', '.join(key.choices)}"
            return None


def _number_fault(key: ConfigKey, value: str) -> str | None:
    try:
        # int() would also take "1_000" and non-ASCII digits, which no Java client means.
        if not value.isascii() or "_" in value:
            raise ValueError
        number = float(value) if key.type is ConfigType.DOUBLE else int(value)
    except ValueError:
        return f"not a number of type {key.type.name}"
    if math.isnan(number) or not key.minimum <= number <= key.maximum:
        return f"must be between {key.minimum} and {key.maximum}"
    return None


def _element_ok(key: ConfigKey, part: str) -> bool:
    if not part:
        return False
    if key.choices is not None:
        return part in key.choices
    return key.pattern is None or key.pattern.fullmatch(part) is not None


def altered(
    resource_type: int, name: str, operation: int, value: str | None, current: str | None
) -> str | None:
    """Return the value of ``name`` after one operation; None means not set.

    ``current`` is the value set now (None: not set, and a list starts from its default). Raises
    ApiError: INVALID_CONFIG, or INVALID_REQUEST for an unknown operation.
    """
    if operation not in _NAMES:
        raise ApiError(INVALID_REQUEST, f"Unknown config operation {operation}.")
    if operation == DELETE:
        # Deleting an unknown name is refused too, since it is probably a typing error.
        if name not in keys_of(resource_type):
            raise ApiError(INVALID_CONFIG, f"Unknown configuration {name}.")
        return None
    if value is None:
        raise ApiError(INVALID_REQUEST, f"Null value not supported for {_NAMES[operation]} {name}.")
    result = value
    if operation != SET:
        result = _spliced(resource_type, name, operation, value, current)
    check_value(resource_type, name, result)
    return result


def _spliced(resource_type: int, name: str, operation: int, value: str, current: str | None) -> str:
    key = keys_of(resource_type).get(name)
    if key is None:
        raise ApiError(INVALID_CONFIG, f"Unknown configuration {name}.")
    if key.type is not ConfigType.LIST:
        raise ApiError(
            INVALID_CONFIG,
            f"Can't {_NAMES[operation]} to key {name} because its type is not LIST.",
        )
    parts = split_list(key.default if current is None else current)
    operands: Sequence[str] = split_list(value)
    if operation == APPEND:
        parts = list(dict.fromkeys((*parts, *operands)))
    else:
        taken = set(operands)
        parts = [part for part in parts if part not in taken]
    return ",".join(parts)

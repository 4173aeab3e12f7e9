"""Configuration values and IncrementalAlterConfigs operations."""

from __future__ import annotations

import pytest

from kraftwreck.nodes.metadata.config_keys import BROKER_KEYS, TOPIC_KEYS
from kraftwreck.nodes.metadata.configs import APPEND, DELETE, SET, SUBTRACT, altered, check_value
from kraftwreck.nodes.metadata.failure import INVALID_CONFIG, ApiError
from kraftwreck.nodes.metadata.image import BROKER, TOPIC
from kraftwreck.nodes.protocol.errors import INVALID_REQUEST

LIST = "follower.replication.throttled.replicas"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention.ms", "0"),
        ("retention.ms", "-1"),
        ("retention.ms", str(2**63 - 1)),
        ("min.insync.replicas", "2"),
        ("preallocate", "TRUE"),
        ("cleanup.policy", "compact,delete"),
        ("compression.type", "zstd"),
        ("min.cleanable.dirty.ratio", "0.25"),
        (LIST, "0:1,1:2"),
        (LIST, "*"),
        (LIST, ""),
    ],
)
def test_legal_values(name: str, value: str) -> None:
    check_value(TOPIC, name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("no.such.config", "1"),
        ("retention.ms", None),
        ("retention.ms", "soon"),
        ("retention.ms", ""),
        ("retention.ms", "1.5"),
        ("retention.ms", "1_000"),
        ("retention.ms", "-2"),
        ("retention.ms", str(2**63)),
        ("retention.ms", "9" * 5000),
        ("min.insync.replicas", "0"),
        ("min.insync.replicas", str(2**31)),
        ("preallocate", "yes"),
        ("cleanup.policy", "compact,compact"),
        ("cleanup.policy", "shred"),
        ("compression.type", "rar"),
        ("min.cleanable.dirty.ratio", "nan"),
        ("min.cleanable.dirty.ratio", "1.5"),
        (LIST, "0:1,,1:2"),
        (LIST, "zero:one"),
        (LIST, ",".join(f"0:{i}" for i in range(9000))),
    ],
)
def test_illegal_values_are_invalid_config(name: str, value: str | None) -> None:
    with pytest.raises(ApiError) as refused:
        check_value(TOPIC, name, value)
    assert refused.value.code == INVALID_CONFIG


def test_every_default_is_itself_legal() -> None:
    for kind, table in ((TOPIC, TOPIC_KEYS), (BROKER, BROKER_KEYS)):
        for key in table.values():
            if key.default is not None:
                check_value(kind, key.name, key.default)


def test_every_synonym_is_a_known_broker_config_of_the_same_type() -> None:
    for key in TOPIC_KEYS.values():
        if key.synonym is not None:
            assert BROKER_KEYS[key.synonym].type is key.type, key.name


@pytest.mark.parametrize(
    ("operation", "value", "current", "result"),
    [
        (SET, "0:1", None, "0:1"),
        (SET, "0:1", "0:2", "0:1"),
        (DELETE, None, "0:2", None),
        (DELETE, None, None, None),
        (APPEND, "0:1", None, "0:1"),
        (APPEND, "0:1", "0:2", "0:2,0:1"),
        (APPEND, "0:2", "0:2", "0:2"),
        (APPEND, "0:3,0:3,0:2", "0:2", "0:2,0:3"),
        (SUBTRACT, "0:2", "0:1,0:2,0:3", "0:1,0:3"),
        (SUBTRACT, "0:2", "0:2", ""),
        (SUBTRACT, "0:9", "0:2", "0:2"),
    ],
)
def test_operations_on_a_list(
    operation: int, value: str | None, current: str | None, result: str | None
) -> None:
    assert altered(TOPIC, LIST, operation, value, current) == result


def test_a_list_that_is_not_set_is_extended_from_its_default() -> None:
    assert altered(TOPIC, "cleanup.policy", APPEND, "compact", None) == "delete,compact"


@pytest.mark.parametrize(
    ("name", "operation", "value", "code"),
    [
        ("retention.ms", APPEND, "1", INVALID_CONFIG),
        ("retention.ms", SUBTRACT, "1", INVALID_CONFIG),
        ("no.such.config", SET, "1", INVALID_CONFIG),
        ("no.such.config", APPEND, "1", INVALID_CONFIG),
        ("no.such.config", DELETE, None, INVALID_CONFIG),
        ("retention.ms", SET, None, INVALID_REQUEST),
        ("retention.ms", 4, "1", INVALID_REQUEST),
        (LIST, APPEND, "nonsense", INVALID_CONFIG),
    ],
)
def test_refused_operations(name: str, operation: int, value: str | None, code: int) -> None:
    with pytest.raises(ApiError) as refused:
        altered(TOPIC, name, operation, value, None)
    assert refused.value.code == code

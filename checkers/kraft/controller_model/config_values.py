"""Types, limits and defaults of the configurations that probes use, as Kafka defines them.

Source: Kafka's ``TopicConfig`` and ``ServerConfigs``; ``commit.mode`` is of our nodes. A name that
is not listed here is not judged, unless it begins with ``no.such.``: no version of Kafka has such a
configuration.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

UNKNOWN_PREFIX: Final = "no.such."
_INT: Final = 2**31 - 1
_LONG: Final = 2**63 - 1
_THROTTLED: Final = re.compile(r"\*|[0-9]+:[0-9]+")


class Rule(NamedTuple):
    """``kind`` is bool, int, float, text or list; ``synonym`` the name at the brokers."""

    kind: str
    default: str
    low: int | float = 0
    high: int | float = _LONG
    choices: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    synonym: str | None = None


TOPIC_RULES: Final = {
    "cleanup.policy": Rule(
        "list", "delete", choices=("compact", "delete"), synonym="log.cleanup.policy"
    ),
    "commit.mode": Rule("text", "isr", choices=("isr", "quorum")),
    "compression.type": Rule(
        "text",
        "producer",
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        synonym="compression.type",
    ),
    "flush.messages": Rule("int", str(_LONG), 1, synonym="log.flush.interval.messages"),
    "leader.replication.throttled.replicas": Rule("list", "", pattern=_THROTTLED),
    "max.message.bytes": Rule("int", "1048588", 0, _INT, synonym="message.max.bytes"),
    "min.cleanable.dirty.ratio": Rule(
        "float", "0.5", 0, 1, synonym="log.cleaner.min.cleanable.ratio"
    ),
    "min.insync.replicas": Rule("int", "1", 1, _INT, synonym="min.insync.replicas"),
    "preallocate": Rule("bool", "false", synonym="log.preallocate"),
    "retention.bytes": Rule("int", "-1", -1, synonym="log.retention.bytes"),
    "retention.ms": Rule("int", "604800000", -1, synonym="log.retention.ms"),
    "segment.bytes": Rule("int", "1073741824", 1_048_576, _INT, synonym="log.segment.bytes"),
    "unclean.leader.election.enable": Rule(
        "bool", "false", synonym="unclean.leader.election.enable"
    ),
}
BROKER_RULES: Final = {
    "background.threads": Rule("int", "10", 1, _INT),
    "compression.type": TOPIC_RULES["compression.type"],
    "log.cleaner.min.cleanable.ratio": Rule("float", "0.5", 0, 1),
    "log.cleanup.policy": TOPIC_RULES["cleanup.policy"],
    "log.flush.interval.messages": Rule("int", str(_LONG), 1),
    "log.preallocate": Rule("bool", "false"),
    "log.retention.bytes": Rule("int", "-1", -1),
    "log.segment.bytes": Rule("int", "1073741824", 1_048_576, _INT),
    "message.max.bytes": Rule("int", "1048588", 0, _INT),
    "min.insync.replicas": Rule("int", "1", 1, _INT),
}
RULES: Final = {2: TOPIC_RULES, 4: BROKER_RULES}


def elements(value: str) -> list[str]:
    """Return the elements of a list."""
    return [part.strip() for part in value.split(",")] if value else []


def is_true(value: str | None) -> bool:
    """Whether the value of a boolean setting means yes (``ConfigDef.parseType``)."""
    return value is not None and value.strip().lower() == "true"


def is_legal(kind: int, name: str, value: str | None) -> bool | None:
    """Whether ``name`` may be set to ``value``; None where that is not known here."""
    if name.startswith(UNKNOWN_PREFIX) or value is None:
        return False
    rule = RULES.get(kind, {}).get(name)
    if rule is None:
        return None
    if rule.kind == "bool":
        return value.strip().lower() in ("true", "false")
    if rule.kind == "text":
        return value in rule.choices
    if rule.kind == "list":
        parts = elements(value)
        if len(set(parts)) != len(parts):
            return False
        if rule.pattern is not None:
            pattern = rule.pattern
            return all(pattern.fullmatch(part) for part in parts)
        return all(part in rule.choices for part in parts)
    try:
        number = float(value) if rule.kind == "float" else int(value)
    except ValueError:
        return False
    return rule.low <= number <= rule.high


SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def altered(
    kind: int, name: str, operation: int, value: str | None, current: str | None
) -> tuple[bool | None, str | None]:
    """Return whether IncrementalAlterConfigs may do ``operation``, and what is set then."""
    rule = RULES.get(kind, {}).get(name)
    if operation == DELETE:
        if rule is None:
            return (False if name.startswith(UNKNOWN_PREFIX) else None), None
        return True, None
    if operation not in (SET, APPEND, SUBTRACT) or value is None:
        return False, None
    result = value
    if operation != SET:
        if rule is None:
            return (False if name.startswith(UNKNOWN_PREFIX) else None), None
        if rule.kind != "list":
            return False, None
        parts = elements(rule.default if current is None else current)
        wanted = elements(value)
        if operation == APPEND:
            parts += [part for part in dict.fromkeys(wanted) if part not in parts]
        else:
            parts = [part for part in parts if part not in wanted]
        result = ",".join(parts)
    return is_legal(kind, name, result), result

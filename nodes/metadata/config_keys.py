"""The configuration names this controller knows, with type, default and permitted values.

Names, types and defaults are those of Kafka 4.x (``TopicConfig``, ``ServerConfigs``); only
``commit.mode`` is of this project. A name that is not listed is refused with INVALID_CONFIG.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

LONG_MAX: Final = 2**63 - 1
INT_MAX: Final = 2**31 - 1
_THROTTLED = re.compile(r"\*|[0-9]+:[0-9]+")


class ConfigType(IntEnum):
    """Value types with their numbers in DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


@dataclass(slots=True, frozen=True)
class ConfigKey:
    """One known configuration.

    ``minimum`` and ``maximum`` bound numbers; ``choices`` are the permitted strings or list
    elements (None: any), ``pattern`` the form of a list element. ``synonym`` is the
    broker-level name a topic configuration falls back to.
    """

    name: str
    type: ConfigType
    default: str | None
    minimum: int | float = -(2**63)
    maximum: int | float = LONG_MAX
    choices: tuple[str, ...] | None = None
    pattern: re.Pattern[str] | None = None
    synonym: str | None = None


def _long(
    name: str, default: int | None, minimum: int = 0, synonym: str | None = None
) -> ConfigKey:
    text = None if default is None else str(default)
    return ConfigKey(name, ConfigType.LONG, text, minimum, synonym=synonym)


def _int(
    name: str, default: int, minimum: int = 0, maximum: int = INT_MAX, synonym: str | None = None
) -> ConfigKey:
    return ConfigKey(name, ConfigType.INT, str(default), minimum, maximum, synonym=synonym)


def _flag(name: str, default: str = "false", synonym: str | None = None) -> ConfigKey:
    return ConfigKey(name, ConfigType.BOOLEAN, default, synonym=synonym)


def _choice(name: str, default: str, *choices: str, synonym: str | None = None) -> ConfigKey:
    return ConfigKey(name, ConfigType.STRING, default, choices=choices, synonym=synonym)


def _table(*keys: ConfigKey) -> Mapping[str, ConfigKey]:
    return {key.name: key for key in keys}


_CODECS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
_CLEANUP = ("compact", "delete")
_TIMESTAMPS = ("CreateTime", "LogAppendTime")

COMMIT_MODE: Final = "commit.mode"
ISR: Final = "isr"
"""All in-sync replicas have a record before it is committed: Kafka's rule."""
QUORUM: Final = "quorum"
"""A majority of the replicas commits (:mod:`nodes.replication.quorum_commit`)."""

TOPIC_KEYS: Final = _table(
    ConfigKey(
        "cleanup.policy", ConfigType.LIST, "delete", choices=_CLEANUP, synonym="log.cleanup.policy"
    ),
    _choice(COMMIT_MODE, ISR, ISR, QUORUM),
    _int("compression.gzip.level", -1, -1, 9),
    _int("compression.lz4.level", 9, 1, 17),
    _int("compression.zstd.level", 3, -131072, 22),
    _choice("compression.type", "producer", *_CODECS, synonym="compression.type"),
    _long("delete.retention.ms", 86_400_000, synonym="log.cleaner.delete.retention.ms"),
    _long("file.delete.delay.ms", 60_000, synonym="log.segment.delete.delay.ms"),
    _long("flush.messages", LONG_MAX, 1, synonym="log.flush.interval.messages"),
    _long("flush.ms", LONG_MAX, synonym="log.flush.interval.ms"),
    ConfigKey("follower.replication.throttled.replicas", ConfigType.LIST, "", pattern=_THROTTLED),
    _int("index.interval.bytes", 4096, synonym="log.index.interval.bytes"),
    ConfigKey("leader.replication.throttled.replicas", ConfigType.LIST, "", pattern=_THROTTLED),
    _long("local.retention.bytes", -2, -2),
    _long("local.retention.ms", -2, -2),
    _long("max.compaction.lag.ms", LONG_MAX, 1, synonym="log.cleaner.max.compaction.lag.ms"),
    _int("max.message.bytes", 1_048_588, synonym="message.max.bytes"),
    _long(
        "message.timestamp.after.max.ms", 3_600_000, synonym="log.message.timestamp.after.max.ms"
    ),
    _long(
        "message.timestamp.before.max.ms", LONG_MAX, synonym="log.message.timestamp.before.max.ms"
    ),
    _choice(
        "message.timestamp.type", "CreateTime", *_TIMESTAMPS, synonym="log.message.timestamp.type"
    ),
    ConfigKey(
        "min.cleanable.dirty.ratio",
        ConfigType.DOUBLE,
        "0.5",
        0,
        1,
        synonym="log.cleaner.min.cleanable.ratio",
    ),
    _long("min.compaction.lag.ms", 0, synonym="log.cleaner.min.compaction.lag.ms"),
    _int("min.insync.replicas", 1, 1, synonym="min.insync.replicas"),
    _flag("preallocate", synonym="log.preallocate"),
    _flag("remote.storage.enable"),
    _long("retention.bytes", -1, -1, synonym="log.retention.bytes"),
    _long("retention.ms", 604_800_000, -1, synonym="log.retention.ms"),
    _int("segment.bytes", 1_073_741_824, 1_048_576, synonym="log.segment.bytes"),
    _int("segment.index.bytes", 10_485_760, 4, synonym="log.index.size.max.bytes"),
    _long("segment.jitter.ms", 0, synonym="log.roll.jitter.ms"),
    _long("segment.ms", 604_800_000, 1, synonym="log.roll.ms"),
    _flag("unclean.leader.election.enable", synonym="unclean.leader.election.enable"),
)

BROKER_KEYS: Final = _table(
    _int("background.threads", 10, 1),
    _choice("compression.type", "producer", *_CODECS),
    _long("follower.replication.throttled.rate", LONG_MAX),
    _long("leader.replication.throttled.rate", LONG_MAX),
    _long("log.cleaner.delete.retention.ms", 86_400_000),
    _long("log.cleaner.max.compaction.lag.ms", LONG_MAX, 1),
    ConfigKey("log.cleaner.min.cleanable.ratio", ConfigType.DOUBLE, "0.5", 0, 1),
    _long("log.cleaner.min.compaction.lag.ms", 0),
    _int("log.cleaner.threads", 1),
    ConfigKey("log.cleanup.policy", ConfigType.LIST, "delete", choices=_CLEANUP),
    _long("log.flush.interval.messages", LONG_MAX, 1),
    _long("log.flush.interval.ms", None),
    _int("log.index.interval.bytes", 4096),
    _int("log.index.size.max.bytes", 10_485_760, 4),
    _long("log.message.timestamp.after.max.ms", 3_600_000),
    _long("log.message.timestamp.before.max.ms", LONG_MAX),
    _choice("log.message.timestamp.type", "CreateTime", *_TIMESTAMPS),
    _flag("log.preallocate"),
    _long("log.retention.bytes", -1, -1),
    _long("log.retention.ms", None, -1),
    _long("log.roll.jitter.ms", None),
    _long("log.roll.ms", None, 1),
    _int("log.segment.bytes", 1_073_741_824, 1_048_576),
    _long("log.segment.delete.delay.ms", 60_000),
    _int("max.connection.creation.rate", INT_MAX),
    _int("max.connections", INT_MAX),
    _int("max.connections.per.ip", INT_MAX),
    _int("message.max.bytes", 1_048_588),
    ConfigKey("metric.reporters", ConfigType.LIST, ""),
    _int("min.insync.replicas", 1, 1),
    _int("num.io.threads", 8, 1),
    _int("num.network.threads", 3, 1),
    _int("num.recovery.threads.per.data.dir", 2, 1),
    _int("num.replica.fetchers", 1, 1),
    _long("replica.alter.log.dirs.io.max.bytes.per.second", LONG_MAX),
    _flag("unclean.leader.election.enable"),
)

"""The immutable values of the metadata image, and how to read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

TOPIC: Final = 2
BROKER: Final = 4
"""Resource types of ConfigRecord and of the config APIs."""

METADATA_VERSION: Final = "metadata.version"
ELR_VERSION: Final = "eligible.leader.replicas.version"
COMMIT_MODE_VERSION: Final = "commit.mode.version"
"""The feature of this project that permits ``commit.mode=quorum``; Apache Kafka lacks it."""

NO_LEADER: Final = -1
MIGRATING_DIRECTORY: Final = bytes(16)
"""The directory of a replica that no record named: before metadata.version 17 none did."""

Fields = dict[str, Any]
PartitionKey = tuple[bytes, int]
"""Topic id, partition id."""
Entity = tuple[tuple[str, str | None], ...]
"""The entity of a client quota: (entity type, name or None for the default), sorted."""


@dataclass(slots=True, unsafe_hash=True)
class Partition:
    """One partition's assignment and leadership; treated as immutable, like :class:`Topic`.

    There may be millions: a frozen dataclass takes three times as long to make.

    ``directories`` goes with ``replicas``. ``isr`` and ``elr`` (eligible leader replicas, KIP-966)
    do not overlap. ``recovery_state`` is 1 after an unclean election.
    """

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    removing: tuple[int, ...]
    adding: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    recovery_state: int
    directories: tuple[bytes, ...]
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()


@dataclass(slots=True, unsafe_hash=True)
class Topic:
    """A topic; its partitions have the ids 0 to ``partitions`` - 1."""

    name: str
    topic_id: bytes
    partitions: int = 0


class Listener(NamedTuple):
    """The address of a node's listener; ``security_protocol`` is 0 for PLAINTEXT."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


class SupportedFeature(NamedTuple):
    """The levels of a feature that a node supports."""

    name: str
    low: int
    high: int


@dataclass(slots=True, frozen=True)
class Broker:
    """A registered broker.

    ``log_dirs`` are the ids of its log directories (from metadata.version 17 on), those in
    ``cordoned_log_dirs`` take no new replicas; None if it never reported any.
    """

    broker_id: int
    incarnation: bytes
    epoch: int
    endpoints: tuple[Listener, ...]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    features: tuple[SupportedFeature, ...] = ()
    log_dirs: tuple[bytes, ...] = ()
    cordoned_log_dirs: tuple[bytes, ...] | None = None
    is_migrating: bool = False


@dataclass(slots=True, frozen=True)
class ControllerRegistration:
    """A controller that registered itself (from metadata.version 15 on)."""

    controller_id: int
    incarnation: bytes
    endpoints: tuple[Listener, ...]
    features: tuple[SupportedFeature, ...]
    zk_migration_ready: bool = False


class ImageView(Protocol):
    """The metadata of one layer: the head, the committed layer, or a frozen one.

    ``last_offset`` is the offset of the last record it contains, -1 at first.
    """

    @property
    def last_offset(self) -> int: ...
    @property
    def topics(self) -> Mapping[str, Topic]: ...
    @property
    def names(self) -> Mapping[bytes, str]: ...
    @property
    def partitions(self) -> Mapping[PartitionKey, Partition]: ...
    @property
    def configs(self) -> Mapping[tuple[int, str], Mapping[str, str]]: ...
    @property
    def features(self) -> Mapping[str, int]: ...
    @property
    def brokers(self) -> Mapping[int, Broker]: ...
    @property
    def controllers(self) -> Mapping[int, ControllerRegistration]: ...
    @property
    def quotas(self) -> Mapping[tuple[Entity, str], float]: ...
    @property
    def acls(self) -> Mapping[bytes, tuple[Any, ...]]: ...
    @property
    def scram(self) -> Mapping[tuple[str, int], tuple[Any, ...]]: ...
    @property
    def tokens(self) -> Mapping[str, tuple[Any, ...]]: ...
    @property
    def numbers(self) -> Mapping[str, int]: ...
    @property
    def next_producer_id(self) -> int: ...


NEXT_PRODUCER_ID: Final = "next producer id"
ZK_MIGRATION_STATE: Final = "zk migration state"
"""Keys of the image's ``numbers``."""

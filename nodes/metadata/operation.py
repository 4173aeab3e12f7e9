"""The input and the result of an API operation, independent of how it is carried out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.draw import draw, draw_below
from kraftwreck.nodes.metadata.failure import POLICY_VIOLATION, ApiError
from kraftwreck.nodes.metadata.image import MetadataImage
from kraftwreck.nodes.metadata.image_values import Broker
from kraftwreck.nodes.metadata.placement import Candidate
from kraftwreck.nodes.metadata.quorum import Quorum
from kraftwreck.nodes.metadata.sessions import SESSION_TIMEOUT_MS, Sessions

Body = dict[str, Any]
Record = tuple[str, int, Body]
"""Schema name, version, fields (all of them, so that the record can be applied as it is)."""

MAX_RECORDS_PER_BATCH: Final = 10_000
NO_ID: Final = bytes(16)
RESERVED_IDS: Final = 100
"""The first hundred 128-bit ids are reserved in Kafka (unassigned, lost, metadata topic)."""
UNASSIGNED_DIRECTORY: Final = (1).to_bytes(16, "big")


@dataclass(slots=True, frozen=True)
class Settings:
    """The settings of the controller; names and defaults are Kafka's.

    A period of 0 switches its task off.
    """

    seed: int
    default_partitions: int = 1
    default_replication: int = 1
    min_insync_replicas: int = 1
    session_timeout_ms: int = SESSION_TIMEOUT_MS
    max_idle_ms: int = 500
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_seconds: int = 300
    unclean_leader_election_interval_ms: int = 300_000
    unclean_leader_election_enable: bool = False
    producer_id_block: int = 1000


@dataclass(slots=True, frozen=True)
class Context:
    """The state an operation reads.

    ``offset`` is that of its first record; with the node and the epoch it makes every random choice
    unique and repeatable. ``now`` is monotonic microseconds, ``wall_ms`` wall-clock milliseconds.
    ``quorum`` is set on the active controller.
    """

    image: MetadataImage
    voters: Mapping[int, Endpoint]
    settings: Settings
    node_id: int
    epoch: int
    offset: int
    now: int = 0
    wall_ms: int = 0
    cluster_id: str = ""
    sessions: Sessions = field(default_factory=Sessions)
    quorum: Quorum | None = None

    def choose(self, bound: int, *key: object) -> int:
        """Draw a number in [0, bound)."""
        return draw_below(
            bound, self.settings.seed, "placement", self.node_id, self.epoch, self.offset, *key
        )

    def new_topic_id(self, index: int) -> bytes:
        """Draw an id for the ``index``-th topic of the request; never a reserved or live one."""
        attempt = 0
        while True:
            key = ("topic-id", self.node_id, self.epoch, self.offset, index, attempt)
            high = draw(self.settings.seed, *key, "high")
            low = draw(self.settings.seed, *key, "low")
            topic_id = high.to_bytes(8, "big") + low.to_bytes(8, "big")
            # 0xF8-0xFB lead to a text form starting with "-", which Kafka avoids too.
            reserved = high == 0 and low < RESERVED_IDS
            if not reserved and topic_id[0] >> 2 != 62 and topic_id not in self.image.names:
                return topic_id
            attempt += 1

    def candidates(self) -> list[Candidate]:
        """Return the brokers that may get new replicas, or the voters while none is registered.

        Brokers in controlled shutdown, and those with all directories cordoned, are left out.
        """
        if not self.image.brokers:
            return [Candidate(voter) for voter in sorted(self.voters)]
        return [
            Candidate(broker.broker_id, broker.rack, broker.fenced)
            for _, broker in sorted(self.image.brokers.items())
            if not broker.in_controlled_shutdown and not _is_cordoned(broker)
        ]


def _is_cordoned(broker: Broker) -> bool:
    cordoned = broker.cordoned_log_dirs or ()
    return bool(broker.log_dirs) and set(broker.log_dirs) <= set(cordoned)


def check_batch(records: Sequence[Record]) -> None:
    """Raise ApiError (POLICY_VIOLATION) for more records than an atomic batch can hold.

    Operations call this as they add records: a request of a few bytes can need millions.
    """
    if len(records) > MAX_RECORDS_PER_BATCH:
        raise ApiError(
            POLICY_VIOLATION,
            f"The request needs more than {MAX_RECORDS_PER_BATCH} records, the limit of one "
            "atomic batch: ask for less at once.",
        )


@dataclass(slots=True)
class Outcome:
    """Records to append, and the answer once they are committed.

    They become one batch, or, unless the outcome is ``atomic``, batches of up to
    :data:`MAX_RECORDS_PER_BATCH`. ``appended`` is called with the last offset once they are in the
    log (not committed), to update the controller's state outside of the log. ``kraft_version`` is
    the level that the quorum is raised to with it.
    """

    records: Sequence[Record]
    body: Body
    atomic: bool = True
    appended: Callable[[int], None] | None = None
    kraft_version: int | None = None

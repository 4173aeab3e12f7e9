"""Writes and reads records and arrays of all sizes around powers of two (F30).

Encoders have tables for short things and other code for long ones, and lengths take more bytes from
some sizes on. Records of a run have few sizes. So once in a run batches, records of the metadata
and requests are encoded and decoded with sizes on both sides of each power of two. Requests in old
versions lack fields, which then have the defaults of Kafka's schemas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.nodes.log.batch import decode_batch, encode_batch
from kraftwreck.nodes.protocol.codec import decode, encode
from kraftwreck.nodes.protocol.records import decode_record, encode_record
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.world import World

Fields = dict[str, Any]

NEAR: Final = 12
"""How far sizes are from a power of two, at most: the bytes around a value in its record."""
MOST_BYTES: Final = 1 << 15
MOST_RECORDS: Final = 1 << 8
MOST_ITEMS: Final = 1 << 5
"""Of an array. (Python remembers a hundred formats of arrays.)"""


_ID: Final = bytes(16)
_REGISTRATION: Final = {
    "broker_id": 1,
    "cluster_id": "c",
    "incarnation_id": _ID,
    "listeners": [],
    "features": [],
    "rack": None,
    "is_migrating_zk_broker": False,
}
_NEW_VOTER: Final = {
    "cluster_id": "c",
    "timeout_ms": 1,
    "voter_id": 1,
    "voter_directory_id": _ID,
    "listeners": [],
}
LACKING: Final[tuple[tuple[str, int, Fields, Fields], ...]] = (
    ("AddRaftVoterRequest", 0, _NEW_VOTER, {"ack_when_committed": True}),
    ("VoteRequest", 0, {"cluster_id": "c", "topics": []}, {"voter_id": -1}),
    ("MetadataRequest", 3, {"topics": []}, {"allow_auto_topic_creation": True}),
    (
        "AlterPartitionReassignmentsRequest",
        0,
        {"timeout_ms": 1, "topics": []},
        {"allow_replication_factor_change": True},
    ),
    ("BrokerRegistrationRequest", 2, _REGISTRATION, {"previous_broker_epoch": -1, "log_dirs": []}),
    (
        "InitProducerIdRequest",
        2,
        {"transactional_id": None, "transaction_timeout_ms": 1},
        {"producer_id": -1, "producer_epoch": -1},
    ),
    ("OffsetForLeaderEpochRequest", 2, {"topics": []}, {"replica_id": -2}),
    (
        "DescribeClusterRequest",
        0,
        {"include_cluster_authorized_operations": False},
        {"endpoint_type": 1, "include_fenced_brokers": False},
    ),
    (
        "ListOffsetsRequest",
        3,
        {"replica_id": -1, "topics": [{"name": "t", "partitions": [{"timestamp": -1}]}]},
        {"current_leader_epoch": -1},
    ),
    (
        "UpdateFeaturesRequest",
        0,
        {"timeout_ms": 1, "feature_updates": [{"feature": "f", "max_version_level": 1}]},
        {"upgrade_type": 1},
    ),
)
"""Messages in versions that lack fields: the fields that are written, and the defaults of others,
at any depth."""


class SizeRehearsal:
    """Judges the encoders of the nodes at the begin of a run."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        world.afterwards(self._judge)

    @rule(
        "F30",
        "AnySizeIsRead",
        "A node reads what another one has written as it was: records of any size, any number of "
        "them, arrays of any length, and each message of the quorum. A field that an old version "
        "lacks has Kafka's default.",
        simulated=True,
    )
    def _judge(self) -> None:
        for wrong in unread():
            self._failures.add("F30", self._world.now, wrong)
            return


def sizes(most: int) -> list[int]:
    """Return the numbers near powers of two up to ``most``, and those below the first of them."""
    powers = [1 << shift for shift in range(most.bit_length())]
    near = {power + by for power in powers for by in range(-NEAR, NEAR + 1)}
    return sorted(number for number in near if 0 < number <= most + NEAR)


def unread() -> Iterator[str]:
    """Yield what cannot be written, or is read otherwise."""
    kinds: tuple[tuple[str, int, Callable[[int], bool]], ...] = (
        ("a record of {} bytes", MOST_BYTES, _value),
        ("a record with a key of {} bytes", MOST_BYTES, _key),
        ("{} records in a batch", MOST_RECORDS, _records),
        ("{} replicas of a partition", MOST_ITEMS, _replicas),
        ("{} partitions in a request", MOST_ITEMS, _partitions),
    )
    for what, most, same in kinds:
        for size in sizes(most):
            try:
                wrong = "" if same(size) else "would be read otherwise"
            except Exception as error:
                wrong = f"cannot be written and read: {error!r}"
            if wrong:
                yield f"{what.format(size)} {wrong}"
                break
    yield from _other_defaults()


def _other_defaults() -> Iterator[str]:
    """Yield the fields that an old version lacks and that are read otherwise than Kafka does."""
    for message, version, body, defaults in LACKING:
        read, _ = decode(message, version, encode(message, version, body))
        for name, value in defaults.items():
            found = list(_values(read, name))
            if not found or any(each != value for each in found):
                yield f"{message} {version} would be read with {name}={found}, not {value}"


def _values(body: Any, name: str) -> Iterator[Any]:
    """Yield the values of all fields called ``name`` in ``body``, at any depth."""
    if isinstance(body, dict):
        for key, value in body.items():
            if key == name:
                yield value
            else:
                yield from _values(value, name)
    elif isinstance(body, list):
        for each in body:
            yield from _values(each, name)


def _value(size: int) -> bool:
    return _is_read([(None, b"v" * size)])


def _key(size: int) -> bool:
    return _is_read([(b"k" * size, b"v")])


def _records(size: int) -> bool:
    return _is_read([(None, b"%d" % number) for number in range(size)])


def _is_read(records: Sequence[tuple[bytes | None, bytes | None]]) -> bool:
    _, read = decode_batch(encode_batch(0, 1, 1, records, control=False))
    return read == [(offset, key, value) for offset, (key, value) in enumerate(records)]


def _replicas(size: int) -> bool:
    numbers = list(range(size))
    fields = {"partition_id": 0, "topic_id": bytes(16), "replicas": numbers, "isr": numbers}
    name, _, read = decode_record(encode_record("PartitionRecord", 0, fields))
    return (name, list(read["replicas"]), list(read["isr"])) == (
        "PartitionRecord",
        numbers,
        numbers,
    )


def _partitions(size: int) -> bool:
    numbers = list(range(size))
    body = {"timeout_ms": 1, "topics": [{"name": "t", "partition_indexes": numbers}]}
    sent = encode("ListPartitionReassignmentsRequest", 0, body)
    return (
        list(
            decode("ListPartitionReassignmentsRequest", 0, sent)[0]["topics"][0][
                "partition_indexes"
            ]
        )
        == numbers
    )

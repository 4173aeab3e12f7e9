"""Writes and reads records and arrays of all sizes around powers of two (F30).

Encoders have tables for short things and other code for long ones, and lengths take more bytes from
some sizes on. Records of a run have few sizes. So once in a run batches, records of the metadata
and requests are encoded and decoded with sizes on both sides of each power of two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.nodes.log.batch import decode_batch, encode_batch
from kraftwreck.nodes.protocol.codec import decode, encode
from kraftwreck.nodes.protocol.records import decode_record, encode_record
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.world import World

NEAR: Final = 12
"""How far sizes are from a power of two, at most: the bytes around a value in its record."""
MOST_BYTES: Final = 1 << 15
MOST_RECORDS: Final = 1 << 8
MOST_ITEMS: Final = 1 << 5
"""Of an array. (Python remembers a hundred formats of arrays.)"""


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
        "them, arrays of any length, and each message of the quorum.",
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

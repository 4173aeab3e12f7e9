"""Sends batches to a broker that no producer sends, and looks at their errors (D16).

A broker checks the header and the checksum of each batch before its core sees it. Clients of the
simulator send sound batches, and nothing damages them on their way. So once in a run a batch is
changed in each way that a broker must refuse. The error is that of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Any, Final

from kraftwreck.nodes.log.crc import crc32c
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.protocol import errors
from kraftwreck.nodes.protocol.apis import decode_response
from kraftwreck.nodes.protocol.codec import ProtocolError, encode
from kraftwreck.nodes.server.data_calls import ProduceCall
from kraftwreck.nodes.server.record_requests import RecordRequests
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.binding import record_traffic
from kraftwreck.systems.kraft.simulated.data_requests import RecordMessage, requests_of
from kraftwreck.systems.kraft.workloads.record_batches import TIMESTAMP_MS, batch_of

Body = dict[str, Any]
VALUES: Final = (1, 2, 3)
PRODUCER: Final = (5, 0, 0)
"""Id, epoch and first sequence number."""
VERSION: Final = 9
BEFORE_ZSTD: Final = 6
HOUR_MS: Final = 3_600_000
"""``message.timestamp.after.max.ms``."""

_CRC_AT: Final = 17
_CRC_FROM: Final = 21
_CRC: Final = Struct(">I")
_CHANGES: Final = {
    "base offset": (0, Struct(">q")),
    "magic": (16, Struct(">b")),
    "attributes": (21, Struct(">h")),
    "last offset": (23, Struct(">i")),
    "largest time": (35, Struct(">q")),
    "first sequence number": (53, Struct(">i")),
    "count": (57, Struct(">i")),
}
"""Fields of a batch: where they are, and in which form."""
_WRONG: Final = (
    ("base offset", 1, errors.INVALID_RECORD),
    ("magic", 1, errors.INVALID_RECORD),
    ("attributes", 0x20, errors.INVALID_RECORD),
    ("last offset", 1, errors.INVALID_RECORD),
    ("last offset", 3, errors.INVALID_RECORD),
    ("largest time", TIMESTAMP_MS + HOUR_MS + 1, errors.INVALID_TIMESTAMP),
    ("largest time", TIMESTAMP_MS + HOUR_MS, errors.NONE),
    ("first sequence number", -1, errors.INVALID_RECORD),
    ("count", 0, errors.INVALID_RECORD),
    ("count", 2, errors.INVALID_RECORD),
)
"""A field, a value of it and the error; the wall clock shows the time of the batch."""


class BatchRehearsal:
    """Sends batches to the first broker of ``world`` that answers a Produce."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._waits = True
        record_traffic(world).on_answer.append(self._answered)

    def _answered(self, host: Host, message: RecordMessage, effect: Any, body: Body) -> None:
        node = host.node
        if not self._waits or message.api != "Produce" or not isinstance(node, Node):
            return
        topic = next(iter(node.image.stable.topics), None)
        if topic is not None:
            self._waits = False
            for wrong in wrong_errors(requests_of(host), topic):
                self._failures.add("D16", self._world.now, f"{host.name} {wrong}")


def wrong_errors(requests: RecordRequests, topic: str) -> Iterator[str]:
    """Yield the wrong errors of a broker for batches of ``topic``."""
    sound = batch_of(VALUES, PRODUCER)
    damaged = bytearray(sound)
    damaged[-1] ^= 1
    cases = [
        ("that is sound", VERSION, sound, errors.NONE),
        ("with a wrong bit", VERSION, bytes(damaged), errors.CORRUPT_MESSAGE),
        ("that another one follows", VERSION, sound + sound, errors.INVALID_RECORD),
        ("that is cut off", VERSION, sound[:-1], errors.INVALID_RECORD),
        ("without a byte", VERSION, b"", errors.INVALID_RECORD),
        (
            "compressed by zstd",
            BEFORE_ZSTD,
            _changed(sound, "attributes", 4),
            errors.UNSUPPORTED_COMPRESSION_TYPE,
        ),
    ]
    for field, value, error in _WRONG:
        cases.append((f"whose {field} is {value}", VERSION, _changed(sound, field, value), error))
    for name, version, records, right in cases:
        found = _error(requests, topic, version, records)
        if found != right:
            yield f"would answer {found} to a batch {name}, not {right}"


def _changed(batch: bytes, field: str, value: int) -> bytes:
    """Return a batch with another value of a field, and the checksum of that."""
    changed = bytearray(batch)
    at, form = _CHANGES[field]
    form.pack_into(changed, at, value)
    _CRC.pack_into(changed, _CRC_AT, crc32c(memoryview(changed)[_CRC_FROM:]))
    return bytes(changed)


def _error(requests: RecordRequests, topic: str, version: int, records: bytes) -> int | str:
    """Return the error of a request with these records, NONE if the core would see them."""
    parts = [{"index": 0, "records": records}]
    body = {"acks": -1, "timeout_ms": 1, "topic_data": [{"name": topic, "partition_data": parts}]}
    try:
        frame = encode("ProduceRequest", version, body)
        call = requests.read("Produce", version, frame, 0, token=-1, wall_ms=TIMESTAMP_MS)
        assert isinstance(call, ProduceCall)
        if call.event is not None:
            return errors.NONE
        _, answer = decode_response("Produce", version, call.answer(version, 0, ()))
    except ProtocolError as error:
        return repr(error)
    (told,) = answer["responses"]
    (part,) = told["partition_responses"]
    return int(part["error_code"])

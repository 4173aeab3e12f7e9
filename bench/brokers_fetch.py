"""How fast brokers of both kinds send records to a consumer that does nothing but read them.

``python -m bench.brokers_fetch [--pairs 5] [--warm 3] [--megabytes 100] [--passes 20]`` starts the
clusters of ``bench.brokers`` and produces to one partition of each. Then a consumer on a plain
socket reads all records from the page cache in responses of up to 1 MiB, from both in turns, first
some times to warm up. It finds the next offset in the headers of batches and looks at no record, so
that the brokers are the limit; a client library is slower than either of them. CPU time is that of
all brokers.
"""

from __future__ import annotations

import argparse
import socket
import struct
import time
from typing import Any, Final

from bench.brokers import SIZES, Figures, Side, both, create, leader, load, note, report
from kraftwreck.nodes.protocol.apis import encode_request
from kraftwreck.oracle.controller import HOST
from kraftwreck.oracle.quorum import wait_until

FETCH_VERSION: Final = 11
MOST: Final = 1 << 20
"""Bytes of records in a response."""
_OFFSET: Final = 0x0102030405060708
"""Stands in the encoded request for the offset."""
_LENGTH = struct.Struct(">i")
_BEFORE_TOPIC: Final = 4 + 4 + 2 + 4 + 4
"""Bytes of correlation id, throttle time, error, session and number of topics."""
_PARTITION = struct.Struct(">iihqqqiii")
"""Number of partitions, index, error, three offsets, no aborted transactions, replica, length."""
_BATCH = struct.Struct(">qi11xi")
"""Base offset, length of what follows it, and the last offset's distance from the first."""
_BATCH_HEAD: Final = 12


class Reader:
    """A consumer of partition 0 of ``topic``."""

    def __init__(self, port: int, topic: str) -> None:
        self._socket = socket.create_connection((HOST, port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        partition = {
            "partition": 0,
            "current_leader_epoch": -1,
            "fetch_offset": _OFFSET,
            "log_start_offset": -1,
            "partition_max_bytes": MOST,
        }
        body: dict[str, Any] = {
            "replica_id": -1,
            "max_wait_ms": 500,
            "min_bytes": 1,
            "max_bytes": MOST,
            "isolation_level": 0,
            "session_id": 0,
            "session_epoch": -1,
            "topics": [{"topic": topic, "partitions": [partition]}],
            "forgotten_topics_data": [],
            "rack_id": "",
        }
        request = encode_request("Fetch", FETCH_VERSION, 1, "bench", body)
        self._frame = bytearray(_LENGTH.pack(len(request)) + request)
        self._at = self._frame.index(struct.pack(">q", _OFFSET))
        self._head = _BEFORE_TOPIC + 2 + len(topic)
        self._answer = memoryview(bytearray(2 * MOST))

    def read(self, end: int) -> None:
        """Read all records below the offset ``end``. Raises RuntimeError for an error."""
        offset = 0
        while offset < end:
            struct.pack_into(">q", self._frame, self._at, offset)
            self._socket.sendall(self._frame)
            self._receive(4)
            (length,) = _LENGTH.unpack_from(self._answer)
            self._receive(length)
            offset = self._next(length)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _receive(self, length: int) -> None:
        held = 0
        while held < length:
            count = self._socket.recv_into(self._answer[held:length])
            if not count:
                raise RuntimeError("the broker closed the connection")
            held += count

    def _next(self, length: int) -> int:
        """Return the offset after the last whole batch of the response."""
        _, _, error, *_, size = _PARTITION.unpack_from(self._answer, self._head)
        if error:
            raise RuntimeError(f"a fetch failed: error {error}")
        place = self._head + _PARTITION.size
        if place + size != length:
            raise RuntimeError(f"a response of {length} bytes has {size} bytes of records")
        offset = None
        while place + _BATCH.size <= length:
            base, rest, delta = _BATCH.unpack_from(self._answer, place)
            place += _BATCH_HEAD + rest
            if place > length:
                break
            offset = base + delta + 1
        if offset is None:
            raise RuntimeError("a response has no whole batch")
        return int(offset)


def fetch(side: Side, topic: str, count: int, passes: int) -> tuple[float, float]:
    """Return the seconds and the brokers' CPU seconds for each of ``passes`` over the topic."""
    leads = wait_until("the topic has a leader", lambda: leader(side, topic))
    reader = Reader(leads.port, topic)
    reader.read(count)
    cpu, began = side.cpu_s(), time.monotonic()
    for _ in range(passes):
        reader.read(count)
    took, spent = time.monotonic() - began, side.cpu_s() - cpu
    reader.close()
    return took / passes, spent / passes


def main() -> None:
    """Run the measurement, and print its table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--warm", type=int, default=3, help="pairs that do not count")
    parser.add_argument("--megabytes", type=int, default=100, help="of records in each topic")
    parser.add_argument("--passes", type=int, default=20, help="over the records in a measurement")
    options = parser.parse_args()
    found: Figures = {}
    gigabytes = options.megabytes / 1000
    with both() as sides:
        for size in SIZES:
            for side in sides:
                create(side, f"t{size}")
                count = options.megabytes * 1_000_000 // size
                load(side, f"t{size}", size, count)
        for pair in range(options.warm + options.pairs):
            for size in SIZES:
                for side in sides:
                    count = options.megabytes * 1_000_000 // size
                    took, spent = fetch(side, f"t{size}", count, options.passes)
                    figures = {
                        f"{size} B: fetch, MB/s": options.megabytes / took,
                        f"{size} B: fetch, CPU s/GB of all brokers": spent / gigabytes,
                    }
                    print(f"pair {pair}, {side.name}: {figures}", flush=True)
                    if pair >= options.warm:
                        note(found, side, figures)
        report(found, sides)


if __name__ == "__main__":
    main()

"""Watches that answers to fetches have at most the records that were allowed (D16, KIP-74).

The records of all partitions together are at most the ``max_bytes`` of the request, those of one
partition at most its own. Only a single batch may be larger, so that its reader gets on: in all of
the answer, or in its partition. Few answers are as large as that: those with records of several
partitions are made again with a limit that they exceed by a byte.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, cast

from kraftwreck.nodes.log.batch import BatchError
from kraftwreck.nodes.protocol.apis import decode_response
from kraftwreck.nodes.replication.effects import ReplyFetch
from kraftwreck.nodes.replication.events import FetchReceived
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.binding import record_traffic
from kraftwreck.systems.kraft.simulated.data_requests import RecordMessage, requests_of

_LENGTH_AT: Final = 8
_PREFIX: Final = 12
"""Bytes of a batch before those that its length counts."""


class FetchSizes:
    """Judges the answers to all fetches of records in ``world``."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        record_traffic(world).on_answer.append(self._on_answer)

    def _on_answer(
        self, host: Host, message: RecordMessage, effect: Any, body: dict[str, Any]
    ) -> None:
        event = message.call.event if message.call is not None else None
        if type(effect) is not ReplyFetch or not isinstance(event, FetchReceived):
            return
        limits: dict[tuple[Any, int], int] = {}
        for each in event.parts:  # A partition may be named twice.
            limits[each.key] = max(each.max_bytes, limits.get(each.key, 0))
        sizes = self._judge(host, body, limits, event.max_bytes)
        if len(sizes) > 1 and host.disk.trouble is None:
            self._judge_smaller(host, message, effect, sum(sizes) - 1)

    def _judge_smaller(
        self, host: Host, message: RecordMessage, effect: ReplyFetch, most: int
    ) -> None:
        """Judge what the answer would be if its request allowed only ``most`` bytes."""
        assert message.call is not None
        api, version, smaller = message.api, message.version, replace(effect, max_bytes=most)
        try:
            pieces = requests_of(host).frame(api, version, 0, message.call, smaller)
        except (OSError, BatchError):
            return
        _, body = decode_response(api, version, b"".join(cast("list[bytes]", pieces)))
        self._judge(host, body, {}, most)

    def _judge(
        self, host: Host, body: dict[str, Any], limits: dict[tuple[Any, int], int], most: int
    ) -> list[int]:
        """Judge an answer, and return the sizes of the records of its partitions that have any.

        ``limits`` are those of partitions as far as they are known.
        """
        sizes: list[int] = []
        single = False
        for topic in body["responses"]:
            topic_id = topic.get("topic_id")
            for part in topic["partitions"]:
                records = part["records"] or b""
                size = len(records)
                if size == 0:
                    continue
                single = _is_single(records)
                sizes.append(size)
                limit = limits.get((topic_id, part["partition_index"]), size)
                if size > limit and not single:
                    self._fail(host, size, f"batches of partition {part['partition_index']}", limit)
        total = sum(sizes)
        if total > most and not (single and len(sizes) == 1):
            self._fail(host, total, "records", most)
        return sizes

    def _fail(self, host: Host, size: int, of: str, limit: int) -> None:
        self._failures.add(
            "D16",
            self._world.now,
            f"{host.name} answers a fetch with {size} bytes of {of}, which allows {limit}",
        )


def _is_single(records: bytes) -> bool:
    """Return whether there is at most one whole batch, and nothing after it."""
    length = int.from_bytes(records[_LENGTH_AT:_PREFIX], "big")
    return len(records) <= _PREFIX + length

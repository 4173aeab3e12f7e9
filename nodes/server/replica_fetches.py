"""The fetches of a broker as a follower, over connections to the leaders of its partitions."""

from __future__ import annotations

from collections.abc import Callable, Set
from functools import partial
from typing import Any, Final

from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.effects import NodeEvent
from kraftwreck.nodes.log.batch import BatchError, parse_header, verify_crc
from kraftwreck.nodes.protocol.codec import encode
from kraftwreck.nodes.protocol.errors import CORRUPT_MESSAGE, NONE
from kraftwreck.nodes.protocol.fetch import BY_ID, Wanted, follower_fetch
from kraftwreck.nodes.replication.effects import AskOffsets, FetchFrom
from kraftwreck.nodes.replication.events import FetchAnswered, FetchedPart, OffsetsAnswered
from kraftwreck.nodes.replication.headers import Batch, PartitionKey, batch_of
from kraftwreck.nodes.server.data_calls import Topics
from kraftwreck.nodes.server.replica_link import ReplicaLink

Body = dict[str, Any]

FETCH: Final = 17
"""The version whose fields the core knows."""
LIST_OFFSETS: Final = 7
MOST_BYTES: Final = 10 << 20
"""``replica.fetch.response.max.bytes``."""
_MS: Final = 1000
_LATEST: Final = -1
_EARLIEST: Final = -2
_FRAME: Final = 12
"""Bytes of base offset and length before the rest of a batch."""


class ReplicaFetches:
    """Carries out :class:`FetchFrom` and :class:`AskOffsets`; the answers are submitted as events.

    The core has at most one request in flight for each leader. ``full`` are the logs that had no
    room for batches of the present step.
    """

    def __init__(
        self,
        node_id: int,
        listener: Endpoint,
        topics: Topics,
        timeout_ms: int,
        submit: Callable[[NodeEvent], None],
        later: Callable[..., object],
        full: Set[PartitionKey] = frozenset(),
    ) -> None:
        self._node_id = node_id
        self._listener = listener
        self._topics = topics
        self._timeout_ms = timeout_ms
        self._submit = submit
        self._later = later
        self._full = full
        self._links: dict[int, ReplicaLink] = {}

    def send(self, effect: FetchFrom | AskOffsets) -> None:
        """Start the request.

        It fails at once if it is not known where the leader is, or if it says that batches are in
        the log for which there was no room: the leader would count them.
        """
        unwritten = isinstance(effect, FetchFrom) and any(
            part.key in self._full for part in effect.parts
        )
        if effect.endpoint is None or unwritten:
            failed = FetchAnswered if isinstance(effect, FetchFrom) else OffsetsAnswered
            self._later(self._submit, failed(effect.correlation, None))
            return
        link = self._link(effect.leader, effect.endpoint)
        if isinstance(effect, FetchFrom):
            make, done = partial(self._fetch, effect), partial(self._fetched, effect)
            wait_ms = effect.max_wait_ms + self._timeout_ms
            link.call("Fetch", FETCH, make, done, wait_ms / _MS)
        else:
            self._ask(link, effect, _EARLIEST, {})

    def _link(self, leader: int, endpoint: Endpoint) -> ReplicaLink:
        link = self._links.get(leader)
        if link is None or link.endpoint != endpoint:
            if link is not None:
                link.close()
            link = self._links[leader] = self.connect(endpoint)
        return link

    def connect(self, endpoint: Endpoint) -> ReplicaLink:
        """Return a new connection to a leader."""
        return ReplicaLink(self._node_id, endpoint, self._listener)

    def close(self) -> None:
        """Close all connections; requests in flight are not answered."""
        for link in self._links.values():
            link.close()
        self._links.clear()

    # --- Fetch ----------------------------------------------------------------------------

    def _fetch(self, effect: FetchFrom, version: int) -> bytes:
        topics: dict[bytes, list[Wanted]] = {}
        for part in effect.parts:
            topic_id, number = part.key
            wanted = (
                number,
                part.leader_epoch,
                part.offset,
                part.last_fetched_epoch,
                part.log_start,
                part.max_bytes,
            )
            topics.setdefault(topic_id, []).append(wanted)
        by_id = version >= BY_ID
        named: list[tuple[str | bytes, list[Wanted]]] = [
            (topic_id if by_id else self._topics.name_of(topic_id) or "", parts)
            for topic_id, parts in topics.items()
        ]
        replica = self._node_id, effect.broker_epoch
        return follower_fetch(version, replica, effect.max_wait_ms, MOST_BYTES, named)

    def _fetched(self, effect: FetchFrom, body: Body | None) -> None:
        parts: list[FetchedPart] | None = None
        if body is not None and body["error_code"] == NONE:
            parts = []
            for topic in body["responses"]:
                name = topic["topic"]  # Up to version 12; empty where topics have ids.
                topic_id = self._topics.id_of(name) if name else topic["topic_id"]
                if topic_id is not None:
                    parts += [_part(topic_id, each) for each in topic["partitions"]]
        answer = None if parts is None else tuple(parts)
        self._submit(FetchAnswered(effect.correlation, answer))

    # --- ListOffsets ----------------------------------------------------------------------

    def _ask(
        self,
        link: ReplicaLink,
        effect: AskOffsets,
        timestamp: int,
        starts: dict[PartitionKey, tuple[int, int]],
    ) -> None:
        make = partial(self._question, effect, timestamp)
        done = partial(self._told, link, effect, timestamp, starts)
        link.call("ListOffsets", LIST_OFFSETS, make, done, self._timeout_ms / _MS)

    def _question(self, effect: AskOffsets, timestamp: int, version: int) -> bytes:
        topics: dict[str, list[Body]] = {}
        for (topic_id, number), epoch in effect.parts:
            name = self._topics.name_of(topic_id)
            if name is not None:
                part = {"partition_index": number, "current_leader_epoch": epoch}
                topics.setdefault(name, []).append(part | {"timestamp": timestamp})
        body = {
            "replica_id": self._node_id,
            "isolation_level": 0,
            "topics": [{"name": name, "partitions": parts} for name, parts in topics.items()],
        }
        return encode("ListOffsetsRequest", version, body)

    def _told(
        self,
        link: ReplicaLink,
        effect: AskOffsets,
        timestamp: int,
        starts: dict[PartitionKey, tuple[int, int]],
        body: Body | None,
    ) -> None:
        found: dict[PartitionKey, tuple[int, int]] = {}
        for topic in [] if body is None else body["topics"]:
            topic_id = self._topics.id_of(topic["name"])
            if topic_id is not None:
                for part in topic["partitions"]:
                    found[topic_id, part["partition_index"]] = part["error_code"], part["offset"]
        if body is None:
            self._submit(OffsetsAnswered(effect.correlation, None))
        elif timestamp == _EARLIEST:
            self._ask(link, effect, _LATEST, found)
        else:
            parts = tuple(
                (key, starts[key][0] or error, starts[key][1], end)
                for key, (error, end) in found.items()
                if key in starts
            )
            self._submit(OffsetsAnswered(effect.correlation, parts))


def _part(topic_id: bytes, answer: Body) -> FetchedPart:
    """Return one partition of the answer, its batches checked."""
    key = topic_id, answer["partition_index"]
    diverging = None
    ends = answer.get("diverging_epoch")
    if ends is not None and ends["end_offset"] >= 0:
        diverging = ends["epoch"], ends["end_offset"]
    error, watermark, start = (
        answer[name] for name in ("error_code", "high_watermark", "log_start_offset")
    )
    try:
        batches = _batches(answer["records"] or b"")
    except BatchError:
        return FetchedPart(key, CORRUPT_MESSAGE, watermark, start)
    return FetchedPart(key, error, watermark, start, batches, diverging)


def _batches(records: bytes) -> tuple[Batch, ...]:
    """Return the whole batches of ``records``. Raises BatchError for one that is not sound."""
    view = memoryview(records)
    found: list[Batch] = []
    position = 0
    while len(view) - position >= _FRAME:
        size = int.from_bytes(view[position + 8 : position + _FRAME], "big", signed=True) + _FRAME
        if position + size > len(view) and size > 0:
            break  # The leader cuts its answer anywhere.
        batch = view[position : position + max(size, 0)]
        header = parse_header(batch)
        if not verify_crc(batch):
            raise BatchError(f"the batch at {header.base_offset} has a wrong checksum")
        found.append(batch_of(header, batch))
        position += header.length
    return tuple(found)

"""Requests for the records of partitions: from bytes to the events of the data plane, and back.

Each class reads one request and builds the body of its answer. Topics that this broker does not
know, and records that are refused before they reach the core, are answered here; ``event`` is None
if that is all there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from typing import Any, Final, Protocol

from kraftwreck.nodes.protocol.acknowledged import Acknowledged, produce_answer
from kraftwreck.nodes.protocol.errors import (
    FETCH_SESSION_ID_NOT_FOUND,
    NONE,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from kraftwreck.nodes.protocol.fetch import FetchRequest, parse_fetch
from kraftwreck.nodes.protocol.fetched import Fetched, fetch_answer
from kraftwreck.nodes.protocol.primitives import Buffer
from kraftwreck.nodes.protocol.produce import ProducePart, parse_produce
from kraftwreck.nodes.protocol.produced import RefusedError, check_records
from kraftwreck.nodes.replication import effects as out
from kraftwreck.nodes.replication import events as come
from kraftwreck.nodes.replication.headers import Batch, PartitionKey, batch_of

Body = dict[str, Any]
Topic = str | bytes
"""A name, or the 16 bytes of an id."""
Named = tuple[Topic, int]
"""A partition as the client names it."""

NO_ID: Final = bytes(16)
MOST_BYTES: Final = 100 << 20
"""``socket.request.max.bytes``. The core applies ``max.message.bytes`` of the topic."""


class Topics(Protocol):
    """The topics that this broker knows."""

    def id_of(self, name: str) -> bytes | None:
        """Return the id of a topic, None if there is none of this name."""
        ...

    def name_of(self, topic_id: bytes) -> str | None:
        """Return the name of a topic, None if there is none with this id."""
        ...


class _Asked:
    """The partitions of a request in its order, and the errors known before the core sees it."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self.order: list[Named] = []
        self.keys: dict[Named, PartitionKey] = {}
        self.errors: dict[Named, int] = {}

    def find(self, topic: Topic, number: int) -> PartitionKey | None:
        """Note a partition, and return its key; None if the topic is not known."""
        named = (topic, number)
        if named not in self.keys and named not in self.errors:
            self.order.append(named)
        if isinstance(topic, str):
            topic_id, unknown = self._topics.id_of(topic), UNKNOWN_TOPIC_OR_PARTITION
        else:
            known = self._topics.name_of(topic) is not None
            topic_id, unknown = topic if known else None, UNKNOWN_TOPIC_ID
        if topic_id is None:
            self.errors[named] = unknown
            return None
        self.keys[named] = topic_id, number
        return topic_id, number

    def decoded(
        self, body: Mapping[str, Any], name: str, number: str
    ) -> Iterator[tuple[PartitionKey, Mapping[str, Any]]]:
        """Note the partitions of a decoded request; give those whose topic is known.

        ``name`` and ``number`` are the fields that name a topic and a partition.
        """
        for topic in body["topics"]:
            for part in topic["partitions"]:
                key = self.find(topic[name], part[number])
                if key is not None:
                    yield key, part

    def grouped(self, entry: Callable[[Named], Body], parts: str, name: str) -> list[Body]:
        """Return a body's topics, in order, with the ``entry`` of each partition."""
        topics: dict[Topic, list[Body]] = {}
        for named in self.order:
            topics.setdefault(named[0], []).append(entry(named))
        return [_topic(topic, name) | {parts: entries} for topic, entries in topics.items()]


def _topic(topic: Topic, name: str) -> Body:
    return {"topic_id" if isinstance(topic, bytes) else name: topic}


class ProduceCall:
    """A Produce of ``version`` 3 to 13, whose body begins at ``offset`` of ``frame``.

    The handles of the batches are views of the frame. Raises ProtocolError.
    """

    def __init__(
        self,
        frame: Buffer,
        offset: int,
        version: int,
        most_parts: int,
        *,
        token: int,
        topics: Topics,
        wall_ms: int,
    ) -> None:
        request = parse_produce(frame, offset, version, most_parts)
        self._asked = _Asked(topics)
        self.acks = request.acks
        view = memoryview(frame)
        batches: dict[PartitionKey, Batch] = {}
        for part in request.parts:
            key = self._asked.find(part.topic, part.partition)
            if key is None:
                continue
            # As in Apache Kafka the last records count for a partition that is named twice.
            batches.pop(key, None)
            self._asked.errors.pop((part.topic, part.partition), None)
            batch = self._checked(view, part, version, wall_ms)
            if batch is not None:
                batches[key] = batch
        self.partitions = tuple(batches)
        self.event = (
            come.ProduceReceived(token, request.acks, request.timeout_ms, tuple(batches.items()))
            if batches
            else None
        )

    def _checked(
        self, view: memoryview, part: ProducePart, version: int, wall_ms: int
    ) -> Batch | None:
        records = view[part.start : part.end] if part.start >= 0 else view[:0]
        try:
            header, content = check_records(records, version, MOST_BYTES, wall_ms)
        except RefusedError as refused:
            self._asked.errors[part.topic, part.partition] = refused.code
            return None
        return batch_of(header, content)

    @property
    def failed(self) -> bool:
        """Whether some partition is refused already."""
        return bool(self._asked.errors)

    def answer(self, version: int, correlation: int, parts: Iterable[out.ProducedPart]) -> bytes:
        """Return the answer, given the results of the core."""
        asked = self._asked
        results = {part.key: part for part in parts}
        topics: dict[Topic, list[Acknowledged]] = {}
        for named in asked.order:
            topic, number = named
            error = asked.errors.get(named)
            if error is not None:
                result = Acknowledged(number, error)
            else:
                part = results[asked.keys[named]]
                result = Acknowledged(number, part.error, part.base_offset, part.log_start)
            topics.setdefault(topic, []).append(result)
        return produce_answer(version, correlation, topics)


class FetchCall:
    """A Fetch of ``version`` 4 to 18, whose body begins at ``offset`` of ``frame``.

    In versions with topic ids the core also answers for topics that are not known, so that sessions
    have them. Before those a session cannot have a topic that is not known: it does not begin, or
    ends, and the client names all its partitions again. Raises ProtocolError.
    """

    def __init__(
        self,
        frame: Buffer,
        offset: int,
        version: int,
        most_parts: int,
        *,
        token: int,
        topics: Topics,
    ) -> None:
        request = parse_fetch(frame, offset, version, most_parts)
        self._topics = topics
        self._version = version
        self._by_id = version >= _FETCH_BY_ID
        self._errors: list[tuple[Named, int]] = []
        parts: list[come.FetchPart] = []
        for named, *rest in request.partitions:
            key = self._key(named)
            if key is None:
                self._errors.append((named, UNKNOWN_TOPIC_OR_PARTITION))
            else:
                parts.append(come.FetchPart(key, *rest))
        forgotten: tuple[PartitionKey, ...] = ()
        if request.forgotten:
            keys = map(self._key, request.forgotten)
            forgotten = tuple(key for key in keys if key is not None)
        self.event = _fetch_event(request, token, tuple(parts), forgotten)
        if self._errors and request.session_epoch == _NEW_SESSION:
            self.event.session_epoch = _NO_SESSION
        elif self._errors and request.session_epoch > _NEW_SESSION:
            self.event.session_id = 0  # There is none.

    def _key(self, named: Named) -> PartitionKey | None:
        topic, number = named
        topic_id = topic if isinstance(topic, bytes) else self._topics.id_of(topic)
        return None if topic_id is None else (topic_id, number)

    def answer(
        self,
        reply: out.ReplyFetch,
        correlation: int,
        read: Callable[[PartitionKey, out.Slice, int], Sized],
    ) -> list[Sized]:
        """Return the answer in pieces. ``read`` returns the records of a slice, within a limit.

        The first slice with records is sent whole; the others share what is left of ``max_bytes``.
        """
        left = reply.max_bytes
        sent = False
        topics: dict[Topic, list[Fetched]] = {}
        for part in reply.parts:
            topic_id = part.key[0]
            name = self._topics.name_of(topic_id)
            topic = topic_id if self._by_id else name
            if topic is None:  # deleted meanwhile
                if reply.session_id:
                    return fetch_answer(
                        self._version, correlation, FETCH_SESSION_ID_NOT_FOUND, 0, {}
                    )
                continue
            records: Sized = b""
            if part.records is not None and (left > 0 or not sent):
                records = read(part.key, part.records, left)
                if sent and len(records) > left:
                    records = b""
                sent = sent or len(records) > 0
                left -= len(records)
            if name is None:
                part = out.ReadPart(part.key, UNKNOWN_TOPIC_ID)
            topics.setdefault(topic, []).append(_fetched(part, records))
        for (topic, number), error in self._errors if reply.error == NONE else ():
            failed = out.ReadPart((NO_ID, number), error)
            topics.setdefault(topic, []).append(_fetched(failed, b""))
        return fetch_answer(self._version, correlation, reply.error, reply.session_id, topics)


_FETCH_BY_ID: Final = 13
_NEW_SESSION: Final = 0
_NO_SESSION: Final = -1
"""Epochs of sessions (KIP-227)."""


def _fetch_event(
    request: FetchRequest,
    token: int,
    parts: tuple[come.FetchPart, ...],
    forgotten: tuple[PartitionKey, ...],
) -> come.FetchReceived:
    return come.FetchReceived(
        token,
        parts,
        request.replica_id,
        request.replica_epoch,
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
        request.session_id,
        request.session_epoch,
        forgotten,
    )


def _fetched(part: out.ReadPart, records: Sized) -> Fetched:
    return Fetched(
        part.key[1],
        part.error,
        part.high_watermark,
        part.log_start,
        records,
        part.diverging,
        (part.leader, part.leader_epoch) if part.leader >= 0 else None,
    )


class ListOffsetsCall:
    """A ListOffsets of which ``body`` is the decoded request."""

    def __init__(self, body: Mapping[str, Any], *, token: int, topics: Topics) -> None:
        self._asked = _Asked(topics)
        parts = tuple(
            (key, part["timestamp"], part["current_leader_epoch"])
            for key, part in self._asked.decoded(body, "name", "partition_index")
        )
        self.event = come.ListOffsetsReceived(token, parts, body["replica_id"]) if parts else None

    def body(
        self,
        parts: Iterable[out.OffsetPart],
        look_up: Callable[[PartitionKey, out.Lookup], tuple[int, int, int] | None],
    ) -> Body:
        """Return the body of the answer.

        ``look_up`` returns offset, timestamp and leader epoch of the record found, None if none is.
        """
        results = {part.key: part for part in parts}

        def entry(named: Named) -> Body:
            answer: Body = {"partition_index": named[1], "timestamp": -1, "offset": -1}
            error = self._asked.errors.get(named)
            if error is not None:
                return answer | {"error_code": error, "leader_epoch": -1}
            part = results[self._asked.keys[named]]
            answer |= {"error_code": part.error, "leader_epoch": part.leader_epoch}
            if part.error != NONE or part.lookup is None:
                return answer | {"offset": part.offset}
            found = look_up(part.key, part.lookup)
            if found is None:
                return answer
            offset, timestamp, epoch = found
            return answer | {"offset": offset, "timestamp": timestamp, "leader_epoch": epoch}

        return {"topics": self._asked.grouped(entry, "partitions", "name")}


class EpochEndsCall:
    """An OffsetForLeaderEpoch of which ``body`` is the decoded request."""

    def __init__(self, body: Mapping[str, Any], *, token: int, topics: Topics) -> None:
        self._asked = _Asked(topics)
        parts = tuple(
            (key, part["current_leader_epoch"], part["leader_epoch"])
            for key, part in self._asked.decoded(body, "topic", "partition")
        )
        self.event = come.EpochEndsReceived(token, parts) if parts else None

    def body(self, parts: Iterable[tuple[PartitionKey, int, int, int]]) -> Body:
        """Return the body of the answer, given (partition, error, epoch, end offset)."""
        results = {part[0]: part[1:] for part in parts}

        def entry(named: Named) -> Body:
            error = self._asked.errors.get(named)
            found = (error, -1, -1) if error is not None else results[self._asked.keys[named]]
            code, epoch, end = found
            return {
                "partition": named[1],
                "error_code": code,
                "leader_epoch": epoch,
                "end_offset": end,
            }

        return {"topics": self._asked.grouped(entry, "partitions", "topic")}


class DeleteRecordsCall:
    """A DeleteRecords of which ``body`` is the decoded request."""

    def __init__(self, body: Mapping[str, Any], *, token: int, topics: Topics) -> None:
        self._asked = _Asked(topics)
        parts = tuple(
            (key, part["offset"])
            for key, part in self._asked.decoded(body, "name", "partition_index")
        )
        self.event = come.DeleteRecordsReceived(token, body["timeout_ms"], parts) if parts else None

    def body(self, parts: Iterable[tuple[PartitionKey, int, int]]) -> Body:
        """Return the body of the answer, given (partition, error, low watermark)."""
        results = {part[0]: part[1:] for part in parts}

        def entry(named: Named) -> Body:
            error = self._asked.errors.get(named)
            found = (error, -1) if error is not None else results[self._asked.keys[named]]
            return {
                "partition_index": named[1],
                "error_code": found[0],
                "low_watermark": found[1],
            }

        return {"topics": self._asked.grouped(entry, "partitions", "name")}

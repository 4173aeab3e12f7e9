"""Requests for the records of partitions: from a listener to the node, and their answers back.

Produce and Fetch are read from their frame without a copy of the records. An answer of the node
names offsets; their bytes are found in the files only when it is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import Any, Final, cast

from kraftwreck.nodes.metadata.image_values import ImageView
from kraftwreck.nodes.protocol.apis import encode_response
from kraftwreck.nodes.protocol.codec import decode
from kraftwreck.nodes.protocol.errors import KAFKA_STORAGE_ERROR, NONE
from kraftwreck.nodes.protocol.limits import limit_of
from kraftwreck.nodes.protocol.primitives import Buffer
from kraftwreck.nodes.replication import effects as out
from kraftwreck.nodes.replication import events as come
from kraftwreck.nodes.replication.headers import PartitionKey
from kraftwreck.nodes.server.data_calls import (
    DeleteRecordsCall,
    EpochEndsCall,
    FetchCall,
    ListOffsetsCall,
    ProduceCall,
)
from kraftwreck.nodes.server.outgoing import Piece
from kraftwreck.nodes.server.partition_files import PartitionFiles

Body = dict[str, Any]
Frame = list[Piece]
Call = ProduceCall | FetchCall | ListOffsetsCall | EpochEndsCall | DeleteRecordsCall
Answer = (
    out.ReplyProduce
    | out.Silent
    | out.ReplyFetch
    | out.ReplyListOffsets
    | out.ReplyEpochEnds
    | out.ReplyDeleteRecords
)

HANDLED: Final = frozenset(
    ("Produce", "Fetch", "ListOffsets", "OffsetForLeaderEpoch", "DeleteRecords")
)
"""The APIs that this module reads; InitProducerId is one of the broker's own."""
MOST_INLINE: Final = 1 << 20
"""Bytes of records in memory for one answer, beyond which no further partition is read."""


class _Inlined:
    """Reads the slices of one answer, of which few bytes are in memory; the reader asks again."""

    def __init__(self, files: PartitionFiles) -> None:
        self._files = files
        self._left = MOST_INLINE

    def read(self, key: PartitionKey, wanted: out.Slice, limit: int) -> Sized:
        """Return the records of a slice within ``limit``, none if too many are in memory."""
        if self._left <= 0:
            return b""
        records = self._files.read(key, wanted, limit)
        if isinstance(records, bytes):
            self._left -= len(records)
        return records


class ImageTopics:
    """The topics of the broker's image."""

    def __init__(self, image: Callable[[], ImageView]) -> None:
        self.image = image

    def id_of(self, name: str) -> bytes | None:
        """Return the id of a topic, None if there is none of this name."""
        topic = self.image().topics.get(name)
        return None if topic is None else topic.topic_id

    def name_of(self, topic_id: bytes) -> str | None:
        """Return the name of a topic, None if there is none with this id."""
        return self.image().names.get(topic_id)


class RecordRequests:
    """Turns frames into events, and results of the node into answers."""

    def __init__(self, topics: ImageTopics, files: PartitionFiles) -> None:
        self._topics = topics
        self._files = files

    def read(
        self, api: str, version: int, frame: Buffer, offset: int, *, token: int, wall_ms: int
    ) -> Call:
        """Return the request whose body begins at ``offset``. Raises ProtocolError."""
        topics = self._topics
        items = limit_of(api, of_records=True).items
        if api == "Produce":
            return ProduceCall(
                frame, offset, version, items, token=token, topics=topics, wall_ms=wall_ms
            )
        if api == "Fetch":
            return FetchCall(frame, offset, version, items, token=token, topics=topics)
        body, _ = decode(f"{api}Request", version, frame, offset, items)
        if api == "ListOffsets":
            return ListOffsetsCall(body, token=token, topics=topics)
        if api == "OffsetForLeaderEpoch":
            return EpochEndsCall(body, token=token, topics=topics)
        return DeleteRecordsCall(body, token=token, topics=topics)

    def frame(self, api: str, version: int, correlation: int, call: Call, answer: Answer) -> Frame:
        """Return the answer in pieces, without the length before them.

        Raises OSError, and BatchError for damaged records.
        """
        if isinstance(answer, out.ReplyFetch):
            assert isinstance(call, FetchCall)
            pieces = call.answer(self._readable(answer), correlation, _Inlined(self._files).read)
            return cast("Frame", pieces)
        if isinstance(answer, out.ReplyProduce):
            assert isinstance(call, ProduceCall)
            return [call.answer(version, correlation, self._stored(answer.parts))]
        return [encode_response(api, version, correlation, self._body(call, answer))]

    def _body(self, call: Call, answer: Answer) -> Body:
        if isinstance(answer, out.ReplyListOffsets):
            assert isinstance(call, ListOffsetsCall)
            return call.body(answer.parts, self._files.look_up)
        if isinstance(answer, out.ReplyEpochEnds):
            assert isinstance(call, EpochEndsCall)
            return call.body(answer.parts)
        assert isinstance(answer, out.ReplyDeleteRecords) and isinstance(call, DeleteRecordsCall)
        return call.body(answer.parts)

    def closes(self, call: Call, answer: out.Silent) -> bool:
        """Return whether a failed Produce with acks 0 is to end its connection."""
        assert isinstance(call, ProduceCall)
        return answer.close or call.failed or bool(self._files.full & set(call.partitions))

    def _stored(self, parts: tuple[out.ProducedPart, ...]) -> tuple[out.ProducedPart, ...]:
        """Return the results, with an error for batches that this step could not write."""
        full = self._files.full
        if not full:
            return parts
        return tuple(
            out.ProducedPart(each.key, KAFKA_STORAGE_ERROR)
            if each.key in full
            and each.error == NONE
            and each.base_offset >= self._files.end_of(each.key)
            else each
            for each in parts
        )

    def _readable(self, answer: out.ReplyFetch) -> out.ReplyFetch:
        """Return the answer, without a high watermark above batches that could not be written."""
        full = self._files.full
        if full:
            for part in answer.parts:
                if part.key in full:
                    part.high_watermark = min(part.high_watermark, self._files.end_of(part.key))
        return answer


def answered_early(call: Call) -> Answer | None:
    """Return the answer of a request with nothing for the node, None if the node has to see it."""
    if call.event is not None:
        return None
    if isinstance(call, ProduceCall):
        return out.Silent(-1, call.failed) if call.acks == 0 else out.ReplyProduce(-1, ())
    if isinstance(call, ListOffsetsCall):
        return out.ReplyListOffsets(-1, ())
    if isinstance(call, EpochEndsCall):
        return out.ReplyEpochEnds(-1, ())
    return out.ReplyDeleteRecords(-1, ())


def event_of(call: Call) -> come.Request:
    """Return the event of a request that is not answered early."""
    assert call.event is not None
    return call.event

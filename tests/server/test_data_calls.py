"""Requests for records: what the core gets of them, and the answer that the client reads."""

from __future__ import annotations

from typing import Any, cast

import pytest

from kraftwreck.nodes.log.batch import encode_batch
from kraftwreck.nodes.protocol.apis import decode_response, encode_response
from kraftwreck.nodes.protocol.codec import decode, encode
from kraftwreck.nodes.protocol.errors import (
    CORRUPT_MESSAGE,
    FETCH_SESSION_ID_NOT_FOUND,
    INVALID_RECORD,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from kraftwreck.nodes.protocol.fetched import Fetched, fetch_answer
from kraftwreck.nodes.replication import effects as out
from kraftwreck.nodes.server.data_calls import (
    DeleteRecordsCall,
    EpochEndsCall,
    FetchCall,
    ListOffsetsCall,
    ProduceCall,
)

ID = b"t" * 16
OTHER = b"o" * 16
NOW_MS = 1_700_000_000_000
RECORDS = encode_batch(0, -1, NOW_MS, [(None, b"x"), (b"k", b"y")], False)
BROKEN = RECORDS[:-1] + bytes([RECORDS[-1] ^ 1])


class Known:
    """One topic, ``t``."""

    def id_of(self, name: str) -> bytes | None:
        return ID if name == "t" else None

    def name_of(self, topic_id: bytes) -> str | None:
        return "t" if topic_id == ID else None


TOPICS = Known()


def topic(version: int, field: str, name: str, **more: Any) -> dict[str, Any]:
    """A topic of a request: by its name in ``field``, from version 13 on by its id."""
    key = {"topic_id": ID if name == "t" else OTHER} if version >= 13 else {field: name}
    return {**key, **more}


def produce(version: int, *parts: tuple[str, int, bytes | None]) -> ProduceCall:
    data = [
        topic(version, "name", name, partition_data=[{"index": number, "records": records}])
        for name, number, records in parts
    ]
    body = {"acks": -1, "timeout_ms": 1000, "topic_data": data}
    frame = encode("ProduceRequest", version, body)
    return ProduceCall(frame, 0, version, 100, token=5, topics=TOPICS, wall_ms=NOW_MS)


def produced(call: ProduceCall, version: int, *parts: out.ProducedPart) -> list[dict[str, Any]]:
    """The topics of the answer as the client reads them."""
    _, body = decode_response("Produce", version, call.answer(version, 7, parts))
    topics: list[dict[str, Any]] = body["responses"]
    return topics


def answer(api: str, version: int, body: Any) -> Any:
    return decode(f"{api}Response", version, encode(f"{api}Response", version, body))[0]


@pytest.mark.parametrize("version", range(3, 14))
def test_produced_records_reach_the_core_as_headers_and_bytes(version: int) -> None:
    call = produce(version, ("t", 1, RECORDS), ("u", 0, RECORDS))
    assert call.event is not None
    ((key, batch),) = call.event.batches
    assert (key, batch.count, batch.size) == ((ID, 1), 2, len(RECORDS))
    assert batch.handle == RECORDS
    known, unknown = produced(call, version, out.ProducedPart((ID, 1), 0, 70, 3))
    (part,) = known["partition_responses"]
    assert (part["index"], part["error_code"], part["base_offset"]) == (1, 0, 70)
    (part,) = unknown["partition_responses"]
    code = UNKNOWN_TOPIC_ID if version >= 13 else UNKNOWN_TOPIC_OR_PARTITION
    assert (part["error_code"], part["base_offset"]) == (code, -1)


def test_records_that_are_refused_never_reach_the_core() -> None:
    call = produce(9, ("t", 0, BROKEN), ("t", 1, RECORDS), ("t", 2, None))
    assert call.event is not None
    assert [key for key, _ in call.event.batches] == [(ID, 1)]
    (only,) = produced(call, 9, out.ProducedPart((ID, 1), 0, 0, 0))
    codes = [part["error_code"] for part in only["partition_responses"]]
    assert codes == [CORRUPT_MESSAGE, 0, INVALID_RECORD]
    assert call.failed


@pytest.mark.parametrize(("first", "last"), [(RECORDS, BROKEN), (BROKEN, RECORDS)])
def test_the_last_records_count_for_a_partition_that_is_named_twice(
    first: bytes, last: bytes
) -> None:
    call = produce(9, ("t", 0, first), ("t", 0, last))
    done = [] if call.event is None else [out.ProducedPart((ID, 0), 0, 3, 0)]
    assert bool(done) == (last is RECORDS)
    (only,) = produced(call, 9, *done)
    (part,) = only["partition_responses"]
    assert part["error_code"] == (0 if done else CORRUPT_MESSAGE)


def test_a_produce_that_is_refused_as_a_whole_needs_no_core() -> None:
    call = produce(9, ("u", 0, RECORDS))
    assert call.event is None
    (only,) = produced(call, 9)
    assert only["partition_responses"][0]["error_code"] == UNKNOWN_TOPIC_OR_PARTITION


def read_answer(version: int, pieces: list[Any]) -> Any:
    """Return an answer to a Fetch as a client reads it by the schema."""
    correlation, body = decode_response("Fetch", version, b"".join(pieces))
    assert correlation == 7
    return body


def fetch(version: int, *parts: tuple[str, int], session: tuple[int, int] = (0, -1)) -> FetchCall:
    wanted = {"fetch_offset": 7, "partition_max_bytes": 1000, "current_leader_epoch": 2}
    body = {
        "replica_id": -1,
        "max_wait_ms": 500,
        "min_bytes": 1,
        "max_bytes": 2000,
        "session_id": session[0],
        "session_epoch": session[1],
        "topics": [
            topic(version, "topic", name, partitions=[{"partition": number, **wanted}])
            for name, number in parts
        ],
        "forgotten_topics_data": [],
    }
    frame = encode("FetchRequest", version, body)
    return FetchCall(frame, 0, version, 100, token=6, topics=TOPICS)


@pytest.mark.parametrize("version", range(4, 18))
def test_a_fetch_is_answered_with_the_bytes_of_its_slices(version: int) -> None:
    call = fetch(version, ("t", 0), ("u", 4))
    known = call.event.parts[0]
    assert (known.key, known.offset, known.max_bytes) == ((ID, 0), 7, 1000)
    parts = [out.ReadPart((ID, 0), 0, 9, 1, out.Slice(7, 9, 1000))]
    if version >= 13:
        assert call.event.parts[1].key == (OTHER, 4)
        parts.append(out.ReadPart((OTHER, 4), UNKNOWN_TOPIC_OR_PARTITION))
    reply = out.ReplyFetch(6, 0, 0, 2000, tuple(parts))
    body = read_answer(version, call.answer(reply, 7, lambda *_: RECORDS))
    read, unknown = (each["partitions"][0] for each in body["responses"])
    assert (read["records"], read["high_watermark"], read["error_code"]) == (RECORDS, 9, 0)
    assert read["last_stable_offset"] == 9
    code = UNKNOWN_TOPIC_ID if version >= 13 else UNKNOWN_TOPIC_OR_PARTITION
    assert (unknown["partition_index"], unknown["error_code"]) == (4, code)


@pytest.mark.parametrize("version", [7, 12])
def test_a_session_by_names_never_lacks_a_topic(version: int) -> None:
    """A consumer would not ask for the topic again, since it believes that the session has it."""
    begun = fetch(version, ("t", 0), ("u", 0), session=(0, 0))
    assert begun.event.session_epoch == -1, "no session begins"
    reply = out.ReplyFetch(6, 0, 0, 2000, (out.ReadPart((ID, 0), 0, 9, 1),))
    body = read_answer(version, begun.answer(reply, 7, lambda *_: b""))
    codes = [part["error_code"] for each in body["responses"] for part in each["partitions"]]
    assert codes == [0, UNKNOWN_TOPIC_OR_PARTITION]
    continued = fetch(version, ("u", 0), session=(44, 3))
    assert (continued.event.session_id, continued.event.session_epoch) == (0, 3)
    reply = out.ReplyFetch(6, FETCH_SESSION_ID_NOT_FOUND, 0, 2000, ())
    body = read_answer(version, continued.answer(reply, 7, lambda *_: b""))
    assert (body["error_code"], body["responses"]) == (FETCH_SESSION_ID_NOT_FOUND, [])


@pytest.mark.parametrize("version", [7, 12])
def test_a_session_by_names_ends_with_a_topic_of_it(version: int) -> None:
    continued = fetch(version, session=(44, 3))
    parts = (out.ReadPart((ID, 0), 0, 9, 1), out.ReadPart((OTHER, 0), UNKNOWN_TOPIC_OR_PARTITION))
    body = read_answer(
        version, continued.answer(out.ReplyFetch(6, 0, 44, 2000, parts), 7, lambda *_: b"")
    )
    assert (body["error_code"], body["session_id"]) == (FETCH_SESSION_ID_NOT_FOUND, 0)
    assert body["responses"] == []


@pytest.mark.parametrize("version", [13, 17])
def test_a_session_by_ids_has_topics_that_are_not_known(version: int) -> None:
    begun = fetch(version, ("t", 0), ("u", 0), session=(0, 0))
    assert (begun.event.session_epoch, len(begun.event.parts)) == (0, 2)


def test_only_the_first_slice_may_exceed_the_limit_of_a_fetch() -> None:
    call = fetch(16, ("t", 0), ("t", 1), ("t", 2))
    parts = tuple(out.ReadPart((ID, n), 0, 9, 1, out.Slice(7, 9, 1000)) for n in range(3))
    asked: list[int] = []

    def read(_: Any, part: out.Slice, limit: int) -> bytes:
        asked.append(limit)
        return RECORDS

    reply = out.ReplyFetch(6, 0, 0, len(RECORDS) + 5, parts)
    (only,) = read_answer(16, call.answer(reply, 7, read))["responses"]
    assert [len(part["records"]) for part in only["partitions"]] == [len(RECORDS), 0, 0]
    assert asked == [len(RECORDS) + 5, 5, 5]


@pytest.mark.parametrize("version", range(4, 18))
def test_an_answer_to_a_fetch_is_what_its_schema_says(version: int) -> None:
    parts = [
        Fetched(0, 0, 9, 1, RECORDS, None, (3, 8)),
        Fetched(1, 6, -1, -1, b"", (2, 70), None),
        Fetched(2, 0, 4, 0, b"", (2, 70), (1, 2)),
    ]
    name: Any = ID if version >= 13 else "t"
    flexible = version >= 12
    told = [
        {
            "partition_index": each.number,
            "error_code": each.error,
            "high_watermark": each.high_watermark,
            "last_stable_offset": each.high_watermark,
            "log_start_offset": each.log_start,
            "aborted_transactions": None,
            "records": each.records,
        }
        | (
            {"diverging_epoch": {"epoch": 2, "end_offset": 70}}
            if flexible and each.diverging
            else {}
        )
        | (
            {"current_leader": {"leader_id": each.leader[0], "leader_epoch": each.leader[1]}}
            if flexible and each.leader
            else {}
        )
        for each in parts
    ]
    topic_field = {"topic_id": ID} if version >= 13 else {"topic": "t"}
    body = {
        "error_code": 0,
        "session_id": 44,
        "responses": [topic_field | {"partitions": told}],
    }
    written = b"".join(cast("list[bytes]", fetch_answer(version, 7, 0, 44, {name: parts})))
    assert written == encode_response("Fetch", version, 7, body)


def test_offsets_by_time_are_completed_from_the_log() -> None:
    wanted = [
        {"partition_index": n, "current_leader_epoch": -1, "timestamp": at}
        for n, at in ((0, -1), (1, NOW_MS), (2, NOW_MS))
    ]
    request = {"replica_id": -1, "topics": [{"name": "t", "partitions": wanted}]}
    call = ListOffsetsCall(request, token=1, topics=TOPICS)
    assert call.event is not None
    assert call.event.parts == (((ID, 0), -1, -1), ((ID, 1), NOW_MS, -1), ((ID, 2), NOW_MS, -1))
    look = out.Lookup(NOW_MS, 0, 9)
    parts = [
        out.OffsetPart((ID, 0), 0, 9, 4),
        out.OffsetPart((ID, 1), 0, lookup=look),
        out.OffsetPart((ID, 2), 0, lookup=look),
    ]
    found = {(ID, 1): (5, NOW_MS + 1, 3), (ID, 2): None}
    body = answer("ListOffsets", 7, call.body(parts, lambda key, _: found[key]))
    got = [
        (part["offset"], part["timestamp"], part["leader_epoch"])
        for part in body["topics"][0]["partitions"]
    ]
    assert got == [(9, -1, 4), (5, NOW_MS + 1, 3), (-1, -1, -1)]


def test_ends_of_epochs_and_deletions_are_translated() -> None:
    part = {"partition": 0, "current_leader_epoch": 2, "leader_epoch": 1}
    ends = EpochEndsCall({"topics": [{"topic": "t", "partitions": [part]}]}, token=1, topics=TOPICS)
    assert ends.event is not None
    assert ends.event.parts == (((ID, 0), 2, 1),)
    body = answer("OffsetForLeaderEpoch", 4, ends.body([((ID, 0), 0, 1, 44)]))
    found = body["topics"][0]["partitions"][0]
    assert (found["leader_epoch"], found["end_offset"], found["error_code"]) == (1, 44, 0)

    topics = [{"name": name, "partitions": [{"partition_index": 0, "offset": -1}]} for name in "tu"]
    deleting = DeleteRecordsCall({"topics": topics, "timeout_ms": 9}, token=2, topics=TOPICS)
    assert deleting.event is not None
    assert (deleting.event.parts, deleting.event.timeout_ms) == ((((ID, 0), -1),), 9)
    body = answer("DeleteRecords", 2, deleting.body([((ID, 0), 0, 12)]))
    codes = [each["partitions"][0]["error_code"] for each in body["topics"]]
    assert codes == [0, UNKNOWN_TOPIC_OR_PARTITION]
    assert body["topics"][0]["partitions"][0]["low_watermark"] == 12

"""Rules on brokers' answers about their logs: each is broken by a planted bug in whole runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.log.batch import encode_batch, parse_header
from kraftwreck.nodes.log.partition import times
from kraftwreck.nodes.protocol.errors import FETCH_SESSION_ID_NOT_FOUND, NONE
from kraftwreck.nodes.replication import effects as out
from kraftwreck.nodes.replication.events import (
    DeleteRecordsReceived,
    FetchPart,
    FetchReceived,
    ListOffsetsReceived,
    ProduceReceived,
)
from kraftwreck.nodes.replication.headers import Batch, batch_of
from kraftwreck.nodes.replication.partition import EARLIEST, LATEST, Appended, Partition
from kraftwreck.nodes.replication.sessions import Session, Sessions
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import record_lookups, replica_positions
from kraftwreck.systems.kraft.simulated.answer_evidence import AnswerEvidence
from kraftwreck.systems.kraft.simulated.record_logs import RecordLog
from tests.simulation.replicas import batch
from tests.simulation.test_record_rules import Patch, fail_unless_broken


def acknowledges_the_next_offset(patch: Patch) -> None:
    append = Partition.append

    def planted(self: Partition, batch: Batch, acks: int) -> Appended:
        done = append(self, batch, acks)
        return done if done.error else done._replace(base_offset=done.base_offset + 1)

    patch.setattr(Partition, "append", planted)


def finds_the_record_after(patch: Patch) -> None:
    def planted(*given: Any) -> tuple[int, int, int] | None:
        found = times.offset_at(*given)
        return None if found is None else (found[0] + 1, *found[1:])

    patch.setattr("kraftwreck.nodes.server.partition_files.offset_at", planted)


def ends_each_epoch_with_the_log(patch: Patch) -> None:
    def planted(self: Partition, current: int, epoch: int) -> Any:
        error = self.fault(current)
        if error != NONE or self.log is None:
            return self.key, error, -1, -1
        return self.key, NONE, epoch, self.log.end

    patch.setattr(Partition, "epoch_end", planted)


def deletes_at_the_leader_only(patch: Patch) -> None:
    patch.setattr(
        Partition, "low_watermark", property(lambda self: self.log.start if self.log else -1)
    )


def says_nothing_new_in_a_session(patch: Patch) -> None:
    patch.setattr(Session, "news", lambda self, parts, *, full: parts if full else ())


def keeps_what_a_session_gives_up(patch: Patch) -> None:
    resolve = Sessions.resolve

    def planted(self: Sessions, event: FetchReceived) -> Any:
        return resolve(self, replace(event, forgotten=()))

    patch.setattr(Sessions, "resolve", planted)


def tells_followers_no_log_start(patch: Patch) -> None:
    delete = Partition.delete_up_to

    def planted(self: Partition, offset: int) -> None:
        if self.leading:
            delete(self, offset)

    patch.setattr(Partition, "delete_up_to", planted)


def looks_times_up_to_the_end(patch: Patch) -> None:
    offset_at = Partition.offset_at

    def planted(self: Partition, *given: Any) -> out.OffsetPart:
        found = offset_at(self, *given)
        if found.lookup is None or self.log is None:
            return found
        return replace(found, lookup=replace(found.lookup, end_offset=self.log.end))

    patch.setattr(Partition, "offset_at", planted)


@pytest.mark.many_runs
@pytest.mark.parametrize(
    ("plant", "rule"),
    [
        (acknowledges_the_next_offset, "D2"),
        (finds_the_record_after, "D13"),
        (ends_each_epoch_with_the_log, "D7"),
        (deletes_at_the_leader_only, "D11"),
        (says_nothing_new_in_a_session, "L13"),
        (keeps_what_a_session_gives_up, "D5"),
        (tells_followers_no_log_start, "L13"),
        (looks_times_up_to_the_end, "D13"),
    ],
)
def test_a_planted_bug_breaks_its_rule(
    plant: Callable[[Patch], None], rule: str, monkeypatch: Patch
) -> None:
    plant(monkeypatch)
    fail_unless_broken(rule)


KEY = (bytes(16), 0)


class Judged:
    """The rules on the answers of one leader, whose log ends at 20."""

    def __init__(self, monkeypatch: Patch) -> None:
        self.failures = Failures()
        self.disk, self.log = RecordLog(2, [batch(2, 20)]), SimpleNamespace(start=2, end=20)
        epoch = SimpleNamespace(leader_epoch=0)
        self.leader = SimpleNamespace(
            key=KEY, hw=10, leading=True, log=self.log, assignment=epoch, epoch_start=0,
            in_sync=SimpleNamespace(isr=(4,), pending=None, remotes={}),
            with_=SimpleNamespace(peers={}),
        )  # fmt: skip
        data = SimpleNamespace(core=SimpleNamespace(partitions={KEY: self.leader}))
        image = SimpleNamespace(stable=SimpleNamespace(topics={}))
        node = SimpleNamespace(broker=SimpleNamespace(data=data), image=image)
        self.host: Any = SimpleNamespace(id=4, name="b1", life=1, node=node)
        self.stepped: list[Any] = []
        member = SimpleNamespace(id=5, name="b2")
        world: Any = SimpleNamespace(now=0, hosts=[self.host, member], on_emit=self.stepped)
        self.follower: RecordLog | None = None
        logs: Any = SimpleNamespace(
            of=lambda host, key: self.disk if host == 4 else self.follower,
            lossless=lambda host, key: True,
        )
        watch: Any = SimpleNamespace(logs=logs)
        full = SimpleNamespace(logs=SimpleNamespace(full=()))
        outlets = SimpleNamespace(on_answer=[])
        monkeypatch.setattr(record_lookups, "record_traffic", lambda world: outlets)
        monkeypatch.setattr(replica_positions, "replicas_on", lambda host: {KEY: self.leader})
        monkeypatch.setattr(record_lookups, "disk_of_records", lambda host: full)
        monkeypatch.setattr(record_lookups, "_end_of", lambda *of: (0, 20))
        steps: Any = SimpleNamespace(states=lambda host, key, log: iter((log,)))
        positions = replica_positions.ReplicaPositions(world)
        evidence = AnswerEvidence(world, self.failures, watch, steps, positions)
        self.lookups = record_lookups.RecordLookups(evidence)
        self.stepped[0](self.host)

    def step(self, hw: int, start: int) -> None:
        self.leader.hw, self.log.start, self.disk.start = hw, start, start
        self.stepped[0](self.host)

    def broken_by(self, event: Any, effect: Any, body: Any = None) -> list[str]:
        message: Any = SimpleNamespace(call=SimpleNamespace(event=event))
        self.lookups.answered(self.host, message, effect, body or {"responses": [], "topics": []})
        return [failure.type for failure in self.failures.items]


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("told", "broken"),
    [
        ({"hw": 10}, []),
        ({"hw": 12}, []),
        ({"hw": 9}, ["D5"]),
        ({"hw": 13}, ["D5"]),
        ({"latest": 10}, []),
        ({"latest": 9}, ["D13"]),
        ({"earliest": 2}, []),
        ({"earliest": 4}, []),
        ({"earliest": 1}, ["D13"]),
    ],
)
def test_an_answer_may_precede_the_rest_of_its_step(
    told: dict[str, int], broken: list[str], monkeypatch: Patch
) -> None:
    """A broker that was busy answers a request, and then does what is due in the same step: a
    silent replica no longer holds the high watermark back, or old records go."""
    one = Judged(monkeypatch)
    one.step(hw=12, start=4)
    event: Any = FetchReceived(1, (FetchPart(KEY, 15, 1),))
    effect: Any = out.ReplyFetch(1, NONE, 0, 1, (out.ReadPart(KEY, NONE, told.get("hw", -1), 2),))
    body: dict[str, Any] = {"responses": [], "topics": []}
    if "hw" not in told:
        ((name, offset),) = told.items()
        event = ListOffsetsReceived(1, ((KEY, LATEST if name == "latest" else EARLIEST, -1),))
        effect = out.ReplyListOffsets(1, (out.OffsetPart(KEY, NONE, offset),))
    assert one.broken_by(event, effect, body) == broken


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("offsets", "broken"),
    [((12, 2), []), ((12, 4), ["D11"]), ((13, 2), ["D5"]), ((11, 2), [])],
)
def test_a_session_leaves_out_only_what_it_has_said(
    offsets: tuple[int, int], broken: list[str], monkeypatch: Patch
) -> None:
    one = Judged(monkeypatch)
    one.step(hw=12, start=2)
    first: Any = FetchReceived(1, (FetchPart(KEY, 15, 1),), replica_id=5, session_epoch=0)
    said = out.ReplyFetch(1, NONE, 7, 1, (out.ReadPart(KEY, NONE, 12, 2),))
    assert one.broken_by(first, said) == []
    # A step may do what is due after its answer, so only what was before it counts.
    one.step(*offsets)
    later = replace(first, parts=(), session_id=7, session_epoch=1)
    silent = replace(said, parts=())
    assert one.broken_by(later, silent) == []
    one.step(*offsets)
    assert one.broken_by(replace(later, session_epoch=2), silent) == broken


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("names", "session", "broken"),
    [({}, 7, []), ({KEY[0]: "t"}, 7, ["D16"]), ({}, 0, ["D16"])],
)
def test_a_session_ends_only_with_a_topic_of_it(
    names: dict[bytes, str], session: int, broken: list[str], monkeypatch: Patch
) -> None:
    one = Judged(monkeypatch)
    one.host.node.image.stable.names = names
    event = FetchReceived(1, (FetchPart(KEY, 15, 1),), session_id=session, session_epoch=0)
    effect = out.ReplyFetch(1, NONE, session, 1, (out.ReadPart(KEY, NONE, 10, 2),))
    refused = {"error_code": FETCH_SESSION_ID_NOT_FOUND, "responses": []}
    assert one.broken_by(event, effect, refused) == broken


@pytest.mark.interpreted
@pytest.mark.parametrize(("begins", "broken"), [(10, []), (11, ["D13"])])
def test_an_end_is_not_told_before_a_commit_of_the_epoch(
    begins: int, broken: list[str], monkeypatch: Patch
) -> None:
    one = Judged(monkeypatch)
    one.leader.epoch_start = begins
    event = ListOffsetsReceived(1, ((KEY, LATEST, -1),))
    effect = out.ReplyListOffsets(1, (out.OffsetPart(KEY, NONE, 10, 0),))
    assert one.broken_by(event, effect) == broken


# --- the edges of each rule ---------------------------------------------------------------


@pytest.fixture
def judged(monkeypatch: Patch) -> Judged:
    """The leader, whose log goes from 2 to 20 and is committed to 10, after a quiet step."""
    one = Judged(monkeypatch)
    one.step(hw=10, start=2)
    return one


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("offset", "crc", "broken"), [(2, 2, []), (2, 9, ["D2"]), (1, 9, []), (3, 2, ["D2"])]
)
def test_an_acknowledged_batch_is_where_its_answer_says(
    offset: int, crc: int, broken: list[str], judged: Judged
) -> None:
    """Below the log start it was deleted since."""
    event = ProduceReceived(1, -1, 1000, ((KEY, batch(0, 18, crc=crc)),))
    effect = out.ReplyProduce(1, (out.ProducedPart(KEY, NONE, offset),))
    assert judged.broken_by(event, effect) == broken


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("wanted", "low", "broken"),
    [(2, 2, []), (3, 2, ["D11"]), (2, 3, ["D11"]), (10, 10, []), (11, 11, ["D11"])],
)
def test_a_log_begins_where_a_deletion_has_reached_it(
    wanted: int, low: int, broken: list[str], judged: Judged
) -> None:
    judged.disk.start = 10 if low > 3 else 2
    if low == 11:
        judged.disk.start = 11
    event = DeleteRecordsReceived(1, 1000, ((KEY, wanted),))
    assert judged.broken_by(event, out.ReplyDeleteRecords(1, ((KEY, NONE, low),))) == broken


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("log", "broken"),
    [
        (RecordLog(6, [batch(6, 20)]), []),
        (RecordLog(5, [batch(5, 7), batch(7, 20)]), []),
        (RecordLog(5, [batch(5, 6), batch(6, 20)]), ["D11"]),
        (RecordLog(5, [batch(4, 7), batch(7, 20)]), ["D11"]),
        (RecordLog(5, []), []),
    ],
)
def test_a_deletion_reaches_the_followers_except_for_the_rest_of_a_batch(
    log: RecordLog, broken: list[str], judged: Judged
) -> None:
    """A follower whose log is to begin inside of a batch appends all of it first."""
    judged.disk, judged.follower = RecordLog(6, [batch(6, 20)]), log
    judged.leader.in_sync.remotes[5] = judged.leader.with_.peers[5] = SimpleNamespace(eligible=True)
    event = DeleteRecordsReceived(1, 1000, ((KEY, 6),))
    assert judged.broken_by(event, out.ReplyDeleteRecords(1, ((KEY, NONE, 6),))) == broken


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("timestamp", "end", "broken"),
    [(0, 10, []), (0, 9, ["D13"]), (0, 11, ["D13"]), (-1, 9, [])],
)
def test_a_time_is_looked_up_below_the_high_watermark(
    timestamp: int, end: int, broken: list[str], judged: Judged
) -> None:
    """Times below 0 stand for ends of the log."""
    lookup = out.Lookup(timestamp, 2, end)
    event = ListOffsetsReceived(1, ((KEY, timestamp, -1),), replica_id=5)
    told = out.OffsetPart(KEY, NONE, 20, lookup=lookup)
    assert judged.broken_by(event, out.ReplyListOffsets(1, (told,))) == broken


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("low", "high", "broken"),
    [(8, 10, []), (8, 8, []), (8, 7, ["D13"])],
)
def test_a_time_may_be_looked_up_before_the_rest_of_a_step(
    low: int, high: int, broken: list[str], monkeypatch: Patch
) -> None:
    """The step has raised the high watermark from ``low`` to 10."""
    one = Judged(monkeypatch)
    one.step(hw=low, start=2)
    one.step(hw=10, start=2)
    event = ListOffsetsReceived(1, ((KEY, 0, -1),))
    told = out.OffsetPart(KEY, NONE, 2, lookup=out.Lookup(0, 2, high))
    assert one.broken_by(event, out.ReplyListOffsets(1, (told,))) == broken


@pytest.mark.interpreted
@pytest.mark.parametrize(("offset", "broken"), [(1, ["D11"]), (2, []), (20, []), (21, ["D11"])])
def test_a_fetch_is_answered_inside_of_the_log(
    offset: int, broken: list[str], judged: Judged
) -> None:
    event = FetchReceived(1, (FetchPart(KEY, offset, 1),), replica_id=5)
    effect = out.ReplyFetch(1, NONE, 0, 1, (out.ReadPart(KEY, NONE, 10, 2),))
    assert judged.broken_by(event, effect) == broken


@pytest.mark.interpreted
@pytest.mark.parametrize(("offset", "broken"), [(2, ["L13"]), (9, ["L13"]), (10, [])])
def test_a_consumer_gets_committed_records(offset: int, broken: list[str], judged: Judged) -> None:
    event = FetchReceived(1, (FetchPart(KEY, offset, 1),))
    effect = out.ReplyFetch(1, NONE, 0, 1, (out.ReadPart(KEY, NONE, 10, 2),))
    assert judged.broken_by(event, effect) == broken


@pytest.mark.interpreted
@pytest.mark.parametrize(("epoch", "broken"), [(0, ["D5"]), (1, [])])
def test_a_new_session_has_no_partition_of_the_one_before(
    epoch: int, broken: list[str], judged: Judged
) -> None:
    """A full fetch names the session that it ends."""
    part = out.ReadPart(KEY, NONE, 10, 2)
    first = FetchReceived(1, (FetchPart(KEY, 15, 1),), replica_id=5, session_epoch=0)
    judged.broken_by(first, out.ReplyFetch(1, NONE, 7, 1, (part,)))
    later = replace(first, parts=(), session_id=7, session_epoch=epoch)
    session = 7 if epoch else 8
    assert judged.broken_by(later, out.ReplyFetch(1, NONE, session, 1, (part,))) == broken


@pytest.mark.interpreted
def test_a_full_fetch_begins_anew_with_what_was_said(judged: Judged) -> None:
    """Answers of another session with the same number do not count."""
    first = FetchReceived(1, (FetchPart(KEY, 15, 1),), replica_id=5, session_epoch=0)
    judged.broken_by(first, out.ReplyFetch(1, NONE, 7, 1, (out.ReadPart(KEY, NONE, 10, 2),)))
    for _ in range(2):
        judged.step(hw=12, start=2)
    assert judged.broken_by(first, out.ReplyFetch(1, NONE, 7, 1, ())) == []
    later = replace(first, parts=(), session_id=7, session_epoch=1)
    assert judged.broken_by(later, out.ReplyFetch(1, NONE, 7, 1, ())) == []


@pytest.mark.interpreted
@pytest.mark.parametrize("again", [False, True])
def test_a_partition_that_a_session_gets_is_in_the_answer(again: bool, judged: Judged) -> None:
    """Also one that the session had before, and has given up since."""
    asked = FetchPart(KEY, 15, 1)
    first = FetchReceived(1, (asked,) if again else (), replica_id=5, session_epoch=0)
    said = (out.ReadPart(KEY, NONE, 10, 2),) if again else ()
    judged.broken_by(first, out.ReplyFetch(1, NONE, 7, 1, said))
    forgets = replace(first, parts=(), session_id=7, session_epoch=1, forgotten=(KEY,))
    assert judged.broken_by(forgets, out.ReplyFetch(1, NONE, 7, 1, ())) == []
    adds = replace(forgets, parts=(asked,), session_epoch=2, forgotten=())
    assert judged.broken_by(adds, out.ReplyFetch(1, NONE, 7, 1, ())) == ["D5"]


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("epoch", "leader_epoch", "offset", "broken"),
    [
        (0, -1, 15, []),
        (-1, -1, 15, []),
        (2, -1, 15, ["D7"]),
        (2, -1, 2, ["D7"]),
        (2, -1, 1, []),
        (2, 9, 15, []),
    ],
)
def test_a_session_leaves_no_partition_out_whose_history_is_another(
    epoch: int, leader_epoch: int, offset: int, broken: list[str], judged: Judged
) -> None:
    """The leader is in epoch 0, its log begins at 2. A fetch of another leader epoch gets an
    error, and so does one below the log."""
    asked = FetchPart(KEY, offset, 1, leader_epoch, epoch)
    first = FetchReceived(1, (asked,), replica_id=5, session_epoch=0)
    told = out.ReadPart(KEY, NONE, 10, 2, diverging=(0, 20) if epoch > 0 else None)
    assert judged.broken_by(first, out.ReplyFetch(1, NONE, 7, 1, (told,))) == []
    later = replace(first, parts=(), session_id=7, session_epoch=1)
    assert judged.broken_by(later, out.ReplyFetch(1, NONE, 7, 1, ())) == broken


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("timestamp", "epoch", "broken"),
    [(0, 1, []), (-1, 1, []), (0, 0, ["D13"]), (0, 2, ["D13"]), (5, 1, ["D13"])],
)
def test_an_offset_comes_with_the_epoch_and_the_time_of_its_record(
    timestamp: int, epoch: int, broken: list[str], judged: Judged
) -> None:
    judged.host.node.image.stable.topics["t"] = SimpleNamespace(topic_id=KEY[0])
    part = {"partition_index": 0, "offset": 2, "timestamp": timestamp, "leader_epoch": epoch}
    body = {"topics": [{"name": "t", "partitions": [part]}]}
    event = ListOffsetsReceived(1, ((KEY, EARLIEST, -1),))
    effect = out.ReplyListOffsets(1, (out.OffsetPart(KEY, NONE, 2, epoch),))
    assert judged.broken_by(event, effect, body) == broken


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("offset", "epoch", "broken"),
    [(0, 1, []), (0, 2, ["D13"]), (9, 2, ["D13"]), (10, 2, []), (10, 1, ["D13"])],
)
def test_an_offset_has_the_epoch_of_the_batch_that_it_is_in(
    offset: int, epoch: int, broken: list[str], judged: Judged
) -> None:
    judged.disk = RecordLog(0, [batch(0, 10), batch(10, 20, epoch=2)])
    judged.log.start = 0
    judged.host.node.image.stable.topics["t"] = SimpleNamespace(topic_id=KEY[0])
    part = {"partition_index": 0, "offset": offset, "timestamp": -1, "leader_epoch": epoch}
    body = {"topics": [{"name": "t", "partitions": [part]}]}
    event = ListOffsetsReceived(1, ((KEY, 5, -1),))
    effect = out.ReplyListOffsets(1, (out.OffsetPart(KEY, NONE, offset, epoch),))
    assert judged.broken_by(event, effect, body) == broken


def encoded(base: int, count: int, epoch: int = 1) -> bytes:
    return encode_batch(base, epoch, 0, [(b"k", b"v")] * count, control=False)


def log_of(*batches: bytes) -> RecordLog:
    return RecordLog(0, [batch_of(parse_header(each)) for each in batches])


@pytest.mark.parametrize(
    ("offset", "sent", "right"),
    [
        (0, (0, 1, 2), True),
        (1, (0, 1, 2), True),  # The first batch has it.
        (2, (0, 1), False),
        (2, (1, 2), True),
        (0, (1,), False),
        (0, (0, 2), False),  # One record is missing between.
    ],
)
def test_a_fetch_gets_the_batches_from_its_offset_on(
    offset: int, sent: tuple[int, ...], right: bool
) -> None:
    batches = encoded(0, 2), encoded(2, 1), encoded(3, 1)
    records = b"".join(batches[number] for number in sent)
    assert (record_lookups.wrong_records(log_of(*batches), offset, records) == "") is right


@pytest.mark.interpreted
@pytest.mark.parametrize(("start", "broken"), [(0, ["D2"]), (1, [])])
def test_records_that_were_deleted_since_are_not_judged(
    start: int, broken: list[str], judged: Judged
) -> None:
    judged.disk.start = start
    judged.host.node.image.stable.topics["t"] = SimpleNamespace(topic_id=KEY[0])
    part = {"partition_index": 0, "records": encoded(0, 1), "error_code": NONE}
    body = {"responses": [{"topic": "t", "partitions": [part]}]}
    event = FetchReceived(1, (FetchPart(KEY, 0, 1),), replica_id=5)
    assert judged.broken_by(event, out.ReplyFetch(1, NONE, 0, 1, ()), body) == broken


LEADER: Any = SimpleNamespace(assignment=SimpleNamespace(leader_epoch=3), epoch_start=6)
HISTORY = RecordLog(0, [batch(0, 4, 1), batch(4, 6, 2), batch(6, 10, 3)])


@pytest.mark.parametrize(
    ("epoch", "offset", "diverging", "right"),
    [
        (1, 4, None, True),
        (1, 4, (1, 4), False),
        (1, 5, (1, 4), True),
        (1, 5, (1, 5), False),
        (1, 5, None, False),
        (0, 2, (0, 0), True),
        (0, 2, None, False),
        (-1, 5, None, True),
        (4, 10, (-1, -1), True),
        (4, 10, None, False),
    ],
)
def test_a_log_diverges_where_its_last_epoch_ends_earlier(
    epoch: int, offset: int, diverging: tuple[int, int] | None, right: bool
) -> None:
    asked = FetchPart(KEY, offset, 1, last_fetched_epoch=epoch)
    told = out.ReadPart(KEY, NONE, 0, 0, diverging=diverging)
    wrong = record_lookups._wrong_history(LEADER, HISTORY, asked, told)
    assert (wrong == "") is right


@pytest.mark.parametrize(
    ("timestamp", "start", "end", "found"),
    [
        (200, 0, 10, 0),
        (201, 0, 10, 6),
        (301, 0, 10, -1),
        (150, 3, 10, 3),
        (150, 4, 10, 6),
        (300, 0, 7, 6),
        (300, 0, 6, -1),
    ],
)
def test_a_time_is_that_of_the_first_record_since(
    timestamp: int, start: int, end: int, found: int
) -> None:
    times = ((0, 4, 200), (4, 6, 100), (6, 10, 300))
    log = RecordLog(0, [batch(base, after, max_timestamp=at) for base, after, at in times])
    assert record_lookups.first_since(log, out.Lookup(timestamp, start, end)) == found


@pytest.mark.parametrize(
    ("epoch", "end"),
    [(-1, (-1, -1)), (0, (0, 0)), (1, (1, 4)), (2, (2, 6)), (3, (3, 10)), (4, (-1, -1))],
)
def test_an_epoch_ends_where_the_next_one_begins(epoch: int, end: tuple[int, int]) -> None:
    assert record_lookups._end_of(LEADER, HISTORY, epoch) == end

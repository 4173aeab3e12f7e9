"""The loader: when snapshots are due, and that loading or making one loses nothing (I19)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftwreck.nodes.consensus.effects import FatalError
from kraftwreck.nodes.log.batch import encode_batch, parse_header, split_batches
from kraftwreck.nodes.log.snapshots import (
    data_batch,
    footer_batch,
    header_batch,
    snapshot_name,
    verify,
)
from kraftwreck.nodes.metadata.image import MetadataImage
from kraftwreck.nodes.metadata.loader import Applied, Loader
from kraftwreck.nodes.metadata.periodic import NEVER
from kraftwreck.nodes.protocol.records import encode_record

Record = tuple[str, int, dict[str, Any]]
NOTHING: Record = ("NoOpRecord", 0, {})
BEGIN: Record = ("BeginTransactionRecord", 0, {"name": None})
END: Record = ("EndTransactionRecord", 0, {})
MINUTE = 60_000_000


def topic_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def topic(number: int, partitions: int = 1) -> list[Record]:
    records: list[Record] = [
        ("TopicRecord", 0, {"name": f"t{number}", "topic_id": topic_id(number)})
    ]
    for partition in range(partitions):
        fields = {
            "partition_id": partition,
            "topic_id": topic_id(number),
            "replicas": [1, 2, 3],
            "isr": [1, 2],
            "leader": 1,
            "leader_epoch": 0,
            "partition_epoch": 0,
        }
        records.append(("PartitionRecord", 1, fields))
    return records


def removal(number: int) -> list[Record]:
    return [("RemoveTopicRecord", 0, {"topic_id": topic_id(number)})]


def change(number: int, **fields: Any) -> list[Record]:
    base = {"partition_id": 0, "topic_id": topic_id(number)}
    return [("PartitionChangeRecord", 1, base | fields)]


class Log:
    """A committed log, written one batch at a time."""

    def __init__(self, start: int = 0) -> None:
        self.end = start
        self.batches: list[bytes] = []

    def append(self, records: Sequence[Record], epoch: int = 1) -> bytes:
        values = [(None, encode_record(*record)) for record in records]
        batch = encode_batch(self.end, epoch, 5, values, False)
        return self._add(batch, len(records))

    def control(self, epoch: int = 1) -> bytes:
        return self._add(encode_batch(self.end, epoch, 5, [(b"k", b"v")], True), 1)

    def _add(self, batch: bytes, count: int) -> bytes:
        self.end += count
        self.batches.append(batch)
        return batch


def committed(loader: Loader, *batches: bytes) -> None:
    for batch in batches:
        loader.committed(batch)
    while loader.work():
        pass


def replayed(batches: Sequence[bytes]) -> MetadataImage:
    image = MetadataImage()
    committed(Loader(image), *batches)
    return image


def header(image: MetadataImage) -> bytes:
    return header_batch(image.stable_epoch, 77, 66)


def snapshot_of(loader: Loader, records: int = 1000) -> bytes:
    loader.begin_snapshot(header(loader.image))
    content = bytearray()
    while (piece := loader.next_piece(records)) is not None:
        content += piece
    return bytes(content)


def load(loader: Loader, content: bytes, end: int, epoch: int, records: int = 500) -> None:
    loader.load(content, end, epoch)
    while loader.work(records):
        pass


# --- the committed log ------------------------------------------------------------------


def test_batches_are_applied_in_bounded_steps_and_reported_in_order() -> None:
    log, loader = Log(), Loader(MetadataImage())
    for batch in (log.control(), log.append(topic(1, 3)), log.append([NOTHING])):
        loader.committed(batch)
    assert loader.work(2)
    assert [applied.offset for applied in loader.take_applied()] == [0, 4]
    assert not loader.work(2)
    assert loader.take_applied() == [Applied(5, 1, False)]
    assert not loader.busy
    assert loader.image.stable_offset == 5


def test_a_gap_in_the_committed_log_is_fatal() -> None:
    loader = Loader(MetadataImage())
    loader.committed(Log(start=3).append([NOTHING]))
    with pytest.raises(FatalError, match="offset 3 follows offset -1"):
        loader.work()


@pytest.mark.parametrize("value", [None, b"", b"\x01\x63\x00", b"\x07"])
def test_an_unreadable_record_is_fatal_and_names_the_offset(value: bytes | None) -> None:
    loader = Loader(MetadataImage())
    loader.committed(encode_batch(0, 1, 0, [(None, value)], False))
    with pytest.raises(FatalError, match="offset 0"):
        loader.work()


def test_the_leaders_own_batches_are_not_read_again() -> None:
    loader = Loader(MetadataImage())
    name, _, fields = topic(1)[0]
    loader.image.propose(0, 1, [(name, fields)])
    committed(loader, encode_batch(0, 1, 0, [(None, b"unreadable")], False))
    assert list(loader.image.stable.topics) == ["t1"]


# --- when a snapshot is due -------------------------------------------------------------


def test_a_snapshot_is_due_after_so_many_bytes() -> None:
    log, loader = Log(), Loader(MetadataImage(), snapshot_bytes=400)
    committed(loader, log.append(topic(1)))
    assert loader.due(0) is None
    while sum(map(len, log.batches)) < 400:
        committed(loader, log.append([NOTHING], epoch=2))
    assert loader.due(0) == (log.end, 2)
    snapshot_of(loader)
    assert loader.due(0) is None


def test_or_after_so_much_time_if_there_is_anything_new() -> None:
    log, loader = Log(), Loader(MetadataImage(), snapshot_interval_ms=60_000, now=MINUTE)
    assert loader.due(10 * MINUTE) is None, "nothing was committed"
    assert loader.next_due(MINUTE) == NEVER
    committed(loader, log.append([NOTHING]))
    assert loader.next_due(2 * MINUTE - 1) == 2 * MINUTE
    assert loader.next_due(2 * MINUTE) == NEVER, "it is due, but may have to wait"
    assert loader.due(2 * MINUTE - 1) is None
    assert loader.due(2 * MINUTE) == (1, 1)
    loader.begin_snapshot(header(loader.image), now=2 * MINUTE)
    committed(loader, log.append([NOTHING]))
    assert loader.due(9 * MINUTE) is None, "one is being made"
    while loader.next_piece() is not None:
        pass
    assert loader.due(3 * MINUTE - 1) is None
    assert loader.next_due(2 * MINUTE) == 3 * MINUTE
    assert loader.due(3 * MINUTE) == (2, 1)


def test_without_a_limit_by_time_none_is_due_by_it() -> None:
    log, loader = Log(), Loader(MetadataImage(), snapshot_interval_ms=0)
    committed(loader, log.append([NOTHING]))
    assert loader.next_due(0) == NEVER
    assert loader.due(9 * MINUTE) is None


def test_never_inside_of_a_transaction() -> None:
    log, loader = Log(), Loader(MetadataImage(), snapshot_bytes=1)
    committed(loader, log.append([BEGIN, *topic(1)]))
    assert loader.due(0) is None
    committed(loader, log.append([END]))
    assert loader.due(0) == (log.end, 1)


# --- making and loading snapshots -------------------------------------------------------


def test_a_snapshot_is_whole_batches_header_first_footer_last() -> None:
    log, loader = Log(), Loader(MetadataImage())
    committed(loader, log.append(topic(1, 5)))
    assert loader.begin_snapshot(header(loader.image)) == (6, 1)
    pieces = []
    while (making := loader.generating) is not None:
        assert making == (6, 1)
        pieces.append(loader.next_piece(2) or b"")
    assert loader.next_piece() is None
    headers = [parse_header(piece) for piece in pieces]
    assert [h.count for h in headers] == [1, 2, 2, 2, 1]
    assert [h.is_control for h in headers] == [True, False, False, False, True]
    assert {(h.epoch, h.base_timestamp) for h in headers} == {(1, 77)}
    assert verify(b"".join(pieces), snapshot_name(6, 1)).timestamp == 66
    assert list(split_batches(b"".join(pieces))) == pieces


def test_an_empty_image_has_a_snapshot_too() -> None:
    log, loader = Log(), Loader(MetadataImage())
    committed(loader, log.control(), log.append([NOTHING]))
    content = snapshot_of(loader)
    other = Loader(MetadataImage())
    load(other, content, 2, 1)
    assert other.image == MetadataImage()
    assert other.image.stable_offset == 1


def test_loading_removes_entries_missing_in_the_snapshot() -> None:
    log, loader = Log(), Loader(MetadataImage())
    committed(loader, log.append(topic(1, 2)))
    content = snapshot_of(loader)
    stale = Loader(MetadataImage())
    config = {"resource_type": 2, "resource_name": "t9", "name": "retention.ms", "value": "1"}
    committed(stale, Log().append([*topic(9, 4), ("ConfigRecord", 0, config)]))
    stale.image.digest()
    load(stale, content, log.end, 1, records=1)
    assert stale.image == loader.image
    assert stale.image.digest() == loader.image.digest()
    assert list(stale.image.led_by(1)) == list(loader.image.led_by(1))
    loaded = Applied(log.end - 1, 1, False, True, stale.image.digest())
    assert stale.take_applied()[-1] == loaded


def test_nobody_sees_a_half_loaded_snapshot() -> None:
    log, loader = Log(), Loader(MetadataImage())
    committed(loader, log.append(topic(1, 20)))
    content = snapshot_of(loader, records=3)
    other = Loader(MetadataImage())
    committed(other, Log().append(topic(9)))
    other.take_applied()
    other.load(content, log.end, 1)
    while other.loading is not None:
        assert list(other.image.topics) == ["t9"]
        assert other.busy
        assert other.take_applied() == []
        other.work(4)
    assert list(other.image.topics) == ["t1"]


def test_commits_during_the_load_of_a_snapshot_wait_for_it() -> None:
    log, loader = Log(), Loader(MetadataImage())
    committed(loader, log.append(topic(1, 20)))
    content = snapshot_of(loader)
    other = Loader(MetadataImage())
    other.load(content, log.end, 1)
    other.work(4)
    other.committed(log.append(topic(2)))
    while other.work(4):
        pass
    assert list(other.image.stable.topics) == ["t1", "t2"]


def test_records_queued_before_a_snapshot_are_part_of_it() -> None:
    log, loader = Log(), Loader(MetadataImage())
    committed(loader, log.append(topic(1)))
    content = snapshot_of(loader)
    other = Loader(MetadataImage())
    other.committed(log.batches[0])
    load(other, content, log.end, 1)
    assert other.image == loader.image


def test_a_second_snapshot_takes_the_place_of_a_half_loaded_one() -> None:
    log, loader = Log(), Loader(MetadataImage())
    committed(loader, log.append(topic(1, 20)))
    first, first_end = snapshot_of(loader), log.end
    committed(loader, log.append([*removal(1), *topic(2)], epoch=3))
    second = snapshot_of(loader)
    other = Loader(MetadataImage())
    other.load(first, first_end, 1)
    other.work(4)
    load(other, second, log.end, 3)
    assert other.image == loader.image
    assert (other.image.stable_offset, other.image.stable_epoch) == (log.end - 1, 3)


def test_loading_abandons_a_snapshot_being_made() -> None:
    log, loader = Log(), Loader(MetadataImage())
    committed(loader, log.append(topic(1, 20)))
    content = snapshot_of(loader)
    loader.begin_snapshot(header(loader.image))
    loader.next_piece()
    load(loader, content, log.end, 1)
    assert loader.generating is None
    assert loader.next_piece() is None


def test_a_snapshot_that_contradicts_itself_is_fatal() -> None:
    values = [encode_record(*record) for record in (*topic(1), *topic(1))]
    content = header_batch(1, 0, 0) + data_batch(1, 1, 0, values) + footer_batch(5, 1, 0)
    loader = Loader(MetadataImage())
    with pytest.raises(FatalError, match="exists already"):
        load(loader, content, 9, 1)


def test_a_snapshot_that_cannot_be_read_is_fatal_and_is_named() -> None:
    content = header_batch(1, 0, 0) + data_batch(1, 1, 0, [b"\x01\x63\x00"])
    loader = Loader(MetadataImage())
    with pytest.raises(FatalError, match="snapshot 9-1 after 0 records"):
        load(loader, content, 9, 1)


def test_a_header_of_another_epoch_is_refused() -> None:
    log, loader = Log(), Loader(MetadataImage())
    committed(loader, log.append(topic(1)))
    with pytest.raises(FatalError, match="epoch 2"):
        loader.begin_snapshot(header_batch(2, 0, 0))


# --- I19: a snapshot is the state of its prefix of the log ---------------------------------


@st.composite
def histories(draw: st.DrawFn) -> list[list[Record]]:
    """Batches that a controller could have written."""
    batches: list[list[Record]] = []
    live: dict[int, int] = {}
    created = 0
    for _ in range(draw(st.integers(1, 12))):
        kind = draw(st.sampled_from(["create", "delete", "change", "config", "nothing"]))
        if kind == "create":
            created += 1
            live[created] = draw(st.integers(1, 4))
            batches.append(topic(created, live[created]))
        elif kind == "delete" and live:
            chosen = draw(st.sampled_from(sorted(live)))
            del live[chosen]
            batches.append(removal(chosen))
        elif kind == "change" and live:
            chosen = draw(st.sampled_from(sorted(live)))
            leader = draw(st.integers(-2, 3))
            batches.append(change(chosen, leader=leader, isr=draw(st.sampled_from([[1], [2, 3]]))))
        elif kind == "config":
            fields = {"resource_type": 4, "resource_name": "", "name": "a"}
            value = draw(st.sampled_from([None, "1", "2"]))
            batches.append([("ConfigRecord", 0, fields | {"value": value})])
        else:
            batches.append([NOTHING])
    return batches


@settings(max_examples=80, deadline=None)
@given(histories(), st.data())
def test_a_snapshot_is_the_state_of_its_prefix_of_the_log(
    history: list[list[Record]], data: st.DataObject
) -> None:
    log = Log()
    for records in history:
        log.append(records)
    cut = data.draw(st.integers(1, len(history)))
    loader = Loader(MetadataImage())
    loader.image.digest()
    committed(loader, *log.batches[:cut])
    end, epoch = loader.begin_snapshot(header(loader.image))
    # The log goes on while the snapshot is made.
    rest = list(log.batches[cut:])
    content = bytearray()
    while loader.generating is not None:
        content += loader.next_piece(data.draw(st.integers(1, 3))) or b""
        arriving = data.draw(st.integers(0, 1))
        committed(loader, *rest[:arriving])
        del rest[:arriving]
    committed(loader, *rest)
    verify(bytes(content), snapshot_name(end, epoch))

    other = Loader(MetadataImage())
    committed(other, *log.batches[: data.draw(st.integers(0, cut))])
    load(other, bytes(content), end, epoch, data.draw(st.integers(1, 5)))
    assert other.image == replayed(log.batches[:cut])
    committed(other, *log.batches[cut:])
    whole = replayed(log.batches)
    assert other.image == loader.image == whole
    assert other.image.digest() == loader.image.digest() == whole.digest()
    for broker in (-1, 1, 2, 3):
        assert set(other.image.partitions_of(broker)) == set(whole.partitions_of(broker))
        assert set(other.image.led_by(broker)) == set(whole.led_by(broker))

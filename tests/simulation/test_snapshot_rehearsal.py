"""I19: a snapshot is made again while its image changes."""

from __future__ import annotations

from typing import Any

import pytest

from kraftwreck.nodes.metadata import image_records_writing
from kraftwreck.nodes.metadata.image import MetadataImage
from kraftwreck.nodes.metadata.image_records_writing import write_image
from kraftwreck.nodes.metadata.snapshot import SnapshotBuilder
from kraftwreck.nodes.metadata.timeline import ABSENT, FrozenMap, TimelineMap
from kraftwreck.nodes.protocol.records import decode_record, encode_record
from kraftwreck.systems.kraft.simulated import snapshot_rehearsal, snapshot_watch
from kraftwreck.systems.kraft.simulated.snapshot_rehearsal import (
    FOREIGN,
    LEAST,
    Record,
    additions,
    made_again,
    made_by_bytes,
    removals,
)
from tests.metadata.test_image_round_trip import image_of, one_of_everything
from tests.simulation.watched import Watched

pytestmark = pytest.mark.interpreted

Patch = pytest.MonkeyPatch
SEEDS = range(40)


@pytest.fixture(scope="module")
def content() -> list[Record]:
    """The records of a snapshot with several topics, settings and brokers."""
    records = one_of_everything()[::-1]
    broker = dict(records[2][2])
    records[3:3] = [("RegisterBrokerRecord", 3, broker | {"broker_id": each}) for each in (2, 3)]
    for number in range(1, 6):
        name, topic_id = f"t{number}", bytes([number]) * 16
        records.append(("TopicRecord", 0, {"name": name, "topic_id": topic_id}))
        for partition in range(2):
            fields = {"partition_id": partition, "topic_id": topic_id, "replicas": [1, 2]}
            records.append(("PartitionRecord", 1, fields))
        fields = {"resource_type": 2, "resource_name": name, "name": "a", "value": "b"}
        records.append(("ConfigRecord", 0, fields))
    order = ["FeatureLevelRecord", "RegisterBrokerRecord", "RegisterControllerRecord",
             "TopicRecord", "PartitionRecord"]  # fmt: skip
    records.sort(key=lambda each: order.index(each[0]) if each[0] in order else len(order))
    written = [
        decode_record(encode_record(*each)) for each in write_image(image_of(records).stable)
    ]
    return [(kind, fields) for kind, _, fields in written]


def test_a_snapshot_has_the_image_of_when_it_began(content: list[Record]) -> None:
    assert len(removals(content)) > LEAST
    for seed in SEEDS:
        before, made = made_again(content, seed)
        assert made == before, seed


def test_pieces_of_few_bytes_have_the_whole_image(content: list[Record]) -> None:
    for seed in SEEDS:
        before, made = made_by_bytes(content, seed)
        assert made == before, seed


def test_a_snapshot_has_the_objects_that_other_controllers_make(monkeypatch: Patch) -> None:
    """The quota of all users without one of their own has no name."""
    before, made = made_by_bytes(FOREIGN, 0)
    assert made == before
    written = image_records_writing._quota

    def planted(key: Any, amount: float, version: int) -> dict[str, Any]:
        fields = written(key, amount, version)
        for each in fields["entity"]:
            each["entity_name"] = each["entity_name"] or ""
        return fields

    monkeypatch.setattr(image_records_writing, "_quota", planted)
    before, made = made_by_bytes(FOREIGN, 0)
    assert made != before


def test_a_piece_that_loses_the_record_after_it_breaks_i19(
    content: list[Record], monkeypatch: Patch
) -> None:
    next_piece = SnapshotBuilder.next_piece

    def loses(self: SnapshotBuilder, records: int = 1000, most_bytes: int = 1 << 18) -> Any:
        piece = next_piece(self, records, most_bytes)
        next(self._records or iter(()), None)
        return piece

    monkeypatch.setattr(SnapshotBuilder, "next_piece", loses)
    before, made = made_by_bytes(content, 0)
    assert made != before


def forgets_what_is_gone(patch: Patch) -> None:
    """The keys of a frozen map are those of the present one."""

    def keys(self: FrozenMap[Any, Any]) -> list[Any]:
        return list(self._map._head)

    patch.setattr(FrozenMap, "_keys", keys)


def has_what_comes(patch: Patch) -> None:
    """An object that was absent when the snapshot began has its present value."""

    def value(self: FrozenMap[Any, Any], key: Any) -> Any:
        found = self._changed.get(key, ABSENT)
        return self._map._stable_value(key) if found is ABSENT else found

    patch.setattr(FrozenMap, "_value", value)


def keeps_the_last_value(patch: Patch) -> None:
    """Of a key that changes twice the view keeps the value between."""

    def changed(self: TimelineMap[Any, Any], key: Any, old: Any, new: Any) -> None:
        if self._frozen is not None:
            self._frozen[key] = old

    patch.setattr(TimelineMap, "_stable_changed", changed)


@pytest.mark.parametrize("plant", [forgets_what_is_gone, has_what_comes, keeps_the_last_value])
def test_a_view_that_follows_changes_breaks_i19(
    plant: Any, content: list[Record], monkeypatch: Patch
) -> None:
    plant(monkeypatch)
    wrong = 0
    for seed in SEEDS:
        before, made = made_again(content, seed)
        wrong += made != before
    assert wrong


def test_new_objects_have_names_and_ids_of_their_own() -> None:
    topic_id = bytes(range(240, 256))
    assert additions(
        [
            ("TopicRecord", {"name": "a", "topic_id": topic_id}),
            ("ConfigRecord", {"resource_name": "a", "name": "b", "value": "c"}),
            ("RegisterBrokerRecord", {"broker_id": 3, "broker_epoch": 7}),
            ("RegisterControllerRecord", {"controller_id": 4}),
            ("FeatureLevelRecord", {"name": "d"}),
        ]
    ) == [
        ("TopicRecord", {"name": "a.new", "topic_id": bytes(range(15, -1, -1))}),
        ("ConfigRecord", {"resource_name": "a.new", "name": "b", "value": "c"}),
        ("RegisterBrokerRecord", {"broker_id": 10_003, "broker_epoch": 7}),
        ("RegisterControllerRecord", {"controller_id": 10_004}),
    ]


Step = int | tuple[Record, ...]
"""How many records a piece has at most, or the changes of an image."""


@pytest.fixture
def steps(monkeypatch: Patch) -> list[Step]:
    """The steps by which a snapshot is made again, with the largest numbers drawn."""
    found: list[Step] = []
    commit, next_piece = MetadataImage.commit, SnapshotBuilder.next_piece

    def committed(self: MetadataImage, offset: int, epoch: int, records: Any) -> None:
        found.append(tuple(records))
        commit(self, offset, epoch, records)

    def made(self: SnapshotBuilder, records: int) -> bytes | None:
        found.append(records)
        return next_piece(self, records)

    monkeypatch.setattr(MetadataImage, "commit", committed)
    monkeypatch.setattr(SnapshotBuilder, "next_piece", made)
    monkeypatch.setattr(snapshot_rehearsal, "draw_below", lambda most, seed, name: most - 1)
    return found


def test_the_image_changes_twice_after_at_most_half_of_its_records(
    content: list[Record], steps: list[Step]
) -> None:
    made_again(content, 1)
    half = len(content) // 2
    assert half > 6
    before, each = (half - 1) // 3 + 1, 3
    again = [record for record in content[:half] if record[0] != "ProducerIdsRecord"]
    assert steps[: before + 4] == [
        tuple(content),
        *[each] * before,
        tuple(removals(content)),
        each,
        (*again, *additions(content)),
    ]


def test_an_image_of_one_record_changes_after_the_first_piece(
    content: list[Record], steps: list[Step], monkeypatch: Patch
) -> None:
    def draw(most: int, seed: int, name: str) -> int:
        return most - 1 if name == "piece" else 0

    monkeypatch.setattr(snapshot_rehearsal, "draw_below", draw)
    broker = [record for record in content if record[0] == "RegisterBrokerRecord"][:1]
    made_again(broker, 1)
    assert steps[:5] == [tuple(broker), 1, tuple(removals(broker)), 1, tuple(additions(broker))]


@pytest.mark.parametrize(("objects", "again"), [(2, 0), (3, 2)])
def test_the_first_two_snapshots_with_objects_to_remove_are_made_again(
    objects: int, again: int, monkeypatch: Patch
) -> None:
    settings: list[Record] = [("ConfigRecord", {"name": str(each)}) for each in range(objects)]
    made: list[object] = []

    def planted(records: object, seed: int) -> tuple[str, str]:
        made.append(records)
        return "", ""

    monkeypatch.setattr(snapshot_watch, "_records", lambda content: settings)
    monkeypatch.setattr(snapshot_rehearsal, "made_again", planted)
    monkeypatch.setattr(snapshot_rehearsal, "made_by_bytes", lambda records, seed: ("", ""))
    run = Watched()
    run.commit(1, upto=6)
    for end in range(1, 6):
        run.make(1, end)
        run.told(1, end, hw=6)
    assert run.found == []
    assert made == [settings] * again

"""I19: a snapshot is made again while its image changes."""

from __future__ import annotations

from typing import Any

import pytest

from kraftwreck.nodes.metadata.image_records_writing import write_image
from kraftwreck.nodes.metadata.timeline import ABSENT, FrozenMap, TimelineMap
from kraftwreck.nodes.protocol.records import decode_record, encode_record
from kraftwreck.systems.kraft.simulated.snapshot_rehearsal import (
    LEAST,
    Record,
    made_again,
    removals,
)
from tests.metadata.test_image_round_trip import image_of, one_of_everything

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

"""Both layers of the image, and its indexes, against replaying everything from the start."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kraftwreck.nodes.metadata.image import MetadataImage

Records = list[tuple[str, dict[str, Any]]]
BEGIN, END, ABORT = "BeginTransactionRecord", "EndTransactionRecord", "AbortTransactionRecord"


def visible(batches: list[Records], head: bool) -> Records:
    """Return the records that count: not the aborted ones; those of an open transaction only
    in the head."""
    counted: Records = []
    begun: int | None = None
    for name, fields in (record for batch in batches for record in batch):
        if name == BEGIN:
            begun = len(counted)
        elif name == END:
            begun = None
        elif name == ABORT:
            del counted[begun:]
            begun = None
        else:
            counted.append((name, fields))
    return counted if head or begun is None else counted[:begun]


def replayed(batches: list[Records], head: bool) -> MetadataImage:
    image = MetadataImage()
    records = visible(batches, head)
    if records:
        image.commit(len(records) - 1, 1, records)
    return image


def topic_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


class Writer:
    """Writes batches that are legal after those before."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.created = 0

    def batch(self, batches: list[Records]) -> Records:
        image = replayed(batches, head=True)
        names = [name for batch in batches for name, _ in batch if name in (BEGIN, END, ABORT)]
        open_now = bool(names) and names[-1] == BEGIN
        kinds = ["create", "create", "change", "remove", "config", "nothing"]
        kinds += [END, ABORT] if open_now else [BEGIN]
        kind = self.data.draw(st.sampled_from(kinds))
        live = sorted(image.names)
        if kind == "create" or (kind in ("change", "remove") and not live):
            self.created += 1
            return self._topic(self.created)
        if kind == "change":
            fields = {
                "topic_id": self.data.draw(st.sampled_from(live)),
                "partition_id": 0,
                "leader": self.data.draw(st.integers(-2, 3)),
                "isr": self.data.draw(st.sampled_from([None, [1], [2, 3]])),
                "eligible_leader_replicas": self.data.draw(st.sampled_from([None, [], [1]])),
            }
            return [("PartitionChangeRecord", fields)]
        if kind == "remove":
            return [("RemoveTopicRecord", {"topic_id": self.data.draw(st.sampled_from(live))})]
        if kind == "config":
            value = self.data.draw(st.sampled_from([None, "1", "2"]))
            fields = {"resource_type": 4, "resource_name": "", "name": "a", "value": value}
            return [("ConfigRecord", fields)]
        if kind == "nothing":
            return [("NoOpRecord", {})]
        self.created += 1
        # Sometimes in one batch with records on either side.
        if self.data.draw(st.booleans()):
            return [(kind, {})]
        return [*self._topic(self.created), (kind, {}), ("NoOpRecord", {})]

    @staticmethod
    def _topic(number: int) -> Records:
        fields = {
            "partition_id": 0,
            "topic_id": topic_id(number),
            "replicas": [1, 2, 3],
            "isr": [1, 2],
            "leader": 1,
            "leader_epoch": 0,
            "partition_epoch": 0,
        }
        topic = {"name": f"t{number}", "topic_id": topic_id(number)}
        return [("TopicRecord", topic), ("PartitionRecord", fields)]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_both_layers_equal_a_replay(data: st.DataObject) -> None:
    image, writer = MetadataImage(), Writer(data)
    image.digest()
    committed: list[Records] = []
    pending: list[Records] = []
    epoch = 1
    for _ in range(data.draw(st.integers(1, 15))):
        step = data.draw(st.sampled_from(["propose", "propose", "commit", "revert", "other"]))
        if step == "propose":
            batch = writer.batch(committed + pending)
            image.propose(image.last_offset + len(batch), epoch, batch)
            pending.append(batch)
        elif step == "commit" and pending:
            batch = pending.pop(0)
            image.commit(image.committed_offset + len(batch), epoch, ())
            committed.append(batch)
        elif step == "revert":
            image.revert()
            pending.clear()
        elif step == "other":
            epoch += 1
            pending.clear()
            batch = writer.batch(committed)
            image.commit(image.committed_offset + len(batch), epoch, batch)
            committed.append(batch)
        whole, stable = replayed(committed + pending, True), replayed(committed, False)
        for name, of in image.maps.items():
            assert dict(of) == dict(whole.maps[name]), name
            assert dict(of.stable) == dict(stable.maps[name]), name
        assert image.digest() == stable.digest()
        for broker in (-1, 1, 2, 3):
            assert set(image.partitions_of(broker)) == set(whole.partitions_of(broker))
            assert set(image.led_by(broker)) == set(whole.led_by(broker))
        assert set(image.with_elr()) == set(whole.with_elr())
        assert set(image.imbalanced()) == set(whole.imbalanced())
        if not pending and not image.in_transaction:
            assert image.timeline.pending == 0
            assert image.stable_offset == image.last_offset == image.committed_offset

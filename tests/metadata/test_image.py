"""The metadata image: the meaning of records, equality, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from kraftwreck.nodes.consensus.effects import FatalError
from kraftwreck.nodes.metadata.image import MetadataImage, Partition
from kraftwreck.nodes.metadata.image_records import METADATA_VERSIONS, merged
from kraftwreck.nodes.metadata.operation import UNASSIGNED_DIRECTORY as UNASSIGNED
from kraftwreck.nodes.protocol.codec import ProtocolError
from kraftwreck.nodes.protocol.records import decode_record, encode_record

A, B = bytes(15) + b"\xaa", bytes(15) + b"\xbb"
Record = tuple[str, int, dict[str, Any]]


def decoded(*records: Record) -> list[tuple[str, dict[str, Any]]]:
    """Send records through their encoding, as a follower gets them."""
    found = []
    for record in records:
        name, _, fields = decode_record(encode_record(*record))
        found.append((name, fields))
    return found


def commit(image: MetadataImage, *records: Record) -> None:
    """Commit the records as the next batch."""
    image.commit(image.committed_offset + len(records), 1, decoded(*records))


def propose(image: MetadataImage, *records: Record) -> int:
    """Propose the records as the next batch; return its last offset."""
    offset = image.last_offset + len(records)
    image.propose(offset, 1, decoded(*records))
    return offset


def image_of(*records: Record) -> MetadataImage:
    image = MetadataImage()
    commit(image, *records)
    return image


def topic(name: str, topic_id: bytes) -> Record:
    return "TopicRecord", 0, {"name": name, "topic_id": topic_id}


def partition(topic_id: bytes, number: int = 0, **fields: Any) -> Record:
    base = {
        "partition_id": number,
        "topic_id": topic_id,
        "replicas": [1, 2, 3],
        "isr": [1, 2, 3],
        "leader": 1,
        "leader_epoch": 0,
        "partition_epoch": 0,
    }
    return "PartitionRecord", 2, base | fields


def change(topic_id: bytes, number: int = 0, **fields: Any) -> Record:
    return "PartitionChangeRecord", 2, {"partition_id": number, "topic_id": topic_id, **fields}


def config(name: str, value: str | None) -> Record:
    fields = {"resource_type": 2, "resource_name": "t", "name": name, "value": value}
    return "ConfigRecord", 0, fields


def removal(topic_id: bytes) -> Record:
    return "RemoveTopicRecord", 0, {"topic_id": topic_id}


NOTHING: Record = ("NoOpRecord", 0, {})
BEGIN: Record = ("BeginTransactionRecord", 0, {"name": "x"})
END: Record = ("EndTransactionRecord", 0, {})
ABORT: Record = ("AbortTransactionRecord", 0, {"reason": "y"})


def only_partition(image: MetadataImage) -> Partition:
    [value] = image.stable.partitions.values()
    return value


def test_the_order_of_independent_records_does_not_matter() -> None:
    one = image_of(topic("a", A), topic("b", B), partition(A), partition(B))
    two = image_of(topic("b", B), partition(B), topic("a", A), partition(A))
    assert one == two
    assert one.digest() == two.digest()


def test_images_that_differ_in_one_value_differ() -> None:
    one, two = image_of(config("retention.ms", "1")), image_of(config("retention.ms", "2"))
    assert one != two
    assert one.digest() != two.digest()
    assert one != "something else"


def test_one_batch_has_the_effect_of_its_records_one_by_one() -> None:
    records = [
        topic("t", A),
        partition(A),
        partition(A, 1, replicas=[3, 1], isr=[3], leader=3),
        topic("u", B),
        partition(B),
        partition(A, 2),
        partition(A, 2, leader_epoch=4, partition_epoch=4),
        config("k", "v"),
        partition(A, 3),
        change(A, 3, leader=2),
        partition(B, 1),
    ]
    together, apart, proposed = image_of(*records), MetadataImage(), MetadataImage()
    for record in records:
        commit(apart, record)
    propose(proposed, *records)
    commit(proposed, *records)
    assert together == apart == proposed
    for image in (together, apart, proposed):
        assert image.digest() == apart.digest()
        assert [each.partitions for each in image.stable.topics.values()] == [4, 2]
        assert image.partition_ids(image.topics["t"]) == range(4)


def test_records_of_like_partitions_are_read_apart() -> None:
    [(_, first), (_, second)] = decoded(partition(A, 1), partition(B, 2))
    assert (first["partition_id"], first["topic_id"]) == (1, A)
    assert (second["partition_id"], second["topic_id"]) == (2, B)
    first["leader"] = 9
    [(_, third)] = decoded(partition(A, 3))
    assert second["leader"] == third["leader"] == 1
    whole = encode_record(*partition(A, 1))
    for damaged in (
        whole[:10],
        whole[:30],
        whole[:-1],
        whole + b"\0",
        whole[:2] + b"\7" + whole[3:],
    ):
        with pytest.raises(ProtocolError):
            decode_record(damaged)


def test_noop_records_and_the_position_are_not_part_of_the_state() -> None:
    one, two = image_of(topic("t", A)), image_of(topic("t", A), NOTHING)
    two.advance(17, 3)
    assert one == two
    assert one.digest() == two.digest()


def test_the_digest_is_the_same_on_every_interpreter() -> None:
    image = image_of(topic("t", A), partition(A), config("retention.ms", "1"))
    assert image.digest() == "2250ea1fd3a02382a60088505b0aef1b"
    assert MetadataImage().digest() == "0" * 32


def test_the_digest_is_kept_with_every_change() -> None:
    records = [
        *(topic("t", A), partition(A), config("retention.ms", "1"), change(A, isr=[1])),
        *(config("retention.ms", "2"), topic("u", B), removal(A)),
    ]
    kept = MetadataImage()
    kept.digest()
    for end, record in enumerate(records, 1):
        commit(kept, record)
        assert kept.digest() == image_of(*records[:end]).digest()


def test_removing_a_topic_removes_its_partitions_and_configs() -> None:
    image = image_of(topic("t", A), partition(A), config("retention.ms", "1"), removal(A))
    assert image == MetadataImage()


def test_a_null_value_unsets_a_config() -> None:
    assert image_of(config("retention.ms", "1"), config("retention.ms", None)) == MetadataImage()


def test_a_partition_change_touches_only_its_fields() -> None:
    after = only_partition(image_of(topic("t", A), partition(A), change(A, isr=[2, 3])))
    assert after.isr == (2, 3)
    assert after.replicas == (1, 2, 3)
    assert (after.leader, after.leader_epoch, after.partition_epoch) == (1, 0, 1)


def test_naming_the_leader_again_still_bumps_the_leader_epoch() -> None:
    after = only_partition(image_of(topic("t", A), partition(A), change(A, leader=1)))
    assert (after.leader, after.leader_epoch, after.partition_epoch) == (1, 1, 1)


def test_unknown_directories_are_migrating_for_every_replica() -> None:
    told = partition(A, directories=[bytes(16)] * 3)
    assert image_of(topic("t", A), partition(A)) == image_of(topic("t", A), told)
    after = only_partition(image_of(topic("t", A), partition(A), change(A, replicas=[1, 2, 3, 4])))
    assert after.directories == (bytes(16),) * 4


def test_clearing_the_eligible_leaders_of_one_topic_or_all() -> None:
    both: dict[str, Any] = {"eligible_leader_replicas": [2], "last_known_elr": [3]}
    start = (topic("t", A), topic("u", B), partition(A, 0, **both), partition(B, 0, **both))
    one = image_of(*start, ("ClearElrRecord", 0, {"topic_name": "t"}))
    assert one.partitions[A, 0].elr == one.partitions[A, 0].last_known_elr == ()
    assert one.partitions[A, 0].partition_epoch == 1
    assert one.partitions[B, 0].elr == (2,)
    everything = image_of(*start, ("ClearElrRecord", 0, {"topic_name": ""}))
    assert not everything.with_elr()


def test_broker_records_of_other_tools_are_understood() -> None:
    register = {"broker_id": 7, "broker_epoch": 5, "incarnation_id": A, "fenced": True}
    changed = {"broker_id": 7, "broker_epoch": 5, "fenced": -1, "log_dirs": [B]}
    image = image_of(
        ("RegisterBrokerRecord", 3, register | {"log_dirs": [A, B]}),
        ("BrokerRegistrationChangeRecord", 2, changed),
    )
    assert not image.brokers[7].fenced
    assert image.brokers[7].log_dirs == (B,)
    commit(image, ("UnregisterBrokerRecord", 0, {"broker_id": 7, "broker_epoch": 5}))
    assert image == MetadataImage()


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (("SomethingNewRecord", {}), "not supported"),
        (("RemoveTopicRecord", {"topic_id": B}), "unknown topic id"),
        (("PartitionRecord", {"topic_id": B, "partition_id": 0}), "unknown topic id"),
        (("TopicRecord", {"name": "t", "topic_id": B}), "exists already"),
        (("TopicRecord", {"name": "u", "topic_id": A}), "exists already"),
        (("FenceBrokerRecord", {"id": 9, "epoch": 1}), "unknown broker 9"),
        (("ProducerIdsRecord", {"next_producer_id": 1000}), "went back"),
        (("ClearElrRecord", {"topic_name": "u"}), "unknown topic u"),
        (("RemoveAccessControlEntryRecord", {"id": A}), "does not exist"),
        (("RemoveUserScramCredentialRecord", {"name": "eve", "mechanism": 1}), "eve"),
        (("EndTransactionRecord", {}), "without a transaction"),
        (("AbortTransactionRecord", {}), "without a transaction"),
        (
            ("PartitionChangeRecord", {"topic_id": A, "partition_id": 4}),
            "unknown partition t-4",
        ),
        (
            ("PartitionChangeRecord", {"topic_id": A, "partition_id": 0, "directories": [B]}),
            "3 replicas in 1 directories",
        ),
        (("FeatureLevelRecord", {"name": "metadata.version", "feature_level": 28}), "7 to 27"),
        (("FeatureLevelRecord", {"name": "metadata.version", "feature_level": 0}), "7 to 27"),
    ],
)
def test_unrepresentable_records_are_fatal(record: tuple[str, dict[str, Any]], reason: str) -> None:
    producers = ("ProducerIdsRecord", 0, {"broker_id": 1, "next_producer_id": 1000})
    image = image_of(topic("t", A), partition(A), producers)
    with pytest.raises(FatalError, match=reason):
        image.commit(3, 1, [record])


def test_the_position_never_goes_back() -> None:
    image = MetadataImage()
    image.advance(4, 2)
    with pytest.raises(FatalError, match="went back"):
        image.advance(4, 2)
    with pytest.raises(FatalError, match="went back"):
        image.advance(5, 1)


# --- proposals --------------------------------------------------------------------------


def test_a_proposal_is_in_the_head_only_until_it_is_committed() -> None:
    image = image_of(topic("t", A))
    offset = propose(image, topic("u", B), partition(B))
    assert list(image.topics) == ["t", "u"]
    assert list(image.stable.topics) == ["t"]
    assert (image.last_offset, image.stable_offset) == (2, 0)
    assert image.is_proposed(offset, 1)
    image.commit(offset, 1, ())
    assert list(image.stable.topics) == ["t", "u"]
    assert image.stable.last_offset == 2
    assert image.timeline.pending == 0


def test_proposals_are_committed_one_by_one() -> None:
    image = MetadataImage()
    first, second = propose(image, topic("t", A)), propose(image, topic("u", B))
    image.commit(first, 1, ())
    assert (list(image.stable.topics), list(image.topics)) == (["t"], ["t", "u"])
    image.commit(second, 1, ())
    assert list(image.stable.topics) == ["t", "u"]


def test_a_revert_brings_the_committed_state_back() -> None:
    image = image_of(topic("t", A), partition(A))
    before = dict(image.partitions)
    propose(image, change(A, leader=2))
    propose(image, removal(A), topic("t", B))
    image.revert()
    assert dict(image.partitions) == before
    assert list(image.led_by(1)) == [(A, 0)]
    assert not image.led_by(2)
    assert image.last_offset == 1
    assert image.timeline.pending == 0


def test_a_proposal_that_fails_half_way_can_be_reverted() -> None:
    image = MetadataImage()
    with pytest.raises(FatalError):
        propose(image, topic("t", A), topic("t", A))
    image.revert()
    assert not image.topics


@pytest.mark.parametrize("offset", [0, 1, 5])
def test_another_leaders_batch_reverts_all_proposals(offset: int) -> None:
    image = MetadataImage()
    propose(image, topic("t", A))
    propose(image, topic("u", B))
    image.commit(offset, 2, decoded(topic("other", A)))
    assert list(image.topics) == list(image.stable.topics) == ["other"]


def test_a_control_batch_between_proposals_leaves_them_alone() -> None:
    image = MetadataImage()
    image.propose(1, 1, decoded(topic("t", A)))
    image.advance(0, 1)
    assert (image.stable_offset, image.last_offset) == (0, 1)
    assert list(image.topics) == ["t"]
    assert not image.stable.topics


def test_records_of_this_epoch_that_were_never_proposed_are_fatal() -> None:
    image = MetadataImage()
    image.propose(5, 1, decoded(topic("t", A)))
    with pytest.raises(FatalError, match="never proposed"):
        image.commit(0, 1, decoded(topic("u", B)))
    with pytest.raises(FatalError, match="never proposed"):
        image.advance(6, 1)


# --- metadata transactions --------------------------------------------------------------


def test_a_transaction_becomes_visible_as_a_whole() -> None:
    image = image_of(topic("t", A))
    commit(image, BEGIN, topic("u", B))
    commit(image, partition(B))
    assert list(image.stable.topics) == ["t"]
    assert (image.stable_offset, image.committed_offset) == (0, 3)
    assert image.in_transaction
    commit(image, END)
    assert list(image.stable.topics) == ["t", "u"]
    assert image.stable_offset == image.committed_offset == 4
    assert not image.in_transaction


def test_records_before_a_transaction_in_its_batch_are_visible() -> None:
    image = image_of(topic("t", A), BEGIN, topic("u", B))
    assert list(image.stable.topics) == ["t"]
    assert image.stable_offset == 0
    commit(image, ABORT, topic("v", B))
    assert list(image.stable.topics) == list(image.topics) == ["t", "v"]


def test_an_aborted_transaction_leaves_nothing() -> None:
    image = image_of(topic("t", A), partition(A))
    before = image.digest()
    commit(image, BEGIN, change(A, leader=2), removal(A), topic("t", B))
    commit(image, ABORT)
    assert image.digest() == before
    assert list(image.led_by(1)) == [(A, 0)]


def test_a_proposed_abort_that_is_lost_gives_the_transaction_back() -> None:
    image = image_of(BEGIN, topic("t", A))
    assert image.head_in_transaction
    propose(image, ABORT)
    propose(image, topic("other", B))
    assert (list(image.topics), image.head_in_transaction) == (["other"], False)
    image.revert()
    assert (list(image.topics), image.head_in_transaction) == (["t"], True)
    image.commit(2, 2, decoded(END))
    assert list(image.stable.topics) == ["t"]


def test_a_proposed_transaction_is_committed_piece_by_piece() -> None:
    image = MetadataImage()
    offsets = [propose(image, record) for record in (BEGIN, topic("t", A), END)]
    for offset in offsets[:2]:
        image.commit(offset, 1, ())
        assert not image.stable.topics
    image.commit(offsets[2], 1, ())
    assert list(image.stable.topics) == ["t"]
    assert image.timeline.pending == 0


def test_transactions_do_not_nest() -> None:
    with pytest.raises(FatalError, match="inside another"):
        image_of(BEGIN, BEGIN)


def test_no_snapshot_is_taken_inside_a_transaction() -> None:
    image = image_of(BEGIN)
    with pytest.raises(FatalError, match="transaction"):
        image.freeze()


# --- indexes ----------------------------------------------------------------------------


@pytest.mark.parametrize("indexed", [True, False])
def test_partitions_are_found_by_broker(indexed: bool) -> None:
    image = MetadataImage(indexed)
    commit(
        image,
        topic("t", A),
        partition(A, 0),
        partition(A, 1, isr=[2], leader=2),
        partition(A, 2, isr=[], leader=-1, eligible_leader_replicas=[3]),
    )
    assert list(image.partitions_of(1)) == [(A, 0)]
    assert list(image.partitions_of(2)) == [(A, 0), (A, 1)]
    assert list(image.partitions_of(3)) == [(A, 0), (A, 2)]
    assert list(image.led_by(2)) == [(A, 1)]
    assert list(image.leaderless()) == list(image.with_elr()) == [(A, 2)]
    assert list(image.imbalanced()) == [(A, 1), (A, 2)]
    propose(image, change(A, 2, leader=3, isr=[3], eligible_leader_replicas=[]))
    assert not image.leaderless()
    assert list(image.led_by(3)) == [(A, 2)]
    assert not image.with_elr()
    image.revert()
    assert list(image.leaderless()) == [(A, 2)]
    commit(image, removal(A))
    assert not any(image.partitions_of(broker) for broker in (-1, 1, 2, 3))


def test_a_gap_in_the_partitions_is_fatal_when_it_matters() -> None:
    with pytest.raises(FatalError, match="t-0 is missing"):
        image_of(topic("t", A), partition(A, 1), removal(A))


def test_brokers_follow_controllers_of_newer_releases_which_ours_do_not_lead() -> None:
    from kraftwreck.nodes.broker.lifecycle import FEATURES
    from kraftwreck.nodes.metadata.features import SUPPORTED_FEATURES

    (_, most_led), (_, most) = SUPPORTED_FEATURES["metadata.version"], METADATA_VERSIONS
    assert most_led < most
    assert FEATURES["metadata.version"] == METADATA_VERSIONS
    record = ("FeatureLevelRecord", 0, {"name": "metadata.version", "feature_level": most})
    commit(MetadataImage(indexed=False), record)
    with pytest.raises(FatalError, match=f"metadata.version {most} is not supported"):
        commit(MetadataImage(), record)


def test_replicas_in_another_order_keep_their_directories() -> None:
    """A record omits directories that do not change. Two changes in one batch build on each other,
    and must be those of the image."""
    image = image_of(topic("t", A), partition(A, directories=[UNASSIGNED] * 3))
    old = image.partitions[A, 0]
    record = change(A, replicas=[3, 2, 1])
    assert merged(old, record[2]).directories == (UNASSIGNED,) * 3
    image.commit(3, 1, [(record[0], record[2])])
    assert image.partitions[A, 0] == merged(old, record[2])

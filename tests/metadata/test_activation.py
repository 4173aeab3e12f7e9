"""Records that a controller writes when it claims, also after a log with an incomplete end."""

from __future__ import annotations

from typing import Any

import pytest

from kraftwreck.nodes.consensus.effects import FatalError
from kraftwreck.nodes.log.batch import encode_batch
from kraftwreck.nodes.metadata import controller as controller_module
from kraftwreck.nodes.metadata import periodic
from kraftwreck.nodes.metadata.operation import Outcome, Record
from kraftwreck.nodes.protocol.records import encode_record

BEGIN, END, ABORT = "BeginTransactionRecord", "EndTransactionRecord", "AbortTransactionRecord"
LEVEL, CONFIG, TOPIC = "FeatureLevelRecord", "ConfigRecord", "TopicRecord"
MV, ELR = "metadata.version", "eligible.leader.replicas.version"


def level_record(name: str, level: int) -> tuple[str, int, dict[str, Any]]:
    return (LEVEL, 0, {"name": name, "feature_level": level})


def leftover(rig: Any, *records: tuple[str, dict[str, Any]], epoch: int = 1) -> None:
    """Commit a predecessor's batch."""
    values = [(None, encode_record(name, 0, fields)) for name, fields in records]
    rig.deliver(encode_batch(rig.quorum.log_end, epoch, 0, values, False))


@pytest.mark.parametrize(("level", "transaction"), [(12, False), (13, True), (27, True)])
def test_an_empty_log_begins_with_the_bootstrap_records(
    make_rig: Any, level: int, transaction: bool
) -> None:
    rig = make_rig(bootstrap=[level_record(MV, level)])
    rig.lead()
    assert rig.since(0) == ([BEGIN, LEVEL, END] if transaction else [LEVEL])
    assert dict(rig.image.stable.features) == {MV: level}


def test_a_bootstrap_without_a_metadata_version_gets_the_default(make_rig: Any) -> None:
    config = {"resource_type": 4, "resource_name": "", "name": "num.io.threads", "value": "5"}
    rig = make_rig(bootstrap=[(CONFIG, 0, config)])
    rig.lead()
    assert rig.since(0) == [BEGIN, LEVEL, CONFIG, END]
    assert dict(rig.image.stable.features) == {MV: 25}


def test_a_cluster_with_elr_begins_with_its_minimum(make_rig: Any) -> None:
    rig = make_rig(bootstrap=[level_record(MV, 25), level_record(ELR, 1)], min_insync_replicas=2)
    rig.lead()
    assert rig.image.stable.configs[4, ""] == {"min.insync.replicas": "2"}


def test_an_open_transaction_is_aborted(rig: Any, make_rig: Any) -> None:
    topic = (TOPIC, {"name": "t", "topic_id": bytes(15) + b"\xff"})
    leftover(rig, (BEGIN, {"name": "x"}), topic)
    stable = rig.image.stable_offset
    rig.follow(2, 2)
    assert "t" not in rig.image.stable.topics
    mark = len(rig.records())
    rig.lead(3)
    assert rig.since(mark) == [ABORT]
    assert "t" not in rig.image.topics and "t" not in rig.image.stable.topics
    assert rig.image.stable_offset > stable
    assert rig.topics() == []
    other = make_rig()
    for batch in rig.committed_batches:
        other.deliver(batch)
    assert other.image == rig.image


def test_a_bootstrap_that_was_cut_off_is_done_again(make_rig: Any) -> None:
    rig = make_rig(bootstrap=[level_record(MV, 25), level_record(ELR, 1)], min_insync_replicas=2)
    minimum = {
        "resource_type": 4,
        "resource_name": "",
        "name": "min.insync.replicas",
        "value": "3",
    }
    leftover(rig, (BEGIN, {}), (LEVEL, level_record(MV, 20)[2]), (CONFIG, minimum))
    mark = len(rig.records())
    rig.lead(2)
    assert rig.since(mark) == [ABORT, BEGIN, LEVEL, LEVEL, CONFIG, END]
    assert dict(rig.image.stable.features) == {MV: 25, ELR: 1}
    assert rig.image.stable.configs[4, ""] == {"min.insync.replicas": "2"}


def test_a_claim_costs_nothing_that_grows_with_the_metadata(
    rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.create("t", num_partitions=50)
    rig.start(1, 2)
    rig.follow(2, 2)

    def iterated(self: Any) -> Any:
        raise AssertionError("a claim goes through the image")

    with monkeypatch.context() as patch:
        for of in rig.image.maps.values():
            patch.setattr(type(of), "__iter__", iterated)
        rig.quorum.epoch, rig.quorum.leader_id = 3, 1
        rig.controller.leader_changed(1, 3, rig.now)
    assert rig.controller.is_active


@pytest.mark.interpreted
def test_a_task_that_fails_unexpectedly_costs_the_leadership(
    rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KAFKA-13104."""
    rig.start(1)
    token = rig.ask("CreateTopics", 7, rig.creation("t"))

    def broken(context: Any) -> Any:
        raise KeyError("defect")

    monkeypatch.setattr(periodic, "fence_stalest", broken)
    rig.wait(1200)
    assert rig.quorum.resigned == [1]
    assert not rig.controller.is_active
    assert "t" not in rig.image.topics, "the head is the committed state again"
    assert rig.answers[token]["topics"][0]["error_code"] == 7


def test_records_the_leader_cannot_apply_are_fatal_and_never_appended(
    rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KAFKA-14275."""
    record = ("RemoveTopicRecord", 0, {"topic_id": bytes(16)})
    monkeypatch.setitem(
        controller_module.WRITES, "CreateTopics", lambda *_: Outcome([record], {"topics": []})
    )
    with pytest.raises(FatalError):
        rig.ask("CreateTopics", 7, rig.creation("t"))
    assert not rig.quorum.uncommitted


def test_more_than_a_batch_holds_is_split_unless_it_is_atomic(
    rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    records: list[Record] = [("NoOpRecord", 0, {})] * 10_001
    answer: dict[str, Any] = {"topics": []}

    def outcome(atomic: bool) -> Any:
        return lambda *_: Outcome(records, answer, atomic=atomic)

    monkeypatch.setitem(controller_module.WRITES, "CreateTopics", outcome(atomic=False))
    token = rig.ask("CreateTopics", 7, rig.creation("t"))
    first, second = rig.quorum.uncommitted
    rig.quorum.uncommitted = [second]
    rig.deliver(first)
    assert not rig.answered(token), "all of it must be committed"
    rig.commit()
    assert rig.answered(token)
    monkeypatch.setitem(controller_module.WRITES, "CreateTopics", outcome(atomic=True))
    token = rig.ask("CreateTopics", 7, rig.creation("t"))
    assert rig.answers[token]["topics"][0]["error_code"] == -1
    assert rig.quorum.resigned == [1]


def test_preferred_leaders_get_their_partitions_back(make_rig: Any) -> None:
    rig = make_rig(leader_imbalance_check_interval_seconds=5)
    rig.lead()
    rig.start(1, 2)
    rig.create("t", num_partitions=4, replication_factor=2)
    first = {key: p.replicas[0] for key, p in rig.image.partitions.items()}
    rig.heartbeat(1, want_fence=True)
    rig.heartbeat(1)
    for (topic_id, number), partition in list(rig.image.partitions.items()):
        change = {
            "partition_index": number,
            "leader_epoch": partition.leader_epoch,
            "partition_epoch": partition.partition_epoch,
            "new_isr_with_epochs": [{"broker_id": 1}, {"broker_id": 2}],
        }
        topic = {"topic_id": topic_id, "partitions": [change]}
        epoch = rig.image.brokers[2].epoch
        rig.call("AlterPartition", 3, {"broker_id": 2, "broker_epoch": epoch, "topics": [topic]})
    assert {p.leader for p in rig.image.partitions.values()} == {2}
    rig.wait(5000)
    rig.commit()
    assert {key: p.leader for key, p in rig.image.partitions.items()} == first


@pytest.mark.parametrize("allowed", ["true", "false"])
def test_topics_that_permit_it_get_any_leader_after_a_while(make_rig: Any, allowed: str) -> None:
    rig = make_rig(unclean_leader_election_interval_ms=5000)
    rig.lead()
    rig.start(1, 2)
    rig.create("t", num_partitions=1, replication_factor=2)
    rig.heartbeat(1, want_fence=True)
    rig.heartbeat(2, want_fence=True)
    rig.heartbeat(1)
    assert rig.image.leaderless()
    rig.alter("t", "unclean.leader.election.enable", 0, allowed)
    rig.wait(5000)
    rig.commit()
    [partition] = rig.image.partitions.values()
    assert (partition.leader, partition.isr) == ((1, (1,)) if allowed == "true" else (-1, (2,)))

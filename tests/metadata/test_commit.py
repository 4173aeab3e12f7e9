"""The controller answers after the commit, or with an error if there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraftwreck.nodes.consensus.effects import FatalError
from kraftwreck.nodes.log.batch import encode_batch
from kraftwreck.nodes.metadata import controller as controller_module
from kraftwreck.nodes.metadata.operation import Outcome
from kraftwreck.nodes.protocol.records import encode_record

NOT_CONTROLLER, TIMED_OUT, EXISTS, UNKNOWN = 41, 7, 36, -1
ALL = {"topics": None}


def code(answer: dict[str, Any]) -> int:
    part = answer.get("topics") or answer.get("responses") or answer.get("results")
    assert part is not None
    result: int = part[0]["error_code"]
    return result


def test_the_first_leader_bootstraps_the_metadata_version_once(rig: Any) -> None:
    assert rig.records() == [
        ("BeginTransactionRecord", {"name": "Bootstrap records"}),
        ("FeatureLevelRecord", {"name": "metadata.version", "feature_level": 25}),
        ("EndTransactionRecord", {}),
    ]
    rig.follow(2, 2)
    rig.lead(3)
    assert len(rig.records()) == 3


def test_a_write_is_answered_only_when_it_is_committed(rig: Any) -> None:
    token = rig.ask("CreateTopics", 7, rig.creation("t"))
    assert not rig.answered(token)
    assert "t" not in rig.controller.image.stable.topics
    rig.commit()
    assert code(rig.answers[token]) == 0
    assert "t" in rig.controller.image.stable.topics


def test_one_request_is_one_atomic_batch(rig: Any) -> None:
    rig.ask("CreateTopics", 7, rig.creation("a", "b", num_partitions=3, replication_factor=2))
    assert len(rig.quorum.uncommitted) == 1


def test_a_refusal_waits_for_the_uncommitted_state_it_is_based_on(rig: Any) -> None:
    first = rig.ask("CreateTopics", 7, rig.creation("t"))
    second = rig.ask("CreateTopics", 7, rig.creation("t"))
    rig.wait(5)
    assert not rig.answered(second)
    rig.commit()
    assert (code(rig.answers[first]), code(rig.answers[second])) == (0, EXISTS)


def test_a_refusal_needs_proof_of_leadership_even_with_nothing_pending(rig: Any) -> None:
    rig.create("t")
    token = rig.ask("CreateTopics", 7, rig.creation("t"))
    rig.commit()
    assert not rig.answered(token)
    rig.wait(5)
    rig.commit()
    assert code(rig.answers[token]) == EXISTS


def test_a_set_to_the_present_value_is_not_acknowledged_by_a_deposed_leader(rig: Any) -> None:
    rig.create("t")
    rig.alter("t", "retention.ms", 0, "5")
    token = rig.ask("IncrementalAlterConfigs", 1, rig.alteration("t", "retention.ms", 0, "5"))
    rig.wait(5)
    rig.follow(2, 2)
    rig.collect()
    assert code(rig.answers[token]) == NOT_CONTROLLER


def test_uncommitted_records_are_not_read(rig: Any) -> None:
    rig.create("a")
    read = rig.ask("Metadata", 12, ALL)
    rig.wait(5)
    rig.ask("CreateTopics", 7, rig.creation("b"))
    barrier, creation = rig.quorum.uncommitted
    rig.quorum.uncommitted = [creation]
    rig.deliver(barrier)
    assert [t["name"] for t in rig.answers[read]["topics"]] == ["a"]


def test_reads_wait_for_a_record_that_is_younger_than_they_are(rig: Any) -> None:
    rig.ask("CreateTopics", 7, rig.creation("t"))
    read = rig.ask("Metadata", 12, ALL)
    rig.commit()
    assert not rig.answered(read), "the creation was appended before the read arrived"
    rig.wait(5)
    assert not rig.answered(read), "the barrier is appended, not committed"
    rig.commit()
    assert [t["name"] for t in rig.answers[read]["topics"]] == ["t"]


def test_reads_that_wait_together_share_one_barrier(rig: Any) -> None:
    before = len(rig.records())
    reads = [rig.ask("Metadata", 12, ALL) for _ in range(10)]
    rig.wait(5)
    rig.commit()
    assert all(map(rig.answered, reads))
    assert [name for name, _ in rig.records()[before:]] == ["NoOpRecord"]


def test_a_write_serves_as_the_barrier_of_reads_that_came_before_it(rig: Any) -> None:
    read = rig.ask("Metadata", 12, ALL)
    rig.ask("CreateTopics", 7, rig.creation("t"))
    rig.commit()
    assert [t["name"] for t in rig.answers[read]["topics"]] == ["t"]
    rig.wait(5)
    assert not rig.quorum.uncommitted


def test_an_idle_leader_appends_a_noop_every_half_second(rig: Any) -> None:
    for _ in range(3):
        rig.wait(499)
        assert not rig.quorum.uncommitted
        rig.wait(1)
        assert len(rig.quorum.uncommitted) == 1
        rig.commit()
    assert [name for name, _ in rig.records()[3:]] == ["NoOpRecord"] * 3


def test_an_idle_leader_without_an_interval_appends_nothing(make_rig: Any) -> None:
    rig = make_rig(max_idle_ms=0)
    rig.lead()
    rig.wait(3_600_000)
    assert not rig.quorum.uncommitted


def test_a_follower_is_idle(follower: Any) -> None:
    assert follower.controller.deadline > 10**15
    follower.wait(10_000)
    assert follower.quorum.uncommitted == []


def test_a_follower_certainly_does_nothing(follower: Any) -> None:
    created = follower.ask("CreateTopics", 7, follower.creation("t"))
    deleted = follower.ask("DeleteTopics", 6, {"topics": [{"name": "t"}]})
    altered = follower.ask(
        "IncrementalAlterConfigs", 1, follower.alteration("t", "retention.ms", 0, "1")
    )
    described = follower.ask(
        "DescribeConfigs", 4, {"resources": [{"resource_type": 2, "resource_name": "t"}]}
    )
    for token in (created, deleted, altered, described):
        assert code(follower.answers[token]) == NOT_CONTROLLER


def test_an_appended_write_is_indeterminate_when_leadership_is_lost(rig: Any) -> None:
    token = rig.ask("CreateTopics", 7, rig.creation("t"))
    rig.follow(2, 2)
    rig.collect()
    assert code(rig.answers[token]) == TIMED_OUT


def test_pending_reads_are_refused_when_leadership_is_lost(rig: Any) -> None:
    old = rig.ask("Metadata", 12, ALL)
    new = rig.ask("Metadata", 13, ALL)
    configs = rig.ask(
        "DescribeConfigs", 4, {"resources": [{"resource_type": 4, "resource_name": ""}]}
    )
    rig.follow(2, 2)
    rig.collect()
    assert rig.answers[old]["controller_id"] == 2, "no error field: told as a follower tells"
    assert rig.answers[new]["error_code"] == NOT_CONTROLLER
    assert code(rig.answers[configs]) == NOT_CONTROLLER


@pytest.mark.parametrize("version", [12, 13])
def test_a_read_that_times_out_is_never_called_linearizable(rig: Any, version: int) -> None:
    rig.create("t")
    read = rig.ask("Metadata", version, ALL)
    rig.wait(30_000)
    answer = rig.answers[read]
    assert answer["controller_id"] != 1
    assert answer["error_code"] == (TIMED_OUT if version == 13 else 0)


def test_reads_overtaken_by_another_leader_are_not_called_linearizable(rig: Any) -> None:
    read = rig.ask("Metadata", 12, ALL)
    rig.wait(5)
    noop = (None, encode_record("NoOpRecord", 0, {}))
    rig.deliver(encode_batch(rig.quorum.high_watermark, 2, 0, [noop], False))
    assert rig.answers[read]["controller_id"] == -1
    assert not rig.controller.is_active


def test_uncommitted_state_is_forgotten_with_the_leadership(rig: Any) -> None:
    rig.ask("CreateTopics", 7, rig.creation("t"))
    rig.follow(2, 2)
    rig.lead(3)
    assert rig.topics() == []
    assert code(rig.create("t")) == 0


def test_another_leaders_batch_at_the_same_offset_is_no_acknowledgement(rig: Any) -> None:
    token = rig.ask("CreateTopics", 7, rig.creation("t"))
    offset = rig.quorum.high_watermark
    noop = (None, encode_record("NoOpRecord", 0, {}))
    rig.deliver(encode_batch(offset, 2, 0, [noop] * 5, False))
    assert code(rig.answers[token]) == TIMED_OUT


def test_a_leader_that_lost_its_epoch_before_appending_has_done_nothing(rig: Any) -> None:
    rig.quorum.epoch = 2  # deposed, but not told yet
    token = rig.ask("CreateTopics", 7, rig.creation("t"))
    assert code(rig.answers[token]) == NOT_CONTROLLER
    assert not rig.controller.is_active


def test_a_request_times_out_after_its_own_time(rig: Any) -> None:
    token = rig.ask("CreateTopics", 7, {**rig.creation("t"), "timeout_ms": 300})
    rig.wait(299)
    assert not rig.answered(token)
    assert rig.controller.deadline == rig.now + 1000
    rig.wait(1)
    assert code(rig.answers[token]) == TIMED_OUT
    rig.commit()
    assert rig.topics() == ["t"], "a time-out says nothing about the outcome"


def test_a_defect_in_a_write_gives_up_the_leadership(
    rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(context: Any, version: int, body: Any) -> Outcome:
        raise KeyError("defect")

    monkeypatch.setitem(controller_module.WRITES, "CreateTopics", broken)
    token = rig.ask("CreateTopics", 7, rig.creation("t"))
    assert code(rig.answers[token]) == UNKNOWN
    assert rig.quorum.resigned == [1]
    [(kind, detail)] = rig.controller.take_notes()
    assert kind == "controller-error"
    assert "defect" in detail["error"]


def test_records_that_cannot_be_applied_are_fatal(make_rig: Callable[[], Any]) -> None:
    for value in (b"", b"\x01\x63\x00", encode_record("RemoveTopicRecord", 0, {})):
        node = make_rig()
        with pytest.raises(FatalError):
            node.deliver(encode_batch(0, 1, 0, [(None, value)], False))
    with pytest.raises(FatalError):
        make_rig().deliver(encode_batch(0, 1, 0, [(b"", None)], False))


def test_followers_reach_the_same_image_as_the_leader(
    rig: Any, make_rig: Callable[[], Any]
) -> None:
    rig.create("a", "b", num_partitions=4, replication_factor=3)
    rig.alter("a", "retention.ms", 0, "1")
    rig.delete("b")
    other = make_rig()
    for batch in rig.committed_batches:
        other.deliver(batch)
    assert other.controller.image == rig.controller.image
    assert other.controller.image.digest() == rig.controller.image.digest()
    assert other.controller.image.last_offset == rig.quorum.high_watermark - 1


def test_the_same_requests_give_the_same_log(make_rig: Callable[[], Any]) -> None:
    logs = []
    for _ in range(2):
        node = make_rig()
        node.lead()
        node.create("a", "b", num_partitions=4, replication_factor=2)
        logs.append(node.committed_batches)
    assert logs[0] == logs[1]

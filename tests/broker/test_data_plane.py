"""The data plane of a broker: the image, the controller and addresses, joined to the core."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftwreck.nodes.broker.image_changes import ImageChanges
from kraftwreck.nodes.consensus.effects import FatalError
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.metadata.image import MetadataImage
from kraftwreck.nodes.protocol.errors import NOT_ENOUGH_REPLICAS
from kraftwreck.nodes.replication import effects as out
from kraftwreck.nodes.replication import events as come
from kraftwreck.nodes.replication.headers import Batch
from tests.broker.conftest import Rig

REGISTERED = 30
TOPIC = 2


def record(count: int = 1) -> Batch:
    """The batch of a producer without an id."""
    return Batch(-1, count - 1, -1, -1, -1, -1, 0, count, 70 + count, 1, 0)


@pytest.fixture
def leader(make_rig: Callable[..., Any]) -> Any:
    """Broker 4, running, with an empty log of partition 0 of ``t``, which it leads: ISR 4 and 5."""
    rig = make_rig(data_plane=True)
    for broker in (4, 5, 6):
        rig.add_broker(broker)
    rig.topic = rig.add_topic("t", 4)
    rig.key = (rig.topic, 0)
    rig.register(REGISTERED)
    rig.publish()
    rig.beat(is_caught_up=True)
    rig.tick()
    assert out.OpenLog(rig.key) in rig.did
    rig.data(come.LogOpened(rig.key, 0, 0, (), (), 0))
    rig.beat(is_caught_up=True)
    rig.beat(is_caught_up=True, is_fenced=False)
    assert rig.broker.state.value == "running"
    return rig


def only(effects: list[Any], kind: type) -> Any:
    (found,) = [each for each in effects if isinstance(each, kind)]
    return found


def produced(rig: Any, acks: int, effects: list[Any] | None = None) -> tuple[int, int]:
    """Produce one record, and return error and offset of the answer."""
    event = come.ProduceReceived(9, acks, 100, ((rig.key, record()),))
    part = only(rig.data(event) if effects is None else effects, out.ReplyProduce).parts[0]
    return part.error, part.base_offset


def follow(rig: Any, replica: int, offset: int) -> list[Any]:
    """Fetch as a follower of leader epoch 8."""
    part = come.FetchPart(rig.key, offset, 1 << 20, 8, -1, 0)
    effects: list[Any] = rig.data(come.FetchReceived(3, (part,), replica, replica))
    return effects


# --- the image ---------------------------------------------------------------------------


def test_replicas_open_their_logs_once_the_broker_has_caught_up(
    make_rig: Callable[..., Any],
) -> None:
    rig = make_rig(data_plane=True)
    topic = rig.add_topic("t", 4, 5)
    rig.register(REGISTERED)
    rig.publish()
    assert rig.did == [], "an old image may name leaders of the past"
    rig.beat(is_caught_up=True)
    rig.tick()
    assert rig.did == [out.OpenLog((topic, 0)), out.OpenLog((topic, 1))]


def test_a_broker_is_unfenced_only_when_its_logs_are_open(make_rig: Callable[..., Any]) -> None:
    rig = make_rig(data_plane=True)
    topic = rig.add_topic("t", 4, 5)
    rig.register(REGISTERED)
    rig.publish()
    for _ in range(3):
        assert rig.beat(is_caught_up=True).body["want_fence"] is True
    rig.data(come.LogOpened((topic, 0), 0, 0, (), (), 0))
    assert rig.beat(is_caught_up=True).body["want_fence"] is True
    rig.data(come.LogOpened((topic, 1), 0, 0, (), (), 0))
    rig.beat(is_caught_up=True)
    assert rig.beat(is_caught_up=True).body["want_fence"] is False


def test_a_log_that_is_deleted_while_it_is_opened_delays_nobody(
    make_rig: Callable[..., Any],
) -> None:
    rig = make_rig(data_plane=True)
    topic = rig.add_topic("t", 4)
    rig.register(REGISTERED)
    rig.publish()
    rig.beat(is_caught_up=True)
    rig.commit(("RemoveTopicRecord", {"topic_id": topic}))
    assert out.RemoveLog((topic, 0)) in rig.publish()
    rig.beat(is_caught_up=True)
    assert rig.beat(is_caught_up=True).body["want_fence"] is False


def test_a_leader_appends_and_acknowledges(leader: Any) -> None:
    effects = leader.data(come.ProduceReceived(9, 1, 100, ((leader.key, record()),)))
    append = only(effects, out.Append)
    assert (append.batch.base_offset, append.batch.leader_epoch) == (0, 8)
    assert effects.index(append) < effects.index(only(effects, out.ReplyProduce))
    assert produced(leader, 1) == (0, 1)


def test_a_deleted_topic_takes_its_logs_with_it(leader: Any) -> None:
    leader.commit(("RemoveTopicRecord", {"topic_id": leader.topic}))
    assert out.RemoveLog(leader.key) in leader.publish()


def test_a_change_of_a_config_acts_without_a_restart(leader: Any) -> None:
    assert produced(leader, 1) == (0, 0)
    fields = {"resource_type": TOPIC, "resource_name": "t", "name": "min.insync.replicas"}
    leader.commit(("ConfigRecord", fields | {"value": "3"}))
    leader.publish()
    assert produced(leader, -1) == (NOT_ENOUGH_REPLICAS, -1)


def test_configs_of_this_broker_precede_those_of_the_cluster(leader: Any) -> None:
    changes = ImageChanges(4, 1)
    changes.since_last(leader.image.stable)
    for broker, value in (("", "111"), ("5", "222"), ("4", "333")):
        fields = {"resource_type": 4, "resource_name": broker, "name": "log.retention.ms"}
        leader.commit(("ConfigRecord", fields | {"value": value}))
    delta = changes.since_last(leader.image.stable)
    assert delta is not None
    assert delta.settings == {leader.key: come.Settings(retention_ms=333)}


def test_a_topic_may_commit_by_a_majority(leader: Any) -> None:
    changes = ImageChanges(4, 1)
    changes.since_last(leader.image.stable)
    fields = {"resource_type": TOPIC, "resource_name": "t", "name": "commit.mode"}
    for value, expected in (("quorum", True), ("isr", False)):
        leader.commit(("ConfigRecord", fields | {"value": value}))
        delta = changes.since_last(leader.image.stable)
        assert delta is not None
        assert delta.settings == {leader.key: come.Settings(quorum=expected)}


def test_a_topic_without_a_config_of_segments_leaves_them_to_the_broker(leader: Any) -> None:
    changes = ImageChanges(4, 1)
    changes.since_last(leader.image.stable)
    for kind, resource, name, value, expected in (
        (4, "", "log.segment.bytes", "3000000", come.Settings(segment_bytes=3_000_000)),
        (TOPIC, "t", "segment.bytes", "2000000", come.Settings(segment_bytes=2_000_000)),
        (4, "4", "log.roll.ms", "7", come.Settings(segment_bytes=2_000_000, segment_ms=7)),
        (TOPIC, "t", "segment.bytes", None, come.Settings(segment_bytes=3_000_000, segment_ms=7)),
    ):
        fields = {"resource_type": kind, "resource_name": resource, "name": name}
        leader.commit(("ConfigRecord", fields | {"value": value}))
        delta = changes.since_last(leader.image.stable)
        assert delta is not None
        assert delta.settings == {leader.key: expected}


def test_a_follower_fetches_from_where_the_leader_listens(leader: Any) -> None:
    topic = leader.add_topic("u", 5)
    assert leader.publish() == [out.OpenLog((topic, 0))]
    (fetch,) = leader.data(come.LogOpened((topic, 0), 0, 0, (), (), 0))
    assert (fetch.leader, fetch.endpoint) == (5, Endpoint("b5", 9092))
    assert fetch.broker_epoch == REGISTERED


def test_requests_before_the_broker_has_caught_up_wait(make_rig: Callable[..., Any]) -> None:
    rig = make_rig(data_plane=True)
    rig.register(REGISTERED)
    parts = (((bytes(16), 0), -1, -1),)
    assert rig.data(come.ListOffsetsReceived(5, parts)) == []
    rig.publish()
    rig.beat(is_caught_up=True)
    rig.tick()
    assert [each.token for each in rig.did if isinstance(each, out.ReplyListOffsets)] == [5]


def test_a_broker_without_a_data_plane_refuses_its_events(rig: Any) -> None:
    with pytest.raises(FatalError, match="no data plane for LogOpened"):
        rig.data(come.LogOpened((bytes(16), 0), 0, 0, (), (), 0))


# --- ISRs --------------------------------------------------------------------------------


def test_a_follower_that_caught_up_is_proposed_and_enters_when_the_controller_says_so(
    leader: Any,
) -> None:
    follow(leader, 6, 0)
    request = leader.last("AlterPartition")
    (part,) = request.body["topics"][0]["partitions"]
    assert request.body["broker_epoch"] == REGISTERED
    assert part["new_isr"] == [4, 5, 6]
    assert {"broker_id": 6, "broker_epoch": 6} in part["new_isr_with_epochs"]
    answer = {"leader_id": 4, "leader_epoch": 8, "isr": [4, 5, 6], "leader_recovery_state": 0}
    parts = [{"partition_index": 0, "error_code": 0, "partition_epoch": 4, **answer}]
    topics = [{"topic_id": leader.topic, "partitions": parts}]
    leader.broker.take_notes()
    assert leader.answer({"error_code": 0, "topics": topics}, to=request)
    (note,) = [detail for kind, detail in leader.broker.take_notes() if kind == "replica-isr"]
    assert (note["isr"], note["topic_id"]) == ([4, 5, 6], leader.topic.hex())


@pytest.mark.parametrize("body", [None, {"error_code": 77, "topics": []}])
def test_a_proposal_that_failed_is_made_again(leader: Any, body: Any) -> None:
    follow(leader, 6, 0)
    first = leader.last("AlterPartition")
    assert leader.answer(body, to=first)
    again = until_proposed(leader, first)
    assert again.body["topics"] == first.body["topics"]


def test_a_proposal_to_a_controller_that_is_replaced_goes_to_the_new_one(leader: Any) -> None:
    follow(leader, 6, 0)
    first = leader.last("AlterPartition")
    leader.quorum.led_by(2)
    leader.tick()
    again = until_proposed(leader, first)
    assert (first.destination, again.destination) == (1, 2)
    assert not leader.answer({"error_code": 0, "topics": []}, to=first), "it is void"


def test_a_proposal_waits_for_a_controller(leader: Any) -> None:
    leader.quorum.led_by(-1)
    follow(leader, 6, 0)
    leader.tick(500)
    assert not [request for request in leader.sent if request.api == "AlterPartition"]
    leader.quorum.led_by(3)
    assert until_proposed(leader, None).destination == 3


def until_proposed(rig: Any, last: Any) -> Any:
    """Let time pass until the broker proposes once more; return the request."""
    for _ in range(100):
        made = [request for request in rig.sent if request.api == "AlterPartition"]
        if made and made[-1] is not last:
            return made[-1]
        rig.tick(10)
    raise AssertionError("nothing is proposed")


# --- deltas ------------------------------------------------------------------------------

CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("topic"), st.integers(0, 3)),
        st.tuples(st.just("remove"), st.integers(0, 3)),
        st.tuples(st.just("config"), st.integers(0, 3)),
        st.tuples(st.just("default"), st.integers(1, 3)),
        st.tuples(st.just("of broker"), st.integers(4, 5)),
        st.tuples(st.just("broker"), st.integers(4, 6)),
        st.tuples(st.just("publish"), st.just(0)),
    ),
    max_size=20,
)


@given(CHANGES)
def test_all_deltas_together_are_the_whole_image(changes: list[tuple[str, int]]) -> None:
    rig = Rig()
    changes_of = ImageChanges(4, 1)
    partitions: dict[Any, Any] = {}
    settings: dict[Any, Any] = {}
    peers: Any = {}
    for kind, number in [*changes, ("publish", 0)]:
        if kind == "publish":
            delta = changes_of.since_last(rig.image.stable)
            if delta is None:
                continue
            for key in delta.deleted:
                del partitions[key], settings[key]
            partitions |= delta.assigned or {}
            settings |= delta.settings or {}
            peers = peers if delta.peers is None else delta.peers
        else:
            change(rig, kind, number)
    whole = ImageChanges(4, 1).since_last(rig.image.stable) or come.Published()
    assert (partitions, settings) == (whole.assigned or {}, whole.settings or {})
    assert peers == (whole.peers or {})


def change(rig: Rig, kind: str, number: int) -> None:
    """Commit one change, if it is possible now."""
    image: MetadataImage = rig.image
    name = f"t{number}"
    match kind:
        case "topic" if name not in image.topics:
            rig.add_topic(name, 4, 5, replicas=[4, 5] if number else [5, 6])
        case "remove" if name in image.topics:
            rig.commit(("RemoveTopicRecord", {"topic_id": image.topics[name].topic_id}))
        case "config" if name in image.topics:
            fields = {"resource_type": TOPIC, "resource_name": name, "name": "retention.ms"}
            rig.commit(("ConfigRecord", fields | {"value": str(image.last_offset)}))
        case "default":
            fields = {"resource_type": 4, "resource_name": "", "name": "min.insync.replicas"}
            rig.commit(("ConfigRecord", fields | {"value": str(number)}))
        case "of broker":
            fields = {"resource_type": 4, "resource_name": str(number), "name": "log.retention.ms"}
            rig.commit(("ConfigRecord", fields | {"value": str(image.last_offset)}))
        case "broker":
            rig.add_broker(number, fenced=number == 5 and number not in image.brokers)


# --- traced positions ----------------------------------------------------------------------


def positions(rig: Any) -> list[dict[str, Any]]:
    """The samples of positions since the last call."""
    notes = rig.broker.take_notes()
    return [detail for kind, detail in notes if kind == "replica-positions"]


def test_an_opened_log_is_traced_at_once_with_the_name_of_its_topic(leader: Any) -> None:
    topic = leader.add_topic("u", 5)
    leader.publish()
    positions(leader)
    leader.data(come.LogOpened((topic, 0), 2, 9, (), (), 5, 7))
    (traced,) = positions(leader)
    # Start, checkpointed high watermark, flushed, high watermark, log end.
    assert traced == {"replicas": [[topic.hex(), 0, 2, 5, 7, 5, 9]], "topics": {topic.hex(): "u"}}


def test_positions_are_sampled_once_in_half_a_second_if_they_changed(leader: Any) -> None:
    positions(leader)
    leader.tick(1_000)
    produced(leader, 1)
    assert positions(leader) == [{"replicas": [[leader.topic.hex(), 0, 0, 0, 0, 0, 1]]}]
    for _ in range(2):
        produced(leader, 1)
    assert positions(leader) == []
    leader.tick(500)
    produced(leader, 1)
    assert positions(leader) == [{"replicas": [[leader.topic.hex(), 0, 0, 0, 0, 0, 4]]}]
    leader.tick(500)
    follow(leader, 5, 4)
    assert positions(leader) == [{"replicas": [[leader.topic.hex(), 0, 0, 0, 0, 4, 4]]}]
    leader.tick(1_000)
    follow(leader, 5, 4)
    assert positions(leader) == [], "nothing changed"


def test_a_sample_has_the_high_watermark_that_was_last_checkpointed(leader: Any) -> None:
    produced(leader, 1)
    follow(leader, 5, 1)
    leader.tick(5_000)
    assert any(isinstance(each, out.WriteHighWatermarks) for each in leader.did)
    follow(leader, 5, 1)
    assert positions(leader)[-1]["replicas"] == [[leader.topic.hex(), 0, 0, 1, 0, 1, 1]]


def test_a_truncation_is_traced_at_once(leader: Any) -> None:
    topic = leader.add_topic("u", 5)
    leader.publish()
    (fetch,) = leader.data(come.LogOpened((topic, 0), 0, 0, (), (), 0))
    row = [topic.hex(), 0]
    for batches, diverging, end in (((record(4).placed(0, 0),), None, 4), ((), (0, 0), 0)):
        leader.tick(0 if diverging else 500)
        positions(leader)
        part = come.FetchedPart((topic, 0), 0, 3, 0, batches, diverging=diverging)
        effects = leader.data(come.FetchAnswered(fetch.correlation, (part,)))
        fetch = only(effects, out.FetchFrom)
        ((traced,),) = [each["replicas"] for each in positions(leader)]
        assert traced == [*row, 0, 0, 0, min(3, end), end]

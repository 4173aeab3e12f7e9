"""The controller's model judged right at its edges: codes, effects, digests and shutdowns."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.checkers.kraft.controller_model import reads, refusals
from kraftwreck.checkers.kraft.controller_model.config_values import is_legal
from kraftwreck.checkers.kraft.controller_model.departures import Departures
from kraftwreck.checkers.kraft.controller_model.effects import elected, grown, heartbeat
from kraftwreck.checkers.kraft.controller_model.image_digest import NoDigestError, _broker
from kraftwreck.checkers.kraft.controller_model.metadata_model import TOPIC, Broker, Partition
from kraftwreck.checkers.kraft.controller_model.placement import _leaders
from kraftwreck.checkers.kraft.controller_model.refusals import (
    COMMIT_FEATURE,
    RESERVED,
    UNCLEAN,
    candidates,
    create_topic,
    delete_topic,
    grow_topic,
    propose,
    register,
    update_features,
)
from kraftwreck.checkers.kraft.controller_model.state import State, StateHistory, Versions
from kraftwreck.nodes.protocol import errors

pytestmark = pytest.mark.interpreted  # Stand-ins take the place of the evidence.

ID = bytes(15) + b"\x99"
NO_ID = bytes(16)
DISK, OTHER_DISK = b"d" * 16, b"e" * 16
BROKER = Broker(
    incarnation=b"i" * 16, epoch=7, endpoints=(), rack=None, fenced=False, stopping=False,
    features=(("metadata.version", 7, 27), ("eligible.leader.replicas.version", 0, 1)),
    directories=(DISK,), cordoned=None,
)  # fmt: skip
PARTITION = Partition(
    replicas=(1, 2), isr=(1, 2), removing=(), adding=(), leader=1, leader_epoch=5,
    partition_epoch=9, recovery=0, directories=(), elr=(), last_known_elr=(),
)  # fmt: skip


def state(brokers: Mapping[int, Broker] | None = None, partitions: int = 1, **levels: int) -> State:
    """Brokers 1 and 2, topic t, and levels of features."""
    return State(history_of(brokers, partitions, **levels), 1)


def history_of(
    brokers: Mapping[int, Broker] | None = None, partitions: int = 1, **levels: int
) -> StateHistory:
    history = StateHistory()

    def put(items: dict[Any, Any], key: Any, value: Any) -> None:
        items.setdefault(key, Versions()).put(1, value)

    for broker_id, broker in (brokers or {1: BROKER, 2: BROKER}).items():
        put(history.brokers, broker_id, broker)
    history.broker_changes.note(1)
    put(history.topics, "t", ID)
    put(history.ids, ID, "t")
    history.topic_changes.note(1)
    for number in range(partitions):
        put(history.partitions, (ID, number), PARTITION)
    history.counts[ID] = partitions
    for feature, level in levels.items():
        put(history.features, feature.replace("_", "."), level)
    return history


# --- topics ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "factor", "codes"),
    [
        (1, 1, set()),
        (1, 2, set()),
        (1, 3, {errors.INVALID_REPLICATION_FACTOR}),
        (1, 0, {errors.INVALID_REPLICATION_FACTOR}),
        (1, -1, set()),
        (1, -2, {errors.INVALID_REPLICATION_FACTOR}),
        (-1, 1, set()),
        (0, 1, {errors.INVALID_PARTITIONS}),
        (-2, 1, {errors.INVALID_PARTITIONS}),
    ],
)
def test_a_topic_has_partitions_and_no_more_replicas_than_brokers(
    count: int, factor: int, codes: set[int]
) -> None:
    topic = {
        "name": "new", "num_partitions": count, "replication_factor": factor, "assignments": [],
        "configs": [],
    }  # fmt: skip
    found = create_topic(state(), topic, ["new"], {"factor": 2})
    assert found is not None
    assert found.must == codes


@pytest.mark.parametrize(
    ("default", "codes"), [(0, {errors.INVALID_REPLICATION_FACTOR}), (1, set())]
)
def test_a_default_factor_is_above_0(default: int, codes: set[int]) -> None:
    topic = {
        "name": "new", "num_partitions": 1, "replication_factor": -1, "assignments": [],
        "configs": [],
    }  # fmt: skip
    found = create_topic(state(), topic, ["new"], {"factor": default})
    assert found is not None
    assert found.must == codes


@pytest.mark.parametrize(("factor", "refused"), [(1, False), (0, True), (-1, False), (-2, True)])
def test_a_factor_is_above_0_also_where_the_voters_count_as_brokers(
    factor: int, refused: bool
) -> None:
    topic = {
        "name": "new", "num_partitions": 1, "replication_factor": factor, "assignments": [],
        "configs": [],
    }  # fmt: skip
    found = create_topic(State(StateHistory(), 1), topic, ["new"], {"factor": 1})
    assert found is not None
    assert (found.must == {errors.INVALID_REPLICATION_FACTOR}) is refused


@pytest.mark.parametrize(("count", "right"), [(1, False), (2, False), (3, True), (4, False)])
def test_a_topic_has_as_many_partitions_as_it_grew_to(count: int, right: bool) -> None:
    """One batch adds two partitions to the first."""
    history = history_of()
    for number in (1, 2):
        history.partitions[ID, number] = Versions()
        history.partitions[ID, number].put(5, PARTITION)
    history.counts[ID] = 3
    history.ends = [1, 5]
    grows: Any = SimpleNamespace(span=(1, 5))
    wrong, _, _ = grown(history, grows, {"name": "t", "count": count, "assignments": None})
    assert (wrong is None) is right


@pytest.mark.parametrize(
    ("limit", "count", "told"),
    [(-1, 3, 1), (0, 3, 1), (1, 3, 1), (2, 3, 2), (3, 3, 3), (9999, 2001, 2000)],
)
def test_a_description_of_partitions_has_1_to_2000_of_them(
    monkeypatch: pytest.MonkeyPatch, limit: int, count: int, told: int
) -> None:
    monkeypatch.setattr(reads, "_alive", lambda *_: {1, 2})
    monkeypatch.setattr(reads, "_partition", lambda *_: None)
    now: Any = SimpleNamespace(topic=lambda _: ID, partitions=lambda _: [PARTITION] * count)
    request = {"topics": [{"name": "t"}], "cursor": None, "response_partition_limit": limit}
    topic = {"name": "t", "topic_id": ID, "error_code": 0}
    topic["partitions"] = [{"partition_index": number} for number in range(told)]
    after = None if told == count else {"topic_name": "t", "partition_index": told}
    answer = {"topics": [topic], "next_cursor": after}
    assert reads.describe_partitions(now, request, answer, None) is None


@pytest.mark.parametrize(
    ("cordoned", "may"),
    [(None, True), ((DISK,), False), ((DISK, OTHER_DISK), False), ((OTHER_DISK,), True)],
)
def test_a_broker_with_all_directories_cordoned_gets_no_replicas(
    cordoned: tuple[bytes, ...] | None, may: bool
) -> None:
    found = candidates(state({1: BROKER._replace(cordoned=cordoned)}))
    assert (found == [1]) is may


@pytest.mark.parametrize(("times", "refused"), [(1, False), (2, True)])
def test_a_topic_is_created_deleted_and_grown_once_in_a_request(times: int, refused: bool) -> None:
    new = {
        "name": "new", "num_partitions": 1, "replication_factor": 1, "assignments": [],
        "configs": [],
    }  # fmt: skip
    created = create_topic(state(), new, ["new"] * times, {"factor": 1})
    wanted = {"name": "t", "topic_id": NO_ID}
    deleted = delete_topic(state(), wanted, [("t", NO_ID), (None, ID)][:times])
    more = grow_topic(state(), {"name": "t", "count": 2, "assignments": None}, ["t"] * times)
    for found in (created, deleted, more):
        assert found is not None
        assert (found.must == {errors.INVALID_REQUEST}) is refused
        assert (found.must == set()) is not refused


@pytest.mark.parametrize(
    ("name", "created", "refused"),
    [
        ("a.b", (), False),
        ("a.b", ("a.b",), False),
        ("a.b", ("a.b", "a_b"), True),
        ("a.b", ("a-b",), False),
    ],
)
def test_one_of_the_names_in_a_request_that_collide_is_created(
    name: str, created: tuple[str, ...], refused: bool
) -> None:
    new = {
        "name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [],
        "configs": [],
    }  # fmt: skip
    found = create_topic(state(), new, ["a.b", "a_b", "a-b"], {"factor": 1}, created)
    assert found is not None
    assert found.must == ({errors.INVALID_TOPIC_EXCEPTION} if refused else set())


@pytest.mark.parametrize(
    ("count", "codes"),
    [(3, set()), (2, {errors.INVALID_PARTITIONS}), (1, {errors.INVALID_PARTITIONS})],
)
def test_a_topic_grows_beyond_its_partitions(count: int, codes: set[int]) -> None:
    topic = {"name": "t", "count": count, "assignments": None}
    found = grow_topic(state(partitions=2), topic, ["t"])
    assert found is not None
    assert found.must == codes


# --- partitions -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("leader_epoch", "epoch", "codes"),
    [
        (5, 9, set()),
        (6, 9, {errors.NOT_CONTROLLER}),
        (5, 10, {errors.NOT_CONTROLLER}),
        (4, 9, {errors.FENCED_LEADER_EPOCH}),
        (5, 8, {errors.INVALID_UPDATE_VERSION}),
    ],
)
def test_a_proposal_names_the_epochs_of_its_partition(
    leader_epoch: int, epoch: int, codes: set[int]
) -> None:
    assert proposed([1, 2], leader_epoch=leader_epoch, partition_epoch=epoch) == codes


@pytest.mark.parametrize(
    ("isr", "recovery", "codes"),
    [
        ([1], 0, set()),
        ([1, 2], 0, set()),
        ([1, 2, 3], 0, {errors.INVALID_REQUEST}),
        ([1], 1, set()),
        ([1, 2], 1, {errors.INVALID_REQUEST}),
    ],
)
def test_an_isr_consists_of_replicas_and_a_recovering_one_of_the_leader(
    isr: list[int], recovery: int, codes: set[int]
) -> None:
    assert proposed(isr, leader_recovery_state=recovery, recovering=recovery) == codes


def proposed(isr: list[int], recovering: int = 0, **more: int) -> set[int]:
    now = state(dict.fromkeys((1, 2, 3), BROKER))
    history = now._history
    history.partitions[ID, 0].put(1, PARTITION._replace(recovery=recovering))
    members = [{"broker_id": broker, "broker_epoch": 7} for broker in isr]
    proposal = {
        "partition_index": 0, "leader_epoch": 5, "partition_epoch": 9, "leader_recovery_state": 0,
        "new_isr_with_epochs": members, **more,
    }  # fmt: skip
    found = propose(now, 1, ID, proposal)
    assert found is not None
    return found.must


# --- brokers --------------------------------------------------------------------------------------


def registered(
    directory: int = RESERVED, level: int = 17, low: int = 7, high: int = 27
) -> set[int]:
    body = {
        "broker_id": 3, "cluster_id": "c", "incarnation_id": b"j" * 16,
        "is_migrating_zk_broker": False, "log_dirs": [directory.to_bytes(16, "big")],
        "features": [
            {"name": "metadata.version", "min_supported_version": low,
             "max_supported_version": high}
        ],
    }  # fmt: skip
    found = register(state(metadata_version=level), body, "c")
    assert found is not None
    return found.must


def test_directories_from_level_17_on_have_ids_from_100_on() -> None:
    assert registered(RESERVED) == set()
    assert registered(RESERVED - 1) == {errors.INVALID_REGISTRATION}
    assert registered(RESERVED - 1, level=16) == set()


@pytest.mark.parametrize(
    ("low", "high", "right"), [(17, 27, True), (18, 27, False), (7, 17, True), (7, 16, False)]
)
def test_a_broker_supports_the_finalized_level(low: int, high: int, right: bool) -> None:
    assert registered(low=low, high=high) == (set() if right else {errors.UNSUPPORTED_VERSION})


VERSION, ELR = "metadata.version", "eligible.leader.replicas.version"
UPGRADE, SAFE = 1, 2


def updated(now: int, level: int, kind: int, feature: str = VERSION, **more: Any) -> bool:
    """Return whether the controller changes the level."""
    update = {"feature": feature, "max_version_level": level, "upgrade_type": kind}
    before = state(metadata_version=now, **more)
    found = update_features(before, {"feature_updates": [update]})
    assert found is not None
    assert found.must <= {errors.INVALID_UPDATE_VERSION}
    return not found.must


def test_a_level_is_from_7_to_27() -> None:
    wide = BROKER._replace(features=((VERSION, 0, 99),))
    assert updated(26, 27, UPGRADE, brokers={1: wide})
    assert not updated(27, 28, UPGRADE, brokers={1: wide})
    assert not updated(7, 6, SAFE, brokers={1: wide})


def test_an_upgrade_goes_up_and_a_downgrade_down_or_nowhere() -> None:
    assert updated(20, 20, UPGRADE)
    assert updated(20, 20, SAFE)
    assert updated(20, 19, SAFE)
    assert not updated(20, 19, UPGRADE)
    assert not updated(20, 21, SAFE)


@pytest.mark.parametrize(("now", "right"), [(12, True), (13, False)])
def test_a_lossy_level_is_not_undone(now: int, right: bool) -> None:
    assert updated(now, 12, SAFE) is right


def test_level_7_is_the_lowest_that_all_may_keep() -> None:
    assert updated(7, 7, UPGRADE)


@pytest.mark.parametrize(
    ("low", "high", "right"), [(21, 21, True), (22, 27, False), (7, 20, False)]
)
def test_every_broker_supports_the_new_level(low: int, high: int, right: bool) -> None:
    narrow = BROKER._replace(features=((VERSION, low, high),))
    assert updated(20, 21, UPGRADE, brokers={1: narrow}) is right


@pytest.mark.parametrize(("version", "right"), [(22, False), (23, True)])
def test_eligible_replicas_need_level_23(version: int, right: bool) -> None:
    assert updated(version, 1, UPGRADE, ELR) is right
    assert updated(version, 0, UPGRADE, ELR) is True


@pytest.mark.parametrize(("now", "level", "right"), [(1, 0, False), (0, 0, True), (1, 1, True)])
def test_a_topic_that_commits_by_a_majority_keeps_the_feature(
    monkeypatch: pytest.MonkeyPatch, now: int, level: int, right: bool
) -> None:
    monkeypatch.setattr(refusals, "commit_mode", lambda *_: "quorum")
    broker = BROKER._replace(features=(*BROKER.features, (COMMIT_FEATURE, 0, 1)))
    before = {COMMIT_FEATURE.replace(".", "_"): now}
    assert updated(27, level, SAFE, COMMIT_FEATURE, brokers={1: broker}, **before) is right


@pytest.mark.parametrize(
    ("version", "level", "enabled"), [(23, 1, True), (22, 1, False), (23, 0, False)]
)
def test_eligible_replicas_are_kept_from_level_1_on(
    version: int, level: int, enabled: bool
) -> None:
    levels = {VERSION.replace(".", "_"): version, ELR.replace(".", "_"): level}
    assert state(None, 1, **levels).elr_enabled() is enabled


@pytest.mark.parametrize(
    ("value", "legal"), [("-1", True), ("-2", False), ("9223372036854775807", True)]
)
def test_a_retention_may_be_the_least_number_of_its_range(value: str, legal: bool) -> None:
    assert is_legal(TOPIC, "retention.ms", value) is legal


# --- effects, digests and places ------------------------------------------------------------------


def exchange(request: dict[str, Any], **more: Any) -> Any:
    return SimpleNamespace(request=request, low=1, high=1, span=(1, 1), **more)


@pytest.mark.parametrize(("offset", "right"), [(6, False), (7, True)])
def test_a_broker_has_caught_up_once_it_has_applied_its_registration(
    offset: int, right: bool
) -> None:
    beat = exchange(
        {
            "broker_id": 1, "broker_epoch": 7, "current_metadata_offset": offset,
            "want_fence": False, "want_shut_down": False,
        }
    )  # fmt: skip
    answer = {"is_fenced": False, "is_caught_up": True, "should_shut_down": False}
    assert (heartbeat(history_of(), beat, answer) is None) is right


@pytest.mark.parametrize(("leader", "right"), [(-1, False), (0, True), (1, True)])
def test_an_unclean_election_leaves_any_leader(leader: int, right: bool) -> None:
    history = history_of()
    history.partitions[ID, 0].put(1, PARTITION._replace(leader=leader))
    assert (elected(history, exchange({}), "t", 0, UNCLEAN) is None) is right


ENDPOINT = ("PLAINTEXT", "localhost", 9092, 0)


@pytest.mark.parametrize(
    "several",
    [
        {"directories": (DISK, OTHER_DISK)},
        {"cordoned": (DISK, OTHER_DISK)},
        {"endpoints": (ENDPOINT, ENDPOINT)},
    ],
)
def test_a_registration_with_several_of_a_kind_has_no_digest(several: dict[str, Any]) -> None:
    one = BROKER._replace(cordoned=(DISK,), endpoints=(ENDPOINT,))
    assert _broker(1, one).epoch == BROKER.epoch
    with pytest.raises(NoDigestError):
        _broker(1, one._replace(**several))


@pytest.mark.parametrize(("leaders", "right"), [((1, 2), True), ((1, 3), False)])
def test_leaders_rotate_over_racks(leaders: tuple[int, ...], right: bool) -> None:
    racks = {"a": [1, 3], "b": [2]}
    brokers = {b: BROKER._replace(rack=rack) for rack, of in racks.items() for b in of}
    found = _leaders(state(brokers), [(leader,) for leader in leaders], racks)
    assert (found is None) is right


# --- controlled shutdowns -------------------------------------------------------------------------

SESSION, BLUR = 100, 4


def departures(*beats: tuple[int, int], rate: int = 1) -> Departures:
    """Heartbeats of broker 3, epoch 7, to node 1: (sent, answered). Its clock has this ``rate``."""
    messages = [
        SimpleNamespace(
            request={"broker_id": 3, "broker_epoch": 7, "current_metadata_offset": place},
            response={"error_code": 0}, sent=sent, time=answered, replier=1,
        )
        for place, (sent, answered) in enumerate(beats)
    ]  # fmt: skip
    evidence: Any = SimpleNamespace(
        of=lambda _: messages, name=lambda node: f"n{node}",
        after=lambda _, since, span: since + span // rate, dated=lambda _: [],
        trace=SimpleNamespace(claims=[]),
    )  # fmt: skip
    return Departures(evidence, history_of(), SESSION, BLUR)


@pytest.mark.parametrize(
    ("before", "sent", "answered", "judged", "rate"),
    [
        (None, 59, 60, False, 1),
        (0, 59, 60, True, 1),
        (0, 60, 61, False, 1),
        (10, 20, 39, True, 1),
        (10, 20, 40, False, 1),
        (0, 29, 30, True, 2),
        (0, 30, 31, False, 2),
        (10, 20, 30, False, 2),
    ],
)
def test_a_shutdown_is_judged_while_the_session_cannot_have_ended(
    monkeypatch: pytest.MonkeyPatch,
    before: int | None,
    sent: int,
    answered: int,
    judged: bool,
    rate: int,
) -> None:
    found = departures(rate=rate)
    monkeypatch.setattr(found, "_gone", lambda _: "too early")
    body = {"broker_id": 3, "broker_epoch": 7, "want_shut_down": False}
    if before is not None:
        message = SimpleNamespace(sent=before, time=before, replier=1)
        earlier = exchange(body, answer={"should_shut_down": False}, message=message)
        assert found.heartbeat(earlier) is None
    message = SimpleNamespace(sent=sent, time=answered, replier=1)
    last = exchange(body, answer={"should_shut_down": True}, message=message)
    assert (found.heartbeat(last) == "too early") is judged


@pytest.mark.parametrize(("claimed", "judged"), [(59, True), (60, False)])
def test_a_session_began_with_a_claim_before_the_heartbeat(
    monkeypatch: pytest.MonkeyPatch, claimed: int, judged: bool
) -> None:
    """It is the first heartbeat of its broker to this controller."""
    found = departures()
    monkeypatch.setattr(found, "_gone", lambda _: "too early")
    monkeypatch.setattr(found, "_claims", lambda _: [SimpleNamespace(time=claimed)])
    last = exchange(
        {"broker_id": 3, "broker_epoch": 7, "want_shut_down": True},
        answer={"should_shut_down": True},
        message=SimpleNamespace(sent=59, time=60, replier=1),
    )
    assert (found.heartbeat(last) == "too early") is judged


def test_offsets_count_from_heartbeats_that_certainly_or_possibly_came_in_time() -> None:
    found = departures((10, 20), (14, 20), (15, 95), (15, 96), (104, 110), (105, 110))
    here: Any = exchange({}, message=SimpleNamespace(replier=1))
    assert list(found._told(here, 3, 7, 100)) == [0, 1, 2, 3, 4]
    assert list(found._told(here, 3, 7, 100, since=10)) == [2]


@pytest.mark.parametrize(("claimed", "judged"), [(50 + BLUR, True), (51 + BLUR, False)])
def test_a_shutdown_is_judged_by_a_controller_that_claimed_before_its_answer(
    claimed: int, judged: bool
) -> None:
    """Broker 3 alone is registered, so nothing keeps it; clocks differ by the blur."""
    history = history_of({3: BROKER._replace(stopping=True)})
    evidence: Any = SimpleNamespace(
        of=lambda _: [], name=lambda node: f"n{node}", moment=lambda claim: claim.at,
        trace=SimpleNamespace(claims=[SimpleNamespace(node="n1", at=claimed, leo=0)]),
        dated=lambda events: [(each.at, each) for each in events],
    )  # fmt: skip
    asked = exchange(
        {"broker_id": 3, "broker_epoch": 7}, message=SimpleNamespace(replier=1, sent=40, time=50)
    )
    found = Departures(evidence, history, SESSION, BLUR)._kept(asked)
    assert (found is not None) is judged


def test_a_shutdown_lasts_while_its_broker_is_fenced_and_unfenced() -> None:
    """A heartbeat of before the shutdown may unfence the broker, which still may not lead."""
    history = history_of({3: BROKER})
    stopping = BROKER._replace(stopping=True)
    for end, broker in ((5, stopping), (8, stopping._replace(fenced=True)), (11, stopping)):
        history.brokers[3].put(end, broker)
    evidence: Any = SimpleNamespace(of=lambda _: [])
    found = Departures(evidence, history, SESSION, BLUR)
    assert [found._began(3, 7, end) for end in (4, 5, 8, 11)] == [None, 5, 5, 5]
    history.brokers[3].put(14, BROKER._replace(epoch=9))
    assert found._began(3, 9, 14) is None

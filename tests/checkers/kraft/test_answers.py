"""Answers held against the committed log: C15, C18, C19, C20, C21; images: I30."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraftwreck.checkers.kraft.controller_model.image_digest import digests
from kraftwreck.checkers.kraft.controller_model.placement import fault
from kraftwreck.checkers.kraft.controller_model.state import State, StateHistory
from kraftwreck.checkers.kraft.invariants import check
from kraftwreck.checkers.kraft.invariants.controller import Controller
from kraftwreck.checkers.kraft.invariants.evidence import Evidence
from kraftwreck.checkers.kraft.quorum_model.log_chain import Committed
from kraftwreck.checkers.kraft.recorded.capture import Capture
from kraftwreck.checkers.kraft.recorded.trace import quorum_model
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.nodes.protocol import errors
from kraftwreck.nodes.protocol.records import encode_record
from tests.checkers.breaks import findings

MakeRun = Callable[..., Any]
TOPIC = bytes(15) + b"\x99"
SECOND = 1_000_000_000


def broken(run: RunData) -> set[str]:
    assert check(run).error is None
    return {anomaly.type for anomaly in findings(run)}


@pytest.fixture
def cluster(quorum: Any, records: Any) -> Any:
    """n1 leads epoch 1 and is active; brokers 1, 2 and 3 are unfenced."""
    quorum.one_epoch()
    quorum.event("n1", "claim", {"epoch_start": 0})
    for broker in (1, 2, 3):
        epoch = quorum._end("n1")
        quorum.write(records.register(broker, epoch))
        quorum.write(records.fence(broker, epoch, -1))
    return quorum


def tell(
    capture: Capture, quorum: Any, api: str, body: Any, answer: Any, *, since: float = 0.0
) -> None:
    """n1 has answered a request that was sent at the time ``since``."""
    now = int(quorum.time * SECOND)
    capture.api(now, -1, 1, api, body, answer, int(since * SECOND))


def epoch_of(run: RunData, broker_id: int) -> int:
    known = Controller.of(Evidence(run)).history.brokers[broker_id].at(1 << 62)
    assert known is not None
    return known.epoch


def registration(broker_id: int) -> dict[str, Any]:
    versions = {"name": "metadata.version", "min_supported_version": 7, "max_supported_version": 27}
    return {
        "broker_id": broker_id,
        "cluster_id": "c",
        "incarnation_id": bytes(15) + b"\x07",
        "is_migrating_zk_broker": False,
        "log_dirs": [bytes(15) + b"\x88"],
        "features": [versions],
        "listeners": [],
        "rack": None,
        "previous_broker_epoch": -1,
    }


def create(name: str = "t", **more: Any) -> dict[str, Any]:
    topic = {"name": name, "num_partitions": 1, "replication_factor": 2, "assignments": [],
             "configs": [], **more}  # fmt: skip
    return {"topics": [topic], "validate_only": False}


def done(code: int = 0, **more: Any) -> dict[str, Any]:
    result = {"name": "t", "topic_id": TOPIC, "error_code": code, "num_partitions": 1,
              "replication_factor": 2, **more}  # fmt: skip
    return {"topics": [result]}


def test_c18_a_topic_is_refused_as_there_and_never_was(
    cluster: Any, capture: Capture, make_run: Callable[..., Any]
) -> None:
    tell(capture, cluster, "CreateTopics", create(), done(36))
    assert broken(make_run(None, cluster, capture=capture)) == {"C18"}


def test_c18_a_refusal_may_be_true_of_any_state_on_the_way(
    cluster: Any, records: Any, capture: Capture, make_run: Callable[..., Any]
) -> None:
    since = cluster.time
    cluster.write(records.topic(), records.partition([1, 2]))
    cluster.write(records.remove_topic())
    tell(capture, cluster, "CreateTopics", create(), done(36), since=since)
    assert broken(make_run(None, cluster, capture=capture)) == set()
    tell(capture, cluster, "CreateTopics", create(), done(36), since=cluster.time)
    assert broken(make_run(None, cluster, capture=capture)) == {"C18"}


def test_c18_an_illegal_name_is_accepted(
    cluster: Any, records: Any, capture: Capture, make_run: Callable[..., Any]
) -> None:
    since = cluster.time
    cluster.write(records.topic("a b"), records.partition([1, 2]))
    tell(capture, cluster, "CreateTopics", create("a b"), done(name="a b"), since=since)
    assert broken(make_run(None, cluster, capture=capture)) == {"C18"}


@pytest.mark.parametrize(
    ("name", "code"), [("two_letters", errors.INVALID_TOPIC_EXCEPTION), ("two-letters", 37)]
)
def test_c18_topics_of_one_request_are_refused_beside_one_that_is_created(
    cluster: Any, records: Any, capture: Capture, make_run: Callable[..., Any], name: str, code: int
) -> None:
    """Only the first name collides. A partition in the model is a tuple of eleven parts."""
    since, first = cluster.time, "two.letters"
    cluster.write(records.topic(first), records.partition([1, 2]))
    other = create(name, num_partitions=1 if "_" in name else 0)
    request = {**create(), "topics": [create(first)["topics"][0], other["topics"][0]]}
    answers = done(name=first)["topics"] + done(code, name=name)["topics"]
    tell(capture, cluster, "CreateTopics", request, {"topics": answers}, since=since)
    assert broken(make_run(None, cluster, capture=capture)) == set()


def test_c19_the_created_topic_differs_from_the_acknowledged_one(
    cluster: Any, records: Any, capture: Capture, make_run: Callable[..., Any]
) -> None:
    since = cluster.time
    cluster.write(records.topic(), records.partition([1, 2]))
    tell(capture, cluster, "CreateTopics", create(), done(), since=since)
    assert broken(make_run(None, cluster, capture=capture)) == set()
    tell(capture, cluster, "CreateTopics", create(num_partitions=2), done(), since=since)
    assert broken(make_run(None, cluster, capture=capture)) == {"C19"}


def test_c19_a_batch_reported_late_counts_from_the_next_commit(
    cluster: Any, records: Any, capture: Capture, make_run: Callable[..., Any]
) -> None:
    """n1 dies between its disk and its trace; other nodes report the batch much later."""
    since = cluster.time
    cluster.write(records.record("NoOpRecord"))
    silent = cluster.events[-1].detail["base"]
    cluster.write(records.topic(), records.partition([1, 2]))
    tell(capture, cluster, "CreateTopics", create(), done(), since=since)
    for event in cluster.events:
        if event.kind in ("commit", "hw") and event.detail.get("base", event.hw - 1) == silent:
            event.mono += 5_000_000
    assert broken(make_run(None, cluster, capture=capture)) == set()


def test_c15_a_broker_holds_a_partition_twice(
    cluster: Any, records: Any, capture: Capture, make_run: Callable[..., Any]
) -> None:
    since = cluster.time
    cluster.write(records.topic(), records.partition([1, 1], [1]))
    tell(capture, cluster, "CreateTopics", create(), done(), since=since)
    assert "C15" in broken(make_run(None, cluster, capture=capture))


def test_placement_by_racks_fenced_brokers_last_and_leaders_in_turns(
    cluster: Any, make_run: Callable[..., Any]
) -> None:
    history = history_of(make_run(None, cluster))
    state = State(history, history.reach)
    assert fault(state, [[1, 2], [2, 3], [3, 1]]) is None
    assert "could rotate" in (fault(state, [[1, 2], [1, 3]]) or "")
    racks = {1: "a", 2: "a", 3: "b"}
    for broker_id, versions in history.brokers.items():
        broker = versions.at(history.reach)
        assert broker is not None
        fenced = broker_id == 1
        versions.put(history.reach, broker._replace(rack=racks[broker_id], fenced=fenced))
    history.shown.clear()
    state = State(history, history.reach)
    assert fault(state, [[2, 3]]) is None
    assert "only racks ['a']" in (fault(state, [[2, 1]]) or "")
    assert "is fenced" in (fault(state, [[1, 3]]) or "")
    assert "a fenced broker is preferred" in (fault(state, [[3, 1]]) or "")


def history_of(run: RunData) -> StateHistory:
    return Controller.of(Evidence(run)).history


def metadata(isr: list[int], controller: int = 1) -> dict[str, Any]:
    part = {"error_code": 0, "partition_index": 0, "leader_id": 1, "leader_epoch": 0,
            "replica_nodes": [1, 2], "isr_nodes": isr, "offline_replicas": []}  # fmt: skip
    topic = {"error_code": 0, "name": "t", "topic_id": TOPIC, "partitions": [part]}
    return {"controller_id": controller, "cluster_id": "c", "topics": [topic], "brokers": [],
            "error_code": 0}  # fmt: skip


def test_c20_a_state_that_never_was(
    cluster: Any, records: Any, capture: Capture, make_run: Callable[..., Any]
) -> None:
    cluster.write(records.topic(), records.partition([1, 2]))
    run = make_run(None, cluster)
    brokers = [
        {"node_id": i, "host": host, "port": port, "rack": broker.rack}
        for i, broker in State(history_of(run), 1 << 62).brokers().items()
        for _, host, port, _ in broker.endpoints[:1]
    ]
    body = {"topics": [{"name": "t", "topic_id": bytes(16)}]}
    right, wrong = (metadata(isr) | {"brokers": brokers} for isr in ([1, 2], [1]))
    tell(capture, cluster, "Metadata", body, right, since=cluster.time)
    assert broken(make_run(None, cluster, capture=capture)) == set()
    tell(capture, cluster, "Metadata", body, wrong, since=cluster.time)
    assert broken(make_run(None, cluster, capture=capture)) == {"C20"}


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [([1, 2], [1], set()), ([1, 2], [1, 2], {"C20"}), ([1], [1], {"C20"}), ([1], [1, 2], {"C20"})],
)
def test_c20_an_old_answer_is_wrong_after_a_change(
    cluster: Any,
    records: Any,
    capture: Capture,
    make_run: Callable[..., Any],
    first: list[int],
    last: list[int],
    expected: set[str],
) -> None:
    cluster.write(records.topic(), records.partition([1, 2]))
    body = {"topics": None}
    known = State(history_of(make_run(None, cluster)), 1 << 62).brokers()
    brokers = [
        {"node_id": i, "host": host, "port": port, "rack": broker.rack}
        for i, broker in known.items()
        for _, host, port, _ in broker.endpoints[:1]
    ]
    for _ in range(2):
        answer = metadata(first) | {"brokers": brokers}
        tell(capture, cluster, "Metadata", body, answer, since=cluster.time)
    cluster.write(records.change(isr=[1]))
    for _ in range(2):
        answer = metadata(last) | {"brokers": brokers}
        tell(capture, cluster, "Metadata", body, answer, since=cluster.time)
    assert broken(make_run(None, cluster, capture=capture)) == expected


def test_c20_a_read_of_the_controller_may_not_be_stale(
    cluster: Any, records: Any, capture: Capture, make_run: Callable[..., Any]
) -> None:
    body = {"topics": None, "timeout_ms": 1000}
    moving = records.partition([1, 2, 3], [1, 2], adding_replicas=[3])
    cluster.write(records.topic(), moving)
    nothing = {"error_code": 0, "topics": []}
    tell(capture, cluster, "ListPartitionReassignments", body, nothing, since=0)
    assert broken(make_run(None, cluster, capture=capture)) == set()
    tell(capture, cluster, "ListPartitionReassignments", body, nothing, since=cluster.time)
    assert broken(make_run(None, cluster, capture=capture)) == {"C20"}


@pytest.mark.parametrize("code", [errors.NONE, errors.NEW_LEADER_ELECTED])
@pytest.mark.parametrize("leader", [1, 2])
def test_c19_a_proposer_that_loses_leadership_gets_new_leader_elected(
    cluster: Any, records: Any, capture: Capture, make_run: Callable[..., Any],
    leader: int, code: int,
) -> None:  # fmt: skip
    """KIP-455: it has completed a reassignment that takes its own replica away."""
    cluster.write(records.topic(), records.partition([1, 2]))
    since = cluster.time
    cluster.time += 0.1
    moved = {"leader": leader} if leader != 1 else {}
    cluster.write(records.change(isr=[leader], **moved))
    isr = [{"broker_id": leader, "broker_epoch": -1}]
    proposal = {"partition_index": 0, "leader_epoch": 0, "new_isr_with_epochs": isr,
                "leader_recovery_state": 0, "partition_epoch": 0}  # fmt: skip
    body = {"broker_id": 1, "broker_epoch": 2,
            "topics": [{"topic_id": TOPIC, "partitions": [proposal]}]}  # fmt: skip
    told = {"partition_index": 0, "error_code": code, "leader_id": leader,
            "leader_epoch": leader - 1, "isr": [leader], "leader_recovery_state": 0,
            "partition_epoch": 1}  # fmt: skip
    answer = {"error_code": 0, "topics": [{"topic_id": TOPIC, "partitions": [told]}]}
    tell(capture, cluster, "AlterPartition", body, answer, since=since)
    wrong = (code == errors.NONE) != (leader == 1)
    assert ("C19" in broken(make_run(None, cluster, capture=capture))) == wrong


def test_c21_a_topic_out_of_nothing(
    cluster: Any, records: Any, capture: Capture, make_run: Callable[..., Any]
) -> None:
    cluster.write(records.topic(), records.partition([1, 2]))
    body = {"topics": [{"name": "t", "configs": []}], "validate_only": True}
    for only, right in ((True, False), (False, True)):
        capture.api(0, -1, 1, "CreateTopics", {**body, "validate_only": only}, None)
        run = make_run(None, cluster, capture=capture, simulated=True)
        found = [a.explanation for a in check(run).anomalies if a.type == "C21"]
        assert any(text.startswith("Topic t ") for text in found) is not right


@pytest.mark.parametrize(
    ("earlier", "digest", "right"), [(0, None, True), (1, None, False), (0, "0" * 32, False)]
)
def test_i30_an_image_that_all_nodes_have_wrong(
    cluster: Any, records: Any, make_run: MakeRun, earlier: int, digest: str | None, right: bool
) -> None:
    """They report the digest of the whole log, or another one, at its end or ``earlier``."""
    cluster.write(records.topic(), records.partition([1, 2]))
    end = cluster._end("n1")
    whole = digests(history_of(make_run(None, cluster)), [end])[end]
    detail = {"offset": end - 1 - earlier, "epoch": 1, "digest": digest or whole}
    for node in ("n1", "n2", "n3"):
        cluster.event(node, "image", detail)
    assert broken(make_run(None, cluster)) == (set() if right else {"I30"})


@pytest.mark.parametrize(
    ("times", "code", "right"), [(1, 0, True), (1, 42, False), (2, 42, True), (2, 0, False)]
)
def test_c18_a_resource_is_named_once_in_a_request(
    cluster: Any, records: Any, capture: Capture, make_run: MakeRun,
    times: int, code: int, right: bool,
) -> None:  # fmt: skip
    cluster.write(records.topic(), records.partition([1, 2]))
    config = {"name": "cleanup.policy", "config_operation": 0, "value": "compact"}
    each = {"resource_type": 2, "resource_name": "t", "configs": [config]}
    body = {"resources": [each] * times, "validate_only": True}
    answer = {"responses": [{"error_code": code}] * times}
    tell(capture, cluster, "IncrementalAlterConfigs", body, answer, since=cluster.time)
    assert broken(make_run(None, cluster, capture=capture)) == (set() if right else {"C18"})


def test_c18_without_brokers_voters_count_and_may_be_too_few(
    quorum: Any, capture: Capture, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    quorum.event("n1", "claim", {"epoch_start": 0})
    tell(capture, quorum, "CreateTopics", create(replication_factor=3), done(38))
    assert broken(make_run(None, quorum, capture=capture)) == set()
    tell(capture, quorum, "CreateTopics", create(replication_factor=3), done(37))
    assert broken(make_run(None, quorum, capture=capture)) == {"C18"}


@pytest.mark.parametrize("registered", [True, False])
def test_c18_without_brokers_replicas_may_be_put_on_voters(
    quorum: Any, records: Any, capture: Capture, make_run: Callable[..., Any], registered: bool
) -> None:
    """Seed 303057: the client had got the voters in place of brokers."""
    quorum.one_epoch()
    quorum.event("n1", "claim", {"epoch_start": 0})
    if registered:
        quorum.write(records.register(1, quorum._end("n1")))
    since = quorum.time
    wanted = create(assignments=[{"partition_index": 0, "broker_ids": [3, 2]}],
                    num_partitions=-1, replication_factor=-1)  # fmt: skip
    quorum.write(records.topic(), records.partition([3, 2]))
    tell(capture, quorum, "CreateTopics", wanted, done(topic_id=TOPIC), since=since)
    found = [a.explanation for a in findings(make_run(None, quorum, capture=capture))]
    assert any("INVALID_REPLICA_ASSIGNMENT" in text for text in found) == registered, found
    tell(capture, quorum, "CreateTopics", wanted, done(39), since=since)
    texts = [a.explanation for a in findings(make_run(None, quorum, capture=capture))]
    assert not any("with INVALID_REPLICA_ASSIGNMENT;" in text for text in texts)


@pytest.mark.parametrize("leads", [True, False])
def test_c19_a_broker_allowed_to_shut_down_leads_nothing(
    cluster: Any, records: Any, capture: Capture, make_run: Callable[..., Any], leads: bool
) -> None:
    epoch = epoch_of(make_run(None, cluster), 2)
    leader = 2 if leads else 1
    cluster.write(records.topic(), records.partition([1, 2], leader=leader))
    body = {"broker_id": 2, "broker_epoch": epoch, "current_metadata_offset": 99,
            "want_fence": False, "want_shut_down": True}  # fmt: skip
    told = {"error_code": 0, "is_fenced": False, "is_caught_up": True, "should_shut_down": False}
    since = cluster.time
    tell(capture, cluster, "BrokerHeartbeat", body, told, since=since)
    since = cluster.time
    cluster.write(records.change(isr=[1], leader=1), records.fence(2, epoch, 1))
    told = {**told, "is_fenced": True, "should_shut_down": True}
    tell(capture, cluster, "BrokerHeartbeat", body, told, since=since)
    found = [a.explanation for a in findings(make_run(None, cluster, capture=capture))]
    assert any("although it leads" in text for text in found) == leads, found


@pytest.mark.parametrize("brokers", [True, False])
def test_c18_without_registrations_the_voters_count_as_brokers(
    quorum: Any, records: Any, capture: Capture, make_run: Callable[..., Any], brokers: bool
) -> None:
    """Seed 492787: a voter was elected as the preferred leader."""
    quorum.one_epoch()
    quorum.event("n1", "claim", {"epoch_start": 0})
    if brokers:
        quorum.write(records.register(3, quorum._end("n1")))
    quorum.write(records.topic(), records.partition([1, 2], leader=2))
    since = quorum.time
    quorum.write(records.change(isr=[1, 2], leader=1))
    body = {"election_type": 0, "timeout_ms": 1000,
            "topic_partitions": [{"topic": "t", "partitions": [0]}]}  # fmt: skip
    parts = [{"partition_id": 0, "error_code": 0}]
    answer = {"error_code": 0,
              "replica_election_results": [{"topic": "t", "partition_result": parts}]}  # fmt: skip
    quorum.time += 1
    tell(capture, quorum, "ElectLeaders", body, answer, since=since)
    assert ("C18" in broken(make_run(None, quorum, capture=capture))) == brokers


@pytest.mark.parametrize("told", [True, False])
def test_c18_an_election_of_all_includes_every_partition(
    cluster: Any, records: Any, capture: Capture, make_run: Callable[..., Any], told: bool
) -> None:
    cluster.write(records.topic(), records.partition([1, 2], leader=2))
    since = cluster.time
    cluster.write(records.change(isr=[1, 2], leader=1))
    body = {"election_type": 0, "topic_partitions": None, "timeout_ms": 1000}
    parts = [{"partition_id": 0, "error_code": 0}] if told else []
    answer = {"error_code": 0,
              "replica_election_results": [{"topic": "t", "partition_result": parts}]}  # fmt: skip
    tell(capture, cluster, "ElectLeaders", body, answer, since=since)
    assert broken(make_run(None, cluster, capture=capture)) == set()
    # Another one, of a time at which the partition had its preferred leader already, is right.
    early = Capture()
    cluster.write(records.change(isr=[1, 2], leader=2))
    since = cluster.time
    cluster.time += 1
    tell(early, cluster, "ElectLeaders", body, {**answer, "replica_election_results": []},
         since=since)  # fmt: skip
    assert broken(make_run(None, cluster, capture=early)) == {"C18"}


@pytest.mark.parametrize(("silent_s", "right"), [(11.7, True), (11.9, False)])
def test_c18_a_broker_id_is_free_after_a_session_a_quarter_and_half_a_second(
    cluster: Any, capture: Capture, make_run: Callable[..., Any], silent_s: float, right: bool
) -> None:
    """The session of 9 s began when the controller claimed, as the broker said nothing since."""
    (claimed,) = (event.mono / 1e6 for event in cluster.events if event.kind == "claim")
    cluster.time = claimed + silent_s
    body = registration(2)
    answer = {"error_code": errors.DUPLICATE_BROKER_REGISTRATION, "broker_epoch": -1}
    tell(capture, cluster, "BrokerRegistration", body, answer, since=cluster.time)
    told = [a.explanation for a in findings(make_run(None, cluster, capture=capture))]
    assert any("although the registered incarnation was silent" in text for text in told) != right


BEAT = {"broker_id": 2, "current_metadata_offset": 9, "want_fence": False, "want_shut_down": False}
ALIVE = {"error_code": 0, "is_fenced": False, "is_caught_up": True, "should_shut_down": False}


@pytest.mark.parametrize(
    ("after_s", "meanwhile", "right"),
    [
        (8.7, "", False),
        (9.1, "", True),
        (8.7, "unregistered", True),
        (8.7, "another answered", True),
        (8.7, "another answered, n1 claimed", False),
        (8.7, "another answered, n1 claimed, by its own clock", True),
        (8.7, "part of the log is gone", True),
    ],
)
def test_c1_a_broker_id_stays_with_its_incarnation_for_a_session(
    cluster: Any,
    records: Any,
    capture: Capture,
    make_run: Callable[..., Any],
    after_s: float,
    meanwhile: str,
    right: bool,
) -> None:
    epoch = epoch_of(make_run(None, cluster), 2)
    replier = 2 if "answered" in meanwhile else 1
    now = int(cluster.time * SECOND)
    beat = {**BEAT, "broker_epoch": epoch}
    capture.api(now, -1, replier, "BrokerHeartbeat", beat, ALIVE, now)
    capture.own_inputs = "own clock" in meanwhile
    if "claimed" in meanwhile:
        cluster.time += 0.2
        cluster.event("n1", "claim", {"epoch_start": 0})
        cluster.time -= 0.2
    if meanwhile == "unregistered":
        gone = records.record("UnregisterBrokerRecord", broker_id=2, broker_epoch=epoch)
        cluster.write(gone)
    cluster.time = now / SECOND + after_s
    since, again = cluster.time, cluster._end("n1")
    cluster.write(records.register(2, again, incarnation=7))
    answer = {"error_code": 0, "broker_epoch": again}
    tell(capture, cluster, "BrokerRegistration", registration(2), answer, since=since)
    run = make_run(None, cluster, capture=capture)
    if "gone" in meanwhile:
        quorum_model(run).chain.committed[99] = Committed((99, 1), 1, 99, 1, "n1", None)
    assert ("C1" in broken(run)) is not right


@pytest.mark.parametrize("level", [16, 17])
@pytest.mark.parametrize("kept", [False, True])
def test_c19_registrations_have_directories_from_level_17_on(
    cluster: Any,
    records: Any,
    capture: Capture,
    make_run: Callable[..., Any],
    level: int,
    kept: bool,
) -> None:
    """Below 3.7-IV2 the record of a registration has no field for them (KIP-858)."""
    cluster.write(records.feature("metadata.version", level))
    since, body = cluster.time, registration(4)
    epoch = cluster._end("n1")
    fields = {
        "broker_id": 4,
        "incarnation_id": body["incarnation_id"],
        "broker_epoch": epoch,
        "end_points": [],
        "features": body["features"],
        "rack": None,
        "fenced": True,
        "in_controlled_shutdown": False,
        "log_dirs": body["log_dirs"] if kept else [],
    }
    cluster.write(encode_record("RegisterBrokerRecord", 3, fields))
    answer = {"error_code": 0, "broker_epoch": epoch}
    tell(capture, cluster, "BrokerRegistration", body, answer, since=since)
    wrong = "C19" in broken(make_run(None, cluster, capture=capture))
    assert wrong is (kept is not (level == 17))


DIRECTORY = bytes(15) + b"\x77"


@pytest.mark.parametrize(
    ("level", "has", "told", "right"),
    [
        (17, [DIRECTORY], DIRECTORY, True),
        (17, [DIRECTORY], bytes(16), False),
        (17, [DIRECTORY], bytes(15) + b"\x01", False),
        (17, [DIRECTORY, bytes(15) + b"\x78"], bytes(15) + b"\x01", True),
        (17, [], bytes(16), True),
        (16, [DIRECTORY], bytes(16), True),
    ],
)
def test_c19_a_new_replica_is_in_the_only_directory_of_its_broker(
    cluster: Any,
    records: Any,
    capture: Capture,
    make_run: Callable[..., Any],
    level: int,
    has: list[bytes],
    told: bytes,
    right: bool,
) -> None:
    """A broker with several of them chooses one later (KIP-858)."""
    cluster.write(records.feature("metadata.version", level))
    epoch = cluster._end("n1")
    fields = {"broker_id": 4, "incarnation_id": bytes(16), "broker_epoch": epoch, "end_points": [],
              "features": [], "rack": None, "fenced": False, "in_controlled_shutdown": False,
              "log_dirs": has}  # fmt: skip
    cluster.write(encode_record("RegisterBrokerRecord", 3, fields))
    since = cluster.time
    placed = records.partition([4], directories=[told])
    cluster.write(records.topic(), placed)
    answer = done(replication_factor=1)
    tell(capture, cluster, "CreateTopics", create(replication_factor=1), answer, since=since)
    assert ("C19" in broken(make_run(None, cluster, capture=capture))) is not right

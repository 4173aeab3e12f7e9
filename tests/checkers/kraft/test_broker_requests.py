"""Answers to brokers compared with the records: C2, C8, C11 and C16."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraftwreck.checkers.kraft.invariants import check
from kraftwreck.checkers.kraft.invariants.sessions import decided_at
from kraftwreck.checkers.kraft.recorded.capture import Capture
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.nodes.log.batch import encode_batch
from tests.checkers.breaks import broken, findings

TOPIC = bytes(15) + b"\x99"
SECOND = 1_000_000_000


def listed(run: RunData, invariant: str) -> dict[str, Any]:
    found: dict[str, Any] = check(run).stats["invariants"][invariant]
    return found


@pytest.fixture
def brokers(quorum: Any, records: Any) -> Any:
    """n1 leads epoch 1 and is active; brokers 1 and 2 are unfenced and hold partition t-0."""
    quorum.one_epoch()
    quorum.event("n1", "claim", {"epoch_start": 0})
    quorum.epochs = {}
    for broker in (1, 2):
        epoch = quorum.epochs[broker] = quorum._end("n1")
        quorum.write(records.register(broker, epoch))
        quorum.write(records.fence(broker, epoch, -1))
    quorum.write(records.topic(), records.partition([1, 2]))
    quorum.later = records.record("NoOpRecord")
    return quorum


def beat(
    capture: Capture,
    time: float,
    broker: int,
    epoch: int,
    error: int = 0,
    sent: float | None = None,
) -> None:
    body = {
        "broker_id": broker,
        "broker_epoch": epoch,
        "current_metadata_offset": 0,
        "want_fence": False,
        "want_shut_down": False,
    }
    state = {"is_fenced": False, "is_caught_up": False, "should_shut_down": False}
    at = -1 if sent is None else int(sent * SECOND)
    answer = {"error_code": error, **state}
    capture.api(int(time * SECOND), broker, 1, "BrokerHeartbeat", body, answer, at)


def alter(
    capture: Capture,
    brokers: Any,
    isr: list[int],
    *,
    since: float,
    broker: int = 1,
    **more: int,
) -> None:
    """``more`` has the partition epochs asked for and told, the leader epoch, and broker epochs."""
    part = {
        "partition_index": 0,
        "leader_epoch": more.get("leader_epoch", 0),
        "new_isr_with_epochs": [
            {"broker_id": each, "broker_epoch": more.get("member", -1)} for each in [1]
        ],
        "partition_epoch": more.get("asked", 0),
        "leader_recovery_state": 0,
    }
    done = {
        "partition_index": 0,
        "error_code": 0,
        "isr": isr,
        "partition_epoch": more.get("told", 1),
        "leader_id": broker,
        "leader_epoch": 0,
        "leader_recovery_state": 0,
    }
    capture.api(
        int(brokers.time * SECOND),
        broker,
        1,
        "AlterPartition",
        {
            "broker_id": broker,
            "broker_epoch": more.get("epoch", brokers.epochs[broker]),
            "topics": [{"topic_id": TOPIC, "partitions": [part]}],
        },
        {"error_code": 0, "topics": [{"topic_id": TOPIC, "partitions": [done]}]},
        int(since * SECOND),
    )


def test_c2_an_epoch_that_was_never_given(
    brokers: Any, capture: Capture, make_run: Callable[..., Any]
) -> None:
    now = brokers.time
    beat(capture, now, 1, brokers.epochs[1], sent=now)
    assert broken(make_run(None, brokers, capture=capture)) == set()
    beat(capture, now, 1, 3, error=77, sent=now)
    assert broken(make_run(None, brokers, capture=capture)) == set()
    beat(capture, now, 1, 3, sent=now)
    assert broken(make_run(None, brokers, capture=capture)) == {"C2"}


def test_c2_an_epoch_that_is_over(
    brokers: Any, records: Any, capture: Capture, make_run: Callable[..., Any]
) -> None:
    before, again = brokers.time, brokers._end("n1")
    brokers.write(records.change(isr=[1]), records.register(2, again, incarnation=2))
    beat(capture, brokers.time, 2, brokers.epochs[2], sent=before)
    assert broken(make_run(None, brokers, capture=capture)) == set()
    brokers.time += 1
    beat(capture, brokers.time, 2, brokers.epochs[2], sent=brokers.time)
    assert broken(make_run(None, brokers, capture=capture)) == {"C2"}


@pytest.mark.parametrize("previous", ["the last", "none"])
@pytest.mark.parametrize("eligible", [True, False])
def test_c7_a_broker_after_an_unclean_stop_is_not_eligible(
    brokers: Any,
    records: Any,
    capture: Capture,
    make_run: Callable[..., Any],
    previous: str,
    eligible: bool,
) -> None:
    """KIP-966: it may have lost the end of its log."""
    brokers.write(records.feature("eligible.leader.replicas.version", 1))
    elr = {"eligible_leader_replicas": [2]} if eligible else {}
    fenced = records.fence(2, brokers.epochs[2], 1)
    brokers.write(records.change(isr=[1], **elr), fenced)
    epoch = brokers._end("n1")
    brokers.write(records.register(2, epoch, incarnation=2))
    told = brokers.epochs[2] if previous == "the last" else -1
    body = {"broker_id": 2, "previous_broker_epoch": told}
    answer = {"error_code": 0, "broker_epoch": epoch}
    capture.api(SECOND, 2, 1, "BrokerRegistration", body, answer)
    wrong = eligible and previous == "none"
    assert broken(make_run(None, brokers, capture=capture)) == ({"C7"} if wrong else set())


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        ({}, None),
        ({"broker": 2}, "C8"),
        ({"leader_epoch": 3}, "C8"),
        ({"told": 5}, "C19"),
        ({"isr": [1, 2]}, "C19"),
        ({"member": 3}, "C8"),
        ({"epoch": 3}, "C2"),
    ],
    ids=[
        "right",
        "not the leader",
        "another leader epoch",
        "another state",
        "another ISR",
        "an older epoch of a member",
        "an older epoch of the leader",
    ],
)
def test_c8_proposals_that_are_accepted(
    brokers: Any,
    records: Any,
    capture: Capture,
    make_run: Callable[..., Any],
    wrong: dict[str, Any],
    rule: str | None,
) -> None:
    since = brokers.time
    brokers.write(records.change(isr=[1]))
    alter(capture, brokers, since=since, **{"isr": [1], **wrong})
    run = make_run(None, brokers, capture=capture)
    assert broken(run) - ({"C19"} if "broker" in wrong else set()) == ({rule} if rule else set())
    assert rule or listed(run, "C8")["facts"] == 1


@pytest.mark.parametrize(
    ("offset", "late_s", "own", "right"),
    [
        (0, 0.0, False, True),
        (-1, 0.0, False, False),
        (0, 5.0, False, False),
        (0, 0.0, True, True),
        (0, 5.0, True, False),
    ],
)
def test_i24_a_broker_is_unfenced_after_it_has_applied_its_registration(
    brokers: Any,
    records: Any,
    capture: Capture,
    make_run: Callable[..., Any],
    offset: int,
    late_s: float,
    own: bool,
    right: bool,
) -> None:
    """By its heartbeat, which need not be answered; later ones say nothing of this."""
    for broker in (1, 2):
        epoch = brokers.epochs[broker]
        body = {"broker_id": broker, "broker_epoch": epoch}
        body["current_metadata_offset"] = epoch + (offset if broker == 2 else 0)
        at = int(late_s * SECOND) if broker == 2 else 0
        capture.api(at, broker, 1, "BrokerHeartbeat", body, None, -1 if own else at)
    capture.own_inputs = own
    brokers.time += 9
    brokers.write(brokers.later)
    run = make_run(None, brokers, capture=capture, simulated=not own)
    told = [a.explanation for a in findings(run) if a.type == "I24" and "unfenced" in a.explanation]
    assert [text[:8] for text in told] == ([] if right else ["Broker 2"])


def test_c11_two_blocks_that_overlap(
    brokers: Any, capture: Capture, make_run: Callable[..., Any]
) -> None:
    for begin in (0, 1000, 1500):
        capture.api(
            SECOND,
            1,
            1,
            "AllocateProducerIds",
            {"broker_id": 1, "broker_epoch": brokers.epochs[1]},
            {"error_code": 0, "producer_id_start": begin, "producer_id_len": 1000},
        )
    assert broken(make_run(None, brokers, capture=capture)) == {"C11"}


@pytest.mark.parametrize("silent_s", [5, 60])
def test_c16_a_silent_broker(
    brokers: Any, capture: Capture, make_run: Callable[..., Any], silent_s: int
) -> None:
    for number in range(silent_s):
        capture_time = 1 + number
        beat(capture, capture_time, 1, brokers.epochs[1])
    beat(capture, 1, 2, brokers.epochs[2])
    brokers.time += silent_s
    brokers.write(brokers.later)
    run = make_run(None, brokers, capture=capture)
    told = {kind for kind in broken(run) if kind.startswith("C")}
    assert told == ({"C16"} if silent_s == 60 else set())
    assert listed(run, "C16")["facts"] == 2


def test_c16_a_heartbeat_without_an_epoch_is_no_contact(
    brokers: Any, capture: Capture, make_run: Callable[..., Any]
) -> None:
    for number in range(60):
        beat(capture, 1 + number, 1, brokers.epochs[1])
        beat(capture, 1 + number, 2, brokers.epochs[2] if number == 0 else -1)
    brokers.time += 60
    brokers.write(brokers.later)
    assert "C16" in broken(make_run(None, brokers, capture=capture))


def test_c16_a_broker_whose_fencing_is_committed_late(
    brokers: Any, records: Any, capture: Capture, make_run: Callable[..., Any]
) -> None:
    """The controller did its part in time; missing followers are not its fault."""
    for second in range(60):
        beat(capture, 1 + second, 1, brokers.epochs[1])
    beat(capture, 1, 2, brokers.epochs[2])
    brokers.time += 10
    values = [records.change(isr=[1]), records.fence(2, brokers.epochs[2], 1)]
    batch = encode_batch(brokers._end("n1"), 1, 0, [(None, value) for value in values], False)
    brokers.store("n1", batch, "leader")
    brokers.time += 50
    brokers.copy("n1", "n2", "n3")
    brokers.commit("n1", "n2", "n3")
    brokers.write(brokers.later)
    run = make_run(None, brokers, capture=capture)
    assert not {kind for kind in broken(run) if kind.startswith("C")}


def test_c16_a_controller_whose_fencing_may_have_been_lost(
    brokers: Any, capture: Capture, make_run: Callable[..., Any]
) -> None:
    """A record committed long after is from before the silence: followers learn of it late."""
    for second in range(60):
        beat(capture, 1 + second, 1, brokers.epochs[1])
    beat(capture, 1, 2, brokers.epochs[2])
    brokers.time += 5
    batch = encode_batch(brokers._end("n1"), 1, 0, [(None, brokers.later)], False)
    brokers.store("n1", batch, "leader")
    brokers.time += 55
    brokers.copy("n1", "n2", "n3")
    brokers.commit("n1", "n2", "n3")
    run = make_run(None, brokers, capture=capture)
    assert not {kind for kind in broken(run) if kind.startswith("C")}


def test_c16_a_heartbeat_that_is_answered_late(
    brokers: Any, capture: Capture, make_run: Callable[..., Any]
) -> None:
    """It was heard when it came, somewhere between the two."""
    for second in range(60):
        beat(capture, 1 + second, 1, brokers.epochs[1])
    beat(capture, 1, 2, brokers.epochs[2])
    beat(capture, 55, 2, brokers.epochs[2], sent=3)
    brokers.time += 60
    brokers.write(brokers.later)
    run = make_run(None, brokers, capture=capture)
    assert not {kind for kind in broken(run) if kind.startswith("C")}


def test_c16_a_silent_broker_that_is_fenced_in_time(
    brokers: Any, records: Any, capture: Capture, make_run: Callable[..., Any]
) -> None:
    for second in range(60):
        beat(capture, 1 + second, 1, brokers.epochs[1])
    beat(capture, 1, 2, brokers.epochs[2])
    brokers.time += 10
    brokers.write(records.change(isr=[1]), records.fence(2, brokers.epochs[2], 1))
    brokers.time += 50
    brokers.write(brokers.later)
    run = make_run(None, brokers, capture=capture)
    assert not {kind for kind in broken(run) if kind.startswith("C")}


def test_c16_a_decision_before_a_pause_may_be_reported_after_it() -> None:
    assert decided_at([], 100, 10) == 90
    assert decided_at([(60, 99)], 100, 10) == 50, "decided before it was stopped"
    assert decided_at([(20, 52), (60, 99)], 100, 10) == 10, "and before that, too"
    assert decided_at([(60, 89), (101, 120)], 100, 10) == 90, "it had gone on for longer"


@pytest.mark.parametrize(
    ("after_s", "wish", "right"),
    [(1.0, {}, False), (9.5, {}, True), (1.0, {"want_fence": True}, True)],
)
def test_c16_no_broker_is_fenced_before_its_session_ends(
    brokers: Any, records: Any, capture: Capture, make_run: Callable[..., Any],
    after_s: float, wish: dict[str, Any], right: bool,
) -> None:  # fmt: skip
    body = {"broker_id": 2, "broker_epoch": brokers.epochs[2], "current_metadata_offset": 0, **wish}
    brokers.time += 0.1
    at = int(brokers.time * SECOND)
    capture.api(at, 2, 1, "BrokerHeartbeat", body, {"error_code": 0, "is_fenced": True}, at)
    brokers.time += after_s
    brokers.write(records.change(isr=[1]), records.fence(2, brokers.epochs[2], 1))
    run = make_run(None, brokers, capture=capture, simulated=True)
    told = [a.explanation for a in findings(run) if a.type == "C16"]
    assert bool(told) != right, told


@pytest.mark.parametrize("stops", [True, False])
def test_c16_a_broker_that_stops_need_not_live_to_be_answered(
    brokers: Any, records: Any, capture: Capture, make_run: Callable[..., Any], stops: bool
) -> None:
    """Seed 485533: it said that it stops, was fenced, and lost power before it was answered."""
    epoch = brokers.epochs[2]
    body = {"broker_id": 2, "broker_epoch": epoch, "current_metadata_offset": 0}
    brokers.time += 0.1
    at = int(brokers.time * SECOND)
    capture.api(at, 2, 1, "BrokerHeartbeat", body, {"error_code": 0, "is_fenced": False}, at)
    brokers.time += 1
    state = "pending-controlled-shutdown" if stops else "running"
    brokers.event("n2", "broker", {"state": state, "broker_epoch": epoch})
    brokers.write(records.change(isr=[1]), records.fence(2, epoch, 1))
    run = make_run(None, brokers, capture=capture, simulated=True)
    told = [a.explanation for a in findings(run) if a.type == "C16"]
    assert bool(told) != stops, told


@pytest.mark.parametrize(("arrives", "right"), [(True, True), (False, False)])
def test_c16_a_wish_to_be_fenced_counts_however_long_it_was_on_its_way(
    brokers: Any, records: Any, capture: Capture, make_run: Callable[..., Any],
    arrives: bool, right: bool,
) -> None:  # fmt: skip
    body = {"broker_id": 2, "broker_epoch": brokers.epochs[2], "current_metadata_offset": 0}
    asked = int((brokers.time + 0.1) * SECOND)
    brokers.time += 40
    now = int(brokers.time * SECOND)
    said = {"error_code": 0, "is_fenced": False}
    capture.api(now, 2, 1, "BrokerHeartbeat", body, said, now)
    capture.api(
        now if arrives else asked, 2, 1, "BrokerHeartbeat", body | {"want_fence": True}, said, asked
    )
    brokers.time += 1
    brokers.write(records.change(isr=[1]), records.fence(2, brokers.epochs[2], 1))
    run = make_run(None, brokers, capture=capture, simulated=True)
    told = [a.explanation for a in findings(run) if a.type == "C16"]
    assert bool(told) != right, told


@pytest.mark.parametrize(("wish", "right"), [("want_fence", True), ("other", False)])
def test_c16_a_wish_to_be_fenced_needs_no_answer(
    brokers: Any, records: Any, capture: Capture, make_run: Callable[..., Any],
    wish: str, right: bool,
) -> None:  # fmt: skip
    """The request arrived, and the controller lost power before it answered."""
    body = {"broker_id": 2, "broker_epoch": brokers.epochs[2], "current_metadata_offset": 0}
    brokers.time += 0.1
    at = int(brokers.time * SECOND)
    capture.api(at, 2, 1, "BrokerHeartbeat", body, {"error_code": 0, "is_fenced": False}, at)
    capture.api(at, 2, 1, "BrokerHeartbeat", body | {wish: True}, None, at)
    brokers.time += 1
    brokers.write(records.change(isr=[1]), records.fence(2, brokers.epochs[2], 1))
    run = make_run(None, brokers, capture=capture, simulated=True)
    told = [a.explanation for a in findings(run) if a.type == "C16"]
    assert bool(told) != right, told
